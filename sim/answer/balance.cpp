#include "sim/answer/balance.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/answer/block_times.h"
#include "sim/answer/pass_times.h"
#include "sim/answer/priced.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/engine/run/fast_engine.h"
#include "sim/job/schedule/placement.h"
#include "sim/program/plan/layer_partition.h"

namespace sim::answer {
namespace {

using program::LayerSplit;
using program::PassKind;
using program::Plan;

constexpr double never = std::numeric_limits<double>::infinity();

// Times of contiguous layers.
class Spans {
 public:
  explicit Spans(const PartCosts& costs) : costs_(costs), before_(costs.layers.size() + 1, 0.0) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), before_.begin() + 1);
  }
  double time(std::size_t part, std::size_t from, std::size_t to) const {
    const double pace = costs_.pace.empty() ? 1 : costs_.pace[part];
    return costs_.ends[part] + pace * (before_[to] - before_[from]);
  }
  std::size_t parts() const { return costs_.ends.size(); }
  std::size_t layers() const { return costs_.layers.size(); }
  bool allowed(std::size_t part, std::size_t n) const {
    return n >= static_cast<std::size_t>(std::max(costs_.least[part], 0)) &&
           static_cast<int>(n) <= costs_.most[part];
  }

 private:
  const PartCosts& costs_;
  std::vector<double> before_;
};

// Dynamic program over parts and layers: the split with the least cost, empty if there is none.
// `join(cost so far, time of a part)` gives the cost. Parts that take longer than `limit` are
// excluded.
template <class Join>
std::vector<int> best_split(const Spans& spans, double limit, Join join) {
  const std::size_t p = spans.parts(), n = spans.layers();
  std::vector<std::vector<double>> cost(p + 1, std::vector<double>(n + 1, never));
  std::vector<std::vector<std::size_t>> from(p + 1, std::vector<std::size_t>(n + 1, 0));
  cost[0][0] = 0;
  for (std::size_t part = 0; part < p; ++part)
    for (std::size_t to = 0; to <= n; ++to)
      for (std::size_t begin = 0; begin <= to; ++begin) {
        if (cost[part][begin] == never || !spans.allowed(part, to - begin)) continue;
        const double time = spans.time(part, begin, to);
        if (time > limit) continue;
        const double joined = join(cost[part][begin], time);
        if (joined >= cost[part + 1][to]) continue;
        cost[part + 1][to] = joined;
        from[part + 1][to] = begin;
      }
  if (cost[p][n] == never) return {};
  std::vector<int> layers(p);
  for (std::size_t part = p, to = n; part > 0; --part) {
    layers[part - 1] = static_cast<int>(to - from[part][to]);
    to = from[part][to];
  }
  return layers;
}

double slowest(const Spans& spans, const std::vector<int>& split) {
  double most = 0;
  std::size_t at = 0;
  for (std::size_t part = 0; part < split.size(); ++part) {
    const std::size_t to = at + static_cast<std::size_t>(split[part]);
    most = std::max(most, spans.time(part, at, to));
    at = to;
  }
  return most;
}

bool computes(PassKind kind) {
  return kind == PassKind::forward || kind == PassKind::backward || kind == PassKind::weight;
}

struct StageTimes {
  std::vector<double> layers, ends;  // of layers; of parts without layers
};

// Times on the slowest rank class of each stage, layer by layer.
StageTimes times_of(const program::ValidPlan& valid, const Site& site) {
  const Plan& plan = valid;
  const program::Job job = job_of(valid, site);
  const engine::Times times = price_of(job, site);
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  const schedule::PipelineShape shape = program::pipeline_shape(plan, 1);
  StageTimes slowest;
  slowest.layers.assign(static_cast<std::size_t>(plan.architecture.layers), 0);
  slowest.ends.assign(static_cast<std::size_t>(program::count_parts(plan)), 0);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const program::Program& program = job.classes[c];
    StageTimes own = slowest;
    std::ranges::fill(own.layers, 0);
    std::ranges::fill(own.ends, 0);
    for (const auto& [of, pattern] : usual_templates(program)) {
      if (!computes(of.first)) continue;
      const int part = schedule::part_of(row.placement, shape, {program.stage, of.second});
      for (const program::Call& call : program.templates[pattern].calls) {
        const double time = seconds(block_time(program.blocks[call.block], times.classes[c]));
        (call.layer >= 0 ? own.layers[static_cast<std::size_t>(call.layer)]
                         : own.ends[static_cast<std::size_t>(part)]) += time;
      }
    }
    for (std::size_t i = 0; i < own.layers.size(); ++i)
      slowest.layers[i] = std::max(slowest.layers[i], own.layers[i]);
    for (std::size_t i = 0; i < own.ends.size(); ++i)
      slowest.ends[i] = std::max(slowest.ends[i], own.ends[i]);
  }
  return slowest;
}

