// class_rows.h — the table of a replay's rank classes. JSON has all of it, text has parts.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"

namespace sim::output {

// A table "rank_classes" with one row per class, only for JSON.
Rows class_rows(const engine::RunReport& run);

// A text table of some rows and columns. Columns are named by key, or by heading if they have no
// key.
Rows picked(const Rows& all, const std::vector<std::size_t>& rows,
            const std::vector<std::string>& columns, std::string title);

}  // namespace sim::output
