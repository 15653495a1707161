// draw.h — plans drawn at random from all that a plan can say: small models, every combination.
//
// Invariant: plan n is the same for ever. A new field is drawn behind all others, or from a
// generator of its own, so that older plans stay what they were.
#pragma once

#include <cstdint>

#include "sim/core/random.h"
#include "sim/workload/plan.h"

namespace sample {

class Draw {
 public:
  explicit Draw(std::uint64_t number) : random_(number) {}

  sim::workload::Plan plan() {
    using namespace sim::workload;
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

  // Every trait by itself, so that Llama's and GPT's mix.
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
  void mesh(sim::workload::Plan& p) {
    p.tp = one_of({1, 1, 2, 4});
    p.cp = one_of({1, 1, 1, 2, 4});
    p.dp = one_of({1, 2, 4});
    p.pp = one_of({1, 1, 2, 4});
    p.sequence_parallel = !one_in(3);
    p.micro_batch = one_of({1, 1, 2});
    p.sequence = one_of({1024, 2048, 8192});
    if (one_in(8)) p.packed_document = p.sequence / 8;
  }
  void pipeline(sim::workload::Plan& p) {
    p.schedule = p.pp == 1 ? one_of({"1f1b", "1f1b", "gpipe", "zb-h1"})
                           : one_of({"1f1b", "gpipe", "interleaved-1f1b", "zb-h1"});
    if (p.schedule == "interleaved-1f1b") p.virtual_stages = one_of({2, 3});
    p.global_batch = p.dp * p.micro_batch * p.pp * one_of({1, 2, 3});
    const int parts = p.pp * p.virtual_stages;
    p.architecture.layers = parts * one_of({1, 2, 2});
    if (one_in(4)) {
      p.account_for_embedding = one_in(2);
      p.account_for_loss = one_in(2);
      p.architecture.layers += parts - p.account_for_embedding - p.account_for_loss;
    }
  }
  void policies(sim::workload::Plan& p) {
    using namespace sim::workload;
    p.recompute = one_of({Recompute::none, Recompute::none, Recompute::selective, Recompute::full});
    p.recompute_modules.core_attention = !one_in(3);
    p.recompute_modules.mlp = one_in(3);
    p.recompute_modules.operators = one_in(6);
    p.recompute_method = one_of({RecomputeMethod::uniform, RecomputeMethod::block});
    p.recompute_layers = one_of({1, 1, 2});
    if (one_in(8)) p.offload_layers = 1;
    if (one_in(5)) {
      p.lora.rank = 8;
      p.lora.qkv = !one_in(3);
      p.lora.projection = !one_in(3);
      p.lora.fc1 = !one_in(3);
      p.lora.fc2 = !one_in(3);
    }
  }
  void numerics(sim::workload::Plan& p) {
    using sim::model::Precision;
    p.precision = one_of(
        {Precision::bf16, Precision::bf16, Precision::bf16, Precision::fp16, Precision::fp32});
    p.fp8 = p.precision != Precision::fp32 && one_in(4);
    p.fp8_parameters = p.fp8 && one_in(3);
    p.fp32_gradients = !one_in(4);
  }
  void stack(sim::workload::Plan& p) {
    using namespace sim::workload;
    p.attention = one_of({AttentionBackend::flash, AttentionBackend::flash, AttentionBackend::cudnn,
                          AttentionBackend::unfused, AttentionBackend::triton});
    p.layer_kernels = one_of(
        {LayerKernels::fused, LayerKernels::fused, LayerKernels::eager, LayerKernels::compiled});
    p.swiglu_fusion = !one_in(4);
    p.rope_fusion = !one_in(4);
    p.fused_cross_entropy = one_in(4);
    p.gradient_accumulation_fusion = !one_in(4);
    p.attention_mask = !one_in(3);
    p.check_for_nan = !one_in(3);
    p.avoid_record_streams = one_in(4);
    p.kept_gradient_handles = one_in(4);
    p.gradient_clipping = !one_in(4);
    p.logs_optimizer_state = one_in(8);
    p.tp_comm_overlap = one_in(8);
    p.logit_metrics = one_in(8) ? 2 : 0;
    p.launch_blocking = one_in(16);
  }
  void sharding(sim::workload::Plan& p) {
    using namespace sim::workload;
    p.overlap_grad_reduce = !one_in(4);
    p.distributed_optimizer = !one_in(4);
    p.overlap_param_gather = p.distributed_optimizer && p.overlap_grad_reduce && !one_in(3);
    if (p.distributed_optimizer && one_in(6))
      p.optimizer = {true, one_of({2, 4}), one_of({1, 2, 4}), one_of({1, 4}),
                     one_of({0.0, 0.5, 1.0})};
    if (!one_in(3)) return;
    p.data_parallel = one_of({DataParallelism::fsdp1, DataParallelism::fsdp2});
    p.distributed_optimizer = p.overlap_grad_reduce = p.overlap_param_gather = false;
    p.gradient_accumulation_fusion = p.attention_mask = p.check_for_nan = false;
    p.optimizer = {};
    p.fsdp.reshard_after_forward = !one_in(3);
    p.fsdp.limit_all_gathers = !one_in(3);
    p.fsdp.no_sync = one_in(3);
    p.fsdp.fp32_parameters = one_in(3);
    p.fsdp.forward_prefetch = one_of({0, 0, 2});
    p.fsdp.backward_prefetch = one_of({0, 1, 1, 3});
    p.fsdp.replicas = p.dp % 2 == 0 && one_in(3) ? 2 : 1;
    p.fused_optimizer = !one_in(4);
  }

  sim::Random random_;
};

inline sim::workload::Plan draw(std::uint64_t number) {
  return Draw(number).plan();
}

}  // namespace sample
