// fsdp.cpp — units, and the state that a rank holds between steps: see fsdp.h. INVENTORY.md section
// 15 lists each tensor with its source.
#include "sim/program/parallel/fsdp/fsdp.h"

#include <algorithm>
#include <cassert>

#include "sim/program/parallel/eager.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

enum : std::uint32_t { before_cut };

}  // namespace

Fsdp::Fsdp(Rank& rank)
    : Sharding(rank),
      shards_(std::int64_t{plan_.mesh.dp} * plan_.mesh.cp / plan_.sharding.fsdp.replicas),
      expert_shards_(plan_.splits_experts_apart() ? plan_.expert_replicas() : shards_),
      splits_(schedule::find(plan_.pipeline.schedule)->splits != schedule::Splits::none),
      staged_(plan_.mesh.pp * plan_.pipeline.virtual_stages > 1 || splits_),
      accumulates_(plan_.sharding.fsdp.no_sync || staged_),
      at_end_(staged_ && !flat()) {
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk) add_chunk(chunk);
  if (plan_.sharding.deepspeed_optimizer) {
    std::vector<std::int64_t> tensors;
    for (const Parameter& p : parameters(0).all())
      tensors.push_back(p.frozen ? 0 : round_up(p.elements, shards_) / shards_);
    deepspeed_.emplace(rank_, std::move(tensors));
  }
  warm_limiter();
}

void Fsdp::add_chunk(int chunk) {
  const Parameters& all = parameters(chunk);
  Chunk& made = chunks_.emplace_back();
  made.gradient_of.assign(all.all().size(), 0);
  // Layers are reduced one after the other, so their gradients can share slots.
  for (int layer = 0; layer < all.layers(); ++layer) {
    const std::vector<int>& of_unit = all.of(layer);
    while (layer_gradients_.size() < of_unit.size()) layer_gradients_.push_back(rank_.new_fixed());
    for (std::size_t i = 0; i < of_unit.size(); ++i)
      made.gradient_of[static_cast<std::size_t>(of_unit[i])] = layer_gradients_[i];
    add_unit(made, all, layer);
  }
  for (const int p : all.of(ends))
    made.gradient_of[static_cast<std::size_t>(p)] = rank_.new_fixed();
  add_unit(made, all, ends);
}

void Fsdp::add_unit(Chunk& chunk, const Parameters& all, int layer) {
  Group& u = chunk.units.emplace_back();
  for (const int index : all.of(layer)) {
    const Parameter& p = all[index];
    Member m;
    m.apart = p.expert && plan_.splits_experts_apart();
    m.shards = m.apart ? expert_shards_ : shards_;
    m.elements = flat() ? p.elements : round_up(p.elements, m.shards);
    m.gathered = p.fp8 ? 1 : parameter_bytes();
    // FSDP2 keeps frozen parameters in the type in which they were loaded and are used; a flat
    // parameter has a single type. DeepSpeed and Megatron-FSDP keep fp32 parameters beside 16-bit
    // shards [megatron/core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py:
    // main_weight_buffer].
    const bool as_gathered = p.frozen || plan_.sharding.deepspeed_optimizer ||
                             plan_.sharding.fsdp.main_parameters;
    m.stored = as_gathered && !flat() ? m.gathered : held_bytes();
    m.tensor = index;
    m.frozen = p.frozen;
    m.matrix = (p.matrix && !p.at_once) || !p.owner.empty();
    m.gradient = chunk.gradient_of[static_cast<std::size_t>(index)];
    u.members.push_back(m);
  }
  measure(u);
  give_slots(u);
}

void Fsdp::measure(Group& u) const {
  if (flat()) return measure_flat(u);
  for (const Member& m : u.members) {
    const std::int64_t share = m.elements / m.shards;
    u.elements += m.elements;
    u.bytes += m.gathered * m.elements;
    u.held_share += m.gathered * share;
    if (m.apart) u.expert_bytes += m.gathered * m.elements;
    if (!m.frozen) {
      u.reduced += m.elements;
      u.kept_share += share;
      if (m.apart) u.expert_reduced += m.elements;
    }
    if (m.stored == m.gathered) continue;
    u.cast_from += m.stored * share;
    u.cast_to += m.gathered * share;
  }
  u.updated = u.kept_share;
}

