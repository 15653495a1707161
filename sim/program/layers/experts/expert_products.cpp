// expert_products.cpp — see mixture.h: the products up and down, with a weighted activation
// between, for the rows of each local expert.
#include <utility>

#include "sim/program/layers/experts/expert_adapter.h"
#include "sim/program/layers/linear/fp8.h"
#include "sim/program/parallel/offload/module_offload.h"

namespace sim::program {

using model::OperationKind;

namespace {

struct Products {
  Matrix up, down;
  std::int64_t rows;
  Value input, up_output, operand, probabilities;  // `operand`: of the product down
  bool recomputes;                                 // the activation is recomputed
  bool biased, padded;
  ExpertAdapter up_adapter{true}, down_adapter{false};
  Value gate = 0;  // silu(gate), if SwiGLU is not fused
  std::int64_t wide(const Writer& w) const { return w.dim.element * rows * up.out; }
  std::int64_t half(const Writer& w) const { return w.dim.element * rows * down.in; }

  Value activate(Writer& w) const;
  Value copied(Writer& w, Value rows, std::string_view label, std::string_view name) const;
  Value add_biases(Writer& w, Value outputs) const;
  Value biases_back(Writer& w, Value gradient) const;
  Gradients back(Writer& w, Gradients gradients) const;
};

// Pads the rows of each expert to a multiple of 16, which fp8 needs, or removes the padding; drops
// `rows` [core 0.15 moe/experts.py:TEGroupedMLP; TransformerEngine pytorch/module/fp8_padding.py].
Value Products::copied(Writer& w, Value from, std::string_view label, std::string_view name) const {
  const std::int64_t bytes = w.dim.element * rows * up.in;
  const Value made = w.temporary(bytes, label);
  w.memory_bound(OperationKind::copy, name, 2 * bytes);
  w.drop(from);
  return made;
}

// Adds the bias of the product down, times each row's probability, expert by expert: in fp32,
// concatenated, rounded. The bias of the product up is part of its epilogue [core 0.15
// moe/experts.py:TEGroupedMLP._apply_bias].
Value Products::add_biases(Writer& w, Value outputs) const {
  const std::int64_t elements = rows * up.in;
  const Value parts = w.temporary(4 * elements, "biased outputs of each expert");
  w.memory_bound(OperationKind::elementwise, "scale biases", 4 * elements);
  w.memory_bound(OperationKind::elementwise, "add biases", (w.dim.element + 8) * elements);
  w.e.host(HostWork::launches, 2 * (down.count - 1));
  const Value joined = w.temporary(4 * elements, "biased outputs");
  w.memory_bound(OperationKind::copy, "join biased outputs", 8 * elements);
  w.drop(parts);
  const Value made = w.temporary(w.dim.element * elements, "biased expert output");
  w.memory_bound(OperationKind::elementwise, "round biased outputs",
                 (4 + w.dim.element) * elements);
  w.drop({joined, outputs});
  return made;
}

// The backward pass: the gradient in fp32; for each expert it is rounded for the rows, and summed
// for the bias and for the rows' probabilities.
Value Products::biases_back(Writer& w, Value gradient) const {
  const std::int64_t elements = rows * up.in, e = w.dim.element;
  const Value whole = w.temporary(4 * elements, "biased output gradient");
  w.memory_bound(OperationKind::elementwise, "biased output gradient", (4 + e) * elements);
  w.drop(gradient);
  const Value parts = w.temporary(e * elements, "output gradients of each expert");
  w.memory_bound(OperationKind::elementwise, "round output gradients", (4 + e) * elements);
  const Value one = w.temporary(4 * ((elements + down.count - 1) / down.count), "bias gradient");
  for (const std::string_view of : {"bias gradient", "bias probability gradient"}) {
    if (w.frozen() && of == "bias gradient") continue;
    w.memory_bound(OperationKind::elementwise, of, 8 * elements);
    w.memory_bound(OperationKind::reduction, of, 4 * elements);
  }
  w.e.host(HostWork::launches, 5 * (down.count - 1));
  w.drop(one);
  const Value made = w.temporary(e * elements, "expert output gradient");
  w.memory_bound(OperationKind::copy, "join output gradients", 2 * e * elements);
  w.drop({parts, whole});
  return made;
}

// The activation's output, as the product down reads it.
Value Products::activate(Writer& w) const {
  const bool fp8 = w.plan.numerics.fp8;
  const Value out = fp8 ? w.temporary(half(w), "expert activation output")
                        : w.activation(half(w), "expert activation output");
  w.memory_bound(OperationKind::elementwise, "weighed activation", wide(w) + half(w) + 4 * rows);
  if (!fp8) return out;
  find_scale(w, {.bytes = half(w), .elementwise = true, .tensors = down.count});
  const Value cast = w.activation(rows * down.in, "expert activation in fp8");
  w.memory_bound(OperationKind::elementwise, "expert activation to fp8", half(w) + rows * down.in);
  w.drop(out);
  return cast;
}

// Operators of PyTorch without a fused activation.
Value separate_silu(Writer& w, std::int64_t bytes) {
  if (w.plan.stack.layer_kernels == LayerKernels::fused || w.plan.stack.swiglu_fusion ||
      w.a.activation != model::Activation::swiglu)
    return 0;
  const Value made = w.activation(bytes, "silu(gate)");
  w.memory_bound(OperationKind::elementwise, "silu", 2 * bytes);
  return made;
}

void weight_products(Writer& w, const Matrix& m, std::int64_t rows, Value operand,
                     Value quantised) {
  const Value made = weight_gradient(w, m, rows);
  w.drop({operand, quantised});
  hand_over(w, m, made);
}

// Adds an adapter's part of a gradient, if there is one.
void add(Writer& w, Value gradient, std::int64_t bytes) {
  if (gradient == 0) return;
  w.memory_bound(OperationKind::elementwise, "add adapter gradient", 3 * bytes);
  w.drop(gradient);
}

Gradients Products::back(Writer& w, Gradients gradients) const {
  Value read = operand;
  if (biased) gradients[0] = biases_back(w, gradients[0]);
  const Value of_down_adapter = down_adapter.back(w, rows);
  if (padded) gradients[0] = copied(w, gradients[0], "padded gradient", "pad gradient");
  wait_for_group(w, OffloadModule::moe_act);
  const Value of_output = quantise(w, down, rows);
  const Value inner = w.temporary(half(w), "expert fc2 input gradient");
  input_gradient(w, down, rows);
  add(w, of_down_adapter, half(w));
  if (recomputes) {
    const std::uint8_t before = std::exchange(w.set.flags, recomputed);
    read = activate(w);
    w.set.flags = before;
  }
  if (w.frozen()) {
    w.drop({of_output, recomputes ? read : Value{0}});
  } else if (w.variant.split) {
    const Value kept = of_output != 0 ? of_output : gradients[0];
    w.hold(kept);
    w.drop(of_output);
    w.defer([=, m = down, count = rows](Writer& b) { weight_products(b, m, count, read, kept); });
  } else {
    weight_products(w, down, rows, read, of_output);
  }
  w.drop(gradients[0]);
  const Value outer = w.temporary(wide(w), "expert fc1 output gradient");
  const Value scores =
      probabilities != 0 ? w.temporary(4 * rows, "expert probability gradient") : gradients[1];
  w.memory_bound(OperationKind::elementwise, "weighed activation backward", 2 * wide(w) + half(w));
  w.drop({inner, up_output, gate, probabilities});
  bring_next_group(w, OffloadModule::moe_act);
  wait_for_group(w, OffloadModule::expert_fc1);
  const Value of_up_adapter = up_adapter.back(w, rows);
  const Value of_up = quantise(w, up, rows);
  Value made = w.temporary(w.dim.element * rows * up.in, "expert input gradient");
  input_gradient(w, up, rows);
  add(w, of_up_adapter, w.dim.element * rows * up.in);
  if (w.frozen()) {
    w.drop(of_up);
  } else if (w.variant.split) {
    const Value kept = of_up != 0 ? of_up : outer;
    w.hold(kept);
    w.drop(of_up);
    w.defer([=, m = up, count = rows, in = input](Writer& b) {
      weight_products(b, m, count, in, kept);
    });
  } else {
    weight_products(w, up, rows, input, of_up);
  }
  w.drop(outer);
  bring_next_group(w, OffloadModule::expert_fc1);
  if (padded) made = copied(w, made, "expert input gradient", "unpad gradient");
  return {made, scores, gradients[2]};
}

}  // namespace

Matrix expert_matrix(const Rank& rank, bool up) {
  const model::Architecture& a = rank.plan.architecture;
  const std::int64_t ffn = a.experts.ffn / rank.plan.expert_tp();
  const std::int64_t inputs = a.activation == model::Activation::swiglu ? 2 : 1;
  std::string_view bias;
  if (a.linear_bias) bias = up ? "experts.linear_fc1.bias" : "experts.linear_fc2.bias";
  return {.name = up ? "expert fc1" : "expert fc2",
          .parameter = up ? "experts.linear_fc1.weight" : "experts.linear_fc2.weight",
          .in = up ? a.hidden : ffn,
          .out = up ? inputs * ffn : a.hidden,
          .count = a.experts.count / rank.plan.mesh.ep,
          .grouped = rank.plan.experts.grouped_gemm,
          .narrow = false,
          .bias = bias,
          .legacy = rank.plan.experts.legacy_grouped_gemm};
}

Value expert_products(Writer& w, const Routed& r, Dispatched in) {
  const bool fp8 = w.plan.numerics.fp8;
  Products p{expert_matrix(w.rank, true),
             expert_matrix(w.rank, false),
             r.rows,
             in.rows,
             0,
             0,
             in.probabilities,
             false,
             w.a.linear_bias,
             fp8 && !w.plan.experts.pads_to_capacity};
  if (p.rows == 0) p.rows = 1;
  p.recomputes = w.plan.policy.recompute == Recompute::selective &&
                 w.plan.policy.recompute_modules.moe_activation;
  w.use({p.up.parameter});
  if (p.padded) in.rows = p.copied(w, in.rows, "padded tokens", "pad rows of experts");
  if (fp8) {
    find_scale(w, {.bytes = w.dim.element * p.rows * p.up.in, .tensors = p.up.count});
    p.input = w.activation(p.rows * p.up.in, "expert input in fp8");
    w.memory_bound(OperationKind::elementwise, "expert input to fp8",
                   (w.dim.element + 1) * p.rows * p.up.in);
    w.drop(in.rows);
  }
  OffloadGroup fc1(w, OffloadModule::expert_fc1);
  p.up_output = w.activation(p.wide(w), "expert fc1 output");
  multiply(w, p.up, p.rows);
  p.up_adapter.forward(w, p.rows, p.input, p.up_output);
  save_operands(w, {p.input});
  fc1.close();
  fc1.commit();
  w.drop(p.input);
  OffloadGroup activation(w, OffloadModule::moe_act);
  if (!p.recomputes) p.gate = separate_silu(w, p.half(w));
  const Value operand = p.activate(w);
  w.save({p.up_output, p.gate, p.probabilities});
  activation.close();
  w.drop({p.up_output, p.gate, p.probabilities});
  w.use({p.down.parameter});
  Value out = w.temporary(w.dim.element * p.rows * p.down.out, "expert output");
  multiply(w, p.down, p.rows);
  p.down_adapter.forward(w, p.rows, operand, out);
  if (!p.recomputes) {
    p.operand = operand;
    save_operands(w, {operand});
  }
  w.drop(operand);
  activation.commit();
  if (p.padded) out = p.copied(w, out, "expert output", "unpad rows of experts");
  if (p.biased) out = p.add_biases(w, out);
  w.node([p](Writer& b, Gradients g) { return p.back(b, g); });
  return out;
}

}  // namespace sim::program