// The same cluster with one kind of GPU, none of them slow.
input::Machine alike(input::Machine machine) {
  machine.others.clear();
  machine.cluster.gpu_kinds.clear();
  machine.cluster.conditions.clear();
  return machine;
}

// The pace of each part: time of its layers, divided by their time on the usual GPU.
std::vector<double> paces(const Plan& plan, const StageTimes& own, const StageTimes& usual) {
  std::vector<double> pace;
  std::size_t layer = 0;
  for (std::size_t part = 0; part < own.ends.size(); ++part) {
    double takes = 0, would = 0;
    for (int n = program::part_layers(plan, static_cast<int>(part)); n > 0; --n, ++layer) {
      takes += own.layers[layer];
      would += usual.layers[layer];
    }
    pace.push_back(would > 0 ? takes / would : 1);
  }
  return pace;
}

PartCosts costs_of(const CheckedPlan& plan) {
  const Site& site = plan.site();
  const StageTimes own = times_of(plan.plan(), site);
  PartCosts costs;
  costs.layers = own.layers;
  costs.ends = own.ends;
  const std::size_t parts = own.ends.size();
  costs.least.assign(parts, 1);
  costs.most.assign(parts, static_cast<int>(plan->architecture.layers));
  // The parts of the embedding and of the head may have no layers.
  if (parts > 1) costs.least.front() = costs.least.back() = 0;
  const topology::Cluster& cluster = site.machine.cluster;
  if (cluster.gpu_kinds.empty() && cluster.conditions.empty()) return costs;
  Sites sites;
  const Result<Site*> plain = sites.of(alike(site.machine));
  if (!plain) return costs;
  const StageTimes usual = times_of(plan.plan(), **plain);
  costs.layers = usual.layers;
  costs.pace = paces(plan.plan(), own, usual);
  return costs;
}

Plan with_layers(const Plan& plan, std::vector<int> layers) {
  Plan resolved = plan;
  resolved.pipeline.layers_of_parts = std::move(layers);
  return resolved;
}

// The largest part of a stage that ran out of memory, to take a layer from it; -1: none.
int largest_part(const Plan& plan, int stage) {
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  const schedule::PipelineShape shape = program::pipeline_shape(plan, 1);
  int found = -1;
  for (int chunk = 0; chunk < plan.pipeline.virtual_stages; ++chunk) {
    const int part = schedule::part_of(row.placement, shape, {stage, chunk});
    const int layers = program::part_layers(plan, part);
    if (layers > 1 && (found < 0 || layers > program::part_layers(plan, found))) found = part;
  }
  return found;
}

int stage_without_memory(const Answer& answer) {
  return answer.run.classes[answer.run.out_of_memory.front()].stage;
}

// The stage of each part.
std::vector<int> stages_of_parts(const Plan& plan) {
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  const schedule::PipelineShape shape = program::pipeline_shape(plan, 1);
  std::vector<int> stages;
  for (int part = 0; part < program::count_parts(plan); ++part)
    stages.push_back(schedule::place_of(row.placement, shape, part, 0).stage);
  return stages;
}

// A lower bound on the step time of a plan.
Duration least_step(const CheckedPlan& plan) {
  const TimedJob job = timed_job(plan);
  return engine::least_step(*job, price_of(*job, plan.site()),
                            memory_of(*job, plan.plan(), plan.site()));
}

// Replays splits of one plan, each once, and keeps the fastest that fits.
class SplitTrials {
 public:
  // `limit`: splits whose lower bound is not below it are left out.
  SplitTrials(const CheckedPlan& plan, std::optional<Duration> limit)
      : plan_(plan), limit_(limit) {}

  void offer(const std::vector<int>& layers) {
    if (const Result<CheckedPlan> split = with(layers)) replay(*split);
  }

  // Splits the model with `by(costs)` until the replay fits.
  template <class Split>
  void offer_fitting(PartCosts costs, Split by) {
    for (;;) {
      const std::vector<int> layers = by(costs);
      if (layers.empty()) return;
      const Result<CheckedPlan> split = with(layers);
      if (!split) return;
      const std::optional<int> full = replay(*split);
      if (!full) return;
      const int part = largest_part(split->plan(), *full);
      if (part < 0) return;
      costs.most[static_cast<std::size_t>(part)] = layers[static_cast<std::size_t>(part)] - 1;
    }
  }

  const std::optional<CheckedPlan>& fastest() const { return fastest_; }

