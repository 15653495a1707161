#include "sim/workload/linear.h"

#include <utility>

#include "sim/workload/lora.h"
#include "sim/workload/norm.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

// The gradient of a product's output, cast and cast transposed, until its last use.
Value quantise(Writer& w, std::int64_t width, std::int64_t bytes) {
  if (!w.plan.numerics.fp8) return 0;
  const Value made = w.temporary(2 * w.dim.tokens * width, "output gradient in fp8");
  w.memory_bound(OperationKind::elementwise, "gradient to fp8", bytes + 2 * w.dim.tokens * width);
  return made;
}

void input_gradient(Writer& w, const Linear& l, std::uint8_t flags) {
  const bool transposes = w.plan.numerics.fp8_parameters && !w.plan.keeps_transposed_weights();
  Value transposed = 0;
  if (transposes) {
    transposed = w.temporary(l.in * l.out, "transposed weight in fp8");
    w.memory_bound(OperationKind::copy, "transpose weight", 2 * l.in * l.out);
  }
  for (std::size_t i = 0; i < l.part_count; ++i) {
    // Autograd adds what each product says of the input that they share.
    const Value part = i == 0 ? Value{0} : w.temporary(w.dim.full(), "input gradient of a part");
    w.e.kernel(model::gemm(l.name, w.dim.tokens, l.in, l.parts[i], GemmRole::input_gradient, false,
                           w.plan.product_precision()),
               flags);
    if (i == 0) continue;
    w.memory_bound(OperationKind::elementwise, "add input gradients", 3 * w.dim.full());
    w.drop(part);
  }
  w.drop(transposed);
}

// Into fp32 main_grad, which the first microbatch overwrites. In fp8 both operands are wanted along
// the tokens: the input is transposed, `quantised` is the gradient.
void weight_gradient(Writer& w, const Linear& l, Value quantised, std::uint8_t flags = 0) {
  Value transposed = 0;
  if (w.plan.numerics.fp8) {
    transposed = w.temporary(w.dim.tokens * l.in, "transposed input in fp8");
    w.memory_bound(OperationKind::copy, "transpose input", 2 * w.dim.tokens * l.in);
  }
  const bool accumulates = w.plan.accumulates_in_product() && w.plan.numerics.fp32_gradients &&
                           !w.variant.first_microbatch;
  for (const std::int64_t width : l.widths()) {
    w.e.kernel(model::gemm(l.name, width, l.in, w.dim.tokens, GemmRole::weight_gradient,
                           accumulates, w.plan.product_precision()),
               flags);
  }
  w.drop({transposed, quantised});
}

bool keeps_handles(const Writer& w) {
  return w.plan.stack.kept_gradient_handles && w.plan.accumulates_in_product();
}

// The uninitialised (or, without fused accumulation, the real) gradient of a weight that autograd
// is handed.
Value make_handle(Writer& w, const Linear& l) {
  const std::int64_t bytes = w.dim.element * l.in * l.out;
  if (!keeps_handles(w)) return w.temporary(bytes, "weight gradient handle");
  if (w.variant.first_use)
    w.e.alloc(fixed_slot(handle_qkv - static_cast<std::uint32_t>(l.module)), bytes, Category::other,
              "kept gradient handle");
  return 0;
}

void add_to_main_gradient(Writer& w, std::int64_t elements) {
  w.memory_bound(OperationKind::elementwise, "main_grad add",
                 (w.dim.element + 2 * (w.plan.numerics.fp32_gradients ? 4 : 2)) * elements);
}

// The hook of a weight: without shards its gradient is added to main_grad and gone.
void hook(Writer& w, const Linear& l, Value handle) {
  if (w.keep_gradient(handle, l.weight)) return;
  if (!w.plan.accumulates_in_product()) add_to_main_gradient(w, l.in * l.out);
  w.drop(handle);
  w.ready(l.weight);
}

void bias_gradient(Writer& w, const Linear& l) {
  if (!l.has_bias || w.frozen()) return;
  const Value made = w.temporary(w.dim.element * l.out, "bias gradient");
  if (w.keep_gradient(made, l.bias)) return;
  w.memory_bound(OperationKind::elementwise, "bias main_grad add", 10 * l.out);
  w.drop(made);
  w.ready(l.bias);
}

