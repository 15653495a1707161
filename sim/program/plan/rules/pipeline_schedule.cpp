#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "sim/program/plan/replicas.h"
#include "sim/program/plan/rules/rules.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program::rules {

namespace {

void pipeline(const Plan& plan, Diagnostics& problems) {
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  if (!schedule) {
    problems.push_back({"schedule", schedule::unknown(plan.pipeline.schedule)});
    return;
  }
  if (Diagnostics wrong; batch(plan, wrong), !wrong.empty()) return;
  const std::vector<int> unlike = unlike_microbatches(plan);
  std::set<int> counts(unlike.begin(), unlike.end());
  if (counts.empty()) counts.insert(plan.microbatches());
  for (const int count : counts) {
    const std::string problem = schedule->problem(pipeline_shape(plan, count));
    if (problem.empty()) continue;
    problems.push_back(
        {"schedule", fmt::format("schedule {}: {}", plan.pipeline.schedule, problem)});
    break;
  }
  // Each microbatch takes 8 KB in a replay with memory, so more would need up to 2 GiB.
  constexpr int most = 200'000;
  if (plan.microbatches() > most)
    problems.push_back({"global_batch", fmt::format("{} microbatches in a step; at most {} are "
                                                    "replayed: raise dp or micro_batch",
                                                    plan.microbatches(), most)});
}

// Rules of schedules that split the vocabulary over stages: the limits of the authors' fork.
void vocabulary(const Plan& plan, Diagnostics& problems) {
  const auto problem = [&](const char* field, const char* rule) {
    problems.push_back({field, fmt::format("schedule {} cuts the vocabulary over the stages, {}",
                                           plan.pipeline.schedule, rule)});
  };
  if (plan.mesh.pp < 2) problem("pp", "and needs two of them; write pp 2 or more");
  if (plan.shards_parameters())
    problem("schedule", "which fsdp has no part in; write data_parallel ddp");
  if (plan.trains_adapters())
    problem("schedule", "and trains all of it; leave lora_rank out, or write schedule 1f1b");
  if (plan.architecture.predicted_tokens > 0)
    problem("schedule", "and predicts one token; write schedule 1f1b");
  if (plan.stack.cross_entropy != CrossEntropy::stepwise ||
      plan.stack.layer_kernels != LayerKernels::fused)
    problem("schedule",
            "with a cross entropy of its own; write layer_kernels fused and "
            "cross_entropy stepwise");
  if (plan.architecture.head_bias) problem("architecture.head_bias", "without a bias; write false");
  if (plan.architecture.embedding_norm)
    problem("architecture.embedding_norm", "without a norm behind the rows; write false");
  if (plan.stack.logit_metrics > 0) problem("logit_metrics", "nobody has all logits; write 0");
}

// Rules of schedules that cut sequences into slices. Attention across slices and recomputation are
// simulated only as far as the authors' program supports them.
void sliced(const Plan& plan, Diagnostics& problems) {
  const auto problem = [&](const char* field, std::string_view rule) {
    problems.push_back({field, fmt::format("schedule {} cuts sequences into slices, {}",
                                           plan.pipeline.schedule, rule)});
  };
  const int count = slice_count(plan);
  const std::vector<std::int64_t>& given = plan.pipeline.slice_lengths;
  if (!given.empty()) {
    if (const auto sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
        sum != plan.batch.sequence || std::ranges::min(given) < 1)
      problem("slices", fmt::format("and these have {} tokens; they must sum to the {} of the "
                                    "sequence, each with 1 or more",
                                    sum, plan.batch.sequence));
  } else if (plan.batch.sequence % count != 0) {
    problem("sequence",
            fmt::format("and {} tokens do not split into {}; write {}", plan.batch.sequence, count,
                        (plan.batch.sequence / count + 1) * count));
    return;
  }
  if (plan.uses_sequence_parallel())
    for (const std::int64_t length : slice_lengths(plan))
      if (length % plan.mesh.tp != 0) {
        problem(given.empty() ? "sequence" : "slices",
                fmt::format("of {} tokens; sequence parallelism needs a multiple of tp {}", length,
                            plan.mesh.tp));
        break;
      }
  if (plan.mesh.cp > 1) problem("cp", "as cp does along the same tokens; write cp 1");
  if (plan.stack.attention == AttentionBackend::unfused)
    problem("attention", "and needs fused attention; write attention flash or cudnn");
  if (plan.architecture.is_latent() || plan.architecture.is_mixture() ||
      plan.architecture.sliding_window > 0 || plan.batch.packed_document > 0)
    problem("schedule",
            "which is simulated with dense models that attend to all tokens before; write schedule "
            "1f1b");
  if (plan.shards_parameters())
    problem("schedule", "with whole parameters; write data_parallel ddp");
  if (plan.policy.recompute == Recompute::full || plan.policy.offload_layers > 0 ||
      !plan.policy.choices.empty() || plan.policy.plans_choices ||
      (plan.policy.recompute == Recompute::selective && plan.policy.recompute_modules.operators))
    problem("recompute",
            "whose keys and values stay; write recompute none, or selective of core_attn or mlp");
}

// Rules of schedules that hold two copies of each part, on stages that mirror each other.
void mirrored(const Plan& plan, Diagnostics& problems) {
  const auto problem = [&](const char* field, const char* rule) {
    problems.push_back({field, fmt::format("schedule {} holds every part twice, {}",
                                           plan.pipeline.schedule, rule)});
  };
  if (plan.shards_parameters()) return problem("schedule", "each whole; write data_parallel ddp");
  if (!plan.sharding.distributed_optimizer)
    problem("distributed_optimizer",
            "of which each copy has one half of the optimizer's state; turn distributed_optimizer "
            "on");
  if (plan.replicas() > 1 || plan.sharding.whole_parameters)
    problem(plan.replicas() > 1 ? "optimizer_replicas" : "whole_parameters",
            "which share the optimizer's state; leave it out");
  if (plan.optimizer.post_validation)
    problem("post_validation",
            "and stages that mirror each other step together; leave post_validation out");
  if (plan.draws_routes()) problem("router", "and is simulated with router balanced");
}

// Rules of schedules in which each stage has a loss of its own.
void alone(const Plan& plan, Diagnostics& problems) {
  const auto problem = [&](const char* field, const char* rule) {
    problems.push_back({field, fmt::format("schedule {} gives each stage an output layer and a "
                                           "loss of its own, {}",
                                           plan.pipeline.schedule, rule)});
  };
  if (plan.architecture.tied_embeddings && plan.mesh.pp > 1)
    problem("model", "which is not tied to the embedding; write schedule 1f1b");
  if (plan.architecture.predicted_tokens > 0)
    problem("mtp_layers", "of one token; write mtp_layers 0");
}

}  // namespace

void pipeline_schedule(const Plan& plan, Diagnostics& problems) {
  pipeline(plan, problems);
  const schedule::Schedule* row = schedule::find(plan.pipeline.schedule);
  if (!row) return;
  if (row->wire.waits_for_sends && plan.pipeline.microbatch_group > plan.mesh.pp)
    problems.push_back(
        {"microbatch_group",
         fmt::format("microbatch_group {} is above pp {}: what Megatron-LM then receives further "
                     "ahead is not simulated; write {} or leave it out",
                     plan.pipeline.microbatch_group, plan.mesh.pp, plan.mesh.pp)});
  if (plan.cuts_vocabulary()) vocabulary(plan, problems);
  if (row->slices > 1)
    sliced(plan, problems);
  else if (!plan.pipeline.slice_lengths.empty() || plan.pipeline.balances_slices)
    problems.push_back({"slices", fmt::format("schedule {} does not cut sequences; leave slices "
                                              "out, or write schedule terapipe",
                                              plan.pipeline.schedule)});
  if (has_mirrors(plan)) mirrored(plan, problems);
  if (!row->gradients_travel) alone(plan, problems);
}

}  // namespace sim::program::rules
