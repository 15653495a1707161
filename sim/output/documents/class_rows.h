// class_rows.h — the table of a replay's rank classes. JSON has all of it, text has parts.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"

namespace sim::output {

// A table "rank_classes" with one row per class, only for JSON.
Rows class_rows(const answer::Answer& answer);

// For a replay of every rank: ranks with equal times and peaks, one line each, only for text.
Rows rank_rows(const answer::Answer& answer);

// Ascending numbers as ranges: "0-7,64-71". If it has more than `most` ranges, the first ones and
// the number of all: "0,8,16,... (64 ranges)". 0: all of them.
std::string ranges_text(const std::vector<int>& numbers, std::size_t most = 0);

// A text table of some rows and columns. Columns are named by key, or by heading if they have no
// key.
Rows picked(const Rows& all, const std::vector<std::size_t>& rows,
            const std::vector<std::string>& columns, std::string title);

}  // namespace sim::output