void add_adapter(Writer& w, Value gradient, std::int64_t bytes) {
  if (gradient == 0) return;
  w.memory_bound(OperationKind::elementwise, "add adapter gradient", 3 * bytes);
  w.drop(gradient);
}

// Both halves read one norm: its gradient is the sum of theirs.
void add_other_half(Writer& w, Value gradient) {
  if (w.other_gradient == 0 || gradient == 0) return;
  w.memory_bound(OperationKind::elementwise, "add gradient of the other half",
                 3 * w.dim.residual());
  w.drop(std::exchange(w.other_gradient, 0));
}

// What a column-parallel product leaves for its way back.
struct Column {
  Linear linear;
  Normed norm;
  Adapter adapter;
  bool holds_norm;  // its own input, or the adapter's

  Gradients back(Writer& w, Gradients gradients) const;
  void weight(Writer& w, Value gradient) const;
};

// The weight gradient in a pass of its own: the input is gathered again.
void Column::weight(Writer& w, Value gradient) const {
  const std::int64_t bytes = w.rank.operand(w.dim.full());
  Value gathered = 0;
  if (w.sequence_parallel()) {
    gathered = w.temporary(bytes, "gathered norm output");
    w.e.collective(Kind::all_gather, Stream::tp, bytes, "all-gather");
    w.reorder("gathered sequences", bytes);
  }
  weight_gradient(w, linear, w.plan.numerics.fp8 ? gradient : 0);
  w.drop(gathered);
  const Value handle = make_handle(w, linear);
  if (!w.plan.numerics.fp8) w.drop(gradient);
  w.drop(norm.output);
  hook(w, linear, handle);
}

Gradients Column::back(Writer& w, Gradients gradients) const {
  const Dimensions& dim = w.dim;
  const bool sp = w.sequence_parallel(), tp = dim.tp > 1;
  const bool frozen = w.frozen(), deferred = w.variant.split && !frozen;
  const bool alone = frozen || deferred;  // nothing to hide communication behind
  const bool last = w.puts_off() && !deferred && linear.module == Module::qkv;
  const auto joined = static_cast<std::uint8_t>(alone ? joins : overlapped);
  const bool behind = tp && !sp && !alone && !w.plan.stack.overlap_tensor_reduce;
  const Value from_adapter = adapter.backward(w);
  Value gathered = 0;
  std::uint16_t arrived = 0;
  if (sp && !alone) {
    gathered = w.temporary(w.rank.operand(dim.full()), "gathered norm output");
    arrived = w.event();
    w.e.collective(Kind::all_gather, Stream::tp, w.rank.operand(dim.full()), "all-gather",
                   overlapped, arrived);
    if (w.records()) w.record_stream(norm.output, Stream::tp);
    if (w.records()) w.record_stream(gathered, Stream::tp);
  }
  const Value quantised = quantise(w, linear.out, dim.rows(linear.out));
  const Value whole = w.temporary(dim.full(), "input gradient");
  input_gradient(w, linear, sp && !alone ? overlapped : std::uint8_t{0});
  if (frozen) w.drop(quantised);
  add_adapter(w, from_adapter, dim.full());
  Value reduced = whole;
  const std::uint16_t scattered = tp && !frozen && !behind ? w.event() : std::uint16_t{0};
  if (sp) {
    if (!alone) {
      w.e.wait(arrived);
      w.reorder("gathered sequences", w.rank.operand(dim.full()));
    }
    reduced = w.temporary(dim.residual(), "norm output gradient");
    w.reorder("sequences to scatter", dim.full());
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter", joined,
                   scattered);
    if (w.records() && !alone) {
      w.record_stream(whole, Stream::tp);
      w.record_stream(reduced, Stream::tp);
    }
    if (w.records() || alone) w.drop(whole);
  } else if (tp && !behind) {
    w.e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce", joined, scattered);
    if (w.records() && !frozen) w.record_stream(whole, Stream::tp);
  }
  if (deferred) {
    const Value kept = w.plan.numerics.fp8 ? quantised : gradients[0];
    if (!w.plan.numerics.fp8) w.hold(kept);
    w.defer([column = *this, kept](Writer& b) { column.weight(b, kept); });
  } else if (!frozen && !last) {
    weight_gradient(w, linear, quantised, tp && !behind ? overlapped : std::uint8_t{0});
    if (behind) {
      w.e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce", joins);
      if (w.records()) w.record_stream(whole, Stream::tp);
    }
    // Cleared by hand; without sequence parallelism that is the saved tensor itself.
    w.drop(sp ? gathered : norm.output);
  }
  if (tp && !alone && !behind) w.e.wait(scattered);
  if (sp && !alone && !w.records()) w.drop(whole);
  const bool normed = !linear.norm.empty();
  Value input = reduced;
  NormGradients of_norm{};
  if (normed) {
    add_other_half(w, reduced);
    input = w.temporary(dim.residual(), "norm input gradient");
    of_norm = norm_backward(w, reduced);
  }
  if (last) {
    weight_gradient(w, linear, quantised);
    w.drop(norm.output);
    w.catch_up();  // the projection's
  }
  w.drop({norm.rsigma, norm.mu});
  const Value handle = alone ? Value{0} : make_handle(w, linear);
  w.drop(gradients[0]);
  if (frozen ? holds_norm : !deferred && sp) w.drop(norm.output);
  norm_gradients(w, of_norm.weight, of_norm.bias, linear.norm, linear.norm_bias);
  if (!alone) hook(w, linear, handle);
  bias_gradient(w, linear);
  if (normed || w.a.input_norms == model::InputNorms::none) return {input};
  w.other_gradient = input;
  return {};
}

