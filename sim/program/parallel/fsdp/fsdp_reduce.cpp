// fsdp_reduce.cpp — reduces whole gradients to shards: see fsdp.h.
#include <utility>

#include "sim/program/parallel/fsdp/fsdp.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

enum : std::uint32_t {
  flat_gradient = 1,
  gradient_in_reduce_type,
  reduced,
  sharded_gradient,
  quantized_gradient = 9,
};

// DeepSpeed's default reduce_bucket_size [deepspeed/runtime/zero/config.py].
constexpr std::int64_t bucket_elements = 500'000'000;
// Reductions in flight that the CPU does not wait for [stage3.py: max_param_reduce_events].
constexpr int most_reductions = 2;

std::uint8_t bucket_event_of(int reduction) {
  return static_cast<std::uint8_t>(free_backward_event + reduction % free_backward_events);
}
static_assert(free_backward_events > most_reductions + 1);

}  // namespace

std::uint32_t Fsdp::leave_root(Visit visit) {
  Emitter e(rank_.tables, visit == Visit::forward ? "root forward end" : "root reduce");
  if (visit == Visit::forward) {
    if (gathered_ >= 0) drop_gathered(e, gathered_);
    return e.finish();
  }
  if (visit == Visit::backward) finish_unit(e, root());
  if (visit == Visit::backward && deepspeed_) {
    reduce_bucket(e);
    e.sync_stream(Stream::reduce, "reductions");
  }
  if (at_end_ && completes_layers()) reduce_all(e);
  if (at_end_ ? completes_layers() : syncs()) end_reduction(e);
  return e.finish();
}

std::uint32_t Fsdp::leave_layer(int layer, Visit visit) {
  const bool backward = visit == Visit::backward || visit == Visit::weight;
  Emitter e(rank_.tables, backward ? "reduce" : "reshard");
  // Autocast's copies wait for the backward pass, unless the layer is recomputed first.
  const bool drops =
      visit == Visit::backward || (visit == Visit::forward && rank_.recomputes(layer));
  if (plan_.sharding.fsdp.fp32_parameters && drops) e.free(layer_slot(weight_copy));
  if (backward)
    finish_unit(e, layer);
  else if (reshards(layer))
    reshard(e, layer, visit == Visit::forward);
  return e.finish();
}

// All gradients of a unit exist: its parameters are freed, and its gradients are reduced or added
// to those of earlier microbatches.
void Fsdp::finish_unit(Emitter& e, int index) {
  Group& u = unit(index);
  if (flat() && u.reduced > 0) flatten(e, u);
  const bool frees =
      at_end_ ? false : !flat() || syncs() || plan_.sharding.fsdp.reshard_after_forward;
  if (frees) reshard(e, index, false);
  if (u.reduced == 0) return;
  if (keeps_parameters()) return keep_whole(e, u);
  if (accumulates_) accumulate(e, u);
  if (at_end_ || !syncs()) return;
  const bool from_accumulated = accumulates_ && !moment_.first;
  if (deepspeed_)
    put_in_bucket(e, index);
  else if (flat())
    reduce_flat(e, u, from_accumulated);
  else
    reduce_copied(e, index, from_accumulated);
}

// The backward pass of the views of the flat parameter produces one gradient of all of it.
void Fsdp::flatten(Emitter& e, const Group& u) {
  std::int64_t frozen = 0;
  for (const Member& m : u.members) frozen += m.frozen ? m.elements : 0;
  e.alloc(local_slot(flat_gradient), parameter_bytes() * u.reduced, Category::gradients,
          "flat gradient");
  memory_bound(e, OperationKind::copy, "flatten gradients",
               rank_.dim.element * (u.elements - frozen) + parameter_bytes() * u.reduced);
  for (const Member& m : u.members)
    if (!m.frozen) e.free(fixed_slot(m.gradient));
}

