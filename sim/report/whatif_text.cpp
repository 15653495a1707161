#include "sim/report/whatif_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/report/table.h"

namespace sim::report {
namespace {

using replay::Account;

double of(const WhatifRow& row, Account account) {
  return row.accounts[static_cast<std::size_t>(account)];
}

// The link that is busiest outside of the nodes, else inside them.
const WhatifRow::Link* bounding(const WhatifRow& row) {
  for (const WhatifRow::Link& link : row.links) {
    if (link.fabric) return &link;
  }
  return row.links.empty() ? nullptr : &row.links.front();
}

std::string change(double now, double before) {
  if (before <= 0) return "";
  const double percent = 100 * (now / before - 1);
  return std::abs(percent) < 0.005 ? "=" : fmt::format("{:+.2f} %", percent);
}

// "step +1.20 s: data-parallel communication +1.15 s, compute +0.05 s".
std::string cause(const WhatifRow& row, const WhatifRow& base) {
  std::vector<std::size_t> order(row.accounts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto difference = [&](std::size_t a) { return row.accounts[a] - base.accounts[a]; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(difference(a)) > std::abs(difference(b));
  });
  const double all = row.step - base.step;
  const double visible = std::max(1e-6 * base.step, 0.02 * std::abs(all));
  std::string text = fmt::format("step {:+.3f} s", all);
  int shown = 0;
  for (const std::size_t a : order) {
    if (shown == 3 || std::abs(difference(a)) < visible) break;
    text += fmt::format("{} {} {:+.3f} s", shown == 0 ? ":" : ",", words(static_cast<Account>(a)),
                        difference(a));
    ++shown;
  }
  if (shown == 0) text = "no difference";
  return text;
}

std::string links_text(const WhatifRow& row) {
  std::string text;
  for (const bool fabric : {true, false}) {
    const auto link = std::ranges::find(row.links, fabric, &WhatifRow::Link::fabric);
    if (link == row.links.end()) continue;
    text += fmt::format("{}{} {:.1f} % ({})", text.empty() ? "" : "; ", link->busiest,
                        100 * link->busy, link->traffic);
  }
  return text.empty() ? "no link is used" : "busiest links: " + text;
}

}  // namespace

Json to_json(const WhatifRow& row) {
  Json links = Json::array();
  for (const WhatifRow::Link& link : row.links) {
    links.push_back({{"kind", link.kind},
                     {"busiest", link.busiest},
                     {"traffic", link.traffic},
                     {"busy", link.busy},
                     {"mean_busy", link.mean},
                     {"fabric", link.fabric}});
  }
  Json accounts = Json::object();
  for (std::size_t a = 0; a < row.accounts.size(); ++a) {
    accounts[std::string(replay::name(static_cast<Account>(a)))] = row.accounts[a];
  }
  return {{"name", row.name},
          {"settings", row.settings},
          {"problem", row.problem},
          {"fits", row.fits},
          {"out_of_memory", row.reason},
          {"step_seconds", row.step},
          {"tokens_per_second_gpu", row.tokens_gpu},
          {"tflops_gpu_paper", row.tflops_gpu},
          {"bubble", row.bubble},
          {"cost_per_million_tokens", row.cost_per_million_tokens},
          {"accounts_seconds", accounts},
          {"reserved_gib", row.reserved_gib},
          {"capacity_gib", row.capacity_gib},
          {"links", links}};
}

WhatifRow whatif_row(const Json& json) {
  WhatifRow row;
  row.name = json.at("name");
  for (const Json& setting : json.at("settings")) row.settings.push_back(setting);
  row.problem = json.at("problem");
  row.fits = json.at("fits");
  row.reason = json.at("out_of_memory");
  row.step = json.at("step_seconds");
  row.tokens_gpu = json.at("tokens_per_second_gpu");
  row.tflops_gpu = json.at("tflops_gpu_paper");
  row.bubble = json.at("bubble");
  row.cost_per_million_tokens = json.at("cost_per_million_tokens");
  for (const auto& [name, seconds] : json.at("accounts_seconds").items()) {
    row.accounts.push_back(seconds);
  }
  row.reserved_gib = json.at("reserved_gib");
  row.capacity_gib = json.at("capacity_gib");
  for (const Json& link : json.at("links")) {
    row.links.push_back({link.at("kind"), link.at("busiest"), link.at("traffic"), link.at("busy"),
                         link.at("mean_busy"), link.at("fabric")});
  }
  return row;
}

std::string whatif_text(const std::vector<WhatifRow>& rows) {
  const WhatifRow& base = rows.front();
  const bool priced = std::ranges::any_of(
      rows, [](const WhatifRow& row) { return row.cost_per_million_tokens > 0; });
  std::vector<std::string> headings = {"<variant", "step s", "change", "tokens/s/GPU",
                                       "bubble",   "TP s",   "CP s",   "DP s",
                                       "PP s",     "GiB",    "of",     "fabric link"};
  if (priced) headings.insert(headings.begin() + 4, "cost/Mtoken");
  Table table(headings);
  for (const WhatifRow& row : rows) {
    std::vector<std::string> cells = {row.name};
    if (!row.problem.empty()) {
      cells.resize(headings.size(), "");
      cells[1] = "impossible";
    } else if (!row.fits) {
      cells.resize(headings.size(), "");
      cells[1] = "OOM";
      cells[headings.size() - 3] = fmt::format("{:.1f}", row.reserved_gib);
      cells[headings.size() - 2] = fmt::format("{:.1f}", row.capacity_gib);
    } else {
      const auto exposed = [&](Account a) { return fmt::format("{:.3f}", of(row, a)); };
      cells.push_back(fmt::format("{:.3f}", row.step));
      cells.push_back(&row == &base ? "" : change(row.step, base.fits ? base.step : 0));
      cells.push_back(fmt::format("{:.0f}", row.tokens_gpu));
      if (priced) cells.push_back(fmt::format("{:.3f}", row.cost_per_million_tokens));
      cells.push_back(fmt::format("{:.1f} %", 100 * row.bubble));
      for (const Account a :
           {Account::tp_exposed, Account::cp_exposed, Account::dp_exposed, Account::pp_transfer})
        cells.push_back(exposed(a));
      cells.push_back(fmt::format("{:.1f}", row.reserved_gib));
      cells.push_back(fmt::format("{:.1f}", row.capacity_gib));
      const WhatifRow::Link* link = bounding(row);
      cells.push_back(link ? fmt::format("{} {:.1f} %", link->kind, 100 * link->busy) : "none");
    }
    table.row(std::move(cells));
  }
  std::string text =
      table.text("") +
      "TP, CP, DP, PP: seconds of the step that wait for that communication; mean of the ranks.\n"
      "Fabric link: the busiest outside of the nodes, as a share of the step\n\n";
  for (const WhatifRow& row : rows) {
    text += row.name + "\n  ";
    if (!row.problem.empty()) {
      text += "impossible: " + row.problem + "\n";
      continue;
    }
    if (!row.fits) {
      text += "out of memory: " + row.reason + "\n";
      continue;
    }
    if (&row != &base && base.fits) text += cause(row, base) + "\n  ";
    text += links_text(row) + "\n";
  }
  return text;
}

}  // namespace sim::report