// What a row-parallel product leaves for its way back.
struct Row {
  Linear linear;
  Value input, operand;  // for an adapter, and for the weight gradient
  Adapter adapter;
  std::string_view label;

  Gradients back(Writer& w, Gradients gradients) const;
  void weight(Writer& w, Value gradient) const;
  void weight_of(Writer& w, Value gradient, Value gathered, Value quantised) const;
  Value keep_gradient(Writer& w, Value gradient, Value gathered, Value quantised) const;
};

void Row::weight(Writer& w, Value gradient) const {
  weight_gradient(w, linear, w.plan.numerics.fp8 ? gradient : 0);
  w.drop(operand);
  const Value handle = make_handle(w, linear);
  if (!w.plan.numerics.fp8) w.drop(gradient);
  hook(w, linear, handle);
}

// The weight pass reads the output gradient: in fp8, or gathered, or dropout's, or the stream
// itself, in whose place the sum of the residual then needs memory of its own.
Value Row::keep_gradient(Writer& w, Value gradient, Value gathered, Value quantised) const {
  if (w.plan.numerics.fp8) return quantised;
  if (const Value kept = gathered != 0 ? gathered : gradient; kept != 0) {
    w.hold(kept);
    return kept;
  }
  return w.activation(w.dim.residual(), "output gradient for W");
}

// In the same pass as the input's.
void Row::weight_of(Writer& w, Value gradient, Value gathered, Value quantised) const {
  weight_gradient(w, linear, quantised);
  w.drop(operand);
  const Value handle = make_handle(w, linear);
  w.drop(gathered);
  hook(w, linear, handle);
  w.drop(gradient);
}