// Without reduction, whole gradients are kept. FSDP1 keeps them in the parameters' type, because
// autograd adds them. FSDP2 keeps them in the reduction's type. If a weight pass follows, the
// backward pass brings only the gradients of parameters that are not factors of products.
void Fsdp::accumulate(Emitter& e, Group& u) {
  if (moment_.first && moment_.last && !at_end_) return;
  if (flat()) return accumulate_flat(e, u);
  // The members whose gradients this pass brings.
  const bool rest = pass_ != schedule::Pass::weight, matrices = pass_ != schedule::Pass::input;
  const auto comes = [&](const Member& m) { return !m.frozen && (m.matrix ? matrices : rest); };
  const auto first = [&](const Member& m) {
    return m.matrix ? moment_.first : moment_.first_of_ends;
  };
  std::int64_t added = 0, kept = 0;
  for (const Member& m : u.members)
    if (comes(m)) (first(m) ? kept : added) += m.elements;
  if (moment_.first_of_ends)
    e.alloc(fixed_slot(u.accumulated), reduce_bytes() * u.reduced, Category::gradients,
            "accumulated gradients");
  if (kept > 0)
    memory_bound(e, OperationKind::copy, "keep gradients",
                 (rank_.dim.element + reduce_bytes()) * kept);
  if (added > 0)
    memory_bound(e, OperationKind::elementwise, "add gradients",
                 (rank_.dim.element + 2 * reduce_bytes()) * added);
  for (const Member& m : u.members)
    if (comes(m)) e.free(fixed_slot(m.gradient));
}

void Fsdp::accumulate_flat(Emitter& e, Group& u) {
  if (moment_.first) return e.move(local_slot(flat_gradient), fixed_slot(u.accumulated));
  memory_bound(e, OperationKind::elementwise, "add gradients", 3 * parameter_bytes() * u.reduced);
  e.free(local_slot(flat_gradient));
}

// After the last pass of a chunk: runs post_backward of all modules, the root before the layers.
void Fsdp::reduce_all(Emitter& e) {
  for (int i = -1; i < root(); ++i) {
    const int u = i < 0 ? root() : i;
    reshard(e, u, false);
    if (unit(u).reduced > 0) reduce_copied(e, u, true);
  }
}

void Fsdp::end_reduction(Emitter& e) {
  e.record(order_event, Stream::reduce);
  e.wait(order_event);
  if (reduced_ >= 0) e.free(fixed_slot(unit(reduced_).reduction));
}

// FSDP1 reduces the flat gradient itself; the reduce stream casts and divides it.
void Fsdp::reduce_flat(Emitter& e, Group& u, bool from_accumulated) {
  // The kernels over the whole gradient use HBM and SMs as the following layer does, so they run on
  // the compute stream.
  const Slot whole = from_accumulated ? fixed_slot(u.accumulated) : local_slot(flat_gradient);
  const bool casts = reduce_bytes() != parameter_bytes();
  if (casts) {
    e.alloc(local_slot(gradient_in_reduce_type), reduce_bytes() * u.reduced, Category::gradients,
            "gradient to reduce", Stream::reduce);
    memory_bound(e, OperationKind::copy, "gradient to reduce",
                 (parameter_bytes() + reduce_bytes()) * u.reduced);
  }
  e.alloc(local_slot(reduced), reduce_bytes() * u.kept_share, Category::gradients, "reduced shard",
          Stream::reduce);
  memory_bound(e, OperationKind::elementwise, "divide gradient", 2 * reduce_bytes() * u.reduced);
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  communicate(e, u);
  memory_bound(e, OperationKind::elementwise, "divide shard", 2 * reduce_bytes() * u.kept_share,
               Stream::reduce);
  if (casts) e.free(local_slot(gradient_in_reduce_type));
  keep_shard(e, u);
  e.record_stream(whole, Stream::reduce);
  e.free(whole);
}

