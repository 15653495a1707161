#include "sim/program/build/build.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "sim/program/build/builder.h"
#include "sim/program/build/stages.h"
#include "sim/program/ir/rank.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/replicas.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

namespace {

// Keeps the cuts between which every class repeats itself. Interval k of a class is what it runs
// between completing microbatches k-1 and k. If replicas run different numbers of microbatches, no
// cuts are kept, because replicas drift apart.
void keep_repeating_cuts(Job& job, int microbatches_per_period) {
  const bool alike = std::ranges::all_of(job.classes, [&](const Program& p) {
    return p.cuts.size() == job.classes.front().cuts.size();
  });
  const std::size_t count = alike ? job.classes.front().cuts.size() : 0;
  const auto interval_repeats = [](const Program& p, std::size_t k, std::size_t d) {
    const std::uint32_t a = p.cuts[k - d], b = p.cuts[k], c = p.cuts[k + d];
    if (c - b != b - a) return false;
    for (std::uint32_t i = 0; i < b - a; ++i)
      if (p.step[a + i].pattern != p.step[b + i].pattern ||
          p.step[a + i].steady != p.step[b + i].steady)
        return false;
    return true;
  };
  const auto d = static_cast<std::size_t>(microbatches_per_period);
  std::vector<std::size_t> kept;
  for (std::size_t k = 2 * d - 1; k + d < count; k += d) {
    const bool repeats = std::all_of(job.classes.begin(), job.classes.end(),
                                     [&](const auto& p) { return interval_repeats(p, k, d); });
    if (repeats) {
      kept.push_back(k);
    } else if (!kept.empty()) {
      break;  // one unbroken run
    }
  }
  if (!kept.empty()) kept.push_back(kept.back() + d);
  for (Program& p : job.classes) {
    std::vector<std::uint32_t> cuts;
    for (const std::size_t k : kept) cuts.push_back(p.cuts[k]);
    p.cuts = std::move(cuts);
  }
}

// The places of a class's ranks in the group that shares a layer's experts.
std::vector<int> expert_places(const mesh::Mesh& mesh, int rank_class) {
  std::vector<int> places;
  for (const int rank : mesh.ranks_of(rank_class)) {
    const int place = mesh.place(rank, mesh::Axis::ep, mesh::Fold::experts);
    if (std::ranges::count(places, place) == 0) places.push_back(place);
  }
  return places;
}

// Ranks of an expert group route differently, so each replica that the group spans becomes a class.
// Above this number of classes, one class represents all replicas and takes the routes of the
// fullest.
constexpr std::int64_t most_route_classes = 256;

std::vector<int> routed_replicas(const Plan& plan) {
  const std::int64_t span =
      std::int64_t{plan.mesh.ep} * plan.expert_tp() / (std::int64_t{plan.mesh.tp} * plan.mesh.cp);
  if (!plan.draws_routes() || span < 2 || span > plan.mesh.dp ||
      span * plan.mesh.pp * plan.mesh.cp > most_route_classes)
    return {};
  std::vector<int> classes;
  for (int replica = 0; replica < plan.mesh.dp; ++replica)
    classes.push_back(static_cast<int>(replica % span));
  return classes;
}

// The plan and the orders of one replica.
struct Share {
  Plan plan;
  Orders orders;
};

Share share_of(const Plan& plan, int replica) {
  Share share{of_replica(plan, replica), {}};
  share.orders = orders_of(share.plan);
  return share;
}

}  // namespace

mesh::Mesh mesh_of(const Plan& plan, mesh::Alike alike) {
  mesh::Degrees degrees;
  degrees.tp = plan.mesh.tp;
  degrees.cp = plan.mesh.cp;
  degrees.dp = plan.mesh.dp;
  degrees.pp = plan.mesh.pp;
  if (plan.architecture.is_mixture()) {
    degrees.ep = plan.mesh.ep;
    degrees.etp = plan.expert_tp();
  }
  if (has_two_levels(plan)) degrees.ulysses = context_shape(plan).ulysses;
  if (plan.shards_parameters()) degrees.secondary = plan.sharding.fsdp.secondary;
  degrees.replicas = plan.replicas();
  degrees.columns = plan.mesh.tensor_columns;
  alike.work_of_replica = unlike_microbatches(plan);
  return mesh::Mesh(degrees, plan.mesh.rank_order, std::move(alike));
}

