// fsdp.cpp — see fsdp.h; INVENTORY.md section 15 has a line per tensor with its source.
#include "sim/workload/fsdp.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <numeric>

#include "sim/workload/eager.h"

namespace sim::workload {

using collective::Kind;
using model::OperationKind;

namespace {

enum Local : std::uint32_t {
  low_precision_shard,
  flat_gradient,
  gradient_in_reduce_type,
  reduced,
  sharded_gradient,
};

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

constexpr std::size_t most_in_flight = 2;  // _limiter_utils.py:_FreeEventQueue

}  // namespace

Fsdp::Fsdp(Rank& rank, const DataParallel& parameters)
    : rank_(rank),
      plan_(rank.plan),
      shards_(std::int64_t{plan_.mesh.dp} * plan_.mesh.cp / plan_.sharding.fsdp.replicas) {
  assert(plan_.shards_parameters() && plan_.mesh.pp == 1 && plan_.pipeline.virtual_stages == 1);
  const auto slots = [&](auto count) {
    std::vector<std::uint32_t> made;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      made.push_back(rank.new_fixed());
    return made;
  };
  layer_gradients_ = slots(LayerParameter::count_);
  end_gradients_ = slots(EndParameter::count_);
  std::vector<const Parameter*> of_unit;
  std::vector<std::uint32_t> gradients;
  const auto take = [&](const Parameter* p, std::uint32_t slot) {
    if (!p) return;
    of_unit.push_back(p);
    gradients.push_back(slot);
  };
  const auto close = [&] {
    add_unit(of_unit, gradients);
    of_unit.clear();
    gradients.clear();
  };
  for (int layer = 0; layer < rank.layers(0); ++layer) {
    for (std::size_t p = 0; p < layer_gradients_.size(); ++p)
      take(parameters.find(layer, static_cast<LayerParameter>(p)), layer_gradients_[p]);
    close();
  }
  for (std::size_t p = 0; p < end_gradients_.size(); ++p)
    take(parameters.find(static_cast<EndParameter>(p)), end_gradients_[p]);
  close();
  plan_limiter();
}

void Fsdp::add_unit(std::span<const Parameter* const> parameters,
                    std::span<const std::uint32_t> gradients) {
  Unit& u = units_.emplace_back();
  u.gradients.assign(gradients.begin(), gradients.end());
  for (const Parameter* p : parameters) {
    u.parameters.push_back(p->elements);
    u.elements += flat() ? p->elements : round_up(p->elements, shards_);
  }
  u.elements = round_up(u.elements, shards_);
  u.shard = u.elements / shards_;
  const std::size_t tensors = flat() ? 1 : u.parameters.size();
  for (std::size_t i = 0; i < tensors; ++i) {
    u.unsharded.push_back(rank_.new_fixed());
    u.shards.push_back(rank_.new_fixed());
    u.first_moments.push_back(rank_.new_fixed());
    u.second_moments.push_back(rank_.new_fixed());
  }
  u.gathered = rank_.new_fixed();
  u.reduction = rank_.new_fixed();
  u.accumulated = rank_.new_fixed();
  u.gradient = rank_.new_fixed();
}

// Plays the queue of free events through two microbatches: a reshard puts one in, a gather takes
// the oldest out where two or more are there. The second microbatch is like all that follow.
void Fsdp::plan_limiter() {
  for (const int forward : {0, 1}) {
    limit_[forward].assign(units_.size(), no_event);
    freed_[forward].assign(units_.size(), no_event);
  }
  if (!flat() || !plan_.sharding.fsdp.limit_all_gathers) return;
  std::deque<std::uint8_t> queue;
  int forward_frees = 0, backward_frees = 0;
  const auto gathers = [&](bool forward, int u) {
    if (queue.size() < most_in_flight) return;
    limit_[forward][static_cast<std::size_t>(u)] = queue.front();
    queue.pop_front();
  };
  const auto frees = [&](bool forward, int u) {
    const int n =
        forward ? forward_frees++ % free_forward_events : backward_frees++ % free_backward_events;
    const int event = (forward ? free_forward_event : free_backward_event) + n;
    freed_[forward][static_cast<std::size_t>(u)] = static_cast<std::uint8_t>(event);
    queue.push_back(static_cast<std::uint8_t>(event));
  };
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    forward_frees = backward_frees = 0;
    gathers(true, root());
    int ahead = 0;  // gathered so far
    for (int u = 0; u < root(); ++u) {
      for (; ahead <= std::min(u + plan_.sharding.fsdp.forward_prefetch, root() - 1); ++ahead)
        gathers(true, ahead);
      if (reshards(u)) frees(true, u);
    }
    ahead = root() - 1;
    for (int u = root(); u >= 0; --u) {
      if (plan_.sharding.fsdp.reshard_after_forward)
        for (; ahead >= std::max(u - plan_.sharding.fsdp.backward_prefetch, 0); --ahead)
          gathers(false, ahead);
      if (u < root()) frees(false, u);
    }
    frees(false, root());
  }
}

