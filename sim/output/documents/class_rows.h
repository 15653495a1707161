// class_rows.h — what a replay says of each rank class, once: the table that JSON has whole and
// text in parts.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"

namespace sim::output {

// A row for each class, as "rank_classes"; not part of the text.
Rows class_rows(const engine::RunReport& run);

// These columns (by key, or by heading where they have no key) of these rows, as a table of text.
Rows picked(const Rows& all, const std::vector<std::size_t>& rows,
            const std::vector<std::string>& columns, std::string title);

}  // namespace sim::output
