// flex_dispatch.cpp — the flex dispatcher over DeepEP. One kernel sends each token, with its
// scores, once to every rank with one of its experts (between nodes, once to each node). The
// receiver permutes tokens into rows of experts. The CPU waits for the number of arriving tokens in
// each forward pass. The backward pass knows the number.
//
//     tokens n ── dispatch ── U tokens of this rank ── permute ── R rows ── experts
//     sum n ◄──── combine ◄── U sums of their rows ◄── un-permute ◄── R rows
//
// [core 0.15 moe/token_dispatcher.py:_DeepepManager, moe/fused_a2a.py; deepseek-ai/DeepEP]
#include <algorithm>
#include <cmath>

#include "sim/program/layers/experts/mixture.h"

namespace sim::program {

using model::OperationKind;

namespace {

Stream stream_of(const Routed& r) {
  return r.etp > 1 ? Stream::etp_ep : Stream::ep;
}

// U: tokens with an expert on this rank.
std::int64_t arriving_once(const Routed& r) {
  const double ranks = r.choices.places(static_cast<int>(r.ep));
  const double share = ranks / static_cast<double>(r.top_k);
  return std::max<std::int64_t>(
      1, std::llround(static_cast<double>(r.arriving * r.etp) * std::min(1.0, share)));
}

void send(Writer& w, const Routed& r, std::string_view label) {
  if (r.ep * r.etp > 1) send_tokens(w, stream_of(r), r.busiest * r.row, r.choices, 0, label);
}

void permute(Writer& w, const Routed& r, std::string_view name) {
  w.memory_bound(OperationKind::copy, name, r.row * (arriving_once(r) + r.rows));
}

Gradients flex_dispatch_back(Writer& w, Gradients gradients, const Routed& r, Value order) {
  const Value arrived = w.temporary(r.row * arriving_once(r), "gradient of dispatched tokens");
  permute(w, r, "unpermute gradient");
  w.drop({gradients[0], gradients[1], order});
  const Value made = w.temporary(w.dim.residual(), "dispatch gradient", exchange_pool(w));
  send(w, r, "combine");
  read_by_exchange(w, arrived);
  w.drop(arrived);
  return {made, 0, gradients[2]};
}

Gradients flex_combine_back(Writer& w, Gradients gradients, const Routed& r) {
  const Value arrived =
      w.temporary(r.row * arriving_once(r), "gradient of combined tokens", exchange_pool(w));
  send(w, r, "dispatch");
  read_by_exchange(w, gradients[0]);
  w.drop(gradients[0]);
  const Value rows = w.temporary(r.row * r.rows, "combine gradient");
  permute(w, r, "permute gradient");
  read_elsewhere(w, arrived);
  w.drop(arrived);
  return {rows};
}

}  // namespace

Dispatched flex_dispatch(Writer& w, const Routed& r) {
  w.memory_bound(OperationKind::reduction, "tokens per rank", 8 * r.tokens * r.top_k);
  const std::uint16_t there = w.event();
  w.e.record(there);
  w.e.sync_event(there, "token counts");
  const std::int64_t once = arriving_once(r);
  const Value arrived = w.temporary(r.row * once, "dispatched tokens", exchange_pool(w));
  send(w, r, "dispatch");
  const Value order = w.activation(4 * once * (2 * r.local + 1), "row id map");
  w.memory_bound(OperationKind::copy, "row id map", 5 * once * r.local);
  const Value rows = w.plan.numerics.fp8 ? w.temporary(r.row * r.rows, "permuted tokens")
                                         : w.activation(r.row * r.rows, "expert input");
  const Value probabilities = w.fp32_activation(4 * r.rows, "expert probabilities");
  permute(w, r, "permute");
  read_elsewhere(w, arrived);
  w.drop(arrived);
  w.save(order);
  w.drop(order);
  w.node([=](Writer& b, Gradients g) { return flex_dispatch_back(b, g, r, order); });
  return {rows, probabilities};
}

Value flex_combine(Writer& w, const Routed& r, Value outputs) {
  const Value sums = w.temporary(r.row * arriving_once(r), "sums of this rank's rows");
  permute(w, r, "unpermute");
  w.drop(outputs);
  const Value sum = w.temporary(w.dim.residual(), "mixture output", exchange_pool(w));
  send(w, r, "combine");
  read_by_exchange(w, sums);
  w.drop(sums);
  w.node([=](Writer& b, Gradients g) { return flex_combine_back(b, g, r); });
  return sum;
}

}  // namespace sim::program
