#include "sim/study/tune/improve.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "sim/study/tune/fixes.h"

namespace sim::study {

namespace {

// A gain of time that is worth a change in a list, and in a combination.
constexpr double worth_a_line = 0.005, worth_a_change = 0.01;
constexpr double worth_in_memory = 0.05;  // of the reserved bytes
constexpr int most_rounds = 4;
// A verdict with less of the capacity free is tight (answer/verdict.cpp).
constexpr double tight_below = 0.02;

bool is_roomy(const answer::Answer& answer, const answer::Site& site) {
  const engine::RunReport& run = answer.run;
  const engine::ClassReport& who = answer::fullest(run);
  const auto& outside = site.profile.device.memory;
  const Bytes left = who.capacity - who.peak_reserved;
  return left >= outside.unexplained_most - outside.unexplained &&
         static_cast<double>(left.n) >= tight_below * static_cast<double>(who.capacity.n) &&
         std::ranges::all_of(run.classes, [&](const engine::ClassReport& one) {
           return one.alloc_retries < answer.plan.microbatches();
         });
}

// Replays a change up to the point where it cannot help. Nothing: it does not fit, or it retries
// more often than the plan before the change, and in each microbatch.
std::optional<Improvement> replayed_change(const Change& change, std::int64_t retries_before) {
  engine::Options options;
  options.until_out = true;
  options.most_retries = std::max<std::int64_t>(retries_before, change.plan->microbatches() - 1);
  const answer::Answer answer = answer::evaluate_once(change.plan, options);
  if (!answer.run.fits() || answer.run.ended_early) return {};
  const engine::ClassReport& who = answer::fullest(answer.run);
  Improvement one{change, {}, answer.run.step_time, who.peak_reserved, who.capacity, 0, false};
  one.retries = answer::step_retries(answer.run);
  one.roomy = is_roomy(answer, change.plan.site());
  return one;
}

// The fewest recomputed layers that leave enough memory free.
Improvement fewest_layers_with_room(const answer::CheckedPlan& plan, Improvement all,
                                    std::int64_t retries_before, int& replayed) {
  fewest_recomputed(plan, [&](const Change& change) {
    ++replayed;
    const std::optional<Improvement> one = replayed_change(change, retries_before);
    const bool enough = one && one->roomy;
    if (enough) all = *one;
    return enough;
  });
  return all;
}

// Whether a change leaves enough memory free where the plan does not, is faster, or needs fewer
// reserved bytes in the same time.
bool helps(const Improvement& one, const answer::Answer& before) {
  const bool roomy_before = !before.verdict.tight;
  if (one.roomy != roomy_before) return one.roomy;
  const double ratio = seconds(one.step) / answer::step_seconds(before);
  const Bytes reserved = answer::fullest(before.run).peak_reserved;
  const double saved = 1 - static_cast<double>(one.reserved.n) / static_cast<double>(reserved.n);
  return ratio < 1 - worth_a_line || (saved > worth_in_memory && ratio < 1 + worth_a_line);
}

}  // namespace

Improvements improvements(const answer::CheckedPlan& plan, const answer::Answer& answer) {
  Improvements all{losses(answer), {}, 0};
  std::int64_t retries = 0;  // over the whole replay
  for (const engine::ClassReport& who : answer.run.classes)
    retries = std::max<std::int64_t>(retries, who.alloc_retries);
  std::set<std::string> seen;
  for (const Loss& loss : all.losses)
    for (const Change& change : changes_against(plan, loss.cause)) {
      if (!seen.insert(change.text).second) {
        for (Improvement& one : all.found)
          if (one.change.text == change.text) one.against.push_back(loss.cause);
        continue;
      }
      ++all.replayed;
      std::optional<Improvement> one = replayed_change(change, retries);
      if (!one) continue;
      if (one->roomy && recomputes_by_layer(change, plan))
        one = fewest_layers_with_room(plan, std::move(*one), retries, all.replayed);
      one->against = {loss.cause};
      if (helps(*one, answer)) all.found.push_back(std::move(*one));
    }
  std::ranges::stable_sort(
      all.found, {}, [](const Improvement& one) { return std::tuple(one.step, one.reserved.n); });
  return all;
}

namespace {

// The cheapest change that makes a plan fit.
std::optional<Change> best_fix(const answer::CheckedPlan& plan) {
  const Fixes fixes = find_fixes(plan, true);
  const Fix* best = nullptr;
  const auto rank = [](const Fix& fix) {
    return std::pair(fix.answer.verdict.tight, fix.answer.run.step_time);
  };
  for (const Fix& fix : fixes.fixes)
    if (fix.answer.run.fits() && (best == nullptr || rank(fix) < rank(*best))) best = &fix;
  if (best == nullptr) return {};
  return Change{best->change, answer::checked(best->answer.plan, plan.site())};
}

std::optional<Change> best_improvement(const answer::CheckedPlan& plan,
                                       const answer::Answer& answer) {
  const Improvements all = improvements(plan, answer);
  const Improvement* best = nullptr;
  const auto rank = [](const Improvement& one) { return std::pair(!one.roomy, one.step); };
  for (const Improvement& one : all.found)
    if (best == nullptr || rank(one) < rank(*best)) best = &one;
  if (best == nullptr) return {};
  const double ratio = seconds(best->step) / answer::step_seconds(answer);
  if (!(best->roomy && answer.verdict.tight) && ratio >= 1 - worth_a_change) return {};
  return best->change;
}

}  // namespace

std::optional<Combination> combine(const answer::CheckedPlan& plan, const answer::Answer& answer) {
  Combination all{{}, plan, answer};
  for (int round = 0; round < most_rounds; ++round) {
    std::optional<Change> next =
        all.answer.run.fits() ? best_improvement(all.plan, all.answer) : best_fix(all.plan);
    if (!next) break;
    all.changes.push_back(next->text);
    all.plan = next->plan;
    all.answer = answer::evaluate(all.plan);
    answer::add_retry_cost(all.answer, all.plan);
  }
  if (all.changes.empty()) return {};
  return all;
}

namespace {

void add_losses(const std::vector<Loss>& losses, std::vector<output::Block>& blocks) {
  std::string text;
  output::Json json = output::Json::array();
  for (const Loss& loss : losses) {
    text += loss.text + "\n";
    json.push_back({{"loss", loss.text},
                    {"share", loss.share > 0 ? output::Json(output::rounded(loss.share, 6))
                                             : output::Json(nullptr)}});
  }
  blocks.emplace_back(output::Note{"what it loses", text});
  blocks.emplace_back(output::Data{"losses", std::move(json)});
}

}  // namespace

std::vector<output::Block> improvement_blocks(const Improvements& all,
                                              const answer::Answer& answer) {
  std::vector<output::Block> blocks;
  if (all.losses.empty()) return blocks;
  add_losses(all.losses, blocks);
  output::Rows rows{
      "improvements",
      "changes that gain time or leave memory free, the fastest first, each replayed (tp, cp, pp, "
      "ep: at the same number of GPUs)",
      {{"change", "change", "", 0, true},
       {"step_time_ps", "step", "s", 3, false, "", 1e-12},
       {"gain_fraction", "gain", "", 1, false, " %", 100, output::Show::change},
       {"peak_reserved_bytes", "reserved", "GiB", 1, false, "", 1.0 / (1 << 30)},
       {"more_reserved_bytes", "more", "GiB", 1, false, "", 1.0 / (1 << 30), output::Show::change},
       {"retries", "retries"},
       {"tight", "tight", "", 0, true}},
      {}};
  const double step = answer::step_seconds(answer);
  const Bytes reserved = answer::fullest(answer.run).peak_reserved;
  for (const Improvement& one : all.found)
    rows.cells.push_back({one.change.text, one.step.ps,
                          output::rounded(1 - seconds(one.step) / step, 6), one.reserved.n,
                          (one.reserved - reserved).n, one.retries, !one.roomy});
  if (all.found.empty())
    rows.footnote = fmt::format("  none of the {} that were replayed\n", all.replayed);
  blocks.emplace_back(std::move(rows));
  return blocks;
}

}  // namespace sim::study