Gradients Row::back(Writer& w, Gradients gradients) const {
  const Dimensions& dim = w.dim;
  const std::int64_t bytes = w.rank.operand(dim.full());
  const Value from_adapter = adapter.backward(w);
  // The reduce-scatter's backward is an all-gather.
  Value gathered = 0;
  if (w.sequence_parallel()) {
    gathered = w.temporary(bytes, "gathered output gradient");
    w.e.collective(Kind::all_gather, Stream::tp, bytes, "all-gather");
    w.reorder("gathered sequences", bytes);
  }
  const Value quantised = quantise(w, linear.out, bytes);
  const Value made = w.temporary(dim.rows(linear.in), label);
  input_gradient(w, linear, 0);
  if (w.frozen()) {
    w.drop({quantised, gathered});
    add_adapter(w, from_adapter, dim.rows(linear.in));
    if (adapter) w.drop(input);
  } else if (w.variant.split) {
    const Value kept = keep_gradient(w, gradients[0], gathered, quantised);
    w.drop(gathered);
    w.defer([row = *this, kept](Writer& b) { row.weight(b, kept); });
  } else {
    w.hold(gradients[0]);
    const auto weight = [=, row = *this, given = gradients[0]](Writer& b) {
      row.weight_of(b, given, gathered, quantised);
    };
    if (w.puts_off()) {
      w.put_off(weight);
    } else {
      weight(w);
    }
  }
  w.drop(gradients[0]);
  bias_gradient(w, linear);
  return {made};
}

}  // namespace

Linear linear(const Rank& rank, Module module) {
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  const bool mlp_bias = a.linear_bias && a.mlp_bias;
  Linear l{};
  switch (module) {
    case Module::qkv:
      l = {module,
           "qkv",
           dim.hidden,
           dim.mixed_width(),
           "linear_qkv.weight",
           "linear_qkv.bias",
           "linear_qkv.layer_norm_weight",
           "linear_qkv.layer_norm_bias",
           a.qkv_bias};
      break;
    case Module::projection:
      l = {module,
           "projection",
           dim.attended,
           dim.hidden,
           "linear_proj.weight",
           "linear_proj.bias",
           "",
           "",
           a.linear_bias && a.projection_bias};
      break;
    case Module::fc1:
      l = {module,
           "fc1",
           dim.hidden,
           dim.up,
           "linear_fc1.weight",
           "linear_fc1.bias",
           "linear_fc1.layer_norm_weight",
           "linear_fc1.layer_norm_bias",
           mlp_bias};
      break;
    case Module::fc2:
      l = {module, "fc2", dim.ffn, dim.hidden, "linear_fc2.weight", "linear_fc2.bias",
           "",     "",    mlp_bias};
      break;
  }
  l.parts = {l.out};
  l.part_count = 1;
  if (rank.plan.stack.separate_products) {
    if (module == Module::qkv && l.out == dim.query + 2 * dim.key_value) {
      l.parts = {dim.query, dim.key_value, dim.key_value};
      l.part_count = 3;
    } else if (module == Module::fc1 && l.out == 2 * dim.ffn) {
      l.parts = {dim.ffn, dim.ffn};
      l.part_count = 2;
    }
  }
  const bool only_first = a.input_norms == model::InputNorms::shared && module == Module::fc1;
  if (only_first || a.input_norms == model::InputNorms::none) l.norm = l.norm_bias = "";
  return l;
}

ParameterList linear_parameters(const Rank& rank, Module module) {
  const model::Architecture& a = rank.plan.architecture;
  const Linear l = linear(rank, module);
  const bool sp = rank.plan.uses_sequence_parallel(), normed = !l.norm.empty();
  const bool column = module == Module::qkv || module == Module::fc1;
  ParameterList list;
  if (normed && a.norm_has_weights()) list.push_back({l.norm, l.in, sp});
  if (normed && a.norm_has_bias()) list.push_back({l.norm_bias, l.in, sp});
  list.push_back({l.weight, l.in * l.out, false, true});
  // The bias of a row-parallel product is added behind the reduction.
  if (l.has_bias) list.push_back({l.bias, l.out, sp && !column});
  return list;
}

namespace {

// What the product reads: the output of its norm, or what it is given, in fp8 by now or not.
Normed operand_of(Writer& w, const Linear& linear, Value given) {
  const std::int64_t wide = w.dim.residual(), bytes = w.rank.operand(wide);
  if (!linear.norm.empty()) {
    const Normed made = norm_forward(w, bytes, "norm output", true);
    if (w.a.input_norms == model::InputNorms::shared) w.hold(w.normed = made.output);
    if (w.names(LayerCode::before_core)) {
      w.hold(made.output);
      w.drop(std::exchange(w.norm_output, made.output));
    }
    return made;
  }
  if (w.plan.numerics.fp8 && w.a.input_norms == model::InputNorms::none) {
    const Value cast = w.activation(bytes, "layer input in fp8");
    w.memory_bound(OperationKind::elementwise, "layer input to fp8", wide + bytes);
    return {cast, 0, 0};
  }
  return {given, 0, 0};  // its variable is the caller's
}

}  // namespace

