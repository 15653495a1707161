// column_parallel.cpp — column-parallel products: each tensor-parallel rank computes a part of the
// output's columns, and the input gradient is summed over the ranks.
#include <utility>

#include "sim/program/layers/linear/fake_quantize.h"
#include "sim/program/layers/linear/fp8.h"
#include "sim/program/layers/linear/linear_gradients.h"
#include "sim/program/layers/linear/lora.h"
#include "sim/program/layers/linear/norm.h"
#include "sim/program/layers/linear/tensor_grid.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

// Both halves of the layer read one norm, so its gradient is the sum of theirs.
void add_other_half(Writer& w, Value gradient) {
  if (w.half.other_gradient == 0 || gradient == 0) return;
  w.memory_bound(OperationKind::elementwise, "add gradient of the other half",
                 3 * w.dim.residual());
  w.drop(std::exchange(w.half.other_gradient, 0));
}

// The data that a column-parallel product keeps for its backward pass.
struct Column {
  Linear linear;
  Normed norm;  // its output, as the product reads it
  Rounded rounded;
  Adapter adapter;
  bool holds_norm;        // saves the norm output, for itself or for the adapter
  Value whole_input = 0;  // the gathered input, if it is the saved tensor

  void weight(Writer& w, Value gradient) const;
};

// The weight gradient in a separate pass: gathers the input again, unless it was saved.
void Column::weight(Writer& w, Value gradient) const {
  const std::int64_t bytes = w.rank.operand(w.dim.full());
  Value gathered = whole_input;
  if (w.sequence_parallel() && whole_input == 0)
    gathered = gather_rows(w, "gathered norm output", bytes, bytes);
  weight_gradient(w, linear, w.plan.numerics.fp8 ? gradient : 0);
  w.drop(gathered);
  const Value handle = make_handle(w, linear);
  if (!w.plan.numerics.fp8) w.drop(gradient);
  if (whole_input == 0) w.drop(norm.output);
  hook(w, linear, handle);
}

// The backward pass of a column-parallel product. The input gradient is summed over the
// tensor-parallel ranks beside the weight gradient, or after it. If no weight gradient runs at this
// time (`alone`), nothing hides the sum.
struct ColumnBack {
  ColumnBack(Writer& writer, const Column& of, Value output_gradient)
      : w(writer),
        column(of),
        gradient(output_gradient),
        sp(w.sequence_parallel()),
        tp(w.plan.tensor_rows() > 1),
        frozen(w.frozen()),
        deferred(w.variant.split && !frozen),
        alone(frozen || deferred),
        last(w.puts_off() && !deferred && column.linear.module == Module::qkv),
        behind(tp && !sp && !alone && !w.plan.stack.overlap_tensor_reduce),
        gathers(sp && !alone && of.whole_input == 0),
        gathered(of.whole_input) {}

  Writer& w;
  const Column& column;
  Value gradient;
  bool sp, tp;
  bool frozen, deferred, alone;
  bool last;     // the weight gradient follows the norm's gradient
  bool behind;   // the sum follows the weight gradient
  bool gathers;  // gathers the input again
  // The product is a separate module: its weight receives its gradient before the norm does.
  bool apart = w.plan.mesh.tensor_depth > 1 || column.rounded.weight != 0;
  Value gathered, quantised = 0, whole = 0, reduced = 0;
  std::uint16_t arrived = 0, scattered = 0;

  // The ranks that sum the input gradient.
  Stream ranks() const { return over_rows(w.plan); }
  Gradients run();
  void gather();
  void reduce();
  void weight();
  Gradients norm();
};

void ColumnBack::gather() {
  const std::int64_t bytes = w.rank.operand(w.dim.full());
  gathered = w.temporary(bytes, "gathered norm output");
  arrived = w.event();
  const PiecesFor bulk(w.e, w.uses_user_buffers() ? 1 : w.e.pieces());
  w.e.collective(Kind::all_gather, Stream::tp, bytes, "all-gather", overlapped, arrived);
  if (w.records()) w.record_stream(column.norm.output, Stream::tp);
  if (w.records()) w.record_stream(gathered, Stream::tp);
}