// FSDP2 copies gradients into the input of the reduce-scatter; the next unit frees that input.
void Fsdp::reduce_copied(Emitter& e, int index, bool from_accumulated) {
  Group& u = unit(index);
  if (reduced_ >= 0) {
    e.wait(reduced_event);
    e.free(fixed_slot(unit(reduced_).reduction));
  }
  reduced_ = index;
  e.alloc(fixed_slot(u.reduction), reduce_bytes() * u.reduced, Category::communication,
          "reduce-scatter input");
  const std::int64_t from = from_accumulated ? reduce_bytes() : rank_.dim.element;
  memory_bound(e, OperationKind::copy, "reduce-scatter copy-in",
               (from + reduce_bytes()) * u.reduced);
  if (from_accumulated) {
    e.free(fixed_slot(u.accumulated));
  } else {
    for (const Member& m : u.members)
      if (!m.frozen) e.free(fixed_slot(m.gradient));
  }
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  e.alloc(local_slot(reduced), reduce_bytes() * u.kept_share, Category::gradients, "reduced shard",
          Stream::reduce);
  communicate(e, u);
  keep_shard(e, u);
}

// Copies a gradient into the bucket on the reduce stream. The bucket is reduced when a gradient
// does not fit, at the first gradient of a later layer [runtime/zero/stage3.py:
// reduce_independent_p_g_buckets_and_remove_grads].
void Fsdp::put_in_bucket(Emitter& e, int index) {
  Group& u = unit(index);
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  e.alloc(fixed_slot(u.reduction), reduce_bytes() * u.reduced, Category::communication,
          "reduce-scatter input", Stream::reduce);
  memory_bound(e, OperationKind::copy, "gradients to bucket",
               (rank_.dim.element + reduce_bytes()) * u.reduced, Stream::reduce);
  for (const Member& m : u.members) {
    if (m.frozen) continue;
    e.record_stream(fixed_slot(m.gradient), Stream::reduce);
    e.free(fixed_slot(m.gradient));
  }
  bucket_.push_back(index);
}

void Fsdp::reduce_bucket(Emitter& e) {
  if (bucket_.empty()) return;
  const int earlier = reductions_ - most_reductions - 1;
  if (earlier >= 0) e.sync_event(bucket_event_of(earlier), "earlier reductions");
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  for (const int index : bucket_) {
    Group& u = unit(index);
    e.alloc(local_slot(reduced), reduce_bytes() * u.kept_share, Category::gradients,
            "reduced shard", Stream::reduce);
    ready_in_deepspeed(e, u);
    communicate(e, u);
    keep_shard(e, u);
    e.free(fixed_slot(u.reduction));
  }
  e.record(bucket_event_of(reductions_++), Stream::reduce);
  bucket_.clear();
}

std::optional<std::uint32_t> Fsdp::before_gradients(int layer) {
  std::int64_t elements = unit(layer).reduced;
  for (const int index : bucket_) elements += unit(index).reduced;
  if (bucket_.empty() || elements <= bucket_elements) return {};
  Emitter e(rank_.tables, "bucket is full");
  reduce_bucket(e);
  return e.finish();
}

// DeepSpeed sorts a bucket by rank before it scatters the sum, and divides it
// [runtime/comm/coalesced_collectives.py:reduce_scatter_coalesced].
void Fsdp::ready_in_deepspeed(Emitter& e, const Group& u) {
  const std::int64_t pass = 2 * reduce_bytes() * u.reduced;
  if (!plan_.sharding.deepspeed_all_reduce)
    memory_bound(e, OperationKind::copy, "gradients by rank", pass, Stream::reduce);
  memory_bound(e, OperationKind::elementwise, "divide gradients", pass, Stream::reduce);
}

