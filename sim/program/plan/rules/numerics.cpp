#include <fmt/format.h>

#include <string>

#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

void precision(const Plan& plan, Diagnostics& problems) {
  if (plan.numerics.precision == model::Precision::fp8 ||
      plan.numerics.precision == model::Precision::tf32)
    problems.push_back(
        {"precision", "precision is one of bf16, fp16, fp32; others are not simulated"});
  // [flash_attn/flash_attn_interface.py and TransformerEngine's backends: fp16 and bf16 alone]
  if (plan.numerics.precision == model::Precision::fp32 &&
      plan.stack.attention != AttentionBackend::unfused)
    problems.push_back(
        {"attention", fmt::format("{} multiplies in 16 bits or less, not in fp32; write attention "
                                  "unfused, or precision bf16",
                                  implementation(plan.stack.attention))});
  if (plan.numerics.tf32 && plan.numerics.precision != model::Precision::fp32)
    problems.push_back({"tf32", "tf32 is of fp32 tensors; write precision fp32, or turn tf32 off"});
  if (plan.numerics.fp8_parameters && !plan.numerics.fp8)
    problems.push_back({"fp8_parameters", "fp8_parameters needs products in fp8; write fp8 true"});
  if (plan.numerics.fp8_recipe != Fp8Recipe::delayed && !plan.numerics.fp8)
    problems.push_back(
        {"fp8_recipe", "fp8_recipe is of products in fp8; write fp8 true too, or leave it out"});
  if (!plan.numerics.fp8) return;
  // Only a hook of FSDP2 marks parameters that are gathered in fp8 [torchao float8/fsdp_utils.py:
  // WeightWithDynamicFloat8CastTensor.fsdp_pre_all_gather].
  if (plan.numerics.fp8_parameters && plan.sharding.data_parallel == DataParallelism::fsdp1)
    problems.push_back(
        {"fp8_parameters",
         "fp8_parameters: fsdp1's flat parameters have one type; write data_parallel fsdp2"});
  if (plan.numerics.precision == model::Precision::fp32)
    problems.push_back({"fp8", "fp8 needs 16-bit parameters; write precision bf16"});
}

void fake_quantization(const Plan& plan, Diagnostics& problems) {
  const NumericsPlan& n = plan.numerics;
  if (n.fake_quantization == FakeQuantization::none) {
    if (n.fake_quantization_clips)
      problems.push_back({"fake_quantization_clips",
                          "fake_quantization_clips says how gradients pass what is rounded; write "
                          "fake_quantization weights or operands"});
    return;
  }
  const auto refuse = [&](bool bad, const char* field, const char* why) {
    if (bad) problems.push_back({field, std::string("fake_quantization ") + why});
  };
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  refuse(plan.architecture.is_mixture() || plan.architecture.is_latent(), "model",
         "is simulated for the products of dense layers; write another model");
  refuse(plan.accumulates_in_product(), "gradient_accumulation_fusion",
         "makes each weight's gradient pass what is rounded, so that no product adds into "
         "main_grad; write gradient_accumulation_fusion false");
  refuse(n.fp8, "fp8", "rounds operands of products in 16 bits; write fp8 false");
  refuse(plan.trains_adapters(), "lora_rank", "trains all weights; leave lora_rank out");
  refuse(schedule && schedule->splits != schedule::Splits::none, "schedule",
         "has no weight gradients of their own pass; write a schedule that does not split the "
         "backward pass");
  refuse(plan.stack.layer_kernels != LayerKernels::fused || plan.stack.separate_products,
         "layer_kernels",
         "is ModelOpt's on Megatron-LM's layers; write layer_kernels fused and separate_products "
         "false");
  refuse(plan.stack.tp_comm_overlap, "tp_comm_overlap",
         "has products of their own kind, without user buffers; write tp_comm_overlap false");
  refuse(plan.mesh.tensor_columns > 1 || plan.mesh.tensor_depth > 1, "tensor_columns",
         "is not in AxoNN's products; write tensor_columns 1 and tensor_depth 1");
  refuse(plan.policy.offloads() || plan.policy.plans_choices, "offload_layers",
         "keeps rounded weights, which are not simulated on the CPU; leave offload_layers and "
         "layer_choices out");
}

void adapters(const Plan& plan, Diagnostics& problems) {
  if (plan.lora.rank == 0) return;
  if (plan.lora.rank < 0 || plan.lora.rank > 65536 || plan.lora.rank % plan.mesh.tp != 0)
    problems.push_back(
        {"lora_rank", fmt::format("lora_rank {} must be a multiple of tp {}, at most 65536",
                                  plan.lora.rank, plan.mesh.tp)});
  if (!plan.lora.qkv && !plan.lora.projection && !plan.lora.fc1 && !plan.lora.fc2)
    problems.push_back(
        {"lora_modules", "lora_modules names no module; without adapters leave lora_rank out"});
}

}  // namespace sim::program::rules
