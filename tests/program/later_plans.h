// later_plans.h — further plans of sample::catalog(): contexts, ZeRO++, optimizers on the CPU.
#pragma once

#include <fmt/format.h>

#include "sim/job/context/context.h"
#include "sim/program/plan/plan.h"
#include "tests/program/draw.h"

namespace sample {

// Quantisation-aware training.
template <class Add>
void add_rounded_plans(Add add, const sim::program::Plan& llama) {
  using namespace sim::program;
  for (const FakeQuantization what : {FakeQuantization::weights, FakeQuantization::operands})
    for (const bool clips : {false, true})
      for (const bool sequence_parallel : {true, false})
        for (const Recompute recompute : {Recompute::none, Recompute::full})
          for (const DataParallelism shards : {DataParallelism::ddp, DataParallelism::fsdp2})
            add("operands are rounded", llama, [=](Plan& p) {
              p.architecture.layers = 4;
              p.mesh.sequence_parallel = sequence_parallel;
              p.policy.recompute = recompute;
              p.sharding.data_parallel = shards;
              p.stack.gradient_accumulation_fusion = false;
              p.numerics.fake_quantization = what;
              p.numerics.fake_quantization_clips = clips;
            });
}

// fp8 products whose tensors have their own scales.
template <class Add>
void add_scaled_plans(Add add, const sim::program::Plan& llama) {
  using namespace sim::program;
  for (const auto kernels : {LayerKernels::fused, LayerKernels::eager, LayerKernels::compiled})
    for (const bool sequence_parallel : {true, false})
      for (const Recompute recompute : {Recompute::none, Recompute::full})
        add("fp8 with scales of its own", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.mesh.sequence_parallel = sequence_parallel;
          p.policy.recompute = recompute;
          p.stack.layer_kernels = kernels;
          p.stack.rope_fusion = p.stack.swiglu_fusion = kernels != LayerKernels::eager;
          if (kernels != LayerKernels::fused) p.sharding.data_parallel = DataParallelism::fsdp2;
          p.numerics.fp8 = true;
          p.numerics.fp8_recipe = Fp8Recipe::tensorwise;
        });
}

