#include "sim/study/tune/fixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace sim::study {

namespace {

// The fewest recomputed layers per chunk that let the plan fit. REQUIRES: `all`, which recomputes
// every layer, fits.
Fix fewest_layers(const answer::CheckedPlan& plan, Fix all) {
  fewest_recomputed(plan, [&](const Change& change) {
    answer::Answer answer = answer::evaluate(change.plan);
    const bool fits = answer.run.fits();
    if (fits) all = {change.text, std::move(answer)};
    return fits;
  });
  return all;
}

// Pairs of changes, smaller ones first, until `enough` fit; `with_room`: and are not tight.
std::vector<Fix> fitting_pairs(const std::vector<Change>& singles, bool with_room) {
  constexpr std::size_t enough = 3, most_replays = 40;
  struct Pair {
    std::size_t size;
    Change change;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < singles.size(); ++i) {
    const std::vector<Change> more = single_changes(singles[i].plan);
    for (std::size_t j = 0; j < more.size(); ++j)
      pairs.push_back({i + j, {singles[i].text + " " + more[j].text, more[j].plan}});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.size < b.size; });
  std::vector<Fix> found;
  std::set<std::string> seen;
  for (const Pair& pair : pairs) {
    if (found.size() == enough || seen.size() == most_replays) break;
    if (!seen.insert(output::line(output::to_json(pair.change.plan.plan()))).second) continue;
    answer::Answer answer = answer::evaluate(pair.change.plan);
    if (answer.run.fits() && !(with_room && answer.verdict.tight))
      found.push_back({pair.change.text, std::move(answer)});
  }
  return found;
}

// The changes that fit, the fastest first, then the others. Of changes to the same plan (all layers
// recomputed, in two spellings) the first stays.
void sort(std::vector<Fix>& fixes) {
  std::vector<Fix> sorted;
  for (Fix& fix : fixes) {
    const auto same = [&](const Fix& other) {
      return fix.answer.run.fits() && other.answer.run.fits() &&
             fix.answer.run.step_time == other.answer.run.step_time &&
             answer::peak_reserved(fix.answer.run) == answer::peak_reserved(other.answer.run);
    };
    if (std::ranges::none_of(sorted, same)) sorted.push_back(std::move(fix));
  }
  std::ranges::stable_sort(sorted, [](const Fix& a, const Fix& b) {
    if (a.answer.run.fits() != b.answer.run.fits()) return a.answer.run.fits();
    return a.answer.run.fits() && a.answer.run.step_time < b.answer.run.step_time;
  });
  fixes = std::move(sorted);
}

}  // namespace

Fixes find_fixes(const answer::CheckedPlan& plan, bool pairs) {
  Fixes fixes;
  fixes.unlimited_step = answer::evaluate_unlimited(plan).run.step_time;
  const std::vector<Change> singles = single_changes(plan);
  bool any = false, with_room = false;
  for (const Change& change : singles) {
    Fix fix{change.text, answer::evaluate(change.plan)};
    if (recomputes_by_layer(change, plan) && fix.answer.run.fits())
      fix = fewest_layers(plan, std::move(fix));
    any = any || fix.answer.run.fits();
    with_room = with_room || (fix.answer.run.fits() && !fix.answer.verdict.tight);
    fixes.fixes.push_back(std::move(fix));
  }
  if (pairs && !with_room) {
    std::vector<Fix> two = fitting_pairs(singles, any);
    fixes.pairs = !two.empty();
    if (fixes.pairs && !any) fixes.fixes.clear();
    std::ranges::move(two, std::back_inserter(fixes.fixes));
  }
  sort(fixes.fixes);
  return fixes;
}

namespace {

// Relative change of the step time.
double cost(const Fixes& fixes, const Fix& fix) {
  return seconds(fix.answer.run.step_time) / seconds(fixes.unlimited_step) - 1;
}

}  // namespace

std::vector<output::Block> fixes_blocks(const Fixes& fixes, const std::string& key) {
  using output::Json;
  if (fixes.fixes.empty()) {
    return {output::Note{"", "no single change of the plan is possible"},
            output::Data{key, Json::array()}};
  }
  const bool singles =
      std::ranges::any_of(fixes.fixes, [](const Fix& fix) { return !fix.answer.run.fits(); });
  const char* what =
      !fixes.pairs ? "single changes of the plan, those that fit first, each replayed"
      : singles    ? "single changes of the plan, and pairs with more room, each replayed"
                   : "no single change is enough; pairs that are, each replayed";
  output::Rows rows{
      key,
      fmt::format("{} (tp, cp, pp: at the same number of GPUs)\n"
                  "  cost: against the plan as it is on GPUs with memory enough, {:.2f} s a step",
                  what, seconds(fixes.unlimited_step)),
      {{"change", "change", "", 0, true},
       {"", "replay says", "", 0, true},
       {"fits"},
       {"peak_reserved_bytes", "reserved", "GiB", 1, false, "", 1.0 / (1 << 30)},
       {"capacity_bytes", "of", "", 1, false, "", 1.0 / (1 << 30)},
       {"step_time_ps", "step", "s", 2, false, "", 1e-12},
       {"cost_fraction", "cost", "", 1, false, " %", 100, output::Show::change}},
      {}};
  for (const Fix& fix : fixes.fixes) {
    const engine::RunReport& run = fix.answer.run;
    const char* says = !run.fits()                ? "out of memory"
                       : fix.answer.verdict.tight ? "fits, barely"
                                                  : "fits";
    std::vector<Json> cells = {fix.change, says, run.fits()};
    if (run.fits()) {
      const engine::ClassReport& who = answer::fullest(run);
      cells.insert(cells.end(),
                   {Json(who.peak_reserved.n), Json(who.capacity.n), Json(run.step_time.ps),
                    Json(output::rounded(cost(fixes, fix), 6))});
    }
    cells.resize(rows.columns.size());
    rows.cells.push_back(std::move(cells));
  }
  return {std::move(rows)};
}

}  // namespace sim::study
