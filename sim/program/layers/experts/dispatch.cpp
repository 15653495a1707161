// dispatch.cpp — see mixture.h: from the tokens of this rank to the rows of its experts, and back.
//
// The CPU waits for the router if it must know the number of arriving rows. The counts are gathered
// over all ranks of the expert group and copied to the host. Fused permutation is queued before the
// wait, unless a capacity limits the copies. Backward passes reuse the counts.
#include <algorithm>
#include <functional>
#include <utility>

#include "sim/program/layers/experts/mixture.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

std::int64_t at_least_one(std::int64_t bytes) {
  return std::max<std::int64_t>(bytes, 1);
}

// Sends rows to the experts, or back; on the way back a rank sends what it received.
void all_to_all(Writer& w, std::int64_t bytes, bool back, std::string_view label,
                const std::function<void()>& meanwhile = {}) {
  const int route = w.variant.kind.load;
  send_tokens(w, Stream::ep, at_least_one(bytes), {}, back ? -route : route, label, meanwhile);
}

// Exchanges tokens for hidden columns between the tensor-parallel ranks (alltoall_seq).
void transpose(Writer& w, const Routed& r) {
  if (r.dispatcher != Dispatcher::alltoall_seq || w.dim.tp == 1) return;
  w.e.collective(Kind::all_to_all, Stream::tp, w.dim.residual(), "sequence to columns");
}

// Rows in one tensor. Each step makes a new one; the last belongs to the caller.
class Rows {
 public:
  Rows(Writer& writer, const Routed& routed, Value first = 0)
      : value(first), w(writer), r(routed) {}

  Value value;
  int left = 0;                     // remaining steps; the experts read and save the last tensor
  std::function<void()> meanwhile;  // issued while the exchange is in flight; may be empty

  void step(std::int64_t rows, std::string_view label, Stream pool = Stream::compute) {
    before_ = value;
    was_exchanged_ = std::exchange(exchanged_, false);
    const std::int64_t bytes = at_least_one(r.row * rows);
    value =
        --left == 0 ? w.activation(bytes, "expert input", pool) : w.temporary(bytes, label, pool);
  }
  void done() {
    if (was_exchanged_) read_elsewhere(w, before_);
    w.drop(before_);
  }

  void to_experts();
  void from_experts();

 private:
  // Exchanges between the ranks of the expert group, if there are several.
  void exchange(std::int64_t rows, std::string_view label, bool back, std::string_view kernel);

  Writer& w;
  const Routed& r;
  Value before_ = 0;
  // Whether an exchange made `value`, and `before_`.
  bool exchanged_ = false, was_exchanged_ = false;
};

void Rows::exchange(std::int64_t rows, std::string_view label, bool back, std::string_view kernel) {
  if (r.ep == 1) {
    if (meanwhile) meanwhile();
    return;
  }
  step(rows, label, exchange_pool(w));
  const auto sent = [this] {
    read_by_exchange(w, before_);
    w.drop(before_);
    if (meanwhile) meanwhile();
  };
  all_to_all(w, r.busiest * r.row, back, kernel, meanwhile ? sent : std::function<void()>());
  if (!meanwhile) sent();
  exchanged_ = true;
}

void Rows::to_experts() {
  exchange(r.arriving, "dispatched tokens", false, "dispatch");
  if (r.etp > 1) {
    step(r.rows, "gathered tokens");
    w.e.collective(Kind::all_gather, Stream::etp, at_least_one(r.row * r.rows), "gather tokens");
    done();
  }
  if (!r.sorts()) return;
  step(r.rows, "sorted tokens");
  w.memory_bound(OperationKind::copy, "sort tokens", 2 * r.row * r.rows);
  done();
}

void Rows::from_experts() {
  if (r.sorts()) {
    step(r.rows, "unsorted tokens");
    w.memory_bound(OperationKind::copy, "unsort tokens", 2 * r.row * r.rows);
    done();
  }
  if (r.etp > 1) {
    step(r.arriving, "scattered tokens");
    w.e.collective(Kind::reduce_scatter, Stream::etp, at_least_one(r.row * r.rows),
                   "scatter tokens");
    done();
  }
  exchange(r.sent, "returned tokens", true, "combine");
}

