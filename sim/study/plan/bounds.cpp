#include "sim/study/plan/bounds.h"

#include <algorithm>
#include <tuple>

#include "sim/job/schedule/placement.h"
#include "sim/program/plan/layer_partition.h"

namespace sim::planner {

namespace {

using program::LayerPolicy;
using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

// The fields of a plan that decide the layers of its parts and the shape of its pipeline.
auto pipeline_fields(const Plan& plan) {
  const program::PipelinePlan& p = plan.pipeline;
  const schedule::Times& t = p.pass_times;
  return std::tuple(plan.architecture.layers, p.microbatch_group, p.interleaving,
                    p.first_stage_layers, p.last_stage_layers, p.account_for_embedding,
                    p.account_for_loss, p.layer_split, p.embedding_layers, p.head_layers,
                    p.layers_of_parts, p.slice_lengths,
                    std::tuple(t.forward, t.backward, t.weight, t.transfer, t.output, t.kept));
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

int run_again(const LayerPolicy& policy, int recompute_layers, int layers) {
  if (policy.recompute != Recompute::full) return 0;
  return policy.recompute_method == RecomputeMethod::uniform ? layers
                                                             : std::min(recompute_layers, layers);
}

FirstBounds::FirstBounds(const Space& space, answer::Sites& sites,
                         const std::map<LayerCostsKey, LayerCosts>& layer_costs)
    : space_(space), sites_(sites), layer_costs_(layer_costs) {
  const std::vector<Base>& bases = space.bases();
  for (std::size_t b = 0; b < bases.size(); ++b) {
    const auto fields = pipeline_fields(bases[b].file.plan);
    std::size_t first = 0;
    while (pipeline_fields(bases[first].file.plan) != fields) ++first;
    pipeline_class_.push_back(static_cast<int>(first));
  }
}

const std::vector<int>& FirstBounds::layers(const PlanShape& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const auto [at, added] = layers_.try_emplace({pipeline_class_[core.base], core.pp, core.chunks,
                                                static_cast<int>(row.placement), core.split});
  if (added) {
    const Plan plan = space_.plan(core, 0);
    const int parts = program::count_parts(plan);
    for (int part = 0; part < parts; ++part) at->second.push_back(program::part_layers(plan, part));
  }
  return at->second;
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

Bound FirstBounds::of(const PlanShape& core, std::int64_t room) {
  Bound bound;
  bound.bytes = bytes(core, layer_costs_.at(layer_costs_key(space_, core)));
  // Most plans of a space need too much memory, and their times take longer to add up.
  if (bound.bytes > room) return bound;
  bound.step_ps = traffic_of_shards(core);
  const std::vector<PassTimes> passes = least_passes_of_parts(core);
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const Plan& base = space_.bases()[core.base].file.plan;
  const bool two_way = row.placement == schedule::Placement::two_way;
  // Microbatches per chunk; bidirectional schedules send half of them in each direction.
  const std::int64_t m = base.batch.global_batch / (core.dp * core.micro_batch) / (two_way ? 2 : 1);
  const schedule::PipelineShape shape{.stages = core.pp, .chunks = core.chunks};
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
  return bound;
}

}  // namespace sim::planner