// Sends 4-bit blocks to the neighbours, their sum to the ranks with the same place in other groups,
// and adds those [DeepSpeed runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce].
void Fsdp::exchange_quantized(Emitter& e, const Group& u) {
  const auto flags = static_cast<std::uint8_t>(joins | overlapped);
  std::int64_t elements = u.reduced;
  const std::int64_t near = plan_.sharding.fsdp.secondary;
  memory_bound(e, OperationKind::copy, "quantise gradients",
               reduce_bytes() * elements + elements / 2, Stream::reduce);
  const std::pair<Stream, std::int64_t> hops[] = {{Stream::shard_near, near},
                                                  {Stream::shard_far, shards_ / near}};
  for (const auto& [who, ranks] : hops) {
    if (ranks == 1) continue;
    e.alloc(local_slot(quantized_gradient), elements / 2, Category::communication,
            "quantised gradients", Stream::reduce);
    e.collective(Kind::all_to_all, who, elements / 2, "quantised gradient exchange", flags, 0,
                 Stream::reduce);
    memory_bound(e, OperationKind::reduction, "sum quantised gradients",
                 elements / 2 + reduce_bytes() * elements / ranks, Stream::reduce);
    e.free(local_slot(quantized_gradient));
    elements /= ranks;
  }
}

void Fsdp::communicate(Emitter& e, const Group& u) {
  const auto flags = static_cast<std::uint8_t>(joins | overlapped);
  if (shards_ > 1 && plan_.sharding.fsdp.quantized_gradients)
    exchange_quantized(e, u);
  else if (shards_ > 1)
    e.collective(plan_.sharding.deepspeed_all_reduce ? Kind::all_reduce : Kind::reduce_scatter,
                 Stream::shard, reduce_bytes() * (u.reduced - u.expert_reduced),
                 "gradient reduction", flags, 0, Stream::reduce);
  if (u.expert_reduced > 0 && expert_shards_ > 1)
    e.collective(Kind::reduce_scatter, Stream::edp, reduce_bytes() * u.expert_reduced,
                 "expert gradient reduction", flags, 0, Stream::reduce);
  e.record(reduced_event, Stream::reduce);
  if (plan_.sharding.fsdp.replicas > 1)
    e.collective(Kind::all_reduce, Stream::replicate, reduce_bytes() * u.kept_share,
                 "gradient all-reduce", flags, 0, Stream::reduce);
}

// Without shards autograd itself keeps the gradients, or adds them to those of earlier
// microbatches.
void Fsdp::keep_whole(Emitter& e, Group& u) {
  if (moment_.first)
    e.alloc(fixed_slot(u.gradient), held_bytes() * u.reduced, Category::gradients, "gradients");
  else
    memory_bound(e, OperationKind::elementwise, "add gradients", 3 * held_bytes() * u.reduced);
  for (const Member& m : u.members)
    if (!m.frozen) e.free(fixed_slot(m.gradient));
}

// The shard's gradient, new or added to that of earlier microbatches.
void Fsdp::keep_shard(Emitter& e, Group& u) {
  const std::int64_t elements = u.kept_share;
  Slot shard = local_slot(reduced);
  if (deepspeed_) {
    std::vector<int> tensors;
    for (const Member& m : u.members) tensors.push_back(m.tensor);
    return deepspeed_->take(e, tensors, shard, moment_);
  }
  if (reduce_bytes() != held_bytes()) {
    e.alloc(local_slot(sharded_gradient), held_bytes() * elements, Category::gradients,
            "sharded gradient", Stream::reduce);
    memory_bound(e, OperationKind::copy, held_bytes() == 4 ? "shard to fp32" : "shard to its type",
                 (reduce_bytes() + held_bytes()) * elements, Stream::reduce);
    e.free(shard);
    shard = local_slot(sharded_gradient);
  }
  if (moment_.first || accumulates_) {
    e.move(shard, fixed_slot(u.gradient));
    return;
  }
  memory_bound(e, OperationKind::elementwise, "add to sharded gradient",
               3 * held_bytes() * elements, Stream::reduce);
  e.free(shard);
}

}  // namespace sim::program
