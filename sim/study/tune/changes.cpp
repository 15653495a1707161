#include "sim/study/tune/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/job/context/context.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/plan/shards.h"

namespace sim::study {

namespace {

using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

int chunk_layers(const Plan& plan) {
  return std::min(plan.chunk_layers(0, 0),
                  plan.chunk_layers(plan.mesh.pp - 1, plan.pipeline.virtual_stages - 1));
}

void recompute_block(Plan& plan, int layers) {
  plan.policy.recompute = Recompute::full;
  plan.policy.recompute_method = RecomputeMethod::block;
  plan.policy.recompute_layers = layers;
}

std::string block_text(int layers) {
  return fmt::format("recompute=full recompute_method=block recompute_layers={}", layers);
}

// The allocator's options with expandable segments.
std::string with_segments(const Plan& plan) {
  const std::string& given = plan.environment.allocator_options;
  return given.empty() ? "expandable_segments:True" : given + ",expandable_segments:True";
}

// The most layers, below the even share, for one end stage such that the other stages share the
// rest evenly; 0 if no such split exists.
int smaller_end(const Plan& plan) {
  const bool even = plan.pipeline.first_stage_layers == 0 && plan.pipeline.last_stage_layers == 0 &&
                    !plan.pipeline.account_for_embedding && !plan.pipeline.account_for_loss;
  if (!even || plan.mesh.pp == 1) return 0;
  const int layers = static_cast<int>(plan.architecture.layers);
  const int given_away =
      (plan.mesh.pp - 1) * plan.pipeline.virtual_stages;  // one layer per chunk of the others
  return std::max(0, layers / plan.mesh.pp - given_away);
}

// Doubles a degree and halves the replicas; false if the replicas are odd.
bool trade_replicas(Plan& plan, int& degree) {
  if (plan.mesh.dp % 2 != 0) return false;
  degree *= 2;
  plan.mesh.dp /= 2;
  return true;
}

// Halves a degree and doubles the replicas; false if the degree is odd.
bool give_to_replicas(Plan& plan, int& degree) {
  if (degree % 2 != 0) return false;
  degree /= 2;
  plan.mesh.dp *= 2;
  return true;
}

// The possible changes of a plan. `offer` checks a changed plan before it takes it.
class Changes {
 public:
  explicit Changes(const answer::CheckedPlan& checked) : checked_(checked) {}

  // `change` returns false if it does not apply to the plan.
  void offer(const std::string& text, const std::function<bool(Plan&)>& change) {
    Plan other = plan();
    if (!change(other)) return;
    if (const auto possible = answer::check(std::move(other), checked_.site()))
      changes_.push_back({text, *possible});
  }

  const Plan& plan() const { return checked_.plan(); }
  std::vector<Change> take() { return std::move(changes_); }

