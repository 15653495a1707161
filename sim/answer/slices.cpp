#include "sim/answer/slices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "sim/answer/block_times.h"
#include "sim/answer/priced.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::answer {
namespace {

using program::PassKind;
using program::Plan;

constexpr double no_time = std::numeric_limits<double>::infinity();

std::size_t slot(int i) {
  return static_cast<std::size_t>(i);
}

// The lengths with the least sum of times, none above `bound`; empty if there are none.
std::vector<int> shortest_cut(int units, const std::vector<std::vector<double>>& time,
                              double bound) {
  std::vector<double> least(slot(units) + 1, no_time);
  std::vector<int> last(slot(units) + 1, 0);
  least[0] = 0;
  for (int to = 1; to <= units; ++to)
    for (int length = 1; length <= to; ++length) {
      const double own = time[slot(length)][slot(to - length)];
      if (own > bound) continue;
      if (least[slot(to - length)] + own >= least[slot(to)]) continue;
      least[slot(to)] = least[slot(to - length)] + own;
      last[slot(to)] = length;
    }
  if (least.back() == no_time) return {};
  std::vector<int> lengths;
  for (int to = units; to > 0; to -= last[slot(to)]) lengths.push_back(last[slot(to)]);
  std::ranges::reverse(lengths);
  return lengths;
}

}  // namespace

double slices_time(const SlicePipeline& pipeline, const SliceTime& time,
                   const std::vector<int>& lengths) {
  double sum = 0, most = 0;
  int before = 0;
  for (const int length : lengths) {
    const double own = time(length, before);
    sum += own;
    most = std::max(most, own);
    before += length;
  }
  return (pipeline.stages - 1) * most + pipeline.microbatches * sum;
}

std::vector<int> balance_slices(const SlicePipeline& pipeline, const SliceTime& time) {
  const int n = pipeline.units;
  std::vector<std::vector<double>> times(slot(n) + 1, std::vector<double>(slot(n), no_time));
  std::vector<double> bounds;
  for (int length = 1; length <= n; ++length)
    for (int before = 0; before + length <= n; ++before)
      bounds.push_back(times[slot(length)][slot(before)] = time(length, before));
  std::ranges::sort(bounds);
  std::vector<int> best;
  double least = no_time;
  for (const double bound : bounds) {
    if ((pipeline.stages - 1) * bound >= least) break;  // larger bounds cannot be better
    const std::vector<int> lengths = shortest_cut(n, times, bound);
    if (lengths.empty()) continue;
    const double whole = slices_time(pipeline, time, lengths);
    if (whole >= least) continue;
    least = whole;
    best = lengths;
  }
  return best;
}

namespace {

Plan with_slices(const Plan& plan, std::vector<std::int64_t> lengths) {
  Plan resolved = plan;
  resolved.pipeline.slice_lengths = std::move(lengths);
  return resolved;
}

// Slices of equal length; the last one has the remainder.
std::vector<std::int64_t> even_slices(std::int64_t sequence, std::int64_t length) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(sequence / length), length);
  if (sequence % length != 0) lengths.push_back(sequence % length);
  return lengths;
}

// Seconds of each slice on the slowest stage: forward, backward, and a message each way.
std::vector<double> slice_seconds(const Plan& plan, const Site& site) {
  Plan one = plan;
  one.batch.global_batch = one.mesh.dp * one.batch.micro_batch;
  const program::Job job = job_of(program::valid(one), site);
  const engine::Times times = price_of(job, site);
  const std::size_t n = one.pipeline.slice_lengths.size();
  std::vector<double> slowest(n, 0);
  double message = 0;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const program::Program& program = job.classes[c];
    std::vector<double> own(n, 0);
    std::size_t forward = 0, backward = 0;
    for (const program::Pass& pass : program.step) {
      const program::Template& t = program.templates[pass.pattern];
      const double time = seconds(template_time(program, times.classes[c], t));
      // Slices run forward in order, and backward in reverse order.
      if (t.kind == PassKind::forward) own[forward++ % n] += time;
      if (t.kind == PassKind::backward) own[n - 1 - backward++ % n] += time;
    }
    for (std::size_t i = 0; i < n; ++i) slowest[i] = std::max(slowest[i], own[i]);
    for (const std::vector<Duration>& batch : times.classes[c].message)
      for (const Duration one_message : batch) message = std::max(message, seconds(one_message));
  }
  for (double& time : slowest) time += 2 * message;
  return slowest;
}

