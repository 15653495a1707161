// router.cpp — see mixture.h: the gating product, the scores, the choice of experts, and the
// load-balancing loss.
#include "sim/program/layers/experts/mixture.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

// Small kernels around the choice: scores, top-k, zeros and scatters of both maps. With expert
// groups, the sums and the choice of groups come first.
constexpr int choice_kernels = 6, group_kernels = 5, loss_kernels = 4, backward_kernels = 5;

Matrix gate(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  return {"router", "router.weight", a.hidden, a.experts.count, 1, true, true};
}

struct SavedRoute {
  Value normed, logits, probabilities, map;
};

// The gradient of the logits, and through the gating product the gradient that joins that of the
// rows.
Gradients back(Writer& w, Gradients gradients, const Routed& r, const SavedRoute& saved) {
  const std::int64_t bytes = r.score * r.tokens * r.experts, u = w.dim.residual();
  const Value of_scores = w.temporary(bytes, "router score gradient");
  for (int i = 0; i < backward_kernels; ++i)
    w.memory_bound(OperationKind::elementwise, "router backward", 2 * bytes);
  w.drop({gradients[1], saved.probabilities, saved.map});
  const Value of_logits = w.temporary(bytes, "router logit gradient");
  w.memory_bound(OperationKind::elementwise, "router softmax backward", 3 * bytes);
  w.drop({of_scores, saved.logits});
  const Matrix m = gate(w.rank);
  const Value made = w.temporary(u, "router input gradient");
  input_gradient(w, m, r.tokens);
  weight_gradient(w, m, r.tokens);
  w.drop(of_logits);
  drop_operands(w, {saved.normed});
  hand_over(w, m);
  if (w.a.experts.router_bias) hand_over(w, "router.bias", r.experts, "router bias gradient");
  w.memory_bound(OperationKind::elementwise, "add router gradient", 3 * u);
  w.drop(made);
  if (gradients[2] != 0) {
    w.memory_bound(OperationKind::elementwise, "add shared expert gradient", 3 * u);
    w.drop(gradients[2]);
  }
  return {gradients[0]};
}

}  // namespace

void route(Writer& w, const Routed& r, Value normed) {
  const model::Experts& e = w.a.experts;
  const std::int64_t bytes = r.score * r.tokens * r.experts;
  w.use({"router.weight", "router.bias"});
  const Value logits = w.activation(bytes, "router logits");
  multiply(w, gate(w.rank), r.tokens);
  const Value probabilities = w.activation(bytes, "router probabilities");
  const Value map = w.activation(r.tokens * r.experts, "routing map");
  const int kernels = choice_kernels + (e.groups > 0 ? group_kernels : 0);
  for (int i = 0; i < kernels; ++i)
    w.memory_bound(OperationKind::elementwise, "router scores", 2 * bytes);
  if (e.auxiliary_loss) {
    for (int i = 0; i < loss_kernels; ++i)
      w.memory_bound(OperationKind::reduction, "auxiliary loss", bytes);
    if (w.dim.tp > 1) w.e.collective(Kind::all_reduce, Stream::tp, 8 * r.experts, "auxiliary loss");
  }
  save_operands(w, {normed});
  w.save({logits, probabilities, map});
  w.drop({logits, probabilities, map});
  const SavedRoute saved{normed, logits, probabilities, map};
  w.node([=](Writer& b, Gradients g) { return back(b, g, r, saved); });
}

}  // namespace sim::program
