// draw.h — random plans over everything that a plan can express: small models, every combination.
//
// Invariant: plan n never changes. A new field is drawn after all others, or from a separate
// generator, so that older plans stay the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/random.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/plan/plan.h"

namespace sample {

class Draw {
 public:
  explicit Draw(std::uint64_t number) : random_(number) {}

  sim::program::Plan plan() {
    using namespace sim::program;
    Plan p;
    architecture(p.architecture);
    mesh(p);
    pipeline(p);
    policies(p);
    numerics(p);
    stack(p);
    sharding(p);
    return p;
  }

 private:
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_.next() % values.size()];
  }
  bool one_in(std::uint64_t n) { return random_.next() % n == 0; }

  // Each trait is drawn separately, so that Llama's and GPT's mix.
  void architecture(sim::model::Architecture& a) {
    using namespace sim::model;
    a.hidden = 1024;
    a.ffn = 2816;
    a.heads = 16;
    a.kv_heads = one_of({16, 4, 4});
    a.head_dim = 64;
    a.vocab = one_of({32000, 1000});
    a.max_positions = 8192;
    const bool gpt = one_in(3);
    a.norm = gpt != one_in(6) ? Norm::layer : Norm::rms;
    a.position = gpt != one_in(6) ? Position::learned : Position::rope;
    a.activation = gpt != one_in(6) ? Activation::gelu : Activation::swiglu;
    a.tied_embeddings = gpt != one_in(6);
    a.qkv_bias = gpt != one_in(6);
    a.linear_bias = gpt != one_in(6);
    a.attention_dropout = gpt != one_in(6) ? 0.1 : 0;
    a.hidden_dropout = gpt != one_in(6) ? 0.1 : 0;
  }
  void mesh(sim::program::Plan& p) {
    p.mesh.tp = one_of({1, 1, 2, 4});
    p.mesh.cp = one_of({1, 1, 1, 2, 4});
    p.mesh.dp = one_of({1, 2, 4});
    p.mesh.pp = one_of({1, 1, 2, 4});
    p.mesh.sequence_parallel = !one_in(3);
    p.batch.micro_batch = one_of({1, 1, 2});
    p.batch.sequence = one_of({1024, 2048, 8192});
    if (one_in(8)) p.batch.packed_document = p.batch.sequence / 8;
  }
  void pipeline(sim::program::Plan& p) {
    p.pipeline.schedule = p.mesh.pp == 1 ? one_of({"1f1b", "1f1b", "gpipe", "zb-h1"})
                                         : one_of({"1f1b", "gpipe", "interleaved-1f1b", "zb-h1"});
    if (p.pipeline.schedule == "interleaved-1f1b") p.pipeline.virtual_stages = one_of({2, 3});
    p.batch.global_batch = p.mesh.dp * p.batch.micro_batch * p.mesh.pp * one_of({1, 2, 3});
    const int parts = p.mesh.pp * p.pipeline.virtual_stages;
    p.architecture.layers = parts * one_of({1, 2, 2});
    if (one_in(4)) {
      p.pipeline.account_for_embedding = one_in(2);
      p.pipeline.account_for_loss = one_in(2);
      p.architecture.layers +=
          parts - p.pipeline.account_for_embedding - p.pipeline.account_for_loss;
    }
  }
  void policies(sim::program::Plan& p) {
    using namespace sim::program;
    p.policy.recompute =
        one_of({Recompute::none, Recompute::none, Recompute::selective, Recompute::full});
    p.policy.recompute_modules.core_attention = !one_in(3);
    p.policy.recompute_modules.mlp = one_in(3);
    p.policy.recompute_modules.operators = one_in(6);
    p.policy.recompute_method = one_of({RecomputeMethod::uniform, RecomputeMethod::block});
    p.policy.recompute_layers = one_of({1, 1, 2});
    if (one_in(8)) p.policy.offload_layers = 1;
    if (one_in(5)) {
      p.lora.rank = 8;
      p.lora.qkv = !one_in(3);
      p.lora.projection = !one_in(3);
      p.lora.fc1 = !one_in(3);
      p.lora.fc2 = !one_in(3);
    }
  }
  void numerics(sim::program::Plan& p) {
    using sim::model::Precision;
    p.numerics.precision = one_of(
        {Precision::bf16, Precision::bf16, Precision::bf16, Precision::fp16, Precision::fp32});
    p.numerics.fp8 = p.numerics.precision != Precision::fp32 && one_in(4);
    p.numerics.fp8_parameters = p.numerics.fp8 && one_in(3);
    p.numerics.fp32_gradients = !one_in(4);
  }
  void stack(sim::program::Plan& p) {
    using namespace sim::program;
    p.stack.attention =
        one_of({AttentionBackend::flash, AttentionBackend::flash, AttentionBackend::cudnn,
                AttentionBackend::unfused, AttentionBackend::triton});
    if (p.numerics.precision == sim::model::Precision::fp32)
      p.stack.attention = AttentionBackend::unfused;
    p.stack.layer_kernels = one_of(
        {LayerKernels::fused, LayerKernels::fused, LayerKernels::eager, LayerKernels::compiled});
    p.stack.swiglu_fusion = !one_in(4);
    p.stack.rope_fusion = !one_in(4);
    p.stack.cross_entropy =
        one_of({CrossEntropy::stepwise, CrossEntropy::stepwise, CrossEntropy::native,
                CrossEntropy::te, CrossEntropy::one_kernel});
    p.stack.gradient_accumulation_fusion = !one_in(4);
    p.stack.attention_mask = !one_in(3);
    p.stack.check_for_nan = !one_in(3);
    p.environment.avoid_record_streams = one_in(4);
    p.stack.kept_gradient_handles = one_in(4);
    // As in torchtitan. It reuses existing draws, so that the plans of a seed do not change.
    p.stack.separate_products = p.stack.layer_kernels == LayerKernels::eager;
    p.stack.gradient_clipping = !one_in(4);
    p.stack.logs_optimizer_state = one_in(8);
    p.stack.tp_comm_overlap = one_in(8);
    p.stack.logit_metrics = one_in(8) ? 2 : 0;
    p.environment.launch_blocking = one_in(16);
  }
  void sharding(sim::program::Plan& p) {
    using namespace sim::program;
    p.sharding.overlap_grad_reduce = !one_in(4);
    p.sharding.distributed_optimizer = !one_in(4);
    p.sharding.overlap_param_gather =
        p.sharding.distributed_optimizer && p.sharding.overlap_grad_reduce && !one_in(3);
    if (p.sharding.distributed_optimizer && one_in(6))
      p.optimizer = {true, one_of({2, 4}), one_of({1, 2, 4}), one_of({1, 4}), false,
                     one_of({0.0, 0.5, 1.0})};
    if (!one_in(3)) return;
    p.sharding.data_parallel = one_of({DataParallelism::fsdp1, DataParallelism::fsdp2});
    p.sharding.distributed_optimizer = p.sharding.overlap_grad_reduce =
        p.sharding.overlap_param_gather = false;
    p.stack.gradient_accumulation_fusion = p.stack.attention_mask = p.stack.check_for_nan = false;
    p.optimizer = {};
    p.sharding.fsdp.reshard_after_forward = !one_in(3);
    p.sharding.fsdp.limit_all_gathers = !one_in(3);
    p.sharding.fsdp.no_sync = one_in(3);
    p.sharding.fsdp.fp32_parameters = one_in(3);
    p.sharding.fsdp.forward_prefetch = one_of({0, 0, 2});
    p.sharding.fsdp.backward_prefetch = one_of({0, 1, 1, 3});
    p.sharding.fsdp.replicas = p.mesh.dp % 2 == 0 && one_in(3) ? 2 : 1;
    p.stack.fused_optimizer = !one_in(4);
  }

  sim::Random random_;
};