double read_between(double x, double x0, double y0, double x1, double y1) {
  return x1 == x0 ? y0 : y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

// Sampled times of slices: some lengths, each after multiples of its own length. Interpolates
// linearly.
class Curves {
 public:
  void add(int length, std::vector<double> times) { curves_[length] = std::move(times); }

  double operator()(int length, int before) const {
    const auto above = curves_.lower_bound(length);
    if (above == curves_.end()) return of(*curves_.rbegin(), before);
    if (above->first == length || above == curves_.begin()) return of(*above, before);
    const auto below = std::prev(above);
    return read_between(length, below->first, of(*below, before), above->first, of(*above, before));
  }

 private:
  // Linear in the number of earlier tokens: attention reads their keys.
  static double of(const std::pair<const int, std::vector<double>>& curve, int before) {
    const auto& [length, times] = curve;
    if (times.size() == 1) return times.front();
    const double step = static_cast<double>(before) / length;
    const auto i = std::min(static_cast<std::size_t>(step), times.size() - 2);
    const auto x = static_cast<double>(i);
    return read_between(step, x, times[i], x + 1, times[i + 1]);
  }
  std::map<int, std::vector<double>> curves_;
};

// Lengths that are priced: 1, 2, 3, 4, 6, 8, 12 ... units.
std::vector<int> sampled_lengths(int units) {
  std::vector<int> lengths;
  for (int power = 1; power <= units; power *= 2)
    for (const int length : {power, power + power / 2})
      if (length <= units && (lengths.empty() || lengths.back() < length))
        lengths.push_back(length);
  if (lengths.back() != units) lengths.push_back(units);
  return lengths;
}

// The dynamic program's lengths in tokens; the sequence has `units` units.
std::vector<std::int64_t> planned_slices(const Plan& plan, const Site& site, int units) {
  const std::int64_t unit = plan.batch.sequence / units;
  Curves curves;
  for (const int length : sampled_lengths(units)) {
    std::vector<double> times =
        slice_seconds(with_slices(plan, even_slices(plan.batch.sequence, length * unit)), site);
    // The last slice is shorter than the others.
    if (units % length != 0 && times.size() > 1) times.pop_back();
    curves.add(length, std::move(times));
  }
  const SlicePipeline pipeline{units, plan.mesh.pp, plan.microbatches()};
  std::vector<std::int64_t> lengths;
  for (const int length : balance_slices(pipeline, std::cref(curves)))
    lengths.push_back(length * unit);
  return lengths;
}

}  // namespace

CheckedPlan sliced(const CheckedPlan& asked) {
  const Plan& plan = asked.plan();
  if (!plan.pipeline.balances_slices || !plan.pipeline.slice_lengths.empty()) return asked;
  Site& site = asked.site();
  constexpr int finest = 32;
  const std::int64_t grain = plan.uses_sequence_parallel() ? plan.mesh.tp : 1;
  std::vector<std::vector<std::int64_t>> candidates{program::slice_lengths(plan),
                                                    {plan.batch.sequence}};
  for (int units = 4; units <= finest; units *= 2)
    if (plan.batch.sequence % (units * grain) == 0)
      candidates.push_back(planned_slices(plan, site, units));
  Fastest fastest(checked(with_slices(plan, candidates.front()), site));
  for (const std::vector<std::int64_t>& lengths : candidates)
    if (const Result<CheckedPlan> one = check(with_slices(plan, lengths), site))
      fastest.replay(*one);
  return fastest.plan();
}

}  // namespace sim::answer
