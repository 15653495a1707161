// traffic_bound.cpp — lower bound on the time that sharded parameters take on the network.
//
// FirstBounds computes it for every plan that shards its parameters (FSDP2). Gathers and reductions
// of all layers use one communicator, so they run one after the other, and a step is never shorter.
// A layer has in each step
//
//    not staged   a gather for each microbatch, two if it is resharded after the forward pass, and
//                 a reduction for each microbatch
//    staged       a gather, since the optimizer has changed the parameters, and one reduction. If
//                 it is resharded after the forward pass: a gather for each forward pass before the
//                 first backward pass, and one for that backward pass
//
// (program/parallel/fsdp/fsdp.h). The duration is the network's, without the arrival of the ranks.
#include <algorithm>

#include "sim/job/schedule/placement.h"
#include "sim/program/build/build.h"
#include "sim/study/plan/bounds.h"

namespace sim::planner {

namespace {

using program::Plan;

// Whether each layer is gathered whole and reduced whole by one communicator.
bool has_plain_shards(const Plan& base, const schedule::Schedule& row) {
  const program::FsdpOptions& fsdp = base.sharding.fsdp;
  return base.sharding.data_parallel == program::DataParallelism::fsdp2 && fsdp.replicas == 1 &&
         fsdp.secondary <= 1 && !fsdp.quantized_weights && !fsdp.quantized_gradients &&
         !fsdp.no_sync && !base.codec.found.data && !base.codec.found.parameters &&
         !base.sharding.deepspeed_optimizer && !base.architecture.is_mixture() &&
         !base.trains_adapters() && row.placement != schedule::Placement::two_way;
}

}  // namespace

// The faster order of ranks counts.
FirstBounds::Traffic FirstBounds::traffic_of_layer(const PlanShape& core) {
  const Plan& base = space_.bases()[core.base].file.plan;
  const std::int64_t parameters = layer_costs_.at(layer_costs_key(space_, core)).layer_parameters;
  const std::int64_t gathered = parameters * (base.numerics.fp8_parameters ? 1 : 2);
  const std::int64_t reduced = parameters * (base.numerics.fp32_gradients ? 4 : 2);
  answer::Site& site = **sites_.of(space_.bases()[core.base].file.machine);
  const auto [at, added] =
      traffic_.try_emplace({&site, core.tp, core.cp, core.pp, gathered, reduced});
  if (!added || parameters == 0 || !site.machine.cluster.conditions.empty()) return at->second;
  Traffic& traffic = at->second;
  for (int order = 0; order < space_.orders(core); ++order) {
    const mesh::Mesh mesh = program::mesh_of(space_.plan(core, order * space_.allocators()));
    const network::Groups& groups = mesh.groups(mesh::Communicator::shard);
    if (groups.ranks.empty() || groups.ranks.front().size() == 1) return traffic = {};
    const auto lasts = [&](collective::Kind kind, std::int64_t bytes) {
      return site.network->duration(kind, groups, Bytes{bytes}).ps;
    };
    const Traffic own{lasts(collective::Kind::all_gather, gathered),
                      lasts(collective::Kind::reduce_scatter, reduced)};
    traffic = order == 0 ? own
                         : Traffic{std::min(traffic.gather, own.gather),
                                   std::min(traffic.reduce, own.reduce)};
  }
  return traffic;
}

std::int64_t FirstBounds::traffic_of_shards(const PlanShape& core) {
  const Plan& base = space_.bases()[core.base].file.plan;
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  if (!has_plain_shards(base, row)) return 0;
  const Traffic layer = traffic_of_layer(core);
  const bool resharded = space_.reshards(core);
  const bool staged = core.pp * core.chunks > 1 || row.splits != schedule::Splits::none;
  const schedule::PipelineShape shape{.stages = core.pp, .chunks = core.chunks};
  std::int64_t sum = 0;
  for (int chunk = 0; chunk < core.chunks; ++chunk) {
    const std::int64_t own =
        layers(core)[static_cast<std::size_t>(schedule::part_of(row.placement, shape, {0, chunk}))];
    std::int64_t forwards = 1;  // before the first backward pass of the chunk
    for (const Moment& moment : moments(core)) {
      const InFlight& now = moment[static_cast<std::size_t>(chunk)];
      if (now.gradients == InFlight::Gradients::none)
        forwards = std::max<std::int64_t>(forwards, now.microbatches);
    }
    const std::int64_t times = staged ? 1 : base.batch.global_batch / (core.dp * core.micro_batch);
    const std::int64_t gathers = !resharded ? times : staged ? forwards + 1 : 2 * times;
    sum += own * (gathers * layer.gather + times * layer.reduce);
  }
  return sum;
}

}  // namespace sim::planner