Value column_parallel(Writer& w, const Linear& linear, Value given, std::string_view label,
                      Category category) {
  const Dimensions& dim = w.dim;
  const bool sp = w.sequence_parallel(), adapted = w.rank.adapts(linear.module);
  w.use({linear.norm, linear.weight});
  const Normed norm = operand_of(w, linear, given);
  // An adapter reads the norm's output in 16 bits.
  const bool wide = w.plan.numerics.fp8 && adapted;
  const std::int64_t bytes = w.rank.operand(dim.full());
  const Value wide_input = wide ? w.activation(dim.full(), "adapter input") : Value{0};
  Value gathered = 0;
  if (sp) {
    gathered = w.temporary(bytes, "gathered norm output");
    w.e.collective(Kind::all_gather, Stream::tp, wide ? dim.full() : bytes, "all-gather");
    w.reorder("gathered sequences", wide ? dim.full() : bytes);
  } else if (wide) {
    w.memory_bound(OperationKind::copy, "adapter input", 2 * dim.full());
  }
  w.first_product();
  Value out = w.make(dim.rows(linear.out), label, category);
  for (const std::int64_t width : linear.widths()) w.product(linear.name, width, linear.in);
  Column column{linear, norm, {}, !w.frozen()};
  if (adapted) {
    const Value read = wide ? wide_input : sp ? gathered : norm.output;
    column.adapter = adapter_forward(w, linear.module, read, out);
    column.holds_norm = read == norm.output;
  }
  if (column.holds_norm) w.save(norm.output);
  w.node([column](Writer& b, Gradients g) { return column.back(b, g); });
  w.drop({gathered, wide_input, norm.output == given ? Value{0} : norm.output});
  return out;
}

namespace {

// The product and what sums it over the tensor-parallel ranks.
Value row_parallel_output(Writer& w, const Linear& linear) {
  const Dimensions& dim = w.dim;
  Value out = w.temporary(dim.full(), "row-parallel output");
  w.product(linear.name, linear.out, linear.in);
  if (w.sequence_parallel()) {
    const Value reduced = w.temporary(dim.residual(), "reduce-scattered output");
    w.reorder("sequences to scatter", dim.full());
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
    w.drop(out);
    out = reduced;
  } else if (dim.tp > 1 && !(w.rank.joins_halves() && linear.module == Module::projection)) {
    w.e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce");
    if (w.records()) w.record_stream(out, Stream::tp);
  }
  return out;
}

}  // namespace

Value row_parallel(Writer& w, const Linear& linear, Value input, Value operand,
                   std::string_view gradient) {
  const bool stops = w.variant.stops_early && linear.module == Module::fc2;
  Value out = stops ? 0 : row_parallel_output(w, linear);
  Row row{linear, input, operand, {}, gradient};
  if (w.rank.adapts(linear.module)) row.adapter = adapter_forward(w, linear.module, input, out);
  if (!w.frozen()) w.save(operand);
  w.node([row](Writer& b, Gradients g) { return row.back(b, g); });
  return out;
}

void norm_gradients(Writer& w, Value weight, Value bias, std::string_view weight_name,
                    std::string_view bias_name) {
  if (weight == 0) return;
  if (w.frozen()) return w.drop({weight, bias});
  if (w.keep_gradient(weight, weight_name)) {
    w.keep_gradient(bias, bias_name);
    return;
  }
  w.memory_bound(OperationKind::elementwise, "norm main_grad add", 10 * w.dim.hidden);
  w.drop(weight);
  w.ready(weight_name);
  if (bias == 0) return;
  w.drop(bias);
  w.ready(bias_name);
}

}  // namespace sim::workload
