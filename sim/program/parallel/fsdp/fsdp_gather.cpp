// fsdp_gather.cpp — gathers shards into whole parameters, and reshards them: see fsdp.h.
#include <algorithm>

#include "sim/program/layers/linear/fp8.h"
#include "sim/program/parallel/fsdp/fsdp.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

enum : std::uint32_t { low_precision_shard, quantized = 8 };

constexpr std::size_t most_in_flight = 2;  // _limiter_utils.py:_FreeEventQueue

std::uint8_t gathered_event(int u) {
  return static_cast<std::uint8_t>(unit_event + u % unit_events);
}

}  // namespace

// Writes one microbatch only to initialise the queue of free events: every microbatch is assumed to
// begin as the second one of a run does.
void Fsdp::warm_limiter() {
  if (staged_ || !flat() || !plan_.sharding.fsdp.limit_all_gathers) return;
  const std::size_t blocks = rank_.program.blocks.size();
  begin(schedule::Pass::forward, 0, {false, true, true});
  before(ends, Visit::forward);
  for (int layer = 0; layer < root(); ++layer) {
    before(layer, Visit::forward);
    after(layer, Visit::forward);
  }
  after(ends, Visit::forward);
  begin(schedule::Pass::backward, 0, {false, true, true});
  before(ends, Visit::backward);
  for (int layer = root() - 1; layer >= 0; --layer) {
    before(layer, Visit::backward);
    after(layer, Visit::backward);
  }
  after(ends, Visit::backward);
  rank_.program.blocks.resize(blocks);
  warm_events_ = free_events_;
}

// A gather waits for the oldest event of the queue, and removes it, if the queue holds two or more.
std::uint8_t Fsdp::take_free_event() {
  if (free_events_.size() < most_in_flight) return no_event;
  const std::uint8_t event = free_events_.front();
  free_events_.erase(free_events_.begin());
  return event;
}

// A reshard adds an event to the queue.
std::uint8_t Fsdp::give_free_event(bool forward) {
  if (!flat() || !plan_.sharding.fsdp.limit_all_gathers) return no_event;
  const int n = frees_[forward]++ % (forward ? free_forward_events : free_backward_events);
  const int event = (forward ? free_forward_event : free_backward_event) + n;
  free_events_.push_back(static_cast<std::uint8_t>(event));
  return free_events_.back();
}

// [DeepSpeed runtime/zero/partition_parameters.py:all_gather_coalesced, _partition_param_sec; ops/
// quantizer: blocks of int8, read and written once on either side]
void Fsdp::send_shards(Emitter& e, const Group& u) {
  const auto flags = static_cast<std::uint8_t>(joins | overlapped);
  if (gathers_second()) {
    e.collective(Kind::all_gather, Stream::shard_near, u.bytes, "secondary gather", flags, 0,
                 Stream::unshard);
    return;
  }
  if (!plan_.sharding.fsdp.quantized_weights) {
    if (shards_ > 1)
      e.collective(Kind::all_gather, Stream::shard, u.bytes - u.expert_bytes, "parameter gather",
                   flags, 0, Stream::unshard);
    if (u.expert_bytes > 0 && expert_shards_ > 1)
      e.collective(Kind::all_gather, Stream::edp, u.expert_bytes, "expert gather", flags, 0,
                   Stream::unshard);
  } else {
    const std::int64_t bytes = u.bytes / parameter_bytes();
    e.alloc(local_slot(quantized), bytes, Category::communication, "quantised parameters",
            Stream::unshard);
    memory_bound(e, OperationKind::copy, "quantise shard", (u.bytes + bytes) / shards_,
                 Stream::unshard);
    e.collective(Kind::all_gather, Stream::shard, bytes, "quantised gather", flags, 0,
                 Stream::unshard);
    memory_bound(e, OperationKind::copy, "dequantise parameters", u.bytes + bytes, Stream::unshard);
    e.free(local_slot(quantized));
  }
  if (plan_.sharding.fsdp.secondary > 1)
    memory_bound(e, OperationKind::copy, "keep secondary shard", 2 * second_bytes(u),
                 Stream::unshard);
}

// Issues the all-gather of a unit on the unshard stream.
void Fsdp::gather(Emitter& e, int index) {
  Group& u = unit(index);
  const bool casts = u.cast_to > 0;
  if (casts) {
    e.alloc(local_slot(low_precision_shard), u.cast_to, Category::temporaries,
            "shard in low precision", Stream::unshard);
    memory_bound(e, OperationKind::copy, "shard to low precision", u.cast_from + u.cast_to,
                 Stream::unshard);
  }
  if (const std::uint8_t limit = take_free_event(); limit != no_event)
    e.sync_event(limit, "gather limit");
  const Slot into = fixed_slot(flat() ? u.unsharded.front() : u.gathered);
  e.alloc(into, u.bytes, flat() ? Category::weights : Category::communication,
          flat() ? "flat parameters" : "all-gather output", Stream::unshard);
  if (!flat()) {
    memory_bound(e, OperationKind::copy, "shard to all-gather output", 2 * u.held_share,
                 Stream::unshard);
    if (casts) e.free(local_slot(low_precision_shard));
  }
  if (shards_ > 1) send_shards(e, u);
  e.record(gathered_event(index), Stream::unshard);
  if (flat() && casts) e.free(local_slot(low_precision_shard));
  u.held = Held::gathering;
}