bool waits_early(const Writer& w) {
  return w.plan.experts.capacity_factor > 0;
}

// The copy of the counts to the host. Returns the event after it; 0: the CPU does not wait.
std::uint16_t count(Writer& w, const Routed& r) {
  if (w.plan.experts.pads_to_capacity) return 0;
  w.memory_bound(OperationKind::reduction, "tokens per expert", r.tokens * r.experts);
  if (r.ep * r.etp > 1)
    w.e.collective(Kind::all_gather, Stream::etp_ep, 8 * r.experts * r.ep * r.etp,
                   "gather token counts");
  w.memory_bound(OperationKind::copy, "token counts to host", 16 * r.experts);
  const std::uint16_t there = w.event();
  w.e.record(there);
  return there;
}

void wait_for_counts(Writer& w, std::uint16_t there) {
  if (there == 0) return;
  w.e.sync_event(there, "token counts");
}

// Probabilities travel with the tokens, unless they are applied at the end.
Value send_probabilities(Writer& w, const Routed& r) {
  if (w.plan.experts.late_probabilities) return 0;
  const Value permuted = w.temporary(at_least_one(4 * r.sent), "permuted probabilities");
  const Value there = w.activation(at_least_one(4 * r.rows), "expert probabilities");
  if (r.ep > 1) all_to_all(w, 4 * r.busiest, false, "dispatch scores");
  if (r.etp > 1)
    w.e.collective(Kind::all_gather, Stream::etp, at_least_one(4 * r.rows), "gather scores");
  if (r.sorts()) w.memory_bound(OperationKind::copy, "sort scores", 8 * r.rows);
  w.drop(permuted);
  return there;
}

Gradients dispatch_back(Writer& w, Gradients gradients, const Routed& r, Value order) {
  Rows rows(w, r, gradients[0]);
  if (r.aside) rows.meanwhile = [&] { r.aside->up_back(w); };
  rows.from_experts();
  Value scores = 0;
  if (w.plan.experts.late_probabilities) {
    scores = gradients[1];
  } else if (gradients[1] != 0) {
    scores = w.temporary(at_least_one(4 * r.sent), "permuted probability gradient");
    if (r.ep > 1) all_to_all(w, 4 * r.busiest, true, "combine scores");
    w.drop(gradients[1]);
  }
  const Value made = w.temporary(w.dim.residual(), "dispatch gradient");
  w.memory_bound(OperationKind::copy, "unpermute gradient", r.row * (r.sent + r.tokens));
  if (r.ep > 1) read_elsewhere(w, rows.value);
  w.drop({rows.value, order});
  transpose(w, r);
  return {made, scores, r.aside ? r.aside->input_gradient(w) : gradients[2]};
}

// The origin of each row.
Value row_order(Writer& w, const Routed& r) {
  if (w.plan.experts.permute_fusion) {
    const Value map = w.activation(4 * r.tokens * (2 * r.experts + 1), "row id map");
    w.memory_bound(OperationKind::copy, "row id map", 5 * r.tokens * r.experts);
    return map;
  }
  const Value indices = w.activation(at_least_one(8 * r.sent), "sorted indices");
  w.memory_bound(OperationKind::copy, "transpose routing map", 2 * r.tokens * r.experts);
  w.memory_bound(OperationKind::copy, "select indices", 9 * r.tokens * r.experts);
  return indices;
}

Gradients combine_back(Writer& w, Gradients gradients, const Routed& r, Value outputs) {
  transpose(w, r);
  if (r.aside) r.aside->gather_back(w, gradients[0]);
  Rows rows(w, r);
  if (r.aside) rows.meanwhile = [&] { r.aside->down_back(w); };
  rows.value = w.temporary(at_least_one(r.row * r.sent), "combine gradient", exchange_pool(w));
  w.memory_bound(OperationKind::copy, "permute gradient", r.row * (r.sent + r.tokens));
  Value scores = 0;
  if (outputs != 0) {
    scores = w.temporary(at_least_one(4 * r.sent), "permuted probability gradient");
    w.memory_bound(OperationKind::elementwise, "weigh tokens backward", 3 * r.row * r.sent);
    w.drop(outputs);
  }
  read_by_exchange(w, gradients[0]);
  w.drop(gradients[0]);
  rows.to_experts();
  return {rows.value, scores};
}

}  // namespace

