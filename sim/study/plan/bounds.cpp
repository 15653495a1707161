#include "sim/study/plan/bounds.h"

#include <algorithm>
#include <cassert>

#include "sim/job/schedule/placement.h"
#include "sim/program/plan/layer_partition.h"

namespace sim::planner {

namespace {

using program::LayerPolicy;
using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

// Number of a part's layers that are recomputed completely.
int run_again(const LayerPolicy& policy, int recompute_layers, int layers) {
  if (policy.recompute != Recompute::full) return 0;
  return policy.recompute_method == RecomputeMethod::uniform ? layers
                                                             : std::min(recompute_layers, layers);
}

// With more than `most_ordered` microbatches a smaller number is simulated. It has the same
// remainder for stages and groups. The number in flight can only grow with more microbatches, so
// the result stays a lower bound.
constexpr int most_ordered = 4096;
int ordered(int microbatches, const schedule::Shape& shape) {
  const int period = 2 * shape.stages * std::max(1, shape.group);
  if (microbatches <= most_ordered + 2 * period) return microbatches;
  return microbatches % period + period * (most_ordered / period + 1);
}

PassTimes operator*(std::int64_t n, const PassTimes& one) {
  return {n * one.forward, n * one.backward, n * one.weight};
}
PassTimes& operator+=(PassTimes& a, const PassTimes& b) {
  a.forward += b.forward;
  a.backward += b.backward;
  a.weight += b.weight;
  return a;
}

}  // namespace

const std::vector<int>& FirstBounds::layers(const PlanShape& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const auto [at, added] = layers_.try_emplace(
      {core.base, core.pp, core.chunks, static_cast<int>(row.placement), core.split});
  if (added) {
    const Plan plan = space_.plan(core, 0);
    const int parts = program::count_parts(plan);
    for (int part = 0; part < parts; ++part) at->second.push_back(program::part_layers(plan, part));
  }
  return at->second;
}

// For each chunk of the first stage: microbatches between forward and backward, at the time when
// they hold the most layers.
const std::vector<int>& FirstBounds::under_way(const PlanShape& core) {
  const Plan& base = space_.bases()[core.base].file.plan;
  const int m = base.batch.global_batch / (core.dp * core.micro_batch);
  const auto [at, added] =
      under_way_.try_emplace({core.base, core.schedule, core.pp, core.chunks, m, core.split});
  if (!added) return at->second;
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  std::vector<int> now(core.chunks);
  at->second = now;
  at->second.front() = 1;
  // Orders that depend on pass times are not known here.
  if (row.by_times) return at->second;
  const std::vector<int>& layers = this->layers(core);
  schedule::Shape shape = program::pipeline_shape(space_.plan(core, 0), m);
  shape.microbatches = ordered(m, shape);
  std::int64_t held = 0, most = 0;
  for (const schedule::Step& step :
       row.search != nullptr ? row.search(shape).front() : row.order(shape, 0)) {
    if (step.pass != schedule::Pass::forward && step.pass != schedule::Pass::backward &&
        step.pass != schedule::Pass::input)
      continue;
    const int sign = step.pass == schedule::Pass::forward ? 1 : -1;
    now[static_cast<std::size_t>(step.chunk)] += sign;
    held +=
        sign *
        layers[static_cast<std::size_t>(schedule::part_of(row.placement, shape, {0, step.chunk}))];
    if (held <= most) continue;
    most = held;
    at->second = now;
  }
  return at->second;
}

// Number of ranks that hold the same experts.
double expert_replicas(const Plan& base, const PlanShape& core) {
  const int etp = base.mesh.etp > 0 ? base.mesh.etp : core.tp;
  return static_cast<double>(core.tp) * core.cp * core.dp / (etp * base.mesh.ep);
}

// Bytes of a rank's parameters and their state between steps.
std::int64_t FirstBounds::state_bytes(const PlanShape& core, std::int64_t parameters) const {
  const Plan& plan = space_.bases()[core.base].file.plan;
  const bool whole = plan.numerics.precision == model::Precision::fp32;
  const double weight = plan.numerics.fp8_parameters ? 1 : whole ? 4 : 2;
  const auto count = static_cast<double>(parameters);
  if (plan.trains_adapters()) {
    const double shards = plan.shards_parameters() ? core.dp * core.cp : 1;
    return static_cast<std::int64_t>(weight * count / shards);
  }
  const program::OptimizerOptions& o = plan.optimizer;
  const double main = whole ? 0 : o.main_parameter_bytes;
  const double state = (main + o.exp_avg_bytes + o.exp_avg_sq_bytes) * (1 - o.offload_fraction);
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const double copies = row.placement == schedule::Placement::two_way ? 2 : 1;
  // Number of ranks that share a parameter's state; for mixtures the larger of both groups.
  const double experts = plan.architecture.is_mixture() ? expert_replicas(plan, core) : 0;
  const double ranks =
      copies * std::max(static_cast<double>(core.dp) * core.cp / plan.replicas(), experts);
  if (plan.shards_parameters())
    return static_cast<std::int64_t>(count * (weight + (o.offload_fraction > 0 ? 0 : 8)) / ranks);
  const double gradient = plan.numerics.fp32_gradients ? 4 : 2;
  return static_cast<std::int64_t>(
      count * (weight + gradient + state / (plan.sharding.distributed_optimizer ? ranks : 1)));
}

std::int64_t FirstBounds::bytes(const PlanShape& core, const LayerCosts& layer_costs,
                                const std::vector<int>& layers) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const auto parts = static_cast<int>(layers.size());
  const schedule::Shape shape{.stages = core.pp, .chunks = core.chunks};
  const LayerPolicy& policy = space_.policies()[core.policy].policy;
  const std::vector<int>& under_way = this->under_way(core);
  // embedding and head are complete, on the outer stages
  const bool ends = row.output == schedule::Output::last_part;
  std::int64_t parameters = ends ? layer_costs.first_parameters : 0, held = 0;
  for (int chunk = 0; chunk < core.chunks; ++chunk) {
    const int part = schedule::part_of(row.placement, shape, {0, chunk});
    const int own = layers[static_cast<std::size_t>(part)];
    parameters += own * layer_costs.layer_parameters;
    if (part + 1 == parts && ends) parameters += layer_costs.last_parameters;
    const int again = run_again(policy, core.recompute_layers, own);
    // With offloaded modules the activations left on the GPU are unknown and count 0.
    const Plan& said = space_.bases()[core.base].file.plan;
    const std::int64_t kept = said.policy.offload_modules != 0 ? 0 : layer_costs.kept_bytes;
    std::int64_t task = std::max(0, own - again - core.offload_layers) * kept;
    // A group of several recomputed layers keeps a single input.
    if (policy.recompute_method == RecomputeMethod::block || core.recompute_layers == 1)
      task += std::max(0, again - core.offload_layers) * layer_costs.again_bytes;
    held += under_way[static_cast<std::size_t>(chunk)] * task;
    // With ZeRO-2 parameters stay gathered from the forward to the backward pass.
    const Plan& base = space_.bases()[core.base].file.plan;
    const bool whole = base.shards_parameters() && !base.sharding.fsdp.reshard_after_forward;
    if (whole && under_way[static_cast<std::size_t>(chunk)] > 0 && !base.numerics.fp8_parameters)
      held += 2 * own * layer_costs.layer_parameters;
  }
  return state_bytes(core, parameters) + held;
}