// Issues the gathers of the following units when a unit is entered.
void Fsdp::prefetch(Emitter& e, int from, bool forward) {
  const int depth =
      forward ? plan_.sharding.fsdp.forward_prefetch : plan_.sharding.fsdp.backward_prefetch;
  for (int k = 1; k <= depth; ++k) {
    const int u = forward ? from + k : from - k;
    if (u >= 0 && u < root() && unit(u).held == Held::shard && !keeps_parameters()) gather(e, u);
  }
}

void Fsdp::drop_gathered(Emitter& e, int u) {
  e.wait(copied_event, Stream::unshard);
  e.free(fixed_slot(unit(u).gathered));
}

// FSDP2: copies the gathered tensor into separate parameters.
void Fsdp::copy_out(Emitter& e, Group& u) {
  for (std::size_t i = 0; i < u.members.size(); ++i)
    e.alloc(fixed_slot(u.unsharded[i]), u.members[i].gathered * u.members[i].elements,
            Category::weights, "unsharded parameter");
  memory_bound(e, OperationKind::copy, "all-gather copy-out", 2 * u.bytes);
  e.record(copied_event);
}

// The main stream waits for a unit that is not whole. FSDP2 frees the gathered tensor of the unit
// before (forward) or of this unit (backward).
void Fsdp::obtain(Emitter& e, int index, bool forward) {
  Group& u = unit(index);
  if (u.members.empty() || u.held == Held::whole || keeps_parameters()) return;
  if (u.held == Held::shard) gather(e, index);
  if (forward && gathered_ >= 0) drop_gathered(e, gathered_);
  e.wait(gathered_event(index));
  u.held = Held::whole;
  if (flat()) return;
  copy_out(e, u);
  if (forward)
    gathered_ = index;
  else
    drop_gathered(e, index);
}

void Fsdp::reshard(Emitter& e, int index, bool forward) {
  Group& u = unit(index);
  if (u.held != Held::whole) return;
  for (const std::uint32_t slot : u.unsharded) {
    if (flat()) e.record_stream(fixed_slot(slot), Stream::compute);
    e.free(fixed_slot(slot));
  }
  if (const std::uint8_t event = give_free_event(forward); event != no_event) e.record(event);
  u.held = Held::shard;
}

// Autocast copies fp32 weights, and autograd keeps the copies for the backward pass.
void Fsdp::cast_weights(Emitter& e, int layer) {
  const std::int64_t elements = unit(layer).elements;
  // fp8: no copy outlives its product; there are two casts, one for each direction.
  if (plan_.numerics.fp8 && !plan_.numerics.fp8_parameters) {
    if (finds_scales(plan_))
      memory_bound(e, OperationKind::reduction, "largest magnitude of weights",
                   2 * rank_.dim.element * elements);
    memory_bound(e, OperationKind::copy, "weights to fp8", 2 * (rank_.dim.element + 1) * elements);
  }
  if (!plan_.sharding.fsdp.fp32_parameters) return;
  e.alloc(layer_slot(weight_copy), rank_.dim.element * elements, Category::activations,
          "weights cast by autocast");
  memory_bound(e, OperationKind::copy, "weights cast by autocast",
               (4 + rank_.dim.element) * elements);
}

std::uint32_t Fsdp::enter_root(Visit visit) {
  const bool forward = visit == Visit::forward;
  Emitter e(rank_.tables, forward ? "root unshard" : "root backward begin");
  if (forward) {
    e.record(order_event);
    e.wait(order_event, Stream::unshard);
  }
  obtain(e, root(), forward);
  if (!forward) prefetch(e, root(), false);
  return e.finish();
}

std::uint32_t Fsdp::enter_layer(int layer, Visit visit) {
  Emitter e(rank_.tables, "unshard");
  obtain(e, layer, visit == Visit::forward);
  if (visit != Visit::recompute) prefetch(e, layer, visit == Visit::forward);
  // A recomputed layer casts again in its second forward pass.
  const bool here = visit != Visit::backward ||
                    (rank_.recomputes(layer) && rank_.ends_recomputed_group(chunk_, layer));
  if (here) cast_weights(e, layer);
  return e.finish();
}

}  // namespace sim::program