// If another microbatch hides all-to-alls, each runs beside this rank's next computation, and the
// following all-to-all waits for it. Dispatch runs beside the experts, combine beside the next
// attention. The result does not depend on which microbatch provides that work [core 0.14
// pipeline_parallel/combined_1f1b.py; model_chunk_schedule_plan.py].
void send_tokens(Writer& w, Stream stream, std::int64_t bytes, const Choices& choices, int route,
                 std::string_view label, const std::function<void()>& meanwhile) {
  if (w.plan.experts.overlaps_all_to_all) {
    w.e.wait(hidden_exchange_event);
    w.e.dispatch(stream, bytes, choices, route, label, overlapped, hidden_exchange_event);
  } else if (meanwhile) {
    const std::uint16_t there = w.event();
    w.e.dispatch(stream, bytes, choices, route, label, overlapped, there);
    meanwhile();
    w.e.wait(there);
  } else {
    w.e.dispatch(stream, bytes, choices, route, label);
  }
}

Stream exchange_pool(const Writer& w) {
  return w.plan.experts.overlaps_all_to_all ? Stream::side : Stream::compute;
}

void read_by_exchange(Writer& w, Value v) {
  if (v != 0 && w.plan.experts.overlaps_all_to_all)
    w.record_stream(v, w.plan.expert_tp() > 1 && w.plan.experts.dispatcher == Dispatcher::flex
                           ? Stream::etp_ep
                           : Stream::ep);
}

void read_elsewhere(Writer& w, Value v) {
  if (v != 0 && w.plan.experts.overlaps_all_to_all) w.record_stream(v, Stream::compute);
}

Dispatched dispatch(Writer& w, const Routed& r) {
  if (r.dispatcher == Dispatcher::allgather) return gathered_dispatch(w, r);
  if (r.dispatcher == Dispatcher::flex) return flex_dispatch(w, r);
  transpose(w, r);
  const std::uint16_t counts = count(w, r);
  if (r.aside) r.aside->gather(w);
  if (waits_early(w)) wait_for_counts(w, counts);
  const Value order = row_order(w, r);
  Rows rows(w, r);
  if (r.aside) rows.meanwhile = [&] { r.aside->up(w); };
  if (!w.plan.numerics.fp8) rows.left = 1 + (r.ep > 1) + (r.etp > 1) + r.sorts();
  rows.step(r.sent, "permuted tokens");
  w.memory_bound(OperationKind::copy, "permute", r.row * (r.sent + r.tokens));
  if (!waits_early(w)) wait_for_counts(w, counts);
  rows.to_experts();
  const Value probabilities = send_probabilities(w, r);
  w.save(order);
  w.drop(order);
  w.node([=](Writer& b, Gradients g) { return dispatch_back(b, g, r, order); });
  return {rows.value, probabilities};
}

Value combine(Writer& w, const Routed& r, Value outputs) {
  if (r.dispatcher == Dispatcher::allgather) return gathered_combine(w, r, outputs);
  if (r.dispatcher == Dispatcher::flex) return flex_combine(w, r, outputs);
  Rows rows(w, r, outputs);
  if (r.aside) rows.meanwhile = [&] { r.aside->down(w); };
  rows.from_experts();
  Value kept = 0;
  if (w.plan.experts.late_probabilities) {
    kept = rows.value;
    rows.value = w.temporary(at_least_one(r.row * r.sent), "weighed tokens");
    w.memory_bound(OperationKind::elementwise, "weigh tokens", 2 * r.row * r.sent);
    w.save(kept);
    w.drop(kept);
  }
  const Value sum = w.temporary(w.dim.residual(), "mixture output", exchange_pool(w));
  w.memory_bound(OperationKind::copy, "unpermute", r.row * (r.sent + r.tokens));
  w.drop(rows.value);
  transpose(w, r);
  w.node([=](Writer& b, Gradients g) { return combine_back(b, g, r, kept); });
  return sum;
}

}  // namespace sim::program
