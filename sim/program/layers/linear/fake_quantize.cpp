#include "sim/program/layers/linear/fake_quantize.h"

#include "sim/job/schedule/schedule.h"

namespace sim::program {
namespace {

using model::OperationKind;

// One kernel for the whole tensor, whatever the grid [src/tensor_quant_gpu.cu,
// tensor_quant_gpu_fp8.cu, triton/fp4_kernel.py].
Value rounded(Writer& w, std::int64_t bytes, std::string_view label) {
  const Value made = w.activation(bytes, label);
  w.memory_bound(OperationKind::elementwise, label, 2 * bytes);
  w.save(made);
  return made;
}

// [tensor_quant.py:_fake_tensor_quant_backward, one fused kernel]
Value clipped(Writer& w, Value gradient, std::int64_t bytes, std::string_view label) {
  const Value made = w.temporary(bytes, label);
  w.memory_bound(OperationKind::elementwise, label, 3 * bytes);
  w.drop(gradient);
  return made;
}

}  // namespace

Rounded round_operands(Writer& w, const Linear& l, Value input, std::int64_t bytes) {
  Rounded made;
  const FakeQuantization what = w.plan.numerics.fake_quantization;
  if (what == FakeQuantization::none) return made;
  if (what == FakeQuantization::operands) {
    made.input = rounded(w, bytes, "rounded input");
    if (w.plan.numerics.fake_quantization_clips) w.save(made.given = input);
  }
  made.weight = rounded(w, w.dim.element * l.in * l.out, "rounded weight");
  return made;
}

Value through_weight(Writer& w, const Linear& l, Value gradient) {
  if (!w.plan.numerics.fake_quantization_clips) return gradient;
  return clipped(w, gradient, w.dim.element * l.in * l.out, "clipped weight gradient");
}

Value through_input(Writer& w, const Rounded& rounded, Value gradient, std::int64_t bytes) {
  if (rounded.given == 0) return gradient;
  const Value made = clipped(w, gradient, bytes, "clipped input gradient");
  w.drop(rounded.given);
  return made;
}

std::vector<Problem> fake_quantization_problems(const Plan& plan) {
  std::vector<Problem> problems;
  const NumericsPlan& n = plan.numerics;
  if (n.fake_quantization == FakeQuantization::none) {
    if (n.fake_quantization_clips)
      problems.push_back({"fake_quantization_clips",
                          "fake_quantization_clips says how gradients pass what is rounded; write "
                          "fake_quantization weights or operands"});
    return problems;
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
  return problems;
}

}  // namespace sim::program
