#include "sim/output/documents/whatif_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace sim::output {
namespace {

using engine::Account;

double of(const WhatifRow& row, Account account) {
  return row.accounts[static_cast<std::size_t>(account)];
}

std::string change(double now, double before) {
  if (before <= 0) return "";
  const double percent = 100 * (now / before - 1);
  return std::abs(percent) < 0.005 ? "=" : fmt::format("{:+.2f} %", percent);
}

// The accounts that differ most, with their differences: "compute +0.05 s, optimizer +0.01 s".
// Accounts that differ by less than `visible` are left out, and all but the first three.
std::string largest(const std::vector<double>& now, const std::vector<double>& before,
                    double visible) {
  std::vector<std::size_t> order(now.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto difference = [&](std::size_t a) { return now[a] - before[a]; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(difference(a)) > std::abs(difference(b));
  });
  std::string text;
  int shown = 0;
  for (const std::size_t a : order) {
    if (shown == 3 || std::abs(difference(a)) < visible) break;
    text += fmt::format("{}{} {:+.3f} s", shown == 0 ? "" : ", ",
                        answer::words(static_cast<Account>(a)), difference(a));
    ++shown;
  }
  return text;
}

bool is_wait(std::size_t account) {
  return account == static_cast<std::size_t>(Account::pp_fill_drain) ||
         account == static_cast<std::size_t>(Account::pp_imbalance) ||
         account == static_cast<std::size_t>(Account::rank_wait);
}

// If most of a difference is time in which ranks wait for other stages, names the stage whose own
// time changed most, and the accounts that changed there. Else "".
std::string waited_for(const WhatifRow& row, const WhatifRow& base, double visible) {
  double waits = 0;
  for (std::size_t a = 0; a < row.accounts.size(); ++a)
    if (is_wait(a)) waits += row.accounts[a] - base.accounts[a];
  if (2 * std::abs(waits) <= std::abs(row.step - base.step)) return "";
  if (row.stages.size() != base.stages.size()) return "";
  std::size_t most = 0;
  double largest_change = 0;
  for (std::size_t stage = 0; stage < row.stages.size(); ++stage) {
    double change = 0;
    for (std::size_t a = 0; a < row.stages[stage].size(); ++a)
      if (!is_wait(a)) change += row.stages[stage][a] - base.stages[stage][a];
    if (std::abs(change) <= std::abs(largest_change)) continue;
    largest_change = change;
    most = stage;
  }
  if (std::abs(largest_change) < visible) return "";
  std::vector<double> own = row.stages[most], before = base.stages[most];
  for (std::size_t a = 0; a < own.size(); ++a)
    if (is_wait(a)) own[a] = before[a] = 0;
  return fmt::format("others wait for stage {}: {}; mean of all ranks: ", most,
                     largest(own, before, visible));
}

// A difference of the step below this share is called small: a bound explains it.
constexpr double small_change = 1e-3;

// Text of a difference: "step +1.20 s: data-parallel communication +1.15 s, compute +0.05 s".
std::string cause(const WhatifRow& row, const WhatifRow& base) {
  if (row.bound == same_as_base) return row.bound;
  const double all = row.step - base.step;
  const double visible = std::max(1e-6 * base.step, 0.02 * std::abs(all));
  const std::string mean = largest(row.accounts, base.accounts, visible);
  if (mean.empty()) return "no difference" + (row.bound.empty() ? "" : ": " + row.bound);
  const bool small = std::abs(all) < small_change * base.step && !row.bound.empty();
  return fmt::format("step {:+.3f} s: ", all) + waited_for(row, base, visible) + mean +
         (small ? "; " + row.bound : "");
}

// The busiest link outside or inside of nodes; nullptr: no link is used. Links are in order of use.
const WhatifRow::Link* busiest_link(const WhatifRow& row, bool fabric) {
  const auto first = std::ranges::find(row.links, fabric, &WhatifRow::Link::fabric);
  return first == row.links.end() ? nullptr : &*first;
}

// The use of other links that differs from the base by over a tenth: links at least a quarter as
// busy as the busiest.
std::string changed_links(const WhatifRow& row, const WhatifRow& base) {
  std::string text;
  for (const WhatifRow::Link& link : row.links) {
    const WhatifRow::Link* busiest = busiest_link(row, link.fabric);
    const auto before = std::ranges::find(base.links, link.kind, &WhatifRow::Link::kind);
    const double was = before == base.links.end() ? 0 : before->busy;
    if (&link == busiest || 4 * link.busy < busiest->busy) continue;
    if (std::abs(link.busy - was) <= 0.1 * was) continue;
    text += fmt::format("; changed: {} {:.1f} %, base {:.1f} %", link.busiest, 100 * link.busy,
                        100 * was);
  }
  return text;
}

std::string links_text(const WhatifRow& row, const WhatifRow& base) {
  std::string text;
  for (const bool fabric : {true, false}) {
    const WhatifRow::Link* link = busiest_link(row, fabric);
    if (link == nullptr) continue;
    text += fmt::format("{}{} {:.1f} % ({})", text.empty() ? "" : "; ", link->busiest,
                        100 * link->busy, link->traffic);
  }
  return text.empty() ? "no link is used" : "busiest links: " + text + changed_links(row, base);
}

Json links_json(const WhatifRow& row) {
  Json links = Json::array();
  for (const WhatifRow::Link& link : row.links) {
    links.push_back({{"kind", link.kind},
                     {"busiest", link.busiest},
                     {"traffic", link.traffic},
                     {"busy", link.busy},
                     {"mean_busy", link.mean},
                     {"fabric", link.fabric}});
  }
  return links;
}

Json accounts_json(const std::vector<double>& seconds) {
  Json accounts = Json::object();
  for (std::size_t a = 0; a < seconds.size(); ++a)
    accounts[key_of(engine::name(static_cast<Account>(a)))] = seconds[a];
  return accounts;
}

Json stages_json(const WhatifRow& row) {
  Json stages = Json::array();
  for (const std::vector<double>& accounts : row.stages) stages.push_back(accounts_json(accounts));
  return stages;
}

// Further columns that the table has.
struct Shown {
  bool priced = false, drawn = false, experts = false, waits = false;
  bool days = false, cost = false, energy = false;  // of the whole training
  engine::MemoryDetail memory = engine::MemoryDetail::exact;
};

Shown shown(const std::vector<WhatifRow>& rows) {
  const auto any = [&](auto test) { return std::ranges::any_of(rows, test); };
  Shown all;
  all.priced = any([](const WhatifRow& row) { return row.cost_per_million_tokens > 0; });
  all.drawn = any([](const WhatifRow& row) { return row.draws > 1; });
  constexpr double seen = 0.005;  // of the step: less is not worth a column
  const auto spends = [&](Account account) {
    return any(
        [&](const WhatifRow& row) { return row.fits && of(row, account) > seen * row.step; });
  };
  all.experts = spends(Account::ep_exposed);
  all.waits = spends(Account::rank_wait);
  all.days = any([](const WhatifRow& row) { return row.days > 0; });
  all.cost = any([](const WhatifRow& row) { return row.cost > 0; });
  all.energy = any([](const WhatifRow& row) { return row.energy_mwh > 0; });
  // All variants that ran have the same level of detail.
  for (const WhatifRow& row : rows)
    if (row.memory != engine::MemoryDetail::exact) all.memory = row.memory;
  return all;
}

std::vector<Column> columns(const Shown& show) {
  std::vector<Column> all = {{"name", "variant", "", 0, true},
                             {"settings", ""},
                             {"problem", ""},
                             {"fits", ""},
                             {"out_of_memory", ""},
                             {"step_time_s", "step", "s", 3},
                             {"", "change", ""},
                             {"tokens_per_second_gpu", "tokens/s/GPU", "", 0},
                             {"gpus", ""},
                             {"tokens_per_second", ""},
                             {"tflops_gpu_paper", ""},
                             {"cost_per_million_tokens", show.priced ? "cost/Mtoken" : "", "", 3},
                             {"bubble", "bubble", "", 1, false, " %", 100},
                             {"accounts_s", ""},
                             {"stages_accounts_s", ""},
                             {"outside_gib", ""},
                             {"", "TP", "s", 3},
                             {"", "CP", "s", 3},
                             {"", "DP", "s", 3},
                             {"", "PP", "s", 3},
                             {"reserved_gib", "GiB", "", 1},
                             {"capacity_gib", "of", "", 1},
                             {"links", ""},
                             {"", "fabric link", ""}};
  const auto insert = [&](std::string_view before, const char* heading) {
    all.insert(std::ranges::find(all, before, &Column::heading), {"", heading, "s", 3});
  };
  if (show.experts) insert("DP", "EP");
  if (show.waits) insert("GiB", "rank wait");
  all.push_back({"bound", ""});
  all.push_back({"notes", ""});
  all.push_back({"interval_90_text", ""});
  if (show.days) all.push_back({"days", "days", "", 1});
  if (show.cost) all.push_back({"cost", "cost", "", 4, false, "", 1, Show::general});
  if (show.energy) all.push_back({"energy_mwh", "energy", "MWh", 1});
  if (show.drawn)
    all.insert(
        all.end(),
        {{"draws", "draws"}, {"step_low_s", "90 % from", "s", 3}, {"step_high_s", "to", "s", 3}});
  if (show.memory == engine::MemoryDetail::exact) return all;
  all.push_back({"memory", ""});
  all.push_back(
      {"reserved_most_gib", show.memory == engine::MemoryDetail::bounded ? "at most" : "", "", 1});
  return all;
}

// Cells of a variant; values that exist only for variants that fit are null otherwise.
std::vector<Json> cells(const WhatifRow& row, const WhatifRow& base, const Shown& show) {
  const auto fitting = [&](double value) { return row.fits ? Json(value) : Json(nullptr); };
  // 0: the price, the power or the tokens are not known.
  const auto known = [&](double value) { return value > 0 ? fitting(value) : Json(nullptr); };
  const auto running = [&](double value) {
    return row.problem.empty() ? Json(value) : Json(nullptr);
  };
  const bool asked = !row.problem.empty() || engine::places_tensors(row.memory);
  std::string change_text = "impossible";
  if (row.problem.empty()) change_text = "OOM";
  if (row.fits) change_text = &row == &base ? "" : change(row.step, base.fits ? base.step : 0);
  std::vector<Json> all = {row.name,
                           row.settings,
                           row.problem,
                           asked ? Json(row.fits) : Json(nullptr),
                           row.reason,
                           fitting(row.step),
                           change_text,
                           fitting(row.tokens_gpu),
                           row.gpus > 0 ? Json(row.gpus) : Json(nullptr),
                           fitting(row.tokens_gpu * row.gpus),
                           fitting(row.tflops_gpu),
                           known(row.cost_per_million_tokens),
                           fitting(row.bubble),
                           accounts_json(row.accounts),
                           stages_json(row),
                           running(row.outside_gib)};
  for (const Account a : {Account::tp_exposed, Account::cp_exposed, Account::ep_exposed,
                          Account::dp_exposed, Account::pp_transfer, Account::rank_wait}) {
    if ((a == Account::ep_exposed && !show.experts) || (a == Account::rank_wait && !show.waits))
      continue;
    all.push_back(row.fits ? Json(of(row, a)) : Json(nullptr));
  }
  all.push_back(asked ? running(row.reserved_gib) : Json(nullptr));
  all.push_back(running(row.capacity_gib));
  all.push_back(links_json(row));
  // The busiest link between nodes, or else inside of nodes.
  const WhatifRow::Link* link = busiest_link(row, true);
  if (link == nullptr) link = busiest_link(row, false);
  all.emplace_back(!row.fits         ? ""
                   : link == nullptr ? "none"
                                     : fmt::format("{} {:.1f} %", link->kind, 100 * link->busy));
  all.emplace_back(row.bound);
  all.emplace_back(row.notes);
  all.emplace_back(row.interval);
  if (show.days) all.push_back(known(row.days));
  if (show.cost) all.push_back(known(row.cost));
  if (show.energy) all.push_back(known(row.energy_mwh));
  if (show.drawn) {
    all.emplace_back(row.draws);
    all.push_back(fitting(row.step_low));
    all.push_back(fitting(row.step_high));
  }
  if (show.memory == engine::MemoryDetail::exact) return all;
  all.emplace_back(std::string(engine::name(row.memory)));
  all.push_back(row.reserved_most_gib > 0 ? Json(row.reserved_most_gib) : Json(nullptr));
  return all;
}

// Text for a variant that runs out of memory though the base fits: memory that PyTorch cannot have.
std::string more_outside(const WhatifRow& row, const WhatifRow& base) {
  const double more = row.outside_gib - base.outside_gib;
  if (!base.fits || more < 0.01) return "";
  return fmt::format("; NCCL and CUDA hold {:.2f} GiB more of it than in the base", more);
}

// Text: why the variant differs, and its busiest link.
std::string reason(const WhatifRow& row, const WhatifRow& base) {
  std::string text = row.name + "\n  ";
  if (!row.problem.empty()) return text + "impossible: " + row.problem + "\n";
  if (!row.fits) return text + "out of memory: " + row.reason + more_outside(row, base) + "\n";
  if (&row != &base && base.fits) text += cause(row, base) + "\n  ";
  text += links_text(row, base) + "\n";
  for (const std::string& note : row.notes) text += "  " + note + "\n";
  if (!row.interval.empty()) text += "  " + row.interval + "\n";
  return text;
}

// The names of variants that fit and lack a value that others have: "base, cluster=dgx-b200".
std::string lacking(const std::vector<WhatifRow>& rows, double WhatifRow::*value) {
  std::string names;
  for (const WhatifRow& row : rows)
    if (row.fits && row.*value <= 0) names += (names.empty() ? "" : ", ") + row.name;
  return names;
}

// A line for each empty cell of the cost and of the energy.
std::string missing(const std::vector<WhatifRow>& rows, const Shown& show) {
  std::string text;
  if (show.priced)
    if (const std::string names = lacking(rows, &WhatifRow::cost_per_million_tokens);
        !names.empty())
      text += fmt::format("No price: {}; write --price NAME=NUMBER for each\n", names);
  if (show.energy)
    if (const std::string names = lacking(rows, &WhatifRow::energy_mwh); !names.empty())
      text += fmt::format(
          "No power: {}; write gpu.rated_power_w=WATTS, of a board by its data sheet\n", names);
  return text;
}

// How to give one variant a setting that the others must not have.
std::string setting_of_one(const std::vector<WhatifRow>& rows) {
  for (const WhatifRow& row : rows)
    if (!row.problem.empty() && !row.settings.empty())
      return fmt::format("\nA setting for one variant alone: --variant '{} SETTING=VALUE'\n",
                         fmt::join(row.settings, " "));
  return "";
}

// If all variants change the cluster: a plan of the base is rarely the best on each.
std::string other_clusters(const std::vector<WhatifRow>& rows) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto& settings = rows[i].settings;
    const auto one = std::ranges::find_if(
        settings, [](const std::string& text) { return text.starts_with("cluster="); });
    if (one == settings.end()) return "";
    const std::string name = one->substr(std::string_view("cluster=").size());
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (names.empty()) return "";
  return fmt::format(
      "\nOne plan is rarely the best on every cluster: rehearse plan MODEL {} searches each\n",
      fmt::join(names, ","));
}

}  // namespace

