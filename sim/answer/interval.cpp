#include "sim/answer/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cassert>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sim::answer {

namespace {

constexpr double inside = 0.90;
constexpr double tail = (1 - inside) / 2;
constexpr std::size_t known_from = 8;
constexpr std::size_t sources_from = 3;
constexpr double ranks_from = 1 / tail - 1;  // 19: the first rank is the 5 % quantile

struct Level {
  bool profile, framework, nodes, context, kind, mixture;
};
constexpr Level of_profile{true, false, false, false, true, true};
constexpr Level of_framework{false, true, false, false, false, true};
constexpr Level of_kind{false, false, false, false, true, true};
constexpr std::array<Level, 7> levels = {{{true, true, true, true, false, true},
                                          {true, true, true, false, false, true},
                                          {true, true, false, false, false, true},
                                          of_profile,
                                          of_framework,
                                          of_kind,
                                          {false, false, false, false, false, false}}};

struct Weighted {
  double value, weight;
};

bool belongs(const input::ResidualGroup& group, const Level& level, const Situation& situation) {
  if (level.profile && group.profile != situation.profile) return false;
  if (level.framework && group.framework != situation.framework) return false;
  if (level.kind && group.shards != situation.shards) return false;
  if (level.mixture && group.mixture != situation.mixture) return false;
  if (level.nodes && group.many_nodes != situation.many_nodes) return false;
  return !level.context || group.context_parallel == situation.context_parallel;
}

std::string describe(const Level& level, const Situation& s) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (level.profile) add(s.profile);
  if (level.framework) add(s.framework);
  if (level.kind) add(s.shards ? "parameters in shards" : "whole parameters");
  if (level.nodes) add(s.many_nodes ? "several nodes" : "one node");
  if (level.context) add(s.context_parallel ? "context parallel" : "no context parallelism");
  if (level.mixture && s.mixture) add("mixtures of experts");
  return text.empty() ? "everything measured" : text;
}

// In double: long double is not needed, and Boost fills its tables at every start.
using StudentsT = boost::math::students_t_distribution<
    double, boost::math::policies::policy<boost::math::policies::promote_double<false>>>;

// Half width of Student's t prediction interval around the mean of `runs` values.
double half_width(double degrees_of_freedom, double deviation, double runs) {
  return boost::math::quantile(StudentsT(degrees_of_freedom), 1 - tail) * deviation *
         std::sqrt(1 + 1 / runs);
}