std::vector<PassTimes> FirstBounds::passes_of_parts(const PlanShape& core) {
  return passes_of_parts(core, layer_costs_.at(layer_costs_key(space_, core)));
}

std::vector<PassTimes> FirstBounds::whole_passes_of_parts(const PlanShape& core) {
  return passes_of_parts(core, layer_costs_.at(layer_costs_keys(space_, core).back()));
}

std::vector<PassTimes> FirstBounds::passes_of_parts(const PlanShape& core,
                                                    const LayerCosts& layer_costs) {
  const LayerPolicy& policy = space_.policies()[core.policy].policy;
  std::vector<PassTimes> passes;
  for (const int count : layers(core)) {
    const int again = run_again(policy, core.recompute_layers, count);
    passes.push_back((count - again) * layer_costs.kept);
    passes.back() += again * layer_costs.again;
  }
  // If all stages share embedding and head, their times are left out.
  if (schedule::catalog()[core.schedule].output != schedule::Output::last_part) return passes;
  passes.front() += layer_costs.first;
  passes.back() += layer_costs.last;
  return passes;
}

// Lower bounds on the passes of each part, if only some backward passes are split. A product with
// weight gradients hides messages that a pass without them waits for, so neither form is always
// shorter.
std::vector<PassTimes> FirstBounds::least_passes_of_parts(const PlanShape& core) {
  std::vector<PassTimes> passes = passes_of_parts(core);
  if (schedule::catalog()[core.schedule].splits != schedule::Splits::some) return passes;
  const std::vector<PassTimes> whole = whole_passes_of_parts(core);
  for (std::size_t part = 0; part < passes.size(); ++part) {
    PassTimes& one = passes[part];
    const std::int64_t both =
        std::min(one.backward + one.weight, whole[part].backward + whole[part].weight);
    one.backward = std::min(one.backward, whole[part].backward);
    one.weight = both - one.backward;
  }
  return passes;
}

Bound FirstBounds::of(const PlanShape& core) {
  const std::vector<PassTimes> passes = least_passes_of_parts(core);
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const Plan& base = space_.bases()[core.base].file.plan;
  const bool two_way = row.placement == schedule::Placement::two_way;
  // Microbatches per chunk; bidirectional schedules send half of them in each direction.
  const std::int64_t m = base.batch.global_batch / (core.dp * core.micro_batch) / (two_way ? 2 : 1);
  const schedule::Shape shape{.stages = core.pp, .chunks = core.chunks};
  Bound bound;
  PassTimes in_front;  // passes of the parts before the stage's lowest part
  for (int stage = 0; stage < core.pp; ++stage) {
    PassTimes own;
    for (int chunk = 0; chunk < core.chunks; ++chunk)
      own +=
          passes[static_cast<std::size_t>(schedule::part_of(row.placement, shape, {stage, chunk}))];
    // Steps whose stages do not end together overlap, so only the stage's own work counts.
    if (base.optimizer.post_validation || two_way) in_front = {};
    const std::int64_t to_the_end =
        in_front.forward + m * (own.forward + own.backward) + in_front.backward;
    const std::int64_t with_weights =
        in_front.forward + m * (own.forward + own.backward + own.weight);
    bound.step_ps = std::max({bound.step_ps, to_the_end, with_weights});
    // In all other placements part s is the lowest part of stage s.
    in_front += passes[static_cast<std::size_t>(stage)];
  }
  bound.bytes = bytes(core, layer_costs_.at(layer_costs_key(space_, core)), layers(core));
  return bound;
}

}  // namespace sim::planner
