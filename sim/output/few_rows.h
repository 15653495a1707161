// few_rows.h — the first rows of a long table, for text.
//
// A document has the whole table beside them, `searched` and so only in JSON and pages.
#pragma once

#include <limits>

#include "sim/output/document.h"

namespace sim::output {

// The first `most` rows, without keys and without the columns that have no heading. The footnote
// says how many rows there are more.
Rows few_rows(const Rows& all, std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace sim::output
