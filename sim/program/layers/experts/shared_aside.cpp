// shared_aside.cpp — see mixture.h.
#include <utility>

#include "sim/program/layers/experts/mixture.h"
#include "sim/program/layers/linear/fp8.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

// Until the end of the scope, launches and allocations use the second stream.
class OnSide {
 public:
  explicit OnSide(Writer& writer)
      : w(writer), before_(std::exchange(w.set.current, Stream::side)) {}
  ~OnSide() { w.set.current = before_; }
  OnSide(const OnSide&) = delete;
  OnSide& operator=(const OnSide&) = delete;

  // A collective of the tensor-parallel ranks; with sequence parallelism one of its tensors is a
  // part.
  void exchange(Kind kind, std::string_view label) {
    w.e.collective(kind, Stream::tp, w.dim.full(), label, joins, 0, Stream::side);
  }

 private:
  Writer& w;
  Stream before_;
};

// Gathers whole rows into a new tensor; 0 if a rank has whole rows already.
Value gather_rows(Writer& w, OnSide& side, Category category, std::string_view label) {
  if (!w.sequence_parallel()) return 0;
  const Value whole = w.make(w.dim.full(), label, category);
  side.exchange(Kind::all_gather, "all-gather");
  return whole;
}

// Reduces whole rows, which are dropped, to this rank's sums.
Value scatter_rows(Writer& w, OnSide& side, Value whole, std::string_view label) {
  if (!w.sequence_parallel()) return whole;
  const Value reduced = w.temporary(w.dim.residual(), label);
  side.exchange(Kind::reduce_scatter, "reduce-scatter");
  w.drop(whole);
  return reduced;
}

}  // namespace

SharedAside::SharedAside(const Rank& rank, Value normed)
    : up_(shared_matrix(rank, true)), down_(shared_matrix(rank, false)), normed_(normed) {}

void SharedAside::gather(Writer& w) {
  w.order(Stream::side, Stream::compute);
  OnSide side(w);
  whole_ = gather_rows(w, side, Category::activations, "shared expert input");
  save_operands(w, {whole_ != 0 ? whole_ : normed_});
}

void SharedAside::up(Writer& w) {
  const OnSide side(w);
  w.use({up_.parameter});
  up_output_ = w.activation(w.dim.rows(up_.out), "shared fc1 output");
  multiply(w, up_, w.dim.tokens);
  w.drop(whole_);
  operand_ = w.activation(w.rank.operand(w.dim.rows(down_.in)), "shared activation output");
  w.memory_bound(OperationKind::elementwise, "swiglu", w.dim.rows(up_.out) + w.dim.rows(down_.in));
  find_scale(w, {.bytes = w.dim.rows(down_.in), .elementwise = true});
  w.save(up_output_);
  w.drop(up_output_);
}

void SharedAside::down(Writer& w) {
  OnSide side(w);
  w.use({down_.parameter});
  const Value whole = w.temporary(w.dim.full(), "row-parallel output");
  multiply(w, down_, w.dim.tokens);
  save_operands(w, {operand_});
  w.drop(operand_);
  output_ = scatter_rows(w, side, whole, "shared expert output");
}

Value SharedAside::output(Writer& w) {
  w.order(Stream::compute, Stream::side);
  return output_;
}

void SharedAside::gather_back(Writer& w, Value gradient) {
  w.order(Stream::side, Stream::compute);
  OnSide side(w);
  w.hold(gradient_ = gradient);
  gathered_ = gather_rows(w, side, Category::temporaries, "gathered output gradient");
  if (gathered_ != 0) w.drop(std::exchange(gradient_, 0));
}

void SharedAside::down_back(Writer& w) {
  const OnSide side(w);
  const Value quantised = quantise(w, down_, w.dim.tokens);
  inner_ = w.temporary(w.dim.rows(down_.in), "fc2 input gradient");
  program::input_gradient(w, down_, w.dim.tokens);
  weight_gradient(w, down_, w.dim.tokens);
  w.drop(quantised);
  drop_operands(w, {operand_});
  hand_over(w, down_);
  w.drop({gathered_, gradient_});
}

void SharedAside::up_back(Writer& w) {
  OnSide side(w);
  const Value outer = w.temporary(w.dim.rows(up_.out), "fc1 output gradient");
  w.memory_bound(OperationKind::elementwise, "swiglu backward",
                 2 * w.dim.rows(up_.out) + w.dim.rows(down_.in));
  w.drop({inner_, up_output_});
  const Value quantised = quantise(w, up_, w.dim.tokens);
  const Value whole = w.temporary(w.dim.full(), "input gradient");
  program::input_gradient(w, up_, w.dim.tokens);
  weight_gradient(w, up_, w.dim.tokens);
  w.drop({quantised, outer});
  drop_operands(w, {whole_ != 0 ? whole_ : normed_});
  hand_over(w, up_);
  made_ = scatter_rows(w, side, whole, "shared expert input gradient");
}

Value SharedAside::input_gradient(Writer& w) {
  w.order(Stream::compute, Stream::side);
  return made_;
}

}  // namespace sim::program