Json to_json(const WhatifRow& row) {
  Shown show = shown({row});
  show.priced = true;
  return to_json(Rows{"", "", columns(show), {cells(row, row, show)}})[0];
}

WhatifRow whatif_row(const Json& json) {
  WhatifRow row;
  row.name = json.at("name");
  for (const Json& setting : json.at("settings")) row.settings.push_back(setting);
  row.problem = json.at("problem");
  row.fits = json.at("fits").is_null() || json.at("fits").get<bool>();
  if (json.contains("memory"))
    row.memory = engine::memory_detail(json.at("memory").get<std::string>())
                     .value_or(engine::MemoryDetail::exact);
  row.reason = json.at("out_of_memory");
  const auto number = [&](const char* key) {
    return json.at(key).is_null() ? 0 : json.at(key).get<double>();
  };
  row.step = number("step_time_s");
  row.tokens_gpu = number("tokens_per_second_gpu");
  row.tflops_gpu = number("tflops_gpu_paper");
  row.bubble = number("bubble");
  row.cost_per_million_tokens = number("cost_per_million_tokens");
  for (const auto& [name, seconds] : json.at("accounts_s").items()) row.accounts.push_back(seconds);
  for (const Json& stage : json.at("stages_accounts_s")) {
    std::vector<double>& accounts = row.stages.emplace_back();
    for (const auto& [name, seconds] : stage.items()) accounts.push_back(seconds);
  }
  row.outside_gib = number("outside_gib");
  row.reserved_gib = number("reserved_gib");
  row.capacity_gib = number("capacity_gib");
  if (json.contains("reserved_most_gib")) row.reserved_most_gib = number("reserved_most_gib");
  row.gpus = json.at("gpus").is_null() ? 0 : json.at("gpus").get<int>();
  row.interval = json.at("interval_90_text");
  row.bound = json.at("bound");
  for (const Json& note : json.at("notes")) row.notes.push_back(note);
  for (const auto& [key, value] :
       {std::pair{"days", &row.days}, {"cost", &row.cost}, {"energy_mwh", &row.energy_mwh}})
    if (json.contains(key)) *value = number(key);
  if (json.contains("draws")) {
    row.draws = json.at("draws");
    row.step_low = number("step_low_s");
    row.step_high = number("step_high_s");
  }
  for (const Json& link : json.at("links")) {
    row.links.push_back({link.at("kind"), link.at("busiest"), link.at("traffic"), link.at("busy"),
                         link.at("mean_busy"), link.at("fabric")});
  }
  return row;
}