std::int64_t Fsdp::parameter_bytes() const {
  return plan_.sharding.fsdp.fp32_parameters ? 4 : rank_.dim.element;
}

std::uint8_t Fsdp::gather_event(int u) const {
  return static_cast<std::uint8_t>(unit_event + u % unit_events);
}

void Fsdp::pass(Emitter& e, OperationKind kind, std::string_view name, std::int64_t bytes,
                Stream stream) {
  e.kernel(model::pass(kind, name, Bytes{bytes}),
           stream == Stream::compute ? std::uint8_t{0} : beside, stream);
}

// Issues the all-gather of a unit on the unshard stream.
void Fsdp::gather(Emitter& e, int index, bool forward) {
  Unit& u = unit(index);
  const std::int64_t bytes = parameter_bytes() * u.elements;
  const bool casts = parameter_bytes() != 4;
  if (casts) {
    e.alloc(local_slot(low_precision_shard), parameter_bytes() * u.shard, Category::temporaries,
            "shard in low precision", Stream::unshard);
    pass(e, OperationKind::copy, "shard to low precision", (4 + parameter_bytes()) * u.shard,
         Stream::unshard);
  }
  if (const std::uint8_t limit = limit_[forward][static_cast<std::size_t>(index)]; limit != 0)
    e.sync_event(limit, "gather limit");
  const Slot into = fixed_slot(flat() ? u.unsharded.front() : u.gathered);
  e.alloc(into, bytes, flat() ? Category::weights : Category::communication,
          flat() ? "flat parameters" : "all-gather output", Stream::unshard);
  if (!flat()) {
    pass(e, OperationKind::copy, "shard to all-gather output", 2 * parameter_bytes() * u.shard,
         Stream::unshard);
    if (casts) e.free(local_slot(low_precision_shard));
  }
  if (shards_ > 1)
    e.collective(Kind::all_gather, Stream::shard, bytes, "parameter gather",
                 static_cast<std::uint8_t>(joins | overlapped), 0, Stream::unshard);
  e.record(gather_event(index), Stream::unshard);
  if (flat() && casts) e.free(local_slot(low_precision_shard));
}

// While unit `from` is entered the gathers of those that follow are issued; the first one finds
// none before it.
void Fsdp::prefetch(Emitter& e, int from, bool forward) {
  const int depth =
      forward ? plan_.sharding.fsdp.forward_prefetch : plan_.sharding.fsdp.backward_prefetch;
  const bool first = from == (forward ? 0 : root());
  for (int k = first ? 1 : std::max(depth, 1); k <= depth; ++k) {
    const int u = forward ? from + k : from - k;
    if (u >= 0 && u < root()) gather(e, u, forward);
  }
}

// The main stream waits for a unit's parameters; FSDP2 copies them out, and drops what was
// gathered for the unit before (forward) or for this one (backward).
void Fsdp::wait(Emitter& e, int index, bool forward, int previous) {
  Unit& u = unit(index);
  const auto drop = [&](int which) {
    e.wait(copied_event, Stream::unshard);
    e.free(fixed_slot(unit(which).gathered));
  };
  if (!flat() && forward && previous >= 0) drop(previous);
  e.wait(gather_event(index));
  if (flat()) return;
  for (std::size_t i = 0; i < u.parameters.size(); ++i)
    e.alloc(fixed_slot(u.unsharded[i]), parameter_bytes() * round_up(u.parameters[i], shards_),
            Category::weights, "unsharded parameter");
  pass(e, OperationKind::copy, "all-gather copy-out", 2 * parameter_bytes() * u.elements);
  e.record(copied_event);
  if (!forward) drop(index);
}

