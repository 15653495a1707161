#include "sim/program/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/job/schedule/placement.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

schedule::PipelineShape pipeline_shape(const Plan& plan, int microbatches) {
  return {.stages = plan.mesh.pp,
          .microbatches = microbatches,
          .chunks = plan.pipeline.virtual_stages,
          .slices = slice_count(plan),
          .group = std::min(plan.pipeline.microbatch_group, microbatches),
          .interleaving = plan.pipeline.interleaving,
          .times = plan.pipeline.pass_times};
}

int Plan::microbatches() const {
  if (!batch.replica_microbatches.empty()) return std::ranges::max(batch.replica_microbatches);
  const std::int64_t together = std::int64_t{mesh.dp} * batch.micro_batch;
  const int most = static_cast<int>(batch.global_batch / together);
  return batch.balances_microbatches && batch.global_batch % together != 0 ? most + 1 : most;
}

int Plan::chunk_layers(int stage, int chunk) const {
  const sim::schedule::Schedule& row = *sim::schedule::find(pipeline.schedule);
  return part_layers(*this, part_of(row.placement, pipeline_shape(*this, 1), {stage, chunk}));
}

bool Plan::cuts_vocabulary() const {
  return sim::schedule::find(pipeline.schedule)->output != sim::schedule::Output::last_part;
}

int Plan::tasks_per_microbatch() const {
  const sim::schedule::Schedule& row = *sim::schedule::find(pipeline.schedule);
  if (row.placement == sim::schedule::Placement::two_way) return 1;
  return pipeline.virtual_stages * slice_count(*this);
}

int Plan::warm_up_microbatches() const {
  // PyTorch's stages hold the tensors that they keep of each microbatch when the first step ends.
  const bool keep = pipeline.kept_outputs != KeptOutputs::no_stage || pipeline.kept_input_gradients;
  if (keep && shards_parameters() && mesh.pp > 1) return microbatches();
  const sim::schedule::Schedule& row = *sim::schedule::find(pipeline.schedule);
  const int fills = pipeline.virtual_stages > 1 ? 2 * mesh.pp : row.fills * mesh.pp;
  const int m = std::min(microbatches(), std::max(fills, 2));
  return row.problem(pipeline_shape(*this, m)).empty() ? m : microbatches();
}

std::string short_name(const Plan& plan) {
  std::string text = fmt::format("tp{} cp{} pp{}", plan.mesh.tp, plan.mesh.cp, plan.mesh.pp);
  if (plan.pipeline.virtual_stages > 1) text += fmt::format(" vp{}", plan.pipeline.virtual_stages);
  return text + fmt::format(" dp{} mbs{} gbs{} seq{}", plan.mesh.dp, plan.batch.micro_batch,
                            plan.batch.global_batch, plan.batch.sequence);
}

}  // namespace sim::program
