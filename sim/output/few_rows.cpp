#include "sim/output/few_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace sim::output {

Rows few_rows(const Rows& all, std::size_t most) {
  Rows few{"", all.title, {}, {}};
  few.cells.resize(std::min(all.cells.size(), most));
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    if (all.columns[c].heading.empty()) continue;
    few.columns.push_back(all.columns[c]);
    few.columns.back().key = "";
    for (std::size_t i = 0; i < few.cells.size(); ++i) few.cells[i].push_back(all.cells[i][c]);
  }
  if (all.cells.size() > most)
    few.footnote = fmt::format("  and {} more (--json has them)\n", all.cells.size() - most);
  return few;
}

}  // namespace sim::output