// `add(name, plan, change)`, as in sample::catalog().
template <class Add>
void add_later_plans(Add add, const sim::program::Plan& llama) {
  using namespace sim;
  using namespace sim::program;
  const Recompute selective = Recompute::selective, full = Recompute::full;
  const AttentionBackend cudnn = AttentionBackend::cudnn;
  for (const auto kernels : {LayerKernels::eager, LayerKernels::compiled, LayerKernels::fused})
    for (const int tp : {1, 2})
      for (const bool fp8 : {false, true})
        for (const int group : {1, 2})
          add("checkpoints stop early", llama, [=](Plan& p) {
            p.architecture.layers = 4;
            p.stack.layer_kernels = kernels;
            p.stack.rope_fusion = p.stack.swiglu_fusion = kernels != LayerKernels::eager;
            p.stack.attention = AttentionBackend::flash;
            p.sharding.data_parallel = DataParallelism::fsdp2;
            p.mesh.tp = tp;
            p.numerics.fp8 = fp8;
            p.policy.recompute = full;
            p.policy.recompute_layers = group;
            p.stack.checkpoint_early_stop = true;
          });
  for (const bool fp8 : {false, true})
    for (const bool rows : {true, false})
      add("adapters trade columns for rows", llama, [=](Plan& p) {
        p.architecture.layers = 4;
        p.lora.rank = 16;
        p.lora.all_to_all = true;
        p.numerics.fp8 = p.numerics.fp8_parameters = fp8;
        p.mesh.sequence_parallel = rows;
      });
  for (const bool fp8 : {false, true})
    for (const int tp : {1, 2})
      for (const bool rows : {true, false})
        add("adapters with dropout", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.lora.rank = 16;
          p.lora.dropout = true;
          p.mesh.tp = tp;
          p.numerics.fp8 = fp8;
          p.mesh.sequence_parallel = rows;
        });
  for (const auto kernels : {LayerKernels::eager, LayerKernels::compiled})
    for (const Recompute recompute : {Recompute::none, selective, full})
      for (const int rank : {0, 16})
        add("one product of query, key and value in operators", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.lora.rank = rank;
          p.lora.dropout = rank > 0;
          p.stack.layer_kernels = kernels;
          p.stack.rope_fusion = p.stack.swiglu_fusion = kernels != LayerKernels::eager;
          p.stack.attention = AttentionBackend::flash;
          p.sharding.data_parallel = DataParallelism::fsdp1;
          p.policy.recompute = recompute;
        });
  for (const bool main : {true, false})
    for (const Recompute recompute : {Recompute::none, full})
      add("shards have main parameters, or adapters units of their own", llama, [=](Plan& p) {
        p.architecture.layers = 4;
        p.policy.recompute = recompute;
        p.sharding.data_parallel = main ? DataParallelism::fsdp2 : DataParallelism::fsdp1;
        p.sharding.fsdp.main_parameters = main;
        p.sharding.fsdp.separate_adapters = !main;
        p.lora.rank = main ? 0 : 16;
      });
  for (const auto& [first, second] : {std::pair(2, 2), {1, 2}, {2, 4}})
    for (const bool separate : {true, false})
      for (const int chunks : {1, 2})
        add("Adam's moments are narrow", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.mesh.pp = 2;
          p.pipeline.virtual_stages = chunks;
          if (chunks > 1) p.pipeline.schedule = "interleaved-1f1b";
          p.batch.global_batch = 8 * p.mesh.dp;
          p.optimizer.precision_aware = true;
          p.optimizer.exp_avg_bytes = first;
          p.optimizer.exp_avg_sq_bytes = second;
          p.optimizer.separate_casts = separate;
        });
  for (const context::Method& method : context::catalog())
    for (const int batch : {1, 2})
      for (const int cp : {2, 4, 8})
        for (const Recompute recompute : {Recompute::none, selective, full}) {
          if (method.name == "ring") continue;
          add(fmt::format("context {}", method.name), llama, [&](Plan& p) {
            p.architecture.layers = 2;
            p.mesh.context = method.name;
            p.mesh.cp = cp;
            p.batch.micro_batch = batch;
            p.batch.global_batch *= batch;
            p.policy.recompute = recompute;
            p.stack.attention = batch == 1 ? cudnn : AttentionBackend::flash;
            p.numerics.fp8 = cp == 4;
            p.sharding.data_parallel = cp == 2 ? DataParallelism::fsdp2 : DataParallelism::ddp;
            if (method.exchange == context::Exchange::neighbours) p.mesh.ulysses = 2;
          });
        }
  for (const auto outputs :
       {KeptOutputs::no_stage, KeptOutputs::last_stage, KeptOutputs::every_stage})
    for (const bool gradients : {false, true})
      for (const auto& [schedule, chunks] :
           {std::pair("1f1b", 1), {"interleaved-1f1b", 2}, {"zb-h1", 1}, {"zb-v", 2}})
        add("PyTorch's stages keep", llama, [&, schedule = schedule, chunks = chunks](Plan& p) {
          p.architecture.layers = 4;
          p.mesh.pp = 2;
          p.pipeline.schedule = schedule;
          p.pipeline.virtual_stages = chunks;
          p.sharding.data_parallel = DataParallelism::fsdp2;
          p.pipeline.kept_outputs = outputs;
          p.pipeline.kept_input_gradients = gradients;
          p.batch.global_batch = 4 * p.mesh.dp;
        });
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2})
    for (const int secondary : {1, 2, 4})
      for (const bool weights : {true, false})
        add("ZeRO++", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.sharding.data_parallel = kind;
          p.sharding.fsdp.secondary = secondary;
          p.sharding.fsdp.quantized_weights = weights;
          p.sharding.fsdp.quantized_gradients = secondary > 1;
        });
  // Norms and biases of rare model families, under every policy that affects a layer's products.
  const auto traits = [&](const char* name, auto change) {
    for (const int way : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
      add(name, llama, [&](Plan& p) {
        p.architecture.layers = 4;
        change(p.architecture);
        p.mesh.sequence_parallel = way % 2 == 0;
        if (way == 1) p.policy.recompute = full;
        if (way == 2) p.numerics.fp8 = true;
        if (way == 3) p.sharding.data_parallel = DataParallelism::fsdp2;
        if (way == 4) p.lora.rank = 8;
        if (way == 5) p.mesh.pp = 2, p.pipeline.schedule = "zb-h1";
        if (way == 6) p.policy.recompute = selective, p.policy.recompute_modules.mlp = true;
        if (way == 7) p.policy.offload_layers = 2;
        if (way == 8) p.stack.layer_kernels = LayerKernels::eager, p.mesh.tp = 1;
        if (way == 9) p.batch.micro_batch = 2, p.batch.global_batch *= 2;
      });
  };
  using model::InputNorms, model::Norm;
  traits("one norm for both halves", [](model::Architecture& a) {
    a.input_norms = InputNorms::shared;
    a.norm = Norm::layer;
    a.linear_bias = a.head_bias = true;
    a.projection_bias = false;
  });
  traits("norms behind the halves only", [](model::Architecture& a) {
    a.input_norms = InputNorms::none;
    a.output_norms = a.query_key_norm = a.norms_by_head = true;
  });
  traits("norm behind the embedding", [](model::Architecture& a) {
    a.norm = Norm::layer;
    a.embedding_norm = a.qkv_bias = a.linear_bias = true;
    a.mlp_bias = false;
    a.hidden_dropout = 0.1;
  });
  traits("norms without weights",
         [](model::Architecture& a) { a.norm = Norm::layer_without_weights; });
  traits("norms without bias", [](model::Architecture& a) {
    a.norm = Norm::layer_without_bias;
    a.query_key_norm = true;
  });
  for (const bool overlaps : {true, false})
    for (const double share : {0.5, 1.0})
      add("optimizer on the CPU", llama, [=](Plan& p) {
        p.architecture.layers = 4;
        p.optimizer = {true, 4, 4, 4, false, share, overlaps};
      });
  for (const Recompute recompute : {Recompute::none, full})
    add("RMSNorm a kernel of PyTorch", llama, [=](Plan& p) {
      p.architecture.layers = 4;
      p.sharding.data_parallel = DataParallelism::fsdp2;
      p.policy.recompute = recompute;
      p.stack.layer_kernels = LayerKernels::eager;
      p.stack.norm_fusion = true;
    });
  sim::program::RecomputeModules operators{};
  operators.core_attention = false;
  operators.operators = true;
  for (const char* context : {"torch-allgather", "torch-alltoall"})
    for (const LayerKernels kernels : {LayerKernels::eager, LayerKernels::compiled})
      for (const Recompute recompute : {Recompute::none, selective, full})
        add("PyTorch's context_parallel", llama, [=](Plan& p) {
          p.architecture.layers = 4;
          p.sharding.data_parallel = DataParallelism::fsdp2;
          p.mesh.cp = 4;
          p.mesh.tp = recompute == full ? 2 : 1;
          p.mesh.context = context;
          p.policy.recompute = recompute;
          if (recompute == selective) p.policy.recompute_modules = operators;
          p.stack.layer_kernels = kernels;
          p.stack.repeat_kv = kernels == LayerKernels::compiled;
          p.stack.separate_products = true;
        });
  for (const Recompute recompute : {Recompute::none, selective, full})
    add("copies of keys for every head", llama, [=](Plan& p) {
      p.architecture.layers = 4;
      p.sharding.data_parallel = DataParallelism::fsdp2;
      p.policy.recompute = recompute;
      if (recompute == selective) p.policy.recompute_modules = operators;
      p.batch.micro_batch = 2, p.batch.global_batch *= 2;
      p.mesh.tp = 2;
      p.stack.layer_kernels = LayerKernels::compiled;
      p.stack.repeat_kv = true;
    });
  for (const auto& [columns, depth] : {std::pair{2, 1}, {1, 2}, {2, 2}, {4, 4}})
    for (const bool overlaps : {true, false})
      for (const Recompute recompute : {Recompute::none, full})
        for (const int batch : {1, 2})
          add("tensors in rows, columns and depth", llama, [=](Plan& p) {
            p.architecture.layers = 4;
            p.mesh.tp = 4, p.mesh.tensor_columns = columns;
            p.mesh.dp *= depth, p.mesh.tensor_depth = depth;
            p.mesh.sequence_parallel = false;
            p.batch.micro_batch = batch, p.batch.global_batch *= batch * depth;
            p.policy.recompute = recompute;
            p.sharding.distributed_optimizer = p.sharding.overlap_param_gather =
                p.sharding.overlap_grad_reduce = false;
            p.stack.gradient_accumulation_fusion = false;
            p.stack.overlap_tensor_reduce = p.stack.overlap_depth_gather =
                p.stack.overlap_depth_scatter = overlaps;
          });
  for (const bool overlaps : {true, false})
    for (const int group : {0, 1, 2})
      add("weights of a depth are saved", llama, [=](Plan& p) {
        p.architecture.layers = 4;
        p.mesh.tp = 2;
        p.mesh.dp *= 2, p.mesh.tensor_depth = 2;
        p.mesh.sequence_parallel = false;
        p.batch.global_batch *= 2;
        if (group > 0) p.policy.recompute = full, p.policy.recompute_layers = group;
        p.sharding.distributed_optimizer = p.sharding.overlap_param_gather =
            p.sharding.overlap_grad_reduce = false;
        p.stack.gradient_accumulation_fusion = false;
        p.stack.overlap_depth_gather = p.stack.overlap_depth_scatter = overlaps;
        p.stack.saved_depth_weights = true;
      });
  add_rounded_plans(add, llama);
  add_scaled_plans(add, llama);
  for (const int pp : {1, 2})
    add("state of DeepSpeed on the CPU", llama, [=](Plan& p) {
      p.architecture.layers = 4;
      p.mesh.pp = pp;
      deepspeed(p);
      p.optimizer.offload_fraction = 1;
    });
  for (const int stride : {0, 2, 3})
    for (const double share : {0.6, 1.0})
      for (const bool async : {false, true})
        for (const Recompute recompute : {Recompute::none, full})
          add("ZeRO-3 on the CPU", llama, [=](Plan& p) {
            p.architecture.layers = 4;
            p.sharding.data_parallel = DataParallelism::fsdp2;
            p.sharding.deepspeed_optimizer = true;
            p.sharding.deepspeed_all_reduce = p.sharding.overlap_grad_reduce = async;
            p.numerics.fp32_gradients = share < 1;
            p.policy.recompute = recompute;
            p.optimizer.offload_fraction = share;
            p.optimizer.sub_group = 20'000'000;
            p.optimizer.gpu_stride = stride;
            p.optimizer.async_gradient_copy = async;
          });
  for (const bool wide : {false, true})
    for (const Recompute recompute : {Recompute::none, full})
      add("ZeRO-3 of DeepSpeed", llama, [=](Plan& p) {
        p.architecture.layers = 4;
        p.sharding.data_parallel = DataParallelism::fsdp2;
        p.sharding.deepspeed_optimizer = true;
        p.sharding.overlap_grad_reduce = wide;
        p.numerics.fp32_gradients = wide;
        p.policy.recompute = recompute;
        p.optimizer.sub_group = 20'000'000;
      });
}

}  // namespace sample