// Sorted residuals and their empirical distribution function.
class Distribution {
 public:
  explicit Distribution(std::vector<Weighted> values) : values_(std::move(values)) {
    assert(!values_.empty());
    std::stable_sort(values_.begin(), values_.end(),
                     [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
    double squares = 0;
    for (const Weighted& one : values_) {
      sum_ += one.weight;
      squares += one.weight * one.weight;
    }
    count_ = sum_ * sum_ / squares;
    double below = 0;
    for (const Weighted& one : values_) {
      below += one.weight;
      ranks_.push_back(below / sum_ * count_ / (count_ + 1));
    }
  }

  double count() const { return count_; }

  // Probability that a new residual is below `value`.
  double share_below(double value) const {
    std::size_t i = 0;
    while (i < values_.size() && values_[i].value < value) ++i;
    if (i == 0) return 0;
    if (i == values_.size()) return 1;
    const double gap = values_[i].value - values_[i - 1].value;
    const double part = gap > 0 ? (value - values_[i - 1].value) / gap : 0;
    return ranks_[i - 1] + part * (ranks_[i] - ranks_[i - 1]);
  }

  double quantile(double share) const {
    if (share <= ranks_.front()) return values_.front().value;
    for (std::size_t i = 1; i < values_.size(); ++i) {
      if (share > ranks_[i]) continue;
      const double part = (share - ranks_[i - 1]) / (ranks_[i] - ranks_[i - 1]);
      return values_[i - 1].value + part * (values_[i].value - values_[i - 1].value);
    }
    return values_.back().value;
  }

  double median() const { return middle(values_); }
  // Half width of Student's t prediction interval around the median. The deviation is that of a
  // normal distribution with the same median distance, so that one source far away, which no
  // interval of use would hold, does not widen all others.
  double student() const {
    const double n = std::max(count_, 2.0), centre = median();
    std::vector<Weighted> distances;
    for (const Weighted& one : values_)
      distances.push_back({std::abs(one.value - centre), one.weight});
    std::ranges::stable_sort(distances, {}, &Weighted::value);
    constexpr double of_normal = 0.6745;  // median distance of a normal distribution, deviations
    const double deviation = middle(distances) / of_normal * std::sqrt(n / (n - 1));
    return half_width(n - 1, deviation, n);
  }

 private:
  // The weighted median of sorted values.
  double middle(const std::vector<Weighted>& sorted) const {
    double below = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      below += sorted[i].weight;
      if (below > sum_ / 2 * (1 + 1e-12)) return sorted[i].value;
      if (below >= sum_ / 2 * (1 - 1e-12) && i + 1 < sorted.size())
        return (sorted[i].value + sorted[i + 1].value) / 2;
    }
    return sorted.back().value;
  }

  std::vector<Weighted> values_;
  std::vector<double> ranks_;
  double sum_ = 0, count_ = 0;
};

void bounds(const Distribution& all, ResidualRange& out) {
  if (all.count() < ranks_from) {
    const double half = all.student();
    out.low = std::min(0.0, all.median() - half);
    out.high = std::max(0.0, all.median() + half);
    return;
  }
  const double at_prediction = all.share_below(0);
  const double from = std::max(std::min(tail, at_prediction),
                               at_prediction > 1 - tail ? at_prediction - inside : 0.0);
  out.low = std::min(0.0, all.quantile(from));
  out.high = std::max(0.0, all.quantile(from + inside));
}

std::optional<ResidualRange> of_level(const input::RunResiduals& residuals,
                                      const std::vector<input::ResidualOf>& quantities,
                                      const Level& level, const Situation& situation,
                                      const std::string& without, bool fitted, std::size_t least) {
  std::map<std::string, std::vector<double>> sources;
  std::size_t samples = 0;
  for (const input::ResidualGroup& group : residuals.groups) {
    const bool wanted =
        std::find(quantities.begin(), quantities.end(), group.quantity) != quantities.end();
    if (!wanted || group.source == without || (group.fitted && !fitted)) continue;
    if (!belongs(group, level, situation)) continue;
    std::vector<double>& into = sources[group.source];
    into.insert(into.end(), group.values.begin(), group.values.end());
    samples += group.values.size();
  }
  if (samples < least) return std::nullopt;
  if (sources.size() < sources_from && least >= known_from) return std::nullopt;
  const bool narrowest = level.context;
  std::vector<Weighted> values;
  for (const auto& [source, some] : sources) {
    const double weight = narrowest ? 1 : 1 / static_cast<double>(some.size());
    for (const double value : some) values.push_back({value, weight});
  }
  ResidualRange out;
  bounds(Distribution(std::move(values)), out);
  out.samples = samples;
  out.sources = sources.size();
  out.of = describe(level, situation);
  out.own_gpu = level.profile;
  out.own_framework = level.framework;
  return out;
}

void widen(ResidualRange& all, const ResidualRange& by) {
  all.low = std::min(all.low, by.low);
  all.high = std::max(all.high, by.high);
}

// The widest interval of all measured frameworks with this kind of plan, for a plan without a
// framework. Uses runs on the plan's GPU only, if that GPU was measured.
std::optional<ResidualRange> widest(const input::RunResiduals& residuals,
                                    input::ResidualOf quantity, const Situation& situation,
                                    const std::string& without, bool fitted) {
  std::set<std::pair<std::string, std::string>> classes;
  for (const input::ResidualGroup& group : residuals.groups) {
    if (group.shards != situation.shards || group.mixture != situation.mixture) continue;
    if (!situation.profile.empty() && group.profile != situation.profile) continue;
    classes.emplace(group.profile, group.framework);
  }
  std::optional<ResidualRange> all;
  int counted = 0;
  for (const auto& [profile, framework] : classes) {
    Situation one = situation;
    one.profile = profile;
    one.framework = framework;
    std::optional<ResidualRange> found;
    for (const Level& level : levels)
      if (!found && level.profile && level.framework)
        found = of_level(residuals, {quantity}, level, one, without, fitted, known_from);
    if (!found) continue;
    ++counted;
    if (!all) all = ResidualRange{};
    widen(*all, *found);
    all->samples += found->samples;
    all->sources += found->sources;
    all->of = found->of;
  }
  if (!all) return all;
  all->own_gpu = !situation.profile.empty();
  all->own_framework = false;
  if (counted > 1) all->of = fmt::format("the widest of {} classes", counted);
  return all;
}

// Combines the classes of the profile, the framework and the kind of plan, if the GPU or the
// framework has no measured runs. The size of an error carries over between machines, its sign does
// not. So both sides get the width of the wider one.
std::optional<ResidualRange> elsewhere(const input::RunResiduals& residuals,
                                       input::ResidualOf quantity, const Situation& situation,
                                       const std::string& without, bool fitted) {
  std::optional<ResidualRange> all;
  const auto add = [&](const Level& level) {
    const auto found =
        of_level(residuals, {quantity}, level, situation, without, fitted, known_from);
    if (found && all) widen(*all, *found);
    if (!all) all = found;
  };
  if (!situation.profile.empty()) add(of_profile);
  const bool of_this_gpu = all.has_value();
  if (!situation.framework.empty()) add(of_framework);
  if (!of_this_gpu) add(of_kind);
  if (all) {
    all->high = std::max(-all->low, all->high);
    all->low = -all->high;
  }
  return all;
}

// Clears a GPU or framework that fewer than three sources measured.
Situation known(const input::RunResiduals& residuals, input::ResidualOf quantity,
                Situation situation, const std::string& without) {
  std::set<std::string> gpu, framework;
  for (const input::ResidualGroup& group : residuals.groups) {
    if (group.source == without || group.quantity != quantity) continue;
    if (group.profile == situation.profile) gpu.insert(group.source);
    if (group.framework == situation.framework) framework.insert(group.source);
  }
  if (gpu.size() < sources_from) situation.profile.clear();
  if (framework.size() < sources_from) situation.framework.clear();
  return situation;
}

}  // namespace