Document whatif_document(const std::vector<WhatifRow>& rows) {
  const WhatifRow& base = rows.front();
  const Shown show = shown(rows);
  Rows table{whole, "", columns(show), {}};
  std::string reasons;
  for (const WhatifRow& row : rows) {
    table.cells.push_back(cells(row, base, show));
    reasons += reason(row, base);
  }
  table.footnote =
      "TP, CP, EP, DP, PP: seconds of the step that wait for that communication; mean of the "
      "ranks.\n"
      "Fabric link: the busiest outside of the nodes, as a share of the step\n";
  if (show.waits)
    table.footnote +=
        "Rank wait: for the last rank of a collective, for example that of the busiest experts\n";
  if (std::ranges::any_of(rows,
                          [](const WhatifRow& row) { return row.problem.empty() && !row.fits; }))
    table.footnote +=
        "OOM: out of memory; --memory none gives the time alone, `explain` what makes it fit\n";
  if (show.energy)
    table.footnote +=
        "Energy: boards at gpu.power_w, or at their rated power, without CPUs, switches and "
        "cooling (PUE)\n";
  if (show.drawn)
    table.footnote +=
        "Step: mean over draws of chance (paths of hashed flows, jitter); --seeds N takes N "
        "draws\n";
  table.footnote += missing(rows, show);
  Document document;
  document.blocks.emplace_back(std::move(table));
  document.blocks.emplace_back(Note{"", reasons + setting_of_one(rows) + other_clusters(rows)});
  return document;
}

}  // namespace sim::output