void Fsdp::reshard(Emitter& e, int index, bool forward) {
  for (const std::uint32_t slot : unit(index).unsharded) {
    if (flat()) e.record_stream(fixed_slot(slot), Stream::compute);
    e.free(fixed_slot(slot));
  }
  if (const std::uint8_t event = freed_[forward][static_cast<std::size_t>(index)]; event != 0)
    e.record(event);
}

std::uint32_t Fsdp::begin_forward() {
  Emitter e(rank_.tables, "root unshard");
  e.record(order_event);
  e.wait(order_event, Stream::unshard);
  gather(e, root(), true);
  wait(e, root(), true, -1);
  return e.finish();
}

// Autocast makes copies of fp32 weights, which autograd keeps for the backward pass.
void Fsdp::cast_weights(Emitter& e, int layer) {
  const std::int64_t elements = unit(layer).elements;
  // fp8: no copy outlives the product that it is made for; two casts, one for each direction.
  if (plan_.numerics.fp8)
    pass(e, OperationKind::copy, "weights to fp8", 2 * (rank_.dim.element + 1) * elements);
  if (!plan_.sharding.fsdp.fp32_parameters) return;
  e.alloc(layer_slot(weight_copy), rank_.dim.element * elements, Category::activations,
          "weights cast by autocast");
  pass(e, OperationKind::copy, "weights cast by autocast", (4 + rank_.dim.element) * elements);
}

std::uint32_t Fsdp::before_forward(int layer) {
  Emitter e(rank_.tables, "unshard");
  if (layer == 0 || plan_.sharding.fsdp.forward_prefetch == 0) gather(e, layer, true);
  wait(e, layer, true, layer == 0 ? root() : layer - 1);
  prefetch(e, layer, true);
  cast_weights(e, layer);
  return e.finish();
}

std::uint32_t Fsdp::after_forward(int layer, bool again) {
  Emitter e(rank_.tables, "reshard");
  if (plan_.sharding.fsdp.fp32_parameters && again) e.free(layer_slot(weight_copy));
  if (reshards(layer)) reshard(e, layer, true);
  return e.finish();
}

std::uint32_t Fsdp::end_forward() {
  Emitter e(rank_.tables, "root forward end");
  if (!flat()) {
    e.wait(copied_event, Stream::unshard);
    e.free(fixed_slot(unit(root() - 1).gathered));
  }
  return e.finish();
}

std::uint32_t Fsdp::begin_backward() {
  Emitter e(rank_.tables, "root backward begin");
  if (plan_.sharding.fsdp.reshard_after_forward) prefetch(e, root(), false);
  return e.finish();
}

std::uint32_t Fsdp::before_backward(int layer, bool again) {
  Emitter e(rank_.tables, "unshard");
  if (plan_.sharding.fsdp.reshard_after_forward) {
    if (plan_.sharding.fsdp.backward_prefetch == 0) gather(e, layer, false);
    wait(e, layer, false, -1);
    prefetch(e, layer, false);
  }
  if (again) cast_weights(e, layer);
  return e.finish();
}

std::uint32_t Fsdp::after_backward(int layer, bool first, bool last) {
  Emitter e(rank_.tables, "reduce");
  if (plan_.sharding.fsdp.fp32_parameters) e.free(layer_slot(weight_copy));
  reduce(e, layer, first, last);
  return e.finish();
}

std::uint32_t Fsdp::end_backward(bool first, bool last) {
  Emitter e(rank_.tables, "root reduce");
  reduce(e, root(), first, last);
  if (reduces(last)) {
    e.record(order_event, Stream::reduce);
    e.wait(order_event);
    if (!flat()) e.free(fixed_slot(unit(root()).reduction));
  }
  return e.finish();
}

