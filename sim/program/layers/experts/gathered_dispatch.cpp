// gathered_dispatch.cpp — the allgather dispatcher. Every token goes to every rank of the expert
// group, and each rank keeps the rows of its own experts. Outputs are summed over the ranks. The
// CPU waits for the counts in each forward pass [core 0.14
// moe/token_dispatcher.py:MoEAllGatherTokenDispatcher].
#include "sim/program/layers/experts/mixture.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

std::int64_t whole(const Routed& r) {
  return r.row * r.tokens * r.ep * r.etp;
}

Value gather(Writer& w, const Routed& r, std::string_view label) {
  const Value all = w.temporary(whole(r), label);
  if (r.ep * r.etp > 1) w.e.collective(Kind::all_gather, Stream::etp_ep, whole(r), "gather tokens");
  return all;
}

// Reduces to this rank's tokens; drops `all`.
Value scatter(Writer& w, const Routed& r, Value all, std::string_view label) {
  const Value mine = w.temporary(w.dim.residual(), label);
  if (r.ep * r.etp > 1)
    w.e.collective(Kind::reduce_scatter, Stream::etp_ep, whole(r), "scatter tokens");
  w.drop(all);
  return mine;
}

Gradients gathered_dispatch_back(Writer& w, Gradients gradients, const Routed& r, Value order) {
  const Value all = w.temporary(whole(r), "gradient of all ranks' tokens");
  w.memory_bound(OperationKind::copy, "unpermute gradient", r.row * r.rows + whole(r));
  w.drop({gradients[0], order});
  return {scatter(w, r, all, "dispatch gradient"), gradients[1], gradients[2]};
}

Gradients gathered_combine_back(Writer& w, Gradients gradients, const Routed& r) {
  const Value all = gather(w, r, "gradient of all ranks' outputs");
  const Value rows = w.temporary(r.row * r.rows, "combine gradient");
  w.memory_bound(OperationKind::copy, "permute gradient", 2 * r.row * r.rows);
  w.drop({all, gradients[0]});
  return {rows};
}

}  // namespace

Dispatched gathered_dispatch(Writer& w, const Routed& r) {
  const std::int64_t ranks = r.ep * r.etp;
  if (ranks > 1) {
    w.e.collective(Kind::all_gather, Stream::etp_ep, r.tokens * r.experts * ranks, "gather map");
    w.e.collective(Kind::all_gather, Stream::etp_ep, r.score * r.tokens * r.experts * ranks,
                   "gather scores");
  }
  const Value all = gather(w, r, "tokens of all ranks");
  w.memory_bound(OperationKind::reduction, "tokens per expert", r.tokens * ranks * r.local);
  w.e.sync_stream(Stream::compute, "token counts");
  const Value order = w.activation(8 * r.rows, "sorted indices");
  w.memory_bound(OperationKind::copy, "select indices", 9 * r.tokens * ranks * r.local);
  const Value rows = w.plan.numerics.fp8 ? w.temporary(r.row * r.rows, "permuted tokens")
                                         : w.activation(r.row * r.rows, "expert input");
  w.memory_bound(OperationKind::copy, "permute", 2 * r.row * r.rows);
  const Value probabilities = w.fp32_activation(4 * r.rows, "expert probabilities");
  w.save(order);
  w.drop({order, all});
  w.node([=](Writer& b, Gradients g) { return gathered_dispatch_back(b, g, r, order); });
  return {rows, probabilities};
}

Value gathered_combine(Writer& w, const Routed& r, Value outputs) {
  const Value all = w.temporary(whole(r), "outputs of all ranks");
  w.memory_bound(OperationKind::copy, "unpermute", r.row * r.rows + whole(r));
  w.drop(outputs);
  const Value sum = scatter(w, r, all, "mixture output");
  w.node([=](Writer& b, Gradients g) { return gathered_combine_back(b, g, r); });
  return sum;
}

}  // namespace sim::program
