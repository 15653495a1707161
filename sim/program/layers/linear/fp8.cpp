#include "sim/program/layers/linear/fp8.h"

#include "sim/program/layers/linear/tensor_grid.h"

namespace sim::program {

using model::OperationKind;

namespace {

// TransformerEngine's norm kernels also find amax; its other kernels do not. A compiler fuses amax
// into every elementwise kernel.
bool found_on_the_way(const Writer& w, const Unscaled& tensor) {
  return tensor.norm ? w.plan.stack.layer_kernels != LayerKernels::eager
                     : tensor.elementwise && w.plan.stack.layer_kernels == LayerKernels::compiled;
}

// Whether the ranks all-reduce amax. TransformerEngine: if the sequence is gathered. torchao: if
// the DTensor is split in any way.
bool agrees(const Writer& w, const Unscaled& tensor) {
  switch (tensor.parts) {
    case Unscaled::Parts::none:
      return false;
    case Unscaled::Parts::rows:
      return w.sequence_parallel();
    case Unscaled::Parts::columns:
      return w.plan.tensor_rows() > 1 && w.plan.stack.layer_kernels != LayerKernels::fused;
  }
  return false;
}

}  // namespace

bool finds_scales(const Plan& plan) {
  return plan.numerics.fp8 && (plan.numerics.fp8_recipe == Fp8Recipe::tensorwise ||
                               plan.numerics.fp8_recipe == Fp8Recipe::nvfp4);
}

void find_scale(Writer& w, const Unscaled& tensor) {
  if (!finds_scales(w.plan)) return;
  if (!found_on_the_way(w, tensor))
    w.memory_bound(OperationKind::reduction, "largest magnitude", tensor.bytes);
  if (agrees(w, tensor))
    w.e.agree(over_rows(w.plan), "all-reduce of a scale", tensor.parts == Unscaled::Parts::rows);
  w.memory_bound(OperationKind::elementwise, "scale of fp8", 8 * tensor.tensors);
  // Each tensor has two separate kernels.
  if (tensor.tensors > 1) w.e.host(HostWork::launches, 2 * (tensor.tensors - 1));
}

}  // namespace sim::program