// The gradients of a unit are there: parameters go, gradients are added to those of earlier
// microbatches or reduced.
void Fsdp::reduce(Emitter& e, int index, bool first, bool last) {
  Unit& u = unit(index);
  if (flat()) {
    // Backward of the views of the flat parameter: one gradient of all.
    e.alloc(local_slot(flat_gradient), parameter_bytes() * u.elements, Category::gradients,
            "flat gradient");
    pass(e, OperationKind::copy, "flatten gradients",
         (rank_.dim.element + parameter_bytes()) * u.elements);
    for (const std::uint32_t slot : u.gradients) e.free(fixed_slot(slot));
  }
  reshard(e, index, false);
  if (plan_.sharding.fsdp.no_sync) accumulate(e, u, first, last);
  if (!reduces(last)) return;
  const bool from_accumulated = plan_.sharding.fsdp.no_sync && !first;
  if (flat())
    reduce_flat(e, u, first || plan_.sharding.fsdp.no_sync, from_accumulated);
  else
    reduce_copied(e, index, first || plan_.sharding.fsdp.no_sync, from_accumulated);
}

// Without reduction whole gradients are kept: FSDP1's in the type of the parameters, as autograd
// adds them; FSDP2's in the type of the reduction.
void Fsdp::accumulate(Emitter& e, Unit& u, bool first, bool last) {
  if (first && last) return;
  const std::int64_t width = flat() ? parameter_bytes() : reduce_bytes();
  if (first) {
    if (flat()) {
      e.move(local_slot(flat_gradient), fixed_slot(u.accumulated));
      return;
    }
    e.alloc(fixed_slot(u.accumulated), width * u.elements, Category::gradients,
            "accumulated gradients");
    pass(e, OperationKind::copy, "keep gradients", (rank_.dim.element + width) * u.elements);
  } else {
    pass(e, OperationKind::elementwise, "add gradients",
         ((flat() ? width : rank_.dim.element) + 2 * width) * u.elements);
  }
  if (flat())
    e.free(local_slot(flat_gradient));
  else
    for (const std::uint32_t slot : u.gradients) e.free(fixed_slot(slot));
}

// FSDP1: the flat gradient itself is reduced; the reduce stream casts and divides it.
void Fsdp::reduce_flat(Emitter& e, Unit& u, bool creates, bool from_accumulated) {
  // The passes over the whole gradient fill HBM and take SMs as the layer behind them does: they
  // are charged to the compute stream.
  const Slot whole = from_accumulated ? fixed_slot(u.accumulated) : local_slot(flat_gradient);
  const bool casts = reduce_bytes() != parameter_bytes();
  if (casts) {
    e.alloc(local_slot(gradient_in_reduce_type), reduce_bytes() * u.elements, Category::gradients,
            "gradient to reduce", Stream::reduce);
    pass(e, OperationKind::copy, "gradient to reduce",
         (parameter_bytes() + reduce_bytes()) * u.elements);
  }
  e.alloc(local_slot(reduced), reduce_bytes() * u.shard, Category::gradients, "reduced shard",
          Stream::reduce);
  pass(e, OperationKind::elementwise, "divide gradient", 2 * reduce_bytes() * u.elements);
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  communicate(e, u);
  pass(e, OperationKind::elementwise, "divide shard", 2 * reduce_bytes() * u.shard, Stream::reduce);
  if (casts) e.free(local_slot(gradient_in_reduce_type));
  keep_shard(e, u, creates);
  e.record_stream(whole, Stream::reduce);
  e.free(whole);
}

// FSDP2: gradients are copied into the reduce-scatter's input, which the next unit frees.
void Fsdp::reduce_copied(Emitter& e, int index, bool creates, bool from_accumulated) {
  Unit& u = unit(index);
  const int previous = index == root() ? 0 : index + 1;
  if (index != root() - 1) {
    e.wait(reduced_event);
    e.free(fixed_slot(unit(previous).reduction));
  }
  e.alloc(fixed_slot(u.reduction), reduce_bytes() * u.elements, Category::communication,
          "reduce-scatter input");
  const std::int64_t from = from_accumulated ? reduce_bytes() : rank_.dim.element;
  pass(e, OperationKind::copy, "reduce-scatter copy-in", (from + reduce_bytes()) * u.elements);
  if (from_accumulated)
    e.free(fixed_slot(u.accumulated));
  else
    for (const std::uint32_t slot : u.gradients) e.free(fixed_slot(slot));
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  e.alloc(local_slot(reduced), reduce_bytes() * u.shard, Category::gradients, "reduced shard",
          Stream::reduce);
  communicate(e, u);
  keep_shard(e, u, creates);
}