namespace {

// Groups of runs in fp8, of sources that may be used.
input::RunResiduals in_fp8(const input::RunResiduals& residuals, input::ResidualOf quantity,
                           const std::string& without) {
  input::RunResiduals some;
  for (const input::ResidualGroup& group : residuals.groups)
    if (group.fp8 && group.quantity == quantity && group.source != without)
      some.groups.push_back(group);
  return some;
}

// A GPU without a run in fp8: the interval also holds what runs in fp8 on other GPUs show.
void widen_for_fp8(const input::RunResiduals& residuals, input::ResidualOf quantity,
                   const Situation& situation, const std::string& without, ResidualRange& spread) {
  const input::RunResiduals some = in_fp8(residuals, quantity, without);
  for (const input::ResidualGroup& group : some.groups)
    if (group.profile == situation.profile) return;
  spread.fp8_unknown = true;
  if (const auto found =
          of_level(some, {quantity}, levels.back(), situation, without, true, known_from))
    widen(spread, *found);
}

std::optional<ResidualRange> of_class(const input::RunResiduals& residuals,
                                      input::ResidualOf quantity, const Situation& asked,
                                      const std::string& without) {
  const Situation situation = known(residuals, quantity, asked, without);
  for (const bool fitted : {false, true}) {
    if (asked.framework.empty())
      if (const auto found = widest(residuals, quantity, situation, without, fitted)) return found;
    if (situation.profile.empty() || situation.framework.empty())
      if (const auto found = elsewhere(residuals, quantity, situation, without, fitted))
        return found;
    for (const Level& level : levels) {
      const auto found =
          of_level(residuals, {quantity}, level, situation, without, fitted, known_from);
      if (found) return found;
    }
  }
  // Fewer than 8 residuals in total: use all. Both kinds of memory count as one.
  std::vector<input::ResidualOf> kin = {quantity};
  if (quantity == input::ResidualOf::allocated || quantity == input::ResidualOf::reserved)
    kin = {input::ResidualOf::allocated, input::ResidualOf::reserved};
  return of_level(residuals, kin, levels.back(), situation, without, true, 3);
}

}  // namespace

std::optional<ResidualRange> spread(const input::RunResiduals& residuals,
                                    input::ResidualOf quantity, const Situation& asked,
                                    const std::string& without) {
  std::optional<ResidualRange> found = of_class(residuals, quantity, asked, without);
  if (found && asked.fp8 && quantity == input::ResidualOf::time)
    widen_for_fp8(residuals, quantity, asked, without, *found);
  return found;
}

Interval around(double predicted, const ResidualRange& spread) {
  return {predicted * std::exp(spread.low), predicted * std::exp(spread.high)};
}

Interval around_inverse(double predicted, const ResidualRange& spread) {
  return {predicted * std::exp(-spread.high), predicted * std::exp(-spread.low)};
}

Interval around_points(double percent, const ResidualRange& spread) {
  return {std::max(0.0, percent + spread.low), std::min(100.0, percent + spread.high)};
}

Basis basis_of(const device::Profile& profile, const std::string& gpu,
               const std::string& framework) {
  const device::Provenance& from = profile.provenance;
  const std::string& name = from.base.empty() ? profile.name : from.base;
  const bool own = from.device.starts_with(gpu);
  return {own ? name : fmt::format("{} on {}", name, gpu), framework, from.run_residuals,
          from.reserved_residuals, from.allocated_residuals};
}

std::string borrowed_text(const device::Profile& profile, const std::string& gpu) {
  // "GB200" is a GB200-186GB; "A100-SXM4-80GB (products: ...)" is an A100-SXM4-80GB.
  const std::string& device = profile.provenance.device;
  const std::string measured = device.substr(0, device.find(' '));
  if (measured.empty() || measured.starts_with(gpu) || gpu.starts_with(measured)) return "";
  const std::string& base = profile.provenance.base;
  return fmt::format("kernels of {} on {}: borrowed, with the peaks of its data sheet",
                     base.empty() ? profile.name : base, gpu);
}

