// row_parallel.cpp — row-parallel products: each tensor-parallel rank holds a part of the input's
// columns, and the output is summed over the ranks.
#include "sim/program/layers/linear/fake_quantize.h"
#include "sim/program/layers/linear/fp8.h"
#include "sim/program/layers/linear/linear_gradients.h"
#include "sim/program/layers/linear/lora.h"
#include "sim/program/layers/linear/tensor_grid.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

// Whether the weight gradient runs beside the sum of the input gradient over the columns of a grid.
bool sums_beside(const Plan& plan) {
  return plan.mesh.tensor_columns > 1 && plan.stack.overlap_tensor_reduce;
}

// The data that a row-parallel product keeps for its backward pass.
struct Row {
  Linear linear;
  Value input, operand;  // `input`: for an adapter; `operand`: for the weight gradient
  Rounded rounded;
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

// The gradient that the weight pass reads: in fp8, gathered, or dropout's. Otherwise it is the
// residual stream's own gradient; then the residual sum needs a new tensor.
Value Row::keep_gradient(Writer& w, Value gradient, Value gathered, Value quantised) const {
  if (w.plan.numerics.fp8) return quantised;
  if (const Value kept = gathered != 0 ? gathered : gradient; kept != 0) {
    w.hold(kept);
    return kept;
  }
  return w.activation(w.dim.residual(), "output gradient for W");
}

// The weight gradient, in the same pass as the input gradient.
void Row::weight_of(Writer& w, Value gradient, Value gathered, Value quantised) const {
  weight_gradient(w, linear, quantised, sums_beside(w.plan) ? overlapped : std::uint8_t{0});
  w.drop({operand, rounded.weight});
  const Value handle = make_handle(w, linear);
  w.drop(gathered);
  hook(w, linear, handle);
  w.drop(gradient);
}

Gradients Row::back(Writer& w, Gradients gradients) const {
  const Dimensions& dim = w.dim;
  const std::int64_t bytes = w.rank.operand(dim.full());
  const Value from_adapter = adapter.backward(w);
  find_scale(w, {.bytes = dim.residual(), .parts = Unscaled::Parts::rows, .elementwise = true});
  // The reduce-scatter's backward is an all-gather.
  const Value gathered =
      w.sequence_parallel() ? gather_rows(w, "gathered output gradient", bytes, bytes) : Value{0};
  const Value quantised = quantise(w, linear.out, bytes);
  w.open(linear.weight);
  const Value made = w.temporary(dim.rows(linear.in), label);
  input_gradient(w, linear, 0);
  // In a grid with several columns the input gradient is summed over them.
  const std::uint16_t summed = sums_beside(w.plan) ? w.event() : std::uint16_t{0};
  sum_over_columns(w, made, dim.rows(linear.in), summed);
  if (w.frozen()) {
    w.drop({quantised, gathered});
    add_adapter(w, from_adapter, dim.rows(linear.in));
    if (adapter.keeps_input()) w.drop(input);
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
  if (summed != 0) w.e.wait(summed);
  w.close(linear.weight);
  w.drop(gradients[0]);
  bias_gradient(w, linear);
  return {through_input(w, rounded, made, dim.rows(linear.in))};
}

// The product, and its sum over the tensor-parallel ranks.
Value row_parallel_output(Writer& w, const Linear& linear) {
  const Dimensions& dim = w.dim;
  w.open(linear.weight);
  Value out = w.temporary(dim.full(), "row-parallel output");
  const bool pipelined = w.uses_user_buffers();
  w.product(linear.name, linear.out, linear.in, pipelined ? Writer::pipeline_sms : 0);
  if (w.sequence_parallel()) {
    const PiecesFor pieces(w.e, pipelined ? Writer::pipeline_pieces : w.e.pieces());
    out = w.reorder(out, Writer::Order::to_scatter, dim.full());
    const Value reduced = w.temporary(dim.residual(), "reduce-scattered output");
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
    w.drop(out);
    out = reduced;
  } else if (w.plan.tensor_rows() > 1 &&
             !(w.rank.joins_halves() && linear.module == Module::projection)) {
    w.e.collective(Kind::all_reduce, over_rows(w.plan), dim.full(), "all-reduce");
    if (w.records()) w.record_stream(out, over_rows(w.plan));
  }
  w.close(linear.weight);
  return out;
}

}  // namespace

Value row_parallel(Writer& w, const Linear& linear, Value input, Value operand,
                   std::string_view gradient) {
  const bool stops = w.variant.stops_early && linear.module == Module::fc2;
  const Rounded rounded = round_operands(w, linear, operand, w.dim.rows(linear.in));
  Value out = stops ? 0 : row_parallel_output(w, linear);
  Row row{linear, input, rounded.input != 0 ? rounded.input : operand, rounded, {}, gradient};
  if (w.rank.adapts(linear.module)) row.adapter = adapter_forward(w, linear.module, input, out);
  if (!w.frozen() && rounded.input == 0) w.save(operand);
  w.drop({rounded.input, rounded.weight});
  w.node([row](Writer& b, Gradients g) { return row.back(b, g); });
  return out;
}

}  // namespace sim::program
