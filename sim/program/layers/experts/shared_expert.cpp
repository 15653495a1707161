// shared_expert.cpp — see mixture.h: an MLP without a norm, beside the routed experts, with the
// same tensor-parallel split as attention [core 0.14 moe/shared_experts.py].
#include "sim/program/layers/experts/mixture.h"
#include "sim/program/layers/linear/fp8.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

struct Shared {
  Matrix up, down;
  Value normed, up_output, operand;

  Value gather(Writer& w, std::string_view label) const;
  Gradients back(Writer& w, Gradients gradients) const;
};

Value Shared::gather(Writer& w, std::string_view label) const {
  if (!w.sequence_parallel()) return 0;
  const Value whole = w.temporary(w.dim.full(), label);
  w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
  return whole;
}

// Reduces whole rows, which are dropped, to this rank's sums.
Value reduce(Writer& w, Value whole, std::string_view label) {
  if (w.sequence_parallel()) {
    const Value reduced = w.temporary(w.dim.residual(), label);
    w.e.collective(Kind::reduce_scatter, Stream::tp, w.dim.full(), "reduce-scatter");
    w.drop(whole);
    return reduced;
  }
  if (w.dim.tp > 1) w.e.collective(Kind::all_reduce, Stream::tp, w.dim.full(), "all-reduce");
  return whole;
}

// Passes on the gradients of the rows so far.
Gradients Shared::back(Writer& w, Gradients gradients) const {
  const std::int64_t tokens = w.dim.tokens;
  const Value incoming = gather(w, "gathered output gradient");
  const Value of_output = quantise(w, down, tokens);
  const Value inner = w.temporary(w.dim.rows(down.in), "fc2 input gradient");
  input_gradient(w, down, tokens);
  weight_gradient(w, down, tokens);
  drop_operands(w, {operand});
  w.drop(of_output);
  hand_over(w, down);
  w.drop(incoming);
  const Value outer = w.temporary(w.dim.rows(up.out), "fc1 output gradient");
  w.memory_bound(OperationKind::elementwise, "swiglu backward",
                 2 * w.dim.rows(up.out) + w.dim.rows(down.in));
  w.drop({inner, up_output});
  const Value gathered = gather(w, "gathered norm output");
  const Value of_up = quantise(w, up, tokens);
  const Value whole = w.temporary(w.dim.full(), "input gradient");
  input_gradient(w, up, tokens);
  const Value made = reduce(w, whole, "shared expert input gradient");
  weight_gradient(w, up, tokens);
  w.drop({gathered, of_up});
  drop_operands(w, {normed});
  w.drop(outer);
  hand_over(w, up);
  return {gradients[0], gradients[1], made};
}

}  // namespace

Matrix shared_matrix(const Rank& rank, bool up) {
  const model::Architecture& a = rank.plan.architecture;
  const std::int64_t ffn = a.experts.shared_ffn / rank.dim.tp;
  const std::int64_t inputs = a.activation == model::Activation::swiglu ? 2 : 1;
  if (up) return {"shared fc1", "shared_experts.linear_fc1.weight", a.hidden, inputs * ffn};
  return {"shared fc2", "shared_experts.linear_fc2.weight", ffn, a.hidden};
}

Value shared_expert(Writer& w, Value normed) {
  Shared s{shared_matrix(w.rank, true), shared_matrix(w.rank, false), normed, 0, 0};
  const Value gathered = s.gather(w, "gathered norm output");
  w.use({s.up.parameter, s.down.parameter});
  s.up_output = w.activation(w.dim.rows(s.up.out), "shared fc1 output");
  multiply(w, s.up, w.dim.tokens);
  w.drop(gathered);
  s.operand = w.activation(w.rank.operand(w.dim.rows(s.down.in)), "shared activation output");
  w.memory_bound(OperationKind::elementwise, "swiglu",
                 w.dim.rows(s.up.out) + w.dim.rows(s.down.in));
  find_scale(w, {.bytes = w.dim.rows(s.down.in), .elementwise = true});
  const Value whole = w.temporary(w.dim.full(), "row-parallel output");
  multiply(w, s.down, w.dim.tokens);
  const Value out = reduce(w, whole, "shared expert output");
  save_operands(w, {normed, s.operand});
  w.save(s.up_output);
  w.drop({s.up_output, s.operand});
  w.node([s](Writer& b, Gradients g) { return s.back(b, g); });
  return out;
}

}  // namespace sim::program
