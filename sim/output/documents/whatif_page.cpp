// whatif_page.cpp — charts of a what-if: step time against the base, its accounts, memory.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/output/documents/whatif_document.h"

namespace sim::output {
namespace {

using engine::Account;

Rows variant_rows(const std::vector<WhatifRow>& rows) {
  Rows table{"variants",
             "variants",
             {{"name", "variant", "", 0, true},
              {"outcome", "outcome", "", 0, true},
              {"step_time_s", "step", "s", 3},
              {"change_pct", "change", "%", 2},
              {"tokens_per_second_gpu", "tokens/s/GPU", "", 0},
              {"cost_per_million_tokens", "cost/Mtoken", "", 3},
              {"bubble_pct", "bubble", "%", 1},
              {"reserved_gib", "reserved", "GiB", 1},
              {"capacity_gib", "of", "GiB", 1},
              {"link", "busiest fabric link", "", 0, true},
              {"link_pct", "busy", "%", 1},
              {"why", "why", "", 0, true}},
             {}};
  const bool priced = std::ranges::any_of(
      rows, [](const WhatifRow& row) { return row.cost_per_million_tokens > 0; });
  const WhatifRow& base = rows.front();
  for (const WhatifRow& row : rows) {
    const bool ran = row.problem.empty();
    const auto where = [](bool there, double value) { return there ? Json(value) : Json(); };
    const bool compared = row.fits && base.fits;
    const auto link = std::ranges::find_if(row.links, &WhatifRow::Link::fabric);
    const bool linked = row.fits && link != row.links.end();
    table.cells.push_back(
        {row.name,
         row.fits ? "fits"
         : ran    ? "oom"
                  : "impossible",
         where(row.fits, row.step),
         where(compared, compared ? rounded(100 * (row.step / base.step - 1), 3) : 0),
         where(row.fits, row.tokens_gpu), where(row.fits, row.cost_per_million_tokens),
         where(row.fits, rounded(100 * row.bubble, 3)), where(ran, row.reserved_gib),
         where(ran, row.capacity_gib), linked ? link->busiest : "",
         where(linked, linked ? rounded(100 * link->busy, 3) : 0), ran ? row.reason : row.problem});
  }
  if (!priced)
    std::ranges::find(table.columns, "cost_per_million_tokens", &Column::key)->heading = "";
  return table;
}

Rows time_rows(const std::vector<WhatifRow>& rows) {
  Rows table{"time", "where the step's time goes, mean of the ranks", {}, {}};
  table.columns.push_back({"name", "variant", "", 0, true});
  for (int a = 0; a < engine::account_count; ++a) {
    const auto account = static_cast<Account>(a);
    table.columns.push_back({key_of(engine::name(account)) + "_s", answer::words(account), "s", 4});
  }
  for (const WhatifRow& row : rows) {
    if (!row.fits) continue;
    std::vector<Json> cells = {row.name};
    for (const double spent : row.accounts) cells.emplace_back(rounded(spent, 6));
    table.cells.push_back(std::move(cells));
  }
  return table;
}

Series bars(const std::string& title, const Rows& table, std::vector<std::string> y) {
  Series series;
  series.kind = Series::Kind::bars;
  series.title = title;
  series.table = table.name;
  series.x = "name";
  series.y = std::move(y);
  return series;
}

}  // namespace

Document whatif_page(const std::vector<WhatifRow>& rows) {
  Document document{"What if", std::to_string(rows.size()) + " variants, the base first", {}, {}};
  Rows variants = variant_rows(rows), time = time_rows(rows);
  std::vector<std::string> accounts;
  for (std::size_t i = 1; i < time.columns.size(); ++i) {
    bool any = false;
    for (const auto& cells : time.cells) any |= cells[i].get<double>() > 0;
    if (any) accounts.push_back(time.columns[i].key);
  }
  if (!accounts.empty())
    document.blocks.emplace_back(
        bars("where the step's time goes: every bar is one variant", time, accounts));
  Series memory = bars("memory: reserved by the fullest rank", variants, {"reserved_gib"});
  for (const WhatifRow& row : rows) {
    if (row.capacity_gib <= 0 || !memory.rules.empty()) continue;
    memory.rules.push_back({Rule::Kind::x, row.capacity_gib, "capacity of " + row.name});
  }
  document.blocks.emplace_back(std::move(memory));
  document.blocks.emplace_back(std::move(variants));
  document.blocks.emplace_back(std::move(time));
  for (Block& block : whatif_document(rows).blocks)
    if (std::holds_alternative<Note>(block)) document.blocks.push_back(std::move(block));
  return document;
}

}  // namespace sim::output