inline sim::program::Plan draw(std::uint64_t number) {
  return Draw(number).plan();
}

// DeepSpeed's ZeRO-1.
inline void deepspeed(sim::program::Plan& p) {
  p.sharding.deepspeed_optimizer = p.sharding.distributed_optimizer = true;
  p.sharding.overlap_grad_reduce = p.sharding.overlap_param_gather = false;
  p.numerics.fp32_gradients = p.stack.gradient_accumulation_fusion = false;
}

// The schedules that a run may have.
inline const std::vector<std::string>& schedules_that_run() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const sim::schedule::Schedule& row : sim::schedule::catalog()) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

// Gives each replica its own number of microbatches, the first ones more.
inline void share_unevenly(sim::program::Plan& p, int microbatches, int more) {
  p.batch.replica_microbatches.assign(static_cast<std::size_t>(p.mesh.dp), microbatches);
  p.batch.replica_microbatches.front() += more;
  p.batch.global_batch = p.batch.micro_batch * (p.mesh.dp * microbatches + more);
}

// A legal plan of any schedule that runs, each schedule in turn. It is plan draw(m) for the first m
// after `number` that is legal with a pipeline of 2 to 5 stages (or one).
inline sim::program::Plan draw_legal(std::uint64_t number) {
  const std::string& name = schedules_that_run()[number % schedules_that_run().size()];
  const sim::schedule::Schedule& row = *sim::schedule::find(name);
  sim::Random random(number);
  const auto below = [&random](std::uint64_t n) { return static_cast<int>(random.next() % n); };
  for (std::uint64_t attempt = 0;; ++attempt) {
    sim::program::Plan p = draw(number * 1000 + attempt);
    p.pipeline.schedule = name;
    p.mesh.pp = below(8) == 0 ? 1 : 2 + below(4);
    const bool interleaves =
        row.chunks > 1 && row.placement == sim::schedule::Placement::round_robin;
    p.pipeline.virtual_stages = interleaves ? 2 + below(2) : row.chunks;
    const int parts = p.mesh.pp * p.pipeline.virtual_stages;
    const int microbatches = below(2) == 0 ? p.mesh.pp * (1 + below(4)) : 1 + below(16);
    p.batch.global_batch = p.mesh.dp * p.batch.micro_batch * microbatches;
    p.architecture.layers =
        parts * (1 + below(2)) - (p.pipeline.account_for_embedding + p.pipeline.account_for_loss);
    p.optimizer.post_validation =
        !p.shards_parameters() && row.splits != sim::schedule::Splits::none && below(4) == 0;
    if (p.pipeline.first_stage_layers + p.pipeline.last_stage_layers > 0) continue;
    if (!sim::program::problems(p).empty()) continue;
    const bool shared = !p.shards_parameters() && p.sharding.distributed_optimizer &&
                        row.placement != sim::schedule::Placement::two_way;
    if (shared && !p.architecture.is_mixture() && p.mesh.dp % 2 == 0 && below(4) == 0)
      p.sharding.optimizer_replicas = 2;
    p.sharding.whole_parameters = shared && !p.sharding.overlap_param_gather && below(3) == 0;
    p.stack.layer_code = static_cast<sim::program::LayerCode>(below(3));
    p.stack.checkpoint_early_stop = below(3) == 0;
    p.stack.norm_fusion = p.architecture.layers % 2 == 0;
    p.pipeline.kept_outputs = static_cast<sim::program::KeptOutputs>(microbatches % 3);
    p.pipeline.kept_input_gradients = p.mesh.pp % 2 == 0;
    if (sim::program::Plan other = p; below(3) == 0) {
      deepspeed(other);
      other.optimizer.offload_fraction = other.pipeline.account_for_loss ? 1 : 0;
      if (sim::program::problems(other).empty()) return other;
    }
    if (sim::program::Plan other = p; below(3) == 0) {
      other.stack.gradient_accumulation_fusion = other.stack.tp_comm_overlap = false;
      other.stack.layer_kernels = sim::program::LayerKernels::fused;
      other.stack.separate_products = false;
      other.numerics.fp8 = other.numerics.fp8_parameters = false;
      other.numerics.fake_quantization = sim::program::FakeQuantization(1 + below(2));
      other.numerics.fake_quantization_clips = below(2) == 0;
      if (sim::program::problems(other).empty()) return other;
    }
    if (sim::program::Plan other = p; below(3) == 0) {
      other.policy.offload_layers = 0;
      other.policy.offload_modules = static_cast<std::uint8_t>(1 + below(127));
      if (below(3) != 0) other.policy.offload_min_elements = 0;
      if (sim::program::problems(other).empty()) return other;
    }
    if (sim::program::Plan other = p; p.mesh.dp > 1 && below(5) == 0) {
      share_unevenly(other, microbatches, p.mesh.pp * (1 + below(2)));
      if (sim::program::problems(other).empty()) return other;
    }
    return p;
  }
}

}  // namespace sample
