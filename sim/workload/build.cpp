#include "sim/workload/build.h"

#include <algorithm>
#include <cassert>

#include "sim/workload/builder.h"
#include "sim/workload/rank.h"

namespace sim::workload {

Dimensions::Dimensions(const Plan& plan) {
  const model::Architecture& a = plan.architecture;
  element = model::bytes_of(plan.precision);
  batch = plan.micro_batch;
  sequence = plan.sequence;
  local = plan.local_sequence();
  tokens = local * batch;
  tp = plan.tp;
  cp = plan.cp;
  pp = plan.pp;
  dp = plan.dp;
  shard = plan.uses_sequence_parallel() ? tokens / tp : tokens;
  hidden = a.hidden;
  query = a.query_width() / tp;
  key_value = std::max<std::int64_t>(a.kv_width() / tp, a.head_dim);
  heads = a.heads / tp;
  groups = std::max<std::int64_t>(a.kv_heads / tp, 1);
  head_dim = a.head_dim;
  ffn = a.ffn / tp;
  up = a.activation == model::Activation::swiglu ? 2 * ffn : ffn;
  vocab = model::padded_vocab(a.vocab, tp) / tp;
}

Rank::Rank(const Plan& plan_, const Environment& environment_, Program& program_)
    : plan(plan_), environment(environment_), dim(plan_), program(program_), tables(program_) {
  program.fixed_slots = fixed_slot_count;
}

bool Rank::recomputes(int layer) const {
  if (plan.recompute != Recompute::full) return false;
  return plan.recompute_method == RecomputeMethod::uniform || layer < plan.recompute_layers;
}

int Rank::recomputed_group() const {
  return plan.recompute_method == RecomputeMethod::uniform ? plan.recompute_layers : 1;
}

namespace {

// Keeps the cuts between which every class repeats itself: interval k of a class is what it runs
// between completing microbatches k-1 and k.
void keep_repeating_cuts(Job& job, int microbatches_per_period) {
  const std::size_t count = job.classes.front().cuts.size();
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

}  // namespace

int Job::class_of(const Coordinates& at) const {
  assert(at.stage >= 0 && at.stage < pp);
  assert(at.cp_rank >= 0 && at.cp_rank < cp);
  assert(at.dp_rank < dp_classes() && at.tp_rank < tp_classes());
  return ((at.stage * dp_classes() + at.dp_rank) * cp + at.cp_rank) * tp_classes() + at.tp_rank;
}

Job::Coordinates Job::coordinates(int rank_class) const {
  Coordinates at;
  at.tp_rank = rank_class % tp_classes();
  at.cp_rank = rank_class / tp_classes() % cp;
  at.dp_rank = rank_class / (tp_classes() * cp) % dp_classes();
  at.stage = rank_class / (tp_classes() * cp * dp_classes());
  return at;
}

int Job::dp_classes() const {
  if (all_ranks) return dp;
  return class_of_replica.empty() ? 1 : 1 + *std::ranges::max_element(class_of_replica);
}

int Job::replica_class(int dp_rank) const {
  if (all_ranks) return dp_rank;
  return class_of_replica.empty() ? 0 : class_of_replica[static_cast<std::size_t>(dp_rank)];
}

Job build(const Plan& plan, const Environment& environment, bool all_ranks,
          const std::vector<int>& class_of_replica) {
  assert(problems(plan).empty());
  Job job;
  job.tp = plan.tp;
  job.cp = plan.cp;
  job.pp = plan.pp;
  job.dp = plan.dp;
  job.all_ranks = all_ranks;
  job.launch_blocking = plan.launch_blocking;
  if (plan.shards_parameters()) {
    job.replicas = plan.fsdp.replicas;
    job.single_queue = false;
  }
  job.rank_order = plan.rank_order;
  if (!all_ranks) job.class_of_replica = class_of_replica;
  job.tp_comm_overlap = plan.tp_comm_overlap && plan.uses_sequence_parallel();
  job.loading = {0, plan.micro_batch, plan.microbatches(), plan.data_workers};
  if (plan.attention_mask && plan.reset_attention_mask)
    job.loading.mask_elements = plan.sequence * plan.sequence;
  const int count = plan.pp * plan.cp * job.dp_classes() * job.tp_classes();
  job.classes.resize(static_cast<std::size_t>(count));
  const auto ranks_of = [&](int dp_class) {
    if (all_ranks) return 1;
    int replicas = 0;
    for (int d = 0; d < plan.dp; ++d) replicas += job.replica_class(d) == dp_class;
    return plan.tp * replicas;
  };
  for (int c = 0; c < count; ++c) {
    const Job::Coordinates at = job.coordinates(c);
    Program& program = job.classes[static_cast<std::size_t>(c)];
    if (at.dp_rank > 0 || at.tp_rank > 0) {
      program = job.classes[static_cast<std::size_t>(job.class_of({at.stage, 0, at.cp_rank, 0}))];
      program.ranks = ranks_of(at.dp_rank);
      continue;
    }
    program.stage = at.stage;
    program.cp_rank = at.cp_rank;
    program.ranks = ranks_of(at.dp_rank);
    write_program(plan, environment, program);
  }
  keep_repeating_cuts(job, plan.virtual_stages > 1 ? plan.pp : 1);
  return job;
}

}  // namespace sim::workload
