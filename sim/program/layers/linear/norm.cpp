#include "sim/program/layers/linear/norm.h"

#include "sim/program/layers/linear/fp8.h"

namespace sim::program {

using model::OperationKind;

namespace {

// RMSNorm as single operators, for versions of PyTorch without a kernel for it.
bool by_operators(const Writer& w) {
  return w.plan.is_eager() && !w.a.norm_centres() && !w.plan.stack.norm_fusion;
}

void forward_kernels(Writer& w, std::int64_t output_bytes) {
  const std::int64_t u = w.dim.residual();
  if (!by_operators(w)) {
    w.memory_bound(OperationKind::norm, "norm", u + output_bytes);
    return;
  }
  // On an fp32 copy: cast, square, mean, product, cast back, weight.
  const std::int64_t wide = u / w.dim.element * 4;
  w.memory_bound(OperationKind::elementwise, "norm to fp32", u + wide);
  w.memory_bound(OperationKind::elementwise, "norm square", 2 * wide);
  w.memory_bound(OperationKind::reduction, "norm mean", wide);
  w.memory_bound(OperationKind::elementwise, "norm scale", 2 * wide);
  w.memory_bound(OperationKind::elementwise, "norm from fp32", wide + u);
  w.memory_bound(OperationKind::elementwise, "norm weight", u + output_bytes);
}

void backward_kernels(Writer& w) {
  const std::int64_t u = w.dim.residual();
  const std::int64_t hidden = w.dim.hidden;
  if (!w.plan.is_eager()) {
    w.memory_bound(OperationKind::norm, "norm backward", 3 * u);
    if (!w.a.norm_has_weights()) return;
    w.memory_bound(OperationKind::reduction, "norm weight gradient",
                   4 * w.rank.environment.sms * hidden);
    return;
  }
  if (!by_operators(w)) {
    w.memory_bound(OperationKind::norm, "norm backward", 3 * u);
    if (!w.a.norm_has_weights()) return;
    // A second kernel reads both tensors again, a thread block for 32 columns
    // [layer_norm_kernel.cu:GammaBetaBackwardCUDAKernel_32x32].
    w.e.kernel(model::memory_bound(OperationKind::norm, "norm weight gradient", Bytes{2 * u},
                                   (hidden + 31) / 32));
    return;
  }
  // The backward pass of each forward operator, and the row sum of the weight's gradient.
  const std::int64_t wide = u / w.dim.element * 4;
  w.memory_bound(OperationKind::elementwise, "norm weight backward", 5 * u);
  w.memory_bound(OperationKind::reduction, "norm weight gradient", u);
  w.memory_bound(OperationKind::elementwise, "norm from fp32 backward", u + wide);
  w.memory_bound(OperationKind::elementwise, "norm scale backward", 5 * wide);
  w.memory_bound(OperationKind::elementwise, "norm square backward", 6 * wide);
  w.memory_bound(OperationKind::elementwise, "norm to fp32 backward", wide + u);
}

}  // namespace

Normed norm_forward(Writer& w, std::int64_t bytes, std::string_view label, bool workspace) {
  return norm_into(w, w.activation(bytes, label), bytes, workspace);
}

namespace {

// If scales are computed before the cast, a norm with fp8 output writes 16 bits first.
void write_output(Writer& w, std::int64_t bytes) {
  const std::int64_t wide = w.dim.residual();
  if (bytes == wide || !finds_scales(w.plan)) return forward_kernels(w, bytes);
  const Value whole = w.temporary(wide, "norm output in 16 bits");
  forward_kernels(w, wide);
  find_scale(w, {.bytes = wide, .parts = Unscaled::Parts::rows, .norm = true});
  w.memory_bound(OperationKind::elementwise, "norm output to fp8", wide + bytes);
  w.drop(whole);
}

}  // namespace

Normed norm_into(Writer& w, Value output, std::int64_t bytes, bool workspace) {
  Normed n{output, w.activation(4 * w.dim.shard, "rsigma"), 0};
  if (w.a.norm_centres()) n.mu = w.activation(4 * w.dim.shard, "mu");
  const Value scratch = workspace ? w.temporary(1, "norm workspace") : Value{0};
  write_output(w, bytes);
  w.save({n.rsigma, n.mu});
  w.drop({scratch, n.rsigma, n.mu});
  w.rematerialize({n.output, n.rsigma, n.mu}, [n, bytes](Writer& b) {
    b.refill({n.output, n.rsigma, n.mu});
    write_output(b, bytes);
  });
  return n;
}

NormGradients norm_backward(Writer& w, Value gradient) {
  const bool weights = w.a.norm_has_weights(), bias = w.a.norm_has_bias();
  const std::int64_t row = w.dim.element * w.dim.hidden;
  const std::int64_t parts = 4 * w.rank.environment.sms * w.dim.hidden;
  NormGradients made{};
  if (weights) made.weight = w.temporary(row, "norm weight gradient");
  if (bias) made.bias = w.temporary(row, "norm bias gradient");
  const Value of_weight = weights ? w.temporary(parts, "norm weight gradient parts") : Value{0};
  const Value of_bias = bias ? w.temporary(parts, "norm bias gradient parts") : Value{0};
  backward_kernels(w);
  w.drop({of_weight, of_bias, gradient});
  return made;
}

}  // namespace sim::program