 private:
  Result<CheckedPlan> with(const std::vector<int>& layers) const {
    return check(with_layers(plan_.plan(), layers), plan_.site());
  }

  // The stage that runs out of memory; nothing if the split fits or is left out.
  std::optional<int> replay(const CheckedPlan& split) {
    const auto [known, added] = full_.try_emplace(split->pipeline.layers_of_parts);
    if (!added) return known->second;
    if (limit_ && least_step(split) >= *limit_) return {};
    const Answer answer = evaluate_once(split);
    if (!answer.run.fits()) return known->second = stage_without_memory(answer);
    if (fastest_ && answer.run.step_time >= least_) return {};
    least_ = answer.run.step_time;
    fastest_ = split;
    return {};
  }

  const CheckedPlan& plan_;
  std::optional<Duration> limit_;
  std::map<std::vector<int>, std::optional<int>> full_;  // by layers: the stage out of memory
  std::optional<CheckedPlan> fastest_;
  Duration least_{};
};

// The layers of the parts under the padded, the even and the weighted rule.
std::vector<std::vector<int>> splits_by_rule(const CheckedPlan& asked) {
  std::vector<std::vector<int>> splits{program::layers_of_parts(asked.plan())};
  for (const LayerSplit rule : {LayerSplit::even, LayerSplit::weighted}) {
    Plan other = asked.plan();
    other.pipeline.layer_split = rule;
    if (check(other, asked.site())) splits.push_back(program::layers_of_parts(other));
  }
  return splits;
}

void offer_all(const CheckedPlan& asked, SplitTrials& splits) {
  for (const std::vector<int>& layers : splits_by_rule(asked)) splits.offer(layers);
  const PartCosts costs = costs_of(asked);
  splits.offer_fitting(costs, balance);
  if (asked->pipeline.virtual_stages == 1) return;
  const std::vector<int> stages = stages_of_parts(asked.plan());
  splits.offer_fitting(costs, [&](const PartCosts& of) { return balance_stages(of, stages); });
}

bool is_open(const Plan& plan) {
  return plan.pipeline.layer_split == LayerSplit::balanced && plan.pipeline.layers_of_parts.empty();
}

}  // namespace

std::vector<int> balance(const PartCosts& costs) {
  const Spans spans(costs);
  const std::vector<int> fastest =
      best_split(spans, never, [](double a, double b) { return std::max(a, b); });
  if (fastest.empty()) return {};
  return best_split(spans, slowest(spans, fastest),
                    [](double sum, double time) { return sum + time * time; });
}

std::vector<int> balance_stages(const PartCosts& costs, const std::vector<int>& stages) {
  const std::size_t parts = costs.ends.size();
  const double layer = std::accumulate(costs.layers.begin(), costs.layers.end(), 0.0) /
                       static_cast<double>(std::max<std::size_t>(costs.layers.size(), 1));
  const auto takes = [&](std::size_t part) {
    return layer * (costs.pace.empty() ? 1 : costs.pace[part]);
  };
  std::vector<int> split(parts, 0);
  std::vector<double> load(parts, 0);  // by stage; stages <= parts
  auto left = static_cast<std::int64_t>(costs.layers.size());
  for (std::size_t part = 0; part < parts; ++part) {
    split[part] = std::max(costs.least[part], 0);
    left -= split[part];
    if (split[part] > costs.most[part]) return {};
    load[static_cast<std::size_t>(stages[part])] += costs.ends[part] + split[part] * takes(part);
  }
  for (; left > 0; --left) {
    std::size_t best = parts;
    const auto rank = [&](std::size_t part) {
      const double load_then = load[static_cast<std::size_t>(stages[part])] + takes(part);
      return std::pair(load_then, split[part]);
    };
    for (std::size_t part = 0; part < parts; ++part)
      if (split[part] < costs.most[part] && (best == parts || rank(part) < rank(best))) best = part;
    if (best == parts) return {};
    ++split[best];
    load[static_cast<std::size_t>(stages[best])] += takes(best);
  }
  return left < 0 ? std::vector<int>{} : split;
}

CheckedPlan balanced(const CheckedPlan& asked) {
  if (!is_open(asked.plan())) return asked;
  SplitTrials splits(asked, {});
  offer_all(asked, splits);
  if (splits.fastest()) return *splits.fastest();
  return checked(with_layers(asked.plan(), program::layers_of_parts(asked.plan())), asked.site());
}

std::optional<CheckedPlan> balanced_below(const CheckedPlan& plan, Duration limit) {
  assert(is_open(plan.plan()));
  SplitTrials splits(plan, limit);
  offer_all(plan, splits);
  return splits.fastest();
}

}  // namespace sim::answer