// Starts the sum over the ranks(), unless it follows the weight gradient.
void ColumnBack::reduce() {
  const Dimensions& dim = w.dim;
  const auto joined = static_cast<std::uint8_t>(alone ? joins : overlapped);
  reduced = whole;
  scattered = tp && !frozen && !behind ? w.event() : std::uint16_t{0};
  if (sp) {
    if (gathers) {
      w.e.wait(arrived);
      gathered = w.reorder(gathered, Writer::Order::gathered, w.rank.operand(dim.full()));
    }
    whole = w.reorder(whole, Writer::Order::to_scatter, dim.full());
    reduced = w.temporary(dim.residual(), "norm output gradient");
    const PiecesFor bulk(w.e, w.uses_user_buffers() && !alone ? 1 : w.e.pieces());
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter", joined,
                   scattered);
    if (w.records() && !alone) {
      w.record_stream(whole, Stream::tp);
      w.record_stream(reduced, Stream::tp);
    }
    if (w.records() || alone) w.drop(whole);
  } else if (tp && !behind) {
    w.e.collective(Kind::all_reduce, ranks(), dim.full(), "all-reduce", joined, scattered);
    if (w.records() && !frozen) w.record_stream(whole, ranks());
  }
}

// The weight gradient, now or postponed, and the wait for the sum.
void ColumnBack::weight() {
  if (deferred) {
    const Value kept = w.plan.numerics.fp8 ? quantised : gradient;
    if (!w.plan.numerics.fp8) w.hold(kept);
    w.defer([of = column, kept](Writer& b) { of.weight(b, kept); });
  } else if (!frozen && !last) {
    weight_gradient(w, column.linear, quantised, tp && !behind ? overlapped : std::uint8_t{0});
    if (behind) {
      w.e.collective(Kind::all_reduce, ranks(), w.dim.full(), "all-reduce", joins);
      if (w.records()) w.record_stream(whole, ranks());
    }
    if (apart && sp) w.drop(column.norm.output);
    w.drop(column.rounded.weight);
    if (apart) hand_over(w, column.linear);
    // Python clears it explicitly. Without sequence parallelism it is the saved tensor itself.
    w.drop(sp ? gathered : column.norm.output);
  }
  if (tp && !alone && !behind) w.e.wait(scattered);
  if (sp && !alone && !w.records()) w.drop(whole);
}

// The backward pass of the norm before the product, and the hooks of the parameters.
Gradients ColumnBack::norm() {
  const Normed& before = column.norm;
  const bool normed = !column.linear.norm.empty();
  reduced = through_input(w, column.rounded, reduced, w.dim.residual());
  Value input = reduced;
  NormGradients of_norm{};
  if (normed) {
    add_other_half(w, reduced);
    input = w.temporary(w.dim.residual(), "norm input gradient");
    of_norm = norm_backward(w, reduced);
  }
  if (last) {
    weight_gradient(w, column.linear, quantised);
    w.drop(before.output);
    w.catch_up();  // the projection's weight gradient
  }
  w.drop({before.rsigma, before.mu});
  const Value handle = alone || apart ? Value{0} : make_handle(w, column.linear);
  w.drop(gradient);
  const bool kept = deferred || !sp || apart || column.whole_input != 0;
  if (frozen ? column.holds_norm : !kept) w.drop(before.output);
  norm_gradients(w, of_norm.weight, of_norm.bias, column.linear.norm, column.linear.norm_bias);
  if (!alone && !apart) hook(w, column.linear, handle);
  bias_gradient(w, column.linear);
  if (normed || w.a.input_norms == model::InputNorms::none) return {input};
  w.half.other_gradient = input;
  return {};
}

