// mixtures.h — a catalog of plans with experts and latent attention, small enough to replay.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sample {

// 8 experts, 2 for each token, on two stages.
inline sim::program::Plan mixture() {
  sim::program::Plan p;
  sim::model::Architecture& a = p.architecture;
  a.name = "small mixture";
  a.layers = 4;
  a.hidden = 1024;
  a.ffn = 2048;
  a.heads = 16;
  a.kv_heads = 8;
  a.head_dim = 64;
  a.vocab = 32000;
  a.max_positions = 8192;
  a.experts.count = 8;
  a.experts.top_k = 2;
  a.experts.ffn = 1024;
  p.mesh.tp = 1;
  p.mesh.pp = 2;
  p.mesh.dp = 4;
  p.mesh.ep = 4;
  p.batch.sequence = 2048;
  p.batch.global_batch = 24;
  return p;
}

inline void make_latent(sim::program::Plan& p) {
  p.architecture.latent = {256, 384, 64, 32, 64};
  p.architecture.head_dim = 96;
  p.architecture.kv_heads = p.architecture.heads;
  p.architecture.experts.layers = "([0]*1+[1]*3)";
  p.architecture.experts.shared_ffn = 1024;
  p.architecture.experts.expert_bias = true;
}

inline std::vector<std::pair<std::string, sim::program::Plan>> mixtures() {
  using namespace sim::program;
  std::vector<std::pair<std::string, Plan>> plans;
  const auto add = [&](std::string name, auto change) {
    Plan p = mixture();
    change(p);
    plans.emplace_back("mixture: " + std::move(name), std::move(p));
  };
  add("plain", [](Plan&) {});
  add("experts of one rank", [](Plan& p) { p.mesh.ep = 1; });
  for (const Dispatcher dispatcher :
       {Dispatcher::alltoall, Dispatcher::allgather, Dispatcher::alltoall_seq, Dispatcher::flex})
    for (const int etp : {1, 2})
      add("dispatchers", [=](Plan& p) {
        p.experts.dispatcher = dispatcher;
        p.mesh.tp = 2;
        p.mesh.etp = etp;
        p.mesh.ep = 2;
        p.experts.fp32_router = etp == 1;
      });
  add("late probabilities, unfused permutation", [](Plan& p) {
    p.experts.late_probabilities = true;
    p.experts.permute_fusion = false;
    p.mesh.tp = 2;
    p.mesh.etp = 2;
    p.mesh.ep = 2;
  });
  add("biases of experts", [](Plan& p) { p.architecture.linear_bias = true; });
  add("experts one by one", [](Plan& p) { p.experts.grouped_gemm = false; });
  for (const char* schedule : {"1f1b", "zb-h1"})
    add(fmt::format("experts by grouped_gemm, {}", schedule), [=](Plan& p) {
      p.experts.legacy_grouped_gemm = true;
      p.mesh.ep = 2;
      p.pipeline.schedule = schedule;
    });
  add("capacity", [](Plan& p) { p.experts.capacity_factor = 1.25; });
  add("padded capacity", [](Plan& p) {
    p.experts.capacity_factor = 1.25;
    p.experts.pads_to_capacity = true;
  });
  add("fp8", [](Plan& p) {
    p.numerics.fp8 = true;
    p.architecture.experts.shared_ffn = 1024;
  });
  for (const Dispatcher dispatcher : {Dispatcher::alltoall, Dispatcher::flex})
    add("hidden all-to-alls", [=](Plan& p) {
      p.experts.overlaps_all_to_all = true;
      p.experts.dispatcher = dispatcher;
    });
  for (const int tp : {1, 2})
    for (const bool predicts : {false, true})
      add("latent attention", [=](Plan& p) {
        make_latent(p);
        p.mesh.tp = tp;
        p.mesh.etp = 1;
        p.architecture.predicted_tokens = predicts;
      });
  for (const char* context : {"ring", "all-gather", "ulysses", "hierarchical"})
    for (const int cp : {2, 4})
      add("latent attention over a context", [=](Plan& p) {
        make_latent(p);
        p.mesh.context = context;
        p.mesh.cp = cp;
        p.batch.micro_batch = cp / 2;
        p.batch.global_batch *= cp / 2;
        p.stack.attention = cp == 2 ? AttentionBackend::cudnn : AttentionBackend::flash;
        if (cp == 4) p.policy.recompute = Recompute::selective;
        if (cp == 4 && context[0] == 'h') p.mesh.ulysses = 2;
      });
  for (const int tp : {1, 2})
    for (const char* schedule : {"1f1b", "zb-h1"})
      add(fmt::format("shared expert beside exchanges, {}", schedule), [=](Plan& p) {
        make_latent(p);
        p.experts.shared_overlap = true;
        p.mesh.tp = tp;
        p.mesh.etp = 1;
        p.pipeline.schedule = schedule;
        if (tp == 2) p.numerics.fp8 = true;
      });
  for (const bool biased : {false, true})
    add("adapters of experts", [=](Plan& p) {
      p.lora.rank = 16;
      p.mesh.tp = biased ? 2 : 1;
      p.mesh.etp = 1;
      p.architecture.linear_bias = biased;
      if (biased) p.policy.recompute = Recompute::full;
      if (!biased) p.pipeline.schedule = "zb-h1";
    });
  for (const int tp : {1, 2})
    for (const bool latent : {false, true})
      for (const bool shared : {false, true})
        add("adapters beside frozen experts", [=](Plan& p) {
          if (latent) make_latent(p);
          if (shared && latent) p.experts.shared_overlap = true;
          p.lora.rank = 16;
          p.lora.qkv = !latent;
          p.lora.fc1 = p.lora.fc2 = false;
          p.mesh.tp = tp;
          p.mesh.etp = 1;
          if (shared) p.policy.recompute = Recompute::selective;
          p.policy.recompute_modules.moe_activation = tp == 2;
          p.architecture.linear_bias = !latent && tp == 2;
          p.numerics.fp8 = shared && tp == 1;
        });
  for (const int pp : {1, 2})
    add("three modules that predict", [=](Plan& p) {
      make_latent(p);
      p.mesh.pp = pp;
      p.architecture.predicted_tokens = 3;
    });
  add("latent attention in fp8, queries not projected", [](Plan& p) {
    make_latent(p);
    p.architecture.latent.q_rank = 0;
    p.numerics.fp8 = true;
  });
  add("prediction on one stage", [](Plan& p) {
    make_latent(p);
    p.mesh.pp = 1;
    p.architecture.predicted_tokens = 1;
  });
  add("recomputed modules", [](Plan& p) {
    make_latent(p);
    p.policy.recompute = Recompute::selective;
    RecomputeModules& m = p.policy.recompute_modules;
    m.moe_activation = m.shared_experts = m.norms = m.latent = true;
  });
  add("recomputed experts", [](Plan& p) {
    p.policy.recompute = Recompute::selective;
    p.policy.recompute_modules.core_attention = false;
    p.policy.recompute_modules.moe = true;
  });
  for (const bool latent : {false, true})
    for (const bool again : {false, true})
      add("modules on the CPU", [=](Plan& p) {
        if (latent) make_latent(p);
        p.policy.offload_modules = latent && again ? 0b1111110 : 0b1111111;
        p.policy.offload_min_elements = again ? 1048576 : 0;
        if (!again) return;
        p.policy.recompute = Recompute::selective;
        p.policy.recompute_modules = {};
        p.policy.recompute_modules.core_attention = false;
        p.policy.recompute_modules.moe_activation = p.policy.recompute_modules.norms = true;
      });
  struct Shards {
    DataParallelism kind;
    bool deepspeed;
    int ep, tp, pp;
  };
  for (const Shards& shards : {Shards{DataParallelism::fsdp1, false, 1, 1, 1},
                               Shards{DataParallelism::fsdp2, false, 1, 1, 1},
                               Shards{DataParallelism::fsdp2, true, 1, 1, 1},
                               Shards{DataParallelism::fsdp2, false, 4, 1, 1},
                               Shards{DataParallelism::fsdp2, false, 2, 2, 2}})
    for (const bool latent : {false, true})
      for (const bool again : {false, true})
        add("in shards", [=](Plan& p) {
          if (latent) make_latent(p);
          if (again) p.policy.recompute = Recompute::full;
          p.sharding.data_parallel = shards.kind;
          p.sharding.deepspeed_optimizer = shards.deepspeed;
          p.mesh.ep = shards.ep;
          p.mesh.tp = shards.tp;
          p.mesh.etp = 1;
          p.mesh.pp = shards.pp;
          p.architecture.linear_bias = again && !latent;
          p.architecture.experts.router_bias = again;
          p.experts.grouped_gemm = !again;
          if (shards.tp == 1)
            p.stack.layer_kernels = latent ? LayerKernels::compiled : LayerKernels::eager;
          p.stack.swiglu_fusion = latent;
          if (shards.pp > 1 && again) p.pipeline.schedule = "zb-h1";
          p.sharding.distributed_optimizer = p.sharding.overlap_grad_reduce = false;
          p.sharding.overlap_param_gather = false;
          p.stack.gradient_accumulation_fusion = false;
          if (shards.deepspeed) p.optimizer.sub_group = 20'000'000;
        });
  add("recomputed layers", [](Plan& p) { p.policy.recompute = Recompute::full; });
  add("norms of heads and of outputs, sinks, windows", [](Plan& p) {
    sim::model::Architecture& a = p.architecture;
    a.query_key_norm = a.output_norms = a.sinks = true;
    a.sliding_window = 128;
    a.whole_attention = 2;
    a.experts.router_bias = true;
  });
  for (const char* schedule : {"interleaved-1f1b", "zb-h1", "dualpipe-v"})
    add(schedule, [=](Plan& p) {
      p.pipeline.schedule = schedule;
      p.pipeline.virtual_stages =
          sim::schedule::find(schedule)->chunks > 1 || schedule[0] == 'i' ? 2 : 1;
      p.architecture.experts.shared_ffn = 1024;
    });
  add("replicated", [](Plan& p) {
    p.sharding.distributed_optimizer = p.sharding.overlap_param_gather = false;
    p.mesh.ep = 2;
  });
  add("no overlap", [](Plan& p) {
    p.sharding.overlap_grad_reduce = p.sharding.overlap_param_gather = false;
    p.mesh.ep = 2;
  });
  add("bf16 gradients, kept handles", [](Plan& p) {
    p.numerics.fp32_gradients = false;
    p.stack.kept_gradient_handles = true;
    p.mesh.ep = 2;
  });
  for (const Routing routing : {Routing::random, Routing::skewed})
    add("drawn routes", [=](Plan& p) {
      p.experts.routing = routing;
      p.batch.global_batch = 12;
    });
  return plans;
}

}  // namespace sample