bool single_queue(const Plan& plan) {
  // In one hardware queue, a receive posted early would block every later operation. The
  // zero-bubble authors therefore run with eight queues (CUDA_DEVICE_MAX_CONNECTIONS). PyTorch
  // requires no particular number.
  const schedule::Wire& wire = schedule::find(plan.pipeline.schedule)->wire;
  return !plan.shards_parameters() && (wire.ahead == 0 || wire.waits_for_sends);
}

namespace {

// The settings of the job that all ranks share.
Job job_of(const Plan& plan, mesh::Mesh mesh) {
  Job job;
  job.mesh = std::move(mesh);
  job.ends_together = !plan.optimizer.post_validation;
  job.launch_blocking = plan.environment.launch_blocking;
  job.single_queue = single_queue(plan);
  job.codecs = plan.codec.found;
  job.loading = {0, plan.batch.micro_batch, plan.microbatches(), plan.stack.data_workers};
  if (plan.makes_masks()) job.loading.mask_elements = plan.batch.sequence * plan.batch.sequence;
  if (plan.draws_routes()) {
    job.router = std::make_shared<const Plan>(plan);
    job.routed_tokens = Dimensions(plan).shard;
  }
  return job;
}

// With interleaving, rounds of microbatch groups repeat; otherwise every microbatch is alike.
int microbatches_per_period(const Plan& plan) {
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  const bool rounds =
      plan.pipeline.virtual_stages > 1 && row.placement == schedule::Placement::round_robin;
  if (has_mirrors(plan)) return 2;  // one of each direction
  return rounds ? std::max(plan.pipeline.microbatch_group, plan.mesh.pp) : 1;
}

}  // namespace

Job build(const ValidPlan& valid, const Environment& environment, bool all_ranks,
          const std::vector<int>& class_of_replica) {
  const Plan& plan = valid;
  Job job = job_of(plan, mesh_of(plan, {all_ranks, class_of_replica.empty() ? routed_replicas(plan)
                                                                            : class_of_replica}));
  job.classes.resize(static_cast<std::size_t>(job.mesh.classes()));
  std::map<int, Share> shares;  // by number of microbatches
  const std::vector<int> unlike = unlike_microbatches(plan);
  for (int c = 0; c < job.mesh.classes(); ++c) {
    Program& program = job.classes[static_cast<std::size_t>(c)];
    const int first = job.mesh.first_like(c);
    if (first != c && !plan.draws_routes()) {
      program = job.classes[static_cast<std::size_t>(first)];
      program.ranks = job.mesh.rank_count(c);
      continue;
    }
    const mesh::Coordinates at = job.mesh.coordinates(c);
    program.stage = at.stage;
    program.cp_rank = at.cp_rank;
    if (plan.draws_routes()) program.expert_ranks = expert_places(job.mesh, c);
    program.ranks = job.mesh.rank_count(c);
    const int replica = job.mesh.first_replica(at.dp_rank);
    const auto [share, added] = shares.try_emplace(
        unlike.empty() ? plan.microbatches() : unlike[static_cast<std::size_t>(replica)]);
    if (added) share->second = share_of(plan, replica);
    write_program(share->second.plan, environment, share->second.orders, program);
  }
  keep_repeating_cuts(job, microbatches_per_period(plan));
  return job;
}

Job build_stages(const ValidPlan& valid, const Environment& environment) {
  const Plan& plan = valid;
  assert(!plan.draws_routes());
  Job job = job_of(plan, mesh_of(plan));
  job.classes.resize(static_cast<std::size_t>(plan.mesh.pp));
  const Orders orders = orders_of(plan);
  for (int stage = 0; stage < plan.mesh.pp; ++stage) {
    Program& program = job.classes[static_cast<std::size_t>(stage)];
    program.stage = stage;
    write_program(plan, environment, orders, program);
  }
  keep_repeating_cuts(job, microbatches_per_period(plan));
  return job;
}

}  // namespace sim::program