void Fsdp::communicate(Emitter& e, const Unit& u) {
  const auto flags = static_cast<std::uint8_t>(joins | overlapped);
  if (shards_ > 1)
    e.collective(Kind::reduce_scatter, Stream::shard, reduce_bytes() * u.elements,
                 "gradient reduction", flags, 0, Stream::reduce);
  e.record(reduced_event, Stream::reduce);
  if (plan_.sharding.fsdp.replicas > 1)
    e.collective(Kind::all_reduce, Stream::replicate, reduce_bytes() * u.shard,
                 "gradient all-reduce", flags, 0, Stream::reduce);
}

// The shard's gradient in fp32, new or added to that of earlier microbatches.
void Fsdp::keep_shard(Emitter& e, Unit& u, bool creates) {
  Slot shard = local_slot(reduced);
  if (reduce_bytes() != 4) {
    e.alloc(local_slot(sharded_gradient), 4 * u.shard, Category::gradients, "sharded gradient",
            Stream::reduce);
    pass(e, OperationKind::copy, "shard to fp32", (reduce_bytes() + 4) * u.shard, Stream::reduce);
    e.free(shard);
    shard = local_slot(sharded_gradient);
  }
  if (creates) {
    e.move(shard, fixed_slot(u.gradient));
    return;
  }
  pass(e, OperationKind::elementwise, "add to sharded gradient", 12 * u.shard, Stream::reduce);
  e.free(shard);
}

void Fsdp::allocate_shards(Emitter& e) {
  for (Unit& u : units_) {
    if (flat()) {
      // A unit is made whole, flattened and cut.
      e.alloc(local_slot(flat_gradient), 4 * u.elements, Category::temporaries, "unit before cut");
      e.alloc(fixed_slot(u.shards.front()), 4 * u.shard, Category::master_weights,
              "sharded parameter");
      e.free(local_slot(flat_gradient));
      continue;
    }
    for (std::size_t i = 0; i < u.parameters.size(); ++i)
      e.alloc(fixed_slot(u.shards[i]), 4 * (round_up(u.parameters[i], shards_) / shards_),
              Category::master_weights, "sharded parameter");
  }
}

// zero_grad(set_to_none=True).
void Fsdp::zero_gradients(Emitter& e) {
  for (const Unit& u : units_) e.free(fixed_slot(u.gradient), maybe);
}

void Fsdp::allocate_moments(Emitter& e) {
  for (const Unit& u : units_)
    for (std::size_t i = 0; i < u.shards.size(); ++i) {
      const std::int64_t n = flat() ? u.shard : round_up(u.parameters[i], shards_) / shards_;
      e.alloc(fixed_slot(u.first_moments[i]), 4 * n, Category::optimizer, "exp_avg");
      e.alloc(fixed_slot(u.second_moments[i]), 4 * n, Category::optimizer, "exp_avg_sq");
      e.kernel(model::pass(OperationKind::copy, "clear moments", Bytes{8 * n}), optimizer_work);
    }
}

// Fused Adam on fp32 shards: reads parameter, gradient and moments, writes all but the gradient.
void Fsdp::update(Emitter& e) {
  if (!plan_.stack.fused_optimizer) {
    for (const Unit& u : units_) adam_by_operators(e, u.shard);
    return;
  }
  e.kernel(model::pass(OperationKind::optimizer, "adam", Bytes{28 * shard_elements()}),
           optimizer_work);
}

std::int64_t Fsdp::shard_elements() const {
  return std::accumulate(units_.begin(), units_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Unit& u) { return sum + u.shard; });
}

}  // namespace sim::workload
