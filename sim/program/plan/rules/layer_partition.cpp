#include "sim/program/plan/layer_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/job/schedule/placement.h"
#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

namespace {

void sized_problems(const Plan& plan, Diagnostics& problems) {
  const std::int64_t layers = plan.architecture.layers;
  const int own = (plan.pipeline.first_stage_layers != 0) + (plan.pipeline.last_stage_layers != 0);
  const std::int64_t taken =
      std::int64_t{plan.pipeline.first_stage_layers} + plan.pipeline.last_stage_layers;
  const std::int64_t others = plan.mesh.pp - own;
  const bool fits =
      plan.pipeline.first_stage_layers >= 0 && plan.pipeline.last_stage_layers >= 0 &&
      others >= 0 && plan.mesh.pp > 1 &&
      (others == 0 ? taken == layers : taken < layers && (layers - taken) % others == 0);
  if (!fits) {
    problems.push_back({"first_stage_layers",
                        fmt::format("first_stage_layers {} and last_stage_layers {} leave {} "
                                    "layers for {} other stages; they must share them evenly, or "
                                    "write layer_split: padded, weighted or balanced instead",
                                    plan.pipeline.first_stage_layers,
                                    plan.pipeline.last_stage_layers, layers - taken, others)});
    return;
  }
  for (const std::int64_t n :
       {std::int64_t{plan.pipeline.first_stage_layers},
        std::int64_t{plan.pipeline.last_stage_layers}, others == 0 ? 0 : (layers - taken) / others})
    if (n % (count_parts(plan) / plan.mesh.pp) != 0)
      problems.push_back({"virtual_stages",
                          fmt::format("virtual_stages {} does not divide the {} layers of a stage",
                                      plan.pipeline.virtual_stages, n)});
}

void counted_problems(const Plan& plan, Diagnostics& problems) {
  const std::int64_t layers = plan.architecture.layers;
  const std::int64_t parts = count_parts(plan);
  const std::int64_t all =
      layers + plan.pipeline.account_for_embedding + plan.pipeline.account_for_loss;
  // A chunk may hold only the embedding or only the head; a stage may not.
  const int least = plan.pipeline.virtual_stages > 1 ? 1 : 2;
  if (all % parts != 0 || all / parts < least)
    problems.push_back(
        {"pp",
         fmt::format(
             "{} layers, the embedding and the head counted as asked for are {}; that is not a "
             "multiple (at least {}) of pp x virtual_stages = {}; layer_split: weighted needs none",
             layers, all, least, parts)});
}

void even_problems(const Plan& plan, Diagnostics& problems) {
  const std::int64_t layers = plan.architecture.layers;
  const std::int64_t per_stage = count_parts(plan) / plan.mesh.pp;
  if (layers % plan.mesh.pp != 0) {
    problems.push_back({"pp", fmt::format("pp {} does not divide the {} layers; pp may be {}",
                                          plan.mesh.pp, layers, divisors(layers))});
  } else if (layers / plan.mesh.pp % per_stage != 0) {
    problems.push_back(
        {"virtual_stages",
         fmt::format("virtual_stages {} does not divide the {} layers of a stage; it may be {}",
                     plan.pipeline.virtual_stages, layers / plan.mesh.pp,
                     divisors(layers / plan.mesh.pp))});
  }
}

// Checks a split given part by part: the layers add up, no part is negative, no stage is empty.
void dealt_problems(const Plan& plan, Diagnostics& problems) {
  const int parts = count_parts(plan);
  if (!plan.pipeline.layers_of_parts.empty() &&
      plan.pipeline.layers_of_parts.size() != static_cast<std::size_t>(parts)) {
    problems.push_back(
        {"pipeline_layout", fmt::format("layers are listed for {} parts; pp x virtual_stages is {}",
                                        plan.pipeline.layers_of_parts.size(), parts)});
    return;
  }
  std::int64_t sum = 0;
  std::vector<std::int64_t> of_stage(static_cast<std::size_t>(plan.mesh.pp), 0);
  const schedule::Schedule& schedule = *schedule::find(plan.pipeline.schedule);
  const schedule::PipelineShape shape = pipeline_shape(plan, 1);
  for (int part = 0; part < parts; ++part) {
    const int layers = part_layers(plan, part);
    if (layers < 0)
      return problems.push_back(
          {"layer_split",
           fmt::format("part {} of the model would have {} layers; fewer stages, or embedding and "
                       "head counted as fewer layers, would do",
                       part, layers)});
    // Its weight pass would have nothing to do, and the split passes have no tensor to hand over.
    if (layers == 0 && part > 0 && part < parts - 1 && splits_backward(plan))
      return problems.push_back(
          {"layer_split",
           fmt::format("part {} of the model would have no layer, which schedule {} cannot split; "
                       "write fewer stages or chunks",
                       part, plan.pipeline.schedule)});
    sum += layers;
    of_stage[static_cast<std::size_t>(
        schedule::place_of(schedule.placement, shape, part, 0).stage)] += layers;
  }
  if (sum != plan.architecture.layers)
    problems.push_back(
        {"pipeline_layout", fmt::format("the parts have {} layers together; the model has {}", sum,
                                        plan.architecture.layers)});
  // A stage may hold only the embedding or only the head.
  for (const int end : {0, parts - 1})
    ++of_stage[static_cast<std::size_t>(
        schedule::place_of(schedule.placement, shape, end, 0).stage)];
  if (const auto empty = std::ranges::find(of_stage, 0); empty != of_stage.end())
    problems.push_back({"pp", fmt::format("stage {} would have no layer; write a smaller pp",
                                          empty - of_stage.begin())});
}

}  // namespace

void layer_partition(const Plan& plan, Diagnostics& problems) {
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  const bool fixed = schedule && schedule->placement != schedule::Placement::round_robin;
  // reported by other rules
  if (!schedule || (fixed && plan.pipeline.virtual_stages != 2)) return;
  const int said =
      has_sized_ends(plan) + counts_ends(plan) +
      (plan.pipeline.layer_split != LayerSplit::even || !plan.pipeline.layers_of_parts.empty()) +
      (plan.pipeline.layer_split != LayerSplit::even &&
       plan.pipeline.layer_split != LayerSplit::balanced && !plan.pipeline.layers_of_parts.empty());
  if (said > 1)
    problems.push_back(
        {"layer_split",
         "first_stage_layers or last_stage_layers, account_for_embedding or account_for_loss, "
         "layer_split and pipeline_layout all say how layers are split; write one of them"});
  else if (counts_ends(plan))
    counted_problems(plan, problems);
  else if (has_sized_ends(plan))
    sized_problems(plan, problems);
  else if (said > 0)
    dealt_problems(plan, problems);
  else
    even_problems(plan, problems);
}

}  // namespace sim::program::rules
