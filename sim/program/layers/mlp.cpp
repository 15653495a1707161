#include "sim/program/layers/mlp.h"

#include "sim/program/layers/linear/fp8.h"
#include "sim/program/layers/linear/linear.h"

namespace sim::program {

using model::OperationKind;

namespace {

// The tensors that the activation saves, and its kernels.
struct Activation {
  Value input, gate;  // silu(gate), if SwiGLU is not fused
  bool gated;
  // With early stop, recomputation of a layer leaves no reader of this output before the backward
  // pass. A compiler then computes it there, in the kernel of the gradient (results/captured-steps:
  // triton_poi_fused__unsafe_view_mul_silu_silu_backward).
  bool late = false;

  // The output of the activation in 16 bits.
  Value forward(Writer& w) {
    const std::int64_t bytes = w.dim.rows(w.dim.ffn);
    if (gated && !w.plan.stack.swiglu_fusion) {
      gate = w.activation(bytes, "silu(gate)");
      w.memory_bound(OperationKind::elementwise, "silu", 2 * bytes);
    }
    const Value out = w.plan.numerics.fp8 ? w.temporary(bytes, "activation output")
                                          : w.activation(bytes, "activation output");
    late = w.variant.stops_early && w.puts_off() && !w.plan.numerics.fp8;
    if (!late)
      w.memory_bound(OperationKind::elementwise, gated ? "swiglu" : "bias gelu",
                     w.dim.rows(w.dim.up) + bytes);
    w.save({input, gate});
    w.drop({gate, input});
    return out;
  }

  Gradients back(Writer& w, Gradients gradients) const {
    const Value made = w.temporary(w.dim.rows(w.dim.up), "fc1 output gradient");
    w.memory_bound(OperationKind::elementwise, gated ? "swiglu backward" : "bias gelu backward",
                   2 * w.dim.rows(w.dim.up) + (late ? 2 : 1) * w.dim.rows(w.dim.ffn));
    w.drop({gradients[0], input, gate});
    w.catch_up();  // fc2's weight gradient
    return {made};
  }
};

// With recomputation of operators, every second product of a layer is kept: the gate half of fc1,
// or all of fc1 without a gate. With a gate, fc2 is also kept, but nothing reads its output, so a
// compiler drops it (results/captured-steps: 433 MiB a layer of Llama-3.1-8B and 8,192 tokens,
// without fc2's 64).
void rematerialize_operands(Writer& w, const Activation& activation, Value operand) {
  if (activation.gated) w.rematerialize({activation.gate}, [](Writer&) {});
  const auto make = [=](Writer& b) {
    const std::int64_t bytes = b.dim.rows(b.dim.ffn);
    if (activation.gate != 0) {
      b.refill({activation.gate});
      b.memory_bound(OperationKind::elementwise, "silu", 2 * bytes);
    }
    b.refill({operand});
    b.memory_bound(OperationKind::elementwise, activation.gated ? "swiglu" : "bias gelu",
                   b.dim.rows(b.dim.up) + b.rank.operand(bytes));
  };
  if (!activation.gated) return w.rematerialize({operand}, make);
  const auto product = [=](Writer& b) {
    b.refill({activation.input});
    b.product("fc1", b.dim.ffn, b.dim.hidden);
  };
  w.rematerialize({activation.input}, product, [](Writer& b) -> std::vector<Value> {
    const Value half = b.activation(b.dim.rows(b.dim.up - b.dim.ffn), "kept half of fc1 output");
    if (b.plan.stack.layer_kernels == LayerKernels::compiled) return {half};
    return {b.activation(b.dim.residual(), "kept fc2 output"), half};
  });
  w.rematerialize({operand}, make);
}

}  // namespace

ParameterList mlp_parameters(const Rank& rank) {
  ParameterList list = linear_parameters(rank, Module::fc1);
  for (const Parameter& p : linear_parameters(rank, Module::fc2)) list.push_back(p);
  return list;
}

Value mlp(Writer& w, Value given) {
  const Linear fc1 = linear(w.rank, Module::fc1), fc2 = linear(w.rank, Module::fc2);
  const std::int64_t bytes = w.dim.rows(w.dim.ffn), cast = w.rank.operand(bytes);
  Activation activation{column_parallel(w, fc1, given, "fc1 output", Category::activations), 0,
                        w.a.activation == model::Activation::swiglu};
  const Value out = activation.forward(w);
  w.node([activation](Writer& b, Gradients g) { return activation.back(b, g); });
  w.use({fc2.weight});
  Value operand = out;
  if (w.plan.numerics.fp8) {
    find_scale(w, {.bytes = bytes, .parts = Unscaled::Parts::columns, .elementwise = true});
    operand = w.activation(cast, "activation output in fp8");
    w.memory_bound(OperationKind::elementwise, "activation output to fp8", bytes + cast);
  }
  rematerialize_operands(w, activation, operand);
  const Value sum = row_parallel(w, fc2, out, operand, "fc2 input gradient");
  w.drop(operand);
  if (operand != out) w.drop(out);
  return sum;
}

}  // namespace sim::program