// The gradient of a flat parameter is whole if any part of it is trained (use_orig_params). With
// `separate_adapters` the frozen and the trained parameters are flat parameters of their own.
void Fsdp::measure_flat(Group& u) const {
  std::int64_t trained = 0;
  for (const Member& m : u.members) {
    u.elements += m.elements;
    if (!m.frozen) trained += m.elements;
  }
  u.elements = round_up(u.elements, shards_);
  u.bytes = parameter_bytes() * u.elements;
  u.held_share = u.bytes / shards_;
  u.updated = round_up(trained, shards_) / shards_;
  const bool apart = plan_.sharding.fsdp.separate_adapters;
  u.reduced = trained == 0 ? 0 : apart ? u.updated * shards_ : u.elements;
  u.kept_share = u.reduced / shards_;
  const std::int64_t wide = apart ? u.updated : u.elements / shards_;
  u.stored_share = held_bytes() * wide + parameter_bytes() * (u.elements / shards_ - wide);
  if (parameter_bytes() == held_bytes()) return;
  u.cast_from = held_bytes() * wide;
  u.cast_to = parameter_bytes() * wide;
}

void Fsdp::give_slots(Group& u) {
  const std::size_t tensors = flat() ? 1 : u.members.size();
  for (std::size_t i = 0; i < tensors; ++i)
    for (auto* slots : {&u.unsharded, &u.shards, &u.first_moments, &u.second_moments})
      slots->push_back(rank_.new_fixed());
  if (plan_.sharding.fsdp.secondary > 1) u.second = rank_.new_fixed();
  for (std::uint32_t* slot : {&u.gathered, &u.reduction, &u.accumulated, &u.gradient})
    *slot = rank_.new_fixed();
}

void Fsdp::each_unit(const auto& work) {
  for (Chunk& chunk : chunks_)
    for (Group& u : chunk.units)
      if (!u.members.empty()) work(u);
}

void Fsdp::add_communicators(std::vector<Stream>& to) const {
  if (shards_ > 1) to.push_back(Stream::shard);
  if (plan_.splits_experts_apart() && expert_shards_ > 1) to.push_back(Stream::edp);
  if (plan_.sharding.fsdp.secondary > 1) to.push_back(Stream::shard_near);
  if (plan_.sharding.fsdp.quantized_gradients) to.push_back(Stream::shard_far);
  if (plan_.sharding.fsdp.replicas > 1) to.push_back(Stream::replicate);
}

void Fsdp::memory_bound(Emitter& e, OperationKind kind, std::string_view name, std::int64_t bytes,
                        Stream stream) {
  e.memory_bound(kind, name, bytes, stream == Stream::compute ? std::uint8_t{0} : beside, stream);
}

void Fsdp::set_up(Emitter& e) {
  each_unit([&](const Group& u) {
    if (plan_.sharding.fsdp.secondary > 1)
      e.alloc(fixed_slot(u.second), second_bytes(u), Category::weights, "secondary shard");
    if (flat()) {
      // A unit is created whole, flattened and sharded.
      e.alloc(local_slot(before_cut), u.stored_share * shards_, Category::temporaries,
              "unit before cut");
      e.alloc(fixed_slot(u.shards.front()), u.stored_share, of_parameters(), "sharded parameter");
      e.free(local_slot(before_cut));
      return;
    }
    const bool main = plan_.sharding.fsdp.main_parameters && !deepspeed_;
    for (std::size_t i = 0; i < u.members.size(); ++i) {
      const Member& m = u.members[i];
      const std::int64_t share = m.elements / m.shards;
      e.alloc(fixed_slot(u.shards[i]), m.stored * share,
              deepspeed_ || main ? Category::weights : of_parameters(), "sharded parameter");
      if (main && !m.frozen)
        e.alloc(fixed_slot(rank_.new_fixed()), 4 * share, Category::master_weights,
                "fp32 main parameter");
    }
  });
  if (deepspeed_) deepspeed_->set_up(e);
  wait_for_all(rank_, e, "set-up", "barrier");
}

// zero_grad(set_to_none=True).
void Fsdp::begin_step(Emitter& e, bool /*first*/) {
  free_events_ = warm_events_;
  e.host(HostWork::step);
  each_unit([&](const Group& u) {
    if (u.reduced > 0) e.free(fixed_slot(u.gradient), maybe);
  });
}

void Fsdp::allocate_moments(Emitter& e, const Group& u) {
  const auto pair = [&](std::size_t i, std::int64_t elements) {
    for (const auto& [slot, name] :
         {std::pair{u.first_moments[i], "exp_avg"}, std::pair{u.second_moments[i], "exp_avg_sq"}})
      e.alloc(fixed_slot(slot), held_bytes() * elements, Category::optimizer, name);
    e.memory_bound(OperationKind::copy, "clear moments", 2 * held_bytes() * elements,
                   optimizer_work);
  };
  if (flat()) {
    if (u.updated > 0) pair(0, u.updated);
    return;
  }
  for (std::size_t i = 0; i < u.members.size(); ++i)
    if (!u.members[i].frozen) pair(i, u.members[i].elements / u.members[i].shards);
}

