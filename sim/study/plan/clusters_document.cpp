#include "sim/study/plan/clusters_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/study/plan/report_values.h"

namespace sim::planner {

namespace {

using output::Json;
using output::Show;

bool has_plan(const BestOfCluster& one) {
  return one.problem.empty();
}

// The cluster with the least value; nullptr if fewer than two have one.
template <typename Value>
const BestOfCluster* least(const std::vector<BestOfCluster>& found, Value value) {
  const BestOfCluster* best = nullptr;
  int known = 0;
  for (const BestOfCluster& one : found) {
    if (!has_plan(one) || value(one) <= 0) continue;
    ++known;
    if (best == nullptr || value(one) < value(*best)) best = &one;
  }
  return known < 2 ? nullptr : best;
}

double per_million(const BestOfCluster& one) {
  return answer::run_cost(one.cost, one.best.tokens_s_gpu, one.gpus).per_million_tokens;
}

// "shortest step: dgx-h100, 3.593 s; lowest cost: dgx-a100, 0.312 per million tokens".
std::string summary(const std::vector<BestOfCluster>& found) {
  const auto plans = std::ranges::count_if(found, has_plan);
  if (plans == 0) return "no cluster has a plan that fits";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (const auto* one = least(found, [](const BestOfCluster& o) { return seconds_of(o.best); }))
    add(fmt::format("shortest step: {}, {:.3f} s", one->cluster, seconds_of(one->best)));
  if (const auto* one = least(found, per_million))
    add(fmt::format("lowest cost: {}, {:.4g} per million tokens", one->cluster, per_million(*one)));
  if (text.empty())
    text =
        fmt::format("only {} has a plan that fits", std::ranges::find_if(found, has_plan)->cluster);
  return text;
}

// A column, and its cell of a cluster with a plan.
struct Cell {
  output::Column column;
  Json value;
};

std::vector<Cell> cells_of(const BestOfCluster& one, const std::vector<BestOfCluster>& all) {
  const auto any = [&](auto known) { return std::ranges::any_of(all, known); };
  const answer::RunCost run = has_plan(one)
                                  ? answer::run_cost(one.cost, one.best.tokens_s_gpu, one.gpus)
                                  : answer::RunCost{};
  const auto value = [&](double number) { return has_plan(one) ? Json(number) : Json(); };
  const auto known = [&](double number) { return number > 0 ? Json(number) : Json(); };
  std::vector<Cell> cells = {
      {{"cluster", "cluster", "", 0, true}, one.cluster},
      {{"problem", ""}, one.problem},
      {{"gpus", "GPUs", "", 0}, has_plan(one) ? Json(one.gpus) : Json()},
      {{"step_time_s", "step", "s", 3}, value(seconds_of(one.best))},
      {{"low_s", "low", "s", 2}, known(one.best.low_s)},
      {{"high_s", "high", "s", 2}, known(one.best.high_s)},
      {{"tokens_s_gpu", "tokens/s/GPU", "", 0}, value(one.best.tokens_s_gpu)},
      {{"tflops_gpu_megatron", "TFLOP/s/GPU", "", 1}, value(one.best.tflops_gpu)},
      {{"mfu", "MFU", "", 1, false, " %", 100}, value(one.best.mfu)},
      {{"peak_reserved_gib", "reserved", "GiB", 1}, value(gib_of(one.best.reserved))},
      {{"capacity_gib", "of", "", 1}, value(gib_of(one.best.capacity))}};
  if (any([](const BestOfCluster& o) { return o.cost.price_per_gpu_hour > 0; }))
    cells.push_back(
        {{"cost_per_million_tokens", "cost/Mtoken", "", 3}, known(run.per_million_tokens)});
  if (any([](const BestOfCluster& o) { return o.cost.power_w > 0; }))
    cells.push_back(
        {{"joules_per_token", "J/token", "", 3}, known(run.kwh_per_million_tokens * 3.6)});
  if (any([](const BestOfCluster& o) { return o.cost.tokens > 0; })) {
    cells.push_back({{"days", "days", "", 1}, known(run.days)});
    if (any([](const BestOfCluster& o) { return o.cost.price_per_gpu_hour > 0; }))
      cells.push_back({{"cost", "cost", "", 4, false, "", 1, Show::general}, known(run.cost)});
    if (any([](const BestOfCluster& o) { return o.cost.power_w > 0; }))
      cells.push_back({{"energy_mwh", "energy", "MWh", 1}, known(run.mwh)});
  }
  cells.push_back({{"proven", ""}, has_plan(one) ? Json(one.best.proven) : Json()});
  cells.push_back({{"settings", ""}, has_plan(one) ? Json(one.settings) : Json()});
  return cells;
}

// Each cluster's settings, or the reason why it has none.
std::string plans_text(const std::vector<BestOfCluster>& found) {
  std::string text;
  for (const BestOfCluster& one : found) {
    const char* certainty = !has_plan(one) || one.best.proven ? "" : " (not proven the best)";
    text += fmt::format("{}{}: {}\n", one.cluster, certainty,
                        has_plan(one) ? one.settings : one.problem);
  }
  return text;
}

}  // namespace

void read_best(const Space& space, const Outcome& outcome, BestOfCluster& found) {
  if (outcome.best.empty()) {
    found.problem = outcome.complete ? "no plan fits" : "stopped before a plan was found";
    if (outcome.complete && outcome.nearest_known)
      found.problem += fmt::format("; the nearest lacks {} on the rank that needs most",
                                   human(Bytes{outcome.nearest_lacks}));
    return;
  }
  found.best = outcome.best.front();
  const PlanShape& core = space.cores()[found.best.core];
  found.gpus = space.bases()[core.base].gpus;
  found.settings = space.words(core, found.best.variant);
}

output::Document clusters_document(const std::string& job,
                                   const std::vector<BestOfCluster>& found) {
  output::Rows rows{
      "clusters", "the best plan of each cluster (TFLOP/s as Megatron-LM counts them)", {}, {}};
  for (const BestOfCluster& one : found) {
    rows.columns.clear();
    rows.cells.emplace_back();
    for (Cell& cell : cells_of(one, found)) {
      rows.columns.push_back(std::move(cell.column));
      rows.cells.back().push_back(std::move(cell.value));
    }
  }
  if (std::ranges::any_of(found, [](const BestOfCluster& one) {
        return one.cost.tokens > 0 && one.cost.power_w > 0;
      }))
    rows.footnote =
        "Energy: boards at gpu.power_w, or at their rated power, without CPUs, switches and "
        "cooling "
        "(PUE)\n";
  output::Document document;
  document.title = "plan: " + job;
  document.blocks.emplace_back(output::Note{"", summary(found), true});
  document.blocks.emplace_back(std::move(rows));
  document.blocks.emplace_back(output::Note{"", plans_text(found)});
  return document;
}

}  // namespace sim::planner