 private:
  const answer::CheckedPlan& checked_;
  std::vector<Change> changes_;
};

// Settings that cost no time.
void offer_free_changes(Changes& changes) {
  changes.offer("avoid_record_streams=true",
                [](Plan& p) { return !std::exchange(p.environment.avoid_record_streams, true); });
  changes.offer("allocator_options=" + with_segments(changes.plan()), [](Plan& p) {
    const bool had =
        p.environment.allocator_options.find("expandable_segments:True") != std::string::npos;
    p.environment.allocator_options = with_segments(p);
    return !had;
  });
  // Fused attention masks by itself; the mask of the data loader is sequence x sequence bytes.
  changes.offer("attention_mask=false", [](Plan& p) {
    return p.stack.attention != program::AttentionBackend::unfused &&
           std::exchange(p.stack.attention_mask, false);
  });
  // Losses without an fp32 copy of the logits. TransformerEngine's kernels are Megatron-LM's.
  changes.offer(
      changes.plan().shards_parameters() ? "cross_entropy=one_kernel" : "cross_entropy=te",
      [](Plan& p) {
        using program::CrossEntropy;
        const auto had =
            std::exchange(p.stack.cross_entropy,
                          p.shards_parameters() ? CrossEntropy::one_kernel : CrossEntropy::te);
        return had == CrossEntropy::stepwise || had == CrossEntropy::native;
      });
  changes.offer("distributed_optimizer=true", [](Plan& p) {
    return !p.shards_parameters() && !std::exchange(p.sharding.distributed_optimizer, true);
  });
  changes.offer("sequence_parallel=true", [](Plan& p) {
    return p.mesh.tp > 1 && !std::exchange(p.mesh.sequence_parallel, true);
  });
}

// Smaller microbatches, other attention, recomputation: less activation memory.
void offer_fewer_activations(Changes& changes) {
  const Plan& plan = changes.plan();
  for (int size = plan.batch.micro_batch / 2; size > 0 && plan.batch.micro_batch % size == 0;
       size /= 2) {
    changes.offer(fmt::format("micro_batch={}", size), [&](Plan& p) {
      p.batch.micro_batch = size;
      return true;
    });
  }
  changes.offer("attention=flash", [](Plan& p) {
    return std::exchange(p.stack.attention, program::AttentionBackend::flash) ==
           program::AttentionBackend::unfused;
  });
  changes.offer("recompute=selective", [](Plan& p) {
    const bool helps = p.policy.recompute == Recompute::none;
    p.policy.recompute = Recompute::selective;
    return helps && p.stack.attention == program::AttentionBackend::unfused;
  });
  // Recomputation per layer; `fewest_layers` finds the number.
  changes.offer(block_text(chunk_layers(plan)), [&](Plan& p) {
    const bool helps = p.policy.recompute != Recompute::full;
    recompute_block(p, chunk_layers(p));
    return helps;
  });
  changes.offer("recompute=full", [](Plan& p) {
    return std::exchange(p.policy.recompute, Recompute::full) != Recompute::full;
  });
}

// Other shares of layers, parameters, tensors and sequences.
void offer_other_shares(Changes& changes) {
  const Plan& plan = changes.plan();
  const int end = smaller_end(plan);
  changes.offer(fmt::format("first_stage_layers={}", end), [&](Plan& p) {
    p.pipeline.first_stage_layers = end;
    return end > 0;
  });
  changes.offer(fmt::format("last_stage_layers={}", end), [&](Plan& p) {
    p.pipeline.last_stage_layers = end;
    return end > 0;
  });
  for (const int stage : {2, 3}) {
    changes.offer(fmt::format("zero={}", stage), [&](Plan& p) {
      if (p.shards_parameters() || p.mesh.dp * p.mesh.cp == 1) return false;
      program::shard_parameters(p, program::DataParallelism::fsdp2, stage == 3);
      return true;
    });
  }
  changes.offer("fsdp.reshard_after_forward=true", [](Plan& p) {
    return p.shards_parameters() && !std::exchange(p.sharding.fsdp.reshard_after_forward, true);
  });
  changes.offer(fmt::format("tp={}", 2 * plan.mesh.tp),
                [](Plan& p) { return trade_replicas(p, p.mesh.tp); });
  changes.offer(fmt::format("cp={}", 2 * plan.mesh.cp),
                [](Plan& p) { return trade_replicas(p, p.mesh.cp); });
  changes.offer(fmt::format("pp={}", 2 * plan.mesh.pp),
                [](Plan& p) { return trade_replicas(p, p.mesh.pp); });
}

// The default schedule with one chunk per stage.
void offer_plain_schedule(Changes& changes) {
  const std::string plain(schedule::default_schedule().name);
  changes.offer("virtual_stages=1 schedule=" + plain, [&](Plan& p) {
    p.pipeline.schedule = plain;
    return std::exchange(p.pipeline.virtual_stages, 1) > 1;
  });
  changes.offer("schedule=" + plain, [&](Plan& p) {
    return p.pipeline.virtual_stages == 1 && p.mesh.pp > 1 &&
           std::exchange(p.pipeline.schedule, plain) != plain;
  });
}

// Twice the sequences per microbatch: longer kernels, fewer launches and messages.
void offer_larger_microbatch(Changes& changes) {
  changes.offer(fmt::format("micro_batch={}", 2 * changes.plan().batch.micro_batch), [](Plan& p) {
    p.batch.micro_batch *= 2;
    return true;
  });
}

void offer_smaller_microbatch(Changes& changes) {
  const int size = changes.plan().batch.micro_batch / 2;
  changes.offer(fmt::format("micro_batch={}", size), [&](Plan& p) {
    const bool even = p.batch.micro_batch % 2 == 0;
    p.batch.micro_batch = size;
    return even;
  });
}

void offer_against_tensor(Changes& changes) {
  changes.offer("tp_comm_overlap=true", [](Plan& p) {
    return p.mesh.sequence_parallel && !std::exchange(p.stack.tp_comm_overlap, true);
  });
  changes.offer(fmt::format("tp={}", changes.plan().mesh.tp / 2),
                [](Plan& p) { return give_to_replicas(p, p.mesh.tp); });
}

void offer_against_context(Changes& changes) {
  for (const context::Method& method : context::catalog()) {
    if (method.megatron.empty()) continue;
    changes.offer(fmt::format("context={}", method.name), [&](Plan& p) {
      return p.mesh.cp > 1 && std::exchange(p.mesh.context, method.name) != method.name;
    });
  }
  changes.offer(fmt::format("cp={}", changes.plan().mesh.cp / 2),
                [](Plan& p) { return give_to_replicas(p, p.mesh.cp); });
}

void offer_against_experts(Changes& changes) {
  changes.offer("dispatcher=flex", [](Plan& p) {
    return p.mesh.ep > 1 && std::exchange(p.experts.dispatcher, program::Dispatcher::flex) !=
                                program::Dispatcher::flex;
  });
  changes.offer(fmt::format("ep={}", changes.plan().mesh.ep / 2), [](Plan& p) {
    const bool even = p.mesh.ep % 2 == 0;
    p.mesh.ep /= 2;
    return even;
  });
  offer_larger_microbatch(changes);
}

void offer_against_replicas(Changes& changes) {
  changes.offer("overlap_grad_reduce=true",
                [](Plan& p) { return !std::exchange(p.sharding.overlap_grad_reduce, true); });
  changes.offer("overlap_param_gather=true",
                [](Plan& p) { return !std::exchange(p.sharding.overlap_param_gather, true); });
  changes.offer("fsdp.reshard_after_forward=false", [](Plan& p) {
    return p.shards_parameters() && std::exchange(p.sharding.fsdp.reshard_after_forward, false);
  });
  offer_larger_microbatch(changes);
  const Plan& plan = changes.plan();
  changes.offer(fmt::format("tp={}", 2 * plan.mesh.tp),
                [](Plan& p) { return trade_replicas(p, p.mesh.tp); });
  changes.offer(fmt::format("pp={}", 2 * plan.mesh.pp),
                [](Plan& p) { return trade_replicas(p, p.mesh.pp); });
}

// Shorter fill and drain of a pipeline: more chunks, more microbatches, weight passes that fill it,
// fewer stages.
void offer_against_fill(Changes& changes) {
  const Plan& plan = changes.plan();
  const int chunks = 2 * plan.pipeline.virtual_stages;
  changes.offer(fmt::format("virtual_stages={} schedule=interleaved-1f1b", chunks), [&](Plan& p) {
    p.pipeline.schedule = "interleaved-1f1b";
    p.pipeline.virtual_stages = chunks;
    return true;
  });
  offer_smaller_microbatch(changes);
  changes.offer("schedule=zb-h1", [](Plan& p) {
    return p.pipeline.virtual_stages == 1 && std::exchange(p.pipeline.schedule, "zb-h1") != "zb-h1";
  });
  changes.offer(fmt::format("pp={}", plan.mesh.pp / 2),
                [](Plan& p) { return give_to_replicas(p, p.mesh.pp); });
}

void offer_against_unequal_stages(Changes& changes) {
  changes.offer("account_for_embedding=true account_for_loss=true", [](Plan& p) {
    const bool had = std::exchange(p.pipeline.account_for_embedding, true);
    return !std::exchange(p.pipeline.account_for_loss, true) && !had;
  });
  changes.offer("account_for_loss=true",
                [](Plan& p) { return !std::exchange(p.pipeline.account_for_loss, true); });
  changes.offer("layer_split=balanced", [](Plan& p) {
    return std::exchange(p.pipeline.layer_split, program::LayerSplit::balanced) !=
           program::LayerSplit::balanced;
  });
}

void offer_against_messages(Changes& changes) {
  const Plan& plan = changes.plan();
  const int chunks = plan.pipeline.virtual_stages / 2;
  changes.offer(fmt::format("virtual_stages={}", chunks), [&](Plan& p) {
    p.pipeline.virtual_stages = chunks;
    return chunks > 1;
  });
  changes.offer(fmt::format("pp={}", plan.mesh.pp / 2),
                [](Plan& p) { return give_to_replicas(p, p.mesh.pp); });
}

// Fewer kernels for the same work.
void offer_against_host(Changes& changes) {
  changes.offer("layer_kernels=fused", [](Plan& p) {
    return std::exchange(p.stack.layer_kernels, program::LayerKernels::fused) ==
           program::LayerKernels::eager;
  });
  changes.offer("fused_optimizer=true",
                [](Plan& p) { return !std::exchange(p.stack.fused_optimizer, true); });
  changes.offer("launch_blocking=false",
                [](Plan& p) { return std::exchange(p.environment.launch_blocking, false); });
  offer_larger_microbatch(changes);
  changes.offer(fmt::format("tp={}", changes.plan().mesh.tp / 2),
                [](Plan& p) { return give_to_replicas(p, p.mesh.tp); });
}

}  // namespace

std::vector<Change> single_changes(const answer::CheckedPlan& checked) {
  Changes changes(checked);
  offer_free_changes(changes);
  offer_fewer_activations(changes);
  offer_other_shares(changes);
  offer_plain_schedule(changes);
  return changes.take();
}

std::vector<Change> changes_against(const answer::CheckedPlan& checked, Cause cause) {
  if (is_memory(cause)) return single_changes(checked);
  Changes changes(checked);
  switch (cause) {
    case Cause::tensor_parallel:
      offer_against_tensor(changes);
      if (!split_backward_text(checked.plan()).empty()) offer_plain_schedule(changes);
      break;
    case Cause::context_parallel:
      offer_against_context(changes);
      break;
    case Cause::expert_parallel:
      offer_against_experts(changes);
      break;
    case Cause::data_parallel:
      offer_against_replicas(changes);
      break;
    case Cause::fill_and_drain:
      offer_against_fill(changes);
      break;
    case Cause::unequal_stages:
      offer_against_unequal_stages(changes);
      break;
    case Cause::unequal_ranks:
      offer_against_experts(changes);
      if (checked->mesh.cp > 1) offer_against_context(changes);
      break;
    case Cause::pipeline_messages:
      offer_against_messages(changes);
      break;
    case Cause::host:
      offer_against_host(changes);
      break;
    default:
      break;
  }
  return changes.take();
}

bool recomputes_by_layer(const Change& change, const answer::CheckedPlan& before) {
  const program::LayerPolicy& policy = change.plan->policy;
  return policy.recompute == Recompute::full && policy.recompute_method == RecomputeMethod::block &&
         before->policy.recompute != Recompute::full;
}

void fewest_recomputed(const answer::CheckedPlan& plan,
                       const std::function<bool(const Change&)>& enough) {
  int most = chunk_layers(plan.plan()), least = 0;
  while (most - least > 1) {
    Plan other = plan.plan();
    const int layers = (most + least) / 2;
    recompute_block(other, layers);
    const auto possible = answer::check(std::move(other), plan.site());
    if (!possible) return;
    (enough({block_text(layers), *possible}) ? most : least) = layers;
  }
}

}  // namespace sim::study