std::int64_t Fsdp::updated_elements() const {
  std::int64_t sum = 0;
  for (const Chunk& chunk : chunks_)
    for (const Group& u : chunk.units) sum += u.updated;
  return sum;
}

// Matrices that are gathered in fp8 are cast with scales that one reduction after the optimizer
// computes [torchao float8/fsdp_utils.py:precompute_float8_dynamic_scale_for_fsdp].
void Fsdp::scale_matrices(Emitter& e) {
  std::int64_t elements = 0, count = 0;
  each_unit([&](const Group& u) {
    for (const Member& m : u.members)
      if (m.gathered == 1 && !m.frozen) {
        elements += m.elements / m.shards;
        ++count;
      }
  });
  if (count == 0) return;
  memory_bound(e, OperationKind::reduction, "maxima of weights", held_bytes() * elements);
  if (shards_ > 1) e.collective(Kind::all_reduce, Stream::shard, 4 * count, "scale all-reduce");
}

// The training loop reads the loss and the norm after the step. PyTorch always scales gradients,
// whatever their norm.
void Fsdp::end_step(Emitter& e, bool first) {
  if (plan_.mesh.pp > 1) {
    e.free(fixed_slot(received_gradient), maybe);
    e.free(fixed_slot(sent_gradient), maybe);
  }
  if (deepspeed_) {
    deepspeed_->step(e, first);
    return wait_for_all(rank_, e, "interval timer", "loss all-reduce");
  }
  const std::int64_t table = round_up(rank_.dim.vocab * rank_.dim.hidden, shards_) / shards_;
  if (!plan_.trains_adapters()) sum_tied_embeddings(rank_, e, held_bytes() * table);
  clip_gradients(rank_, e, updated_elements(), false);
  if (first) each_unit([&](const Group& u) { allocate_moments(e, u); });
  // Adam on shards reads parameter, gradient and moments, and writes all except the gradient.
  if (plan_.stack.fused_optimizer)
    e.memory_bound(OperationKind::optimizer, "adam", 7 * held_bytes() * updated_elements(),
                   optimizer_work);
  else
    each_unit([&](const Group& u) {
      if (u.updated > 0) adam_by_operators(e, u.updated);
    });
  if (plan_.sharding.fsdp.main_parameters && !flat())
    e.memory_bound(OperationKind::copy, "master to model",
                   (4 + parameter_bytes()) * updated_elements(), optimizer_work);
  scale_matrices(e);
  wait_for_all(rank_, e, "interval timer", "loss all-reduce");
}

void Fsdp::begin(schedule::Pass pass, int chunk, const Moment& moment) {
  const bool follows_backward = pass_ != schedule::Pass::forward;
  Sharding::begin(pass, chunk, moment);
  gathered_ = reduced_ = -1;
  bucket_.clear();
  reductions_ = 0;
  frees_ = {};
  arrived_.clear();
  if (deepspeed_) deepspeed_->begin_pass();
  if (!staged_ && pass == schedule::Pass::forward && follows_backward) free_events_ = warm_events_;
}

Sharding::State Fsdp::state() const {
  State state;
  for (const Group& u : units()) state.push_back(static_cast<std::uint8_t>(u.held));
  state.insert(state.end(), free_events_.begin(), free_events_.end());
  return state;
}

void Fsdp::restore(const State& state) {
  assert(state.size() >= units().size());
  auto next = state.begin();
  for (Group& u : units()) u.held = static_cast<Held>(*next++);
  free_events_.assign(next, state.end());
}

std::optional<std::uint32_t> Fsdp::before(int layer, Visit visit) {
  if (visit == Visit::weight) return {};
  return layer == ends ? enter_root(visit) : enter_layer(layer, visit);
}

std::optional<std::uint32_t> Fsdp::after(int layer, Visit visit) {
  return layer == ends ? leave_root(visit) : leave_layer(layer, visit);
}

// A tied table on this rank receives a second gradient, which is added to the first.
bool Fsdp::kept(Emitter& e, int chunk, int parameter, Slot gradient) {
  const Parameter& p = parameters(chunk)[parameter];
  if (p.frozen) return false;
  const std::vector<int>& of_ends = parameters(chunk).of(ends);
  const bool in_layer = std::find(of_ends.begin(), of_ends.end(), parameter) == of_ends.end();
  if (!in_layer && std::find(arrived_.begin(), arrived_.end(), parameter) != arrived_.end()) {
    memory_bound(e, OperationKind::elementwise, "add gradient of the head",
                 3 * rank_.dim.element * p.elements);
    e.free(gradient);
    return true;
  }
  if (!in_layer) arrived_.push_back(parameter);
  e.move(gradient, fixed_slot(chunks_[static_cast<std::size_t>(chunk)]
                                  .gradient_of[static_cast<std::size_t>(parameter)]));
  return true;
}

}  // namespace sim::program