std::optional<ResidualRange> spread_of_own_runs(const Basis& basis) {
  if (basis.own_runs.size() < 3) return std::nullopt;
  // A fit has no bias on its own runs, so the interval is around 0: Student's t with a deviation
  // that starts as two runs of an unknown source (results/accuracy).
  constexpr double of_unknown = 0.08, runs_of_unknown = 2;
  double squares = runs_of_unknown * of_unknown * of_unknown;
  for (const double residual : basis.own_runs) squares += residual * residual;
  const double runs = static_cast<double>(basis.own_runs.size()), n = runs + runs_of_unknown;
  ResidualRange out;
  out.high = half_width(n, std::sqrt(squares / n), runs);
  out.low = -out.high;
  out.samples = basis.own_runs.size();
  out.sources = 1;
  out.of = "the runs that the profile was fitted to, each predicted from the others";
  return out;
}

std::optional<ResidualRange> spread_of_own_peaks(const std::vector<double>& residuals) {
  if (residuals.empty()) return std::nullopt;
  // Begins as two runs that were predicted exactly, with the scatter of reserved peaks of sources
  // that nobody fitted to.
  constexpr double of_unknown = 0.05, runs_of_unknown = 2;
  const double runs = static_cast<double>(residuals.size()), n = runs + runs_of_unknown;
  double sum = 0;
  for (const double r : residuals) sum += r;
  const double centre = sum / n;
  double squares = runs_of_unknown * (of_unknown * of_unknown + centre * centre);
  for (const double r : residuals) squares += (r - centre) * (r - centre);
  const double half = half_width(n, std::sqrt(squares / n), n);
  ResidualRange out;
  out.low = std::min(0.0, centre - half);
  out.high = std::max(0.0, centre + half);
  out.samples = residuals.size();
  out.sources = 1;
  out.of = "the runs that the profile was fitted to";
  return out;
}

namespace {

// No GPU computes faster than its peak, or holds more than its memory, and reserved memory holds
// what is allocated in it.
void clip(const Answer& answer, const std::string& convention, Intervals& out) {
  const double shortest = step_seconds(answer) * answer.hfu;
  if (out.step_seconds && out.step_seconds->low < shortest) {
    out.step_seconds->low = shortest;
    out.tflops_gpu->high = rate(answer, convention).tflops_gpu * step_seconds(answer) / shortest;
  }
  double capacity = 0;  // GiB
  for (const engine::ClassReport& who : answer.run.classes)
    capacity = std::max(capacity, gib(who.capacity));
  for (std::optional<Interval>* memory : {&out.allocated_gib, &out.reserved_gib})
    if (*memory) (*memory)->high = std::min((*memory)->high, capacity);
  if (!out.allocated_gib || !out.reserved_gib) return;
  out.reserved_gib->low = std::max(out.reserved_gib->low, out.allocated_gib->low);
  out.allocated_gib->high = std::min(out.allocated_gib->high, out.reserved_gib->high);
}

}  // namespace

Intervals intervals(const Answer& answer, const input::RunResiduals& residuals, const Basis& basis,
                    const std::string& convention) {
  Intervals out;
  if (!answer.run.fits()) return out;
  const Situation situation = {basis.profile,
                               basis.framework,
                               answer.plan.world() > answer.machine.gpus_per_node,
                               answer.plan.mesh.cp > 1,
                               answer.plan.shards_parameters(),
                               answer.plan.architecture.is_mixture(),
                               answer.plan.numerics.fp8};
  using input::ResidualOf;
  out.time = spread_of_own_runs(basis);
  if (!out.time) out.time = spread(residuals, ResidualOf::time, situation);
  if (engine::places_tensors(answer.run.memory)) {
    out.allocated = spread_of_own_peaks(basis.own_allocated);
    out.reserved = spread_of_own_peaks(basis.own_reserved);
    if (!out.allocated) out.allocated = spread(residuals, ResidualOf::allocated, situation);
    if (!out.reserved) out.reserved = spread(residuals, ResidualOf::reserved, situation);
  }
  if (out.time) {
    out.step_seconds = around(step_seconds(answer), *out.time);
    out.tflops_gpu = around_inverse(rate(answer, convention).tflops_gpu, *out.time);
  }
  if (out.allocated) out.allocated_gib = around(gib(peak_allocated(answer.run)), *out.allocated);
  if (out.reserved) out.reserved_gib = around(gib(peak_reserved(answer.run)), *out.reserved);
  clip(answer, convention, out);
  return out;
}

}  // namespace sim::answer