Gradients ColumnBack::run() {
  const Value from_adapter = column.adapter.backward(w);
  if (gathers) gather();
  find_scale(w, {.bytes = w.dim.rows(column.linear.out),
                 .parts = Unscaled::Parts::columns,
                 .elementwise = true});
  quantised = quantise(w, column.linear.out, w.dim.rows(column.linear.out));
  w.open(column.linear.weight);
  whole = w.temporary(w.dim.full(), "input gradient");
  input_gradient(w, column.linear, gathers ? overlapped : std::uint8_t{0});
  if (frozen) w.drop(quantised);
  add_adapter(w, from_adapter, w.dim.full());
  reduce();
  weight();
  w.close(column.linear.weight);
  return norm();
}

// The operand of the product: the output of its norm or the given input, cast to fp8 if needed.
Normed operand_of(Writer& w, const Linear& linear, Value given) {
  const std::int64_t wide = w.dim.residual(), bytes = w.rank.operand(wide);
  if (!linear.norm.empty()) {
    const Normed made = norm_forward(w, bytes, "norm output", true);
    if (w.a.input_norms == model::InputNorms::shared) w.hold(w.half.normed = made.output);
    if (w.names(LayerCode::before_core)) {
      w.hold(made.output);
      w.drop(std::exchange(w.locals.norm_output, made.output));
    }
    return made;
  }
  if (w.plan.numerics.fp8 && w.a.input_norms == model::InputNorms::none) {
    const Value cast = w.activation(bytes, "layer input in fp8");
    find_scale(w, {.bytes = wide, .parts = Unscaled::Parts::rows, .elementwise = true});
    w.memory_bound(OperationKind::elementwise, "layer input to fp8", wide + bytes);
    return {cast, 0, 0};
  }
  return {given, 0, 0};  // its variable belongs to the caller
}

}  // namespace

Value column_parallel(Writer& w, const Linear& linear, Value given, std::string_view label,
                      Category category) {
  const Dimensions& dim = w.dim;
  const bool sp = w.sequence_parallel(), adapted = w.rank.adapts(linear.module);
  w.use({linear.norm, linear.weight});
  Normed norm = operand_of(w, linear, given);
  const Value named = norm.output == given ? Value{0} : norm.output;
  const Rounded rounded = round_operands(w, linear, norm.output, dim.residual());
  if (rounded.input != 0) norm.output = rounded.input;
  // An adapter reads the norm's output in 16 bits.
  const bool wide = w.plan.numerics.fp8 && adapted;
  const std::int64_t bytes = w.rank.operand(dim.full());
  const Value wide_input = wide ? w.activation(dim.full(), "adapter input") : Value{0};
  Value gathered = 0;
  if (sp) {
    gathered = gather_rows(w, "gathered norm output", bytes, wide ? dim.full() : bytes);
  } else if (wide) {
    w.memory_bound(OperationKind::copy, "adapter input", 2 * dim.full());
  }
  w.first_product();
  w.open(linear.weight);
  Value out = w.make(dim.rows(linear.out), label, category);
  for (const std::int64_t width : linear.widths()) w.product(linear.name, width, linear.in);
  sum_over_columns(w, out, dim.rows(linear.out));
  w.close(linear.weight);
  const bool keeps = sp && !w.frozen() && w.keeps_gathered();
  // The rounded operands are saved already.
  const bool holds_norm = !w.frozen() && !keeps && rounded.input == 0;
  Column column{linear, norm, rounded, {}, holds_norm, keeps ? gathered : 0};
  if (adapted) {
    const Value read = wide ? wide_input : sp ? gathered : norm.output;
    column.adapter = adapter_forward(w, linear.module, read, out);
    column.holds_norm = read == norm.output && column.adapter.keeps_input();
  }
  if (column.holds_norm) w.save(norm.output);
  if (keeps) w.save(gathered);
  w.node([column](Writer& b, Gradients g) { return ColumnBack(b, column, g[0]).run(); });
  w.drop({gathered, wide_input, named, rounded.input, rounded.weight});
  return out;
}

}  // namespace sim::program
