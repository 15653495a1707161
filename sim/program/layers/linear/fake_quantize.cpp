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

}  // namespace sim::program
