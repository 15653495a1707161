#include "sim/program/parallel/ddp/depth.h"

#include <algorithm>
#include <cassert>

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

constexpr std::array<std::string_view, 4> weights = {"linear_qkv.weight", "linear_proj.weight",
                                                     "linear_fc1.weight", "linear_fc2.weight"};

int product_of(std::string_view weight) {
  const auto found = std::ranges::find(weights, weight);
  assert(found != weights.end());
  return static_cast<int>(found - weights.begin());
}

// Reuses FSDP's unit events, because FSDP is off here.
std::uint16_t arrived(int product) {
  return static_cast<std::uint16_t>(unit_event + product);
}

}  // namespace

Depth::Depth(Rank& rank) : Replicated(rank), parts_(rank.new_fixed()), flat_(rank.new_fixed()) {
  for (std::uint32_t& slot : gathered_)
    slot = plan_.stack.saved_depth_weights ? rank.new_of_layer() : rank.new_fixed();
  for (std::size_t i = 0; i < parameters(0).all().size(); ++i)
    scattered_slots_.push_back(rank.new_fixed());
}

std::vector<Stream> Depth::communicators() const {
  std::vector<Stream> made = Replicated::communicators();
  made.push_back(Stream::shard);
  return made;
}

std::int64_t Depth::whole_bytes(int product) const {
  const int p = parameters(0).find({0, 0}, weights[static_cast<std::size_t>(product)]);
  return rank_.dim.element * parameters(0)[p].elements * plan_.mesh.tensor_depth;
}

Slot Depth::whole(int product, std::uint32_t layers_on) const {
  const std::uint32_t slot = gathered_[static_cast<std::size_t>(product)];
  return plan_.stack.saved_depth_weights ? layer_slot(slot, layers_on) : fixed_slot(slot);
}

void Depth::gather(Emitter& e, int product, std::uint32_t layers_on) {
  const Slot slot = whole(product, layers_on);
  const std::int64_t bytes = whole_bytes(product);
  e.alloc(slot, bytes, Category::temporaries, "gathered weight");
  e.collective(Kind::all_gather, Stream::shard, bytes, "weight all-gather", overlapped,
               arrived(product));
  if (!plan_.environment.avoid_record_streams) e.record_stream(slot, Stream::shard);
}

// torch.distributed.all_gather into a list allocates a flat tensor, copies it into the tensors of
// the list, and joins the list.
void Depth::gather_at_once(Emitter& e, int product) {
  const std::int64_t bytes = whole_bytes(product);
  e.alloc(fixed_slot(parts_), bytes - bytes / plan_.mesh.tensor_depth, Category::temporaries,
          "list of gathered parts");
  e.alloc(fixed_slot(flat_), bytes, Category::temporaries, "flattened parts");
  e.collective(Kind::all_gather, Stream::shard, bytes, "weight all-gather");
  e.memory_bound(OperationKind::copy, "copy gathered parts", 2 * bytes);
  e.free(fixed_slot(flat_));
  e.alloc(whole(product), bytes, Category::temporaries, "gathered weight");
  e.memory_bound(OperationKind::copy, "join gathered parts", 2 * bytes);
  e.free(fixed_slot(parts_));
}

void Depth::open(Emitter& e, Unit unit, std::string_view weight, Visit visit) {
  const int product = product_of(weight);
  if (visit == Visit::backward && plan_.stack.saved_depth_weights) return;
  if (visit == Visit::backward || !plan_.stack.overlap_depth_gather)
    return gather_at_once(e, product);
  const bool alone = visit == Visit::recompute;
  const int last = parameters(unit.chunk).layers() - 1;
  if (product == 0 && (alone || unit.layer == 0)) gather(e, 0);
  const int next = (product + 1) % products;
  if (next != 0 || (!alone && unit.layer < last)) gather(e, next, next == 0 ? 1 : 0);
  e.wait(arrived(product));
}

void Depth::close(Emitter& e, Unit unit, std::string_view weight, Visit visit) {
  // A recomputed layer saves nothing in its first forward pass.
  const bool saved =
      plan_.stack.saved_depth_weights &&
      (visit == Visit::recompute || (visit == Visit::forward && !rank_.recomputes(unit.layer)));
  if (!saved) e.free(whole(product_of(weight)));
}

// Adds the gradient to main_grad, which Megatron-LM's DDP reduces.
void Depth::add(Emitter& e, int chunk, const Scattered& of) {
  const std::int64_t elements = parameters(chunk)[of.parameter].elements;
  e.memory_bound(OperationKind::elementwise, "main_grad add",
                 (rank_.dim.element + 2 * bytes_of_gradient()) * elements);
  e.free(fixed_slot(of.slot));
}

bool Depth::kept(Emitter& e, int chunk, int parameter, Slot gradient) {
  const Parameter& p = parameters(chunk)[parameter];
  if (!p.matrix) return false;
  const bool waits_later = plan_.stack.overlap_depth_scatter;
  const std::int64_t bytes = rank_.dim.element * p.elements;
  const Scattered made{parameter, scattered_slots_[static_cast<std::size_t>(parameter)]};
  e.alloc(fixed_slot(made.slot), bytes, Category::gradients, "scattered weight gradient");
  e.collective(Kind::reduce_scatter, Stream::shard, bytes * plan_.mesh.tensor_depth,
               "weight gradient reduce-scatter", waits_later ? overlapped : joins);
  if (waits_later && !plan_.environment.avoid_record_streams)
    e.record_stream(gradient, Stream::shard);
  e.free(gradient);
  if (waits_later)
    scattered_.push_back(made);
  else
    add(e, chunk, made);
  return true;
}

std::optional<std::uint32_t> Depth::after(int layer, Visit visit) {
  if (layer != ends || visit != Visit::backward || scattered_.empty()) return {};
  Emitter e(rank_.tables, "add scattered gradients");
  e.sync_device("handles of reduce-scatters");
  for (const Scattered& of : scattered_) add(e, chunk_, of);
  scattered_.clear();
  return e.finish();
}

void Depth::end_step(Emitter& e, bool first) {
  for (const Parameter& p : parameters(0).all())
    if (!p.matrix)
      e.collective(Kind::all_reduce, Stream::shard, bytes_of_gradient() * p.elements,
                   "depth gradient all-reduce");
  Replicated::end_step(e, first);
}

}  // namespace sim::program
