#include "sim/calibrate/trace/purpose.h"

namespace sim::calibrate {

namespace {

enum Purpose : Purposes {
  rotation = 1 << 0,
  activation = 1 << 1,
  normalisation = 1 << 2,
  addition = 1 << 3,  // of two tensors: residuals, gradients
  shard_cast = 1 << 4,
  gather_in = 1 << 5,
  gather_out = 1 << 6,
  scatter_in = 1 << 7,
  gradient_norm = 1 << 8,
  clip = 1 << 9,
};

struct PurposeName {
  std::string_view text;
  Purpose purpose;
};

constexpr PurposeName of_labels[] = {
    {"rope", rotation},
    {"rotary", rotation},
    {"silu", activation},
    {"swiglu", activation},
    {"gelu", activation},
    {"residual add", addition},
    {"gradient add", addition},
    {"main_grad add", addition},
    {"add ", addition},
    {"shard to low precision", shard_cast},
    {"shard to all-gather output", gather_in},
    {"all-gather copy-out", gather_out},
    {"reduce-scatter copy-in", scatter_in},
    {"gradient norm", gradient_norm},
    {"clip gradients", clip},
    {"norm", normalisation},
};

constexpr PurposeName of_kernels[] = {
    // torchtitan and Meta's Llama rotate by complex products, which Inductor does not compile.
    {"complex<float>, c10::complex<float>, c10::complex<float>", rotation},
    {"conj_kernel", rotation},
    {"view_as_complex", rotation},
    {"fused_rope", rotation},
    {"rotary", rotation},
    {"silu", activation},
    {"swiglu", activation},
    {"gelu", activation},
    {"gated_act", activation},
    {"layer_norm", normalisation},
    {"rms_norm", normalisation},
    {"rmsnorm", normalisation},
    {"layernorm", normalisation},
    {"ln_fwd", normalisation},
    {"ln_bwd", normalisation},
    {"GammaBeta", normalisation},
    {"CUDAFunctor_add<", addition},
    {"_add_", addition},
    // Kernels of PyTorch's FSDP2 (_fsdp_collectives.py).
    {"CopyFunctor<", shard_cast},
    {"native::Copy<c10::BFloat16, c10::BFloat16>", gather_in},
    {"split_with_sizes_copy", gather_out},
    {"chunk_cat", scatter_in},
    {"LpNormFunctor", gradient_norm},
    {"L2NormFunctor", gradient_norm},
    {"BinaryOpScalarTensorFunctor", clip},
};

}  // namespace

Purposes purposes_of_label(std::string_view label) {
  // The first matching row counts: "gradient norm" comes before "norm".
  for (const PurposeName& part : of_labels)
    if (label.find(part.text) != std::string_view::npos) return part.purpose;
  return 0;
}

Purposes purposes_of_kernel(std::string_view kernel) {
  Purposes all = 0;
  for (const PurposeName& part : of_kernels)
    if (kernel.find(part.text) != std::string_view::npos)
      all = static_cast<Purposes>(all | part.purpose);
  return all;
}

}  // namespace sim::calibrate
