// sub_pool_leave.cpp — writes the memory of a class from its sub-pools back into the allocator.
#include <cassert>

#include "sim/engine/steady/sub_pool_replay.h"

namespace sim::engine {

using allocator::NodeId;
using allocator::SubPoolMachine;

SubPoolReplay::BlockLocation SubPoolReplay::place_of(std::int32_t tensor, int age) const {
  const auto [sub_pool, number] = codes_.home[static_cast<std::size_t>(tensor)];
  const SubPoolMachine& machine = *sub_pools_[static_cast<std::size_t>(sub_pool)].machine;
  return BlockLocation{sub_pool, machine.held(number, machine.cycle() - age)};
}

// By sub-pool and node: the requested size of each occupied block.
SubPoolReplay::ByNode<std::int64_t> SubPoolReplay::requested_sizes() const {
  ByNode<std::int64_t> asked;
  for (const Own& own : sub_pools_) asked.emplace_back(own.machine->nodes());
  const auto ask = [&](const BlockLocation& place, std::int64_t bytes) {
    asked[static_cast<std::size_t>(place.sub_pool)][static_cast<std::size_t>(place.node)] = bytes;
  };
  for (const CycleTrace::Held& h : trace_.held)
    if (h.tensor >= 0)
      ask(place_of(h.tensor, h.age), trace_.tensors[static_cast<std::size_t>(h.tensor)].bytes);
  for (const Waiting& w : facts_.waits)
    ask(place_of(w.tensor, w.age), trace_.tensors[static_cast<std::size_t>(w.tensor)].bytes);
  for (const Permanent& p : permanent_) ask({p.sub_pool, p.node}, p.requested);
  return asked;
}

// Writes the blocks of all sub-pools to `layout`. Returns the number of the piece of each occupied
// block, by sub-pool and node.
SubPoolReplay::ByNode<std::size_t> SubPoolReplay::write_segments(RankMemory::Layout& layout) const {
  const ByNode<std::int64_t> asked = requested_sizes();
  ByNode<std::size_t> pieces;
  std::size_t count = 0;
  for (std::size_t l = 0; l < sub_pools_.size(); ++l) {
    const Own& own = sub_pools_[l];
    pieces.emplace_back(own.machine->nodes());
    for (const NodeId head : own.segments) {
      auto& segment = layout.segments.emplace_back();
      segment.address = own.machine->address(head);
      segment.stream = own.stream;
      segment.small = own.small;
      for (NodeId id = head; id >= 0; id = own.machine->right(id)) {
        using Kind = allocator::Allocator::Piece::Kind;
        const bool free = own.machine->free(id);
        const auto node = static_cast<std::size_t>(id);
        assert(free || asked[l][node] > 0);
        segment.pieces.push_back({free ? Kind::free : Kind::allocated, own.machine->size(id),
                                  free ? 0 : asked[l][node]});
        if (!free) pieces[l][node] = count++;
      }
    }
  }
  return pieces;
}

void SubPoolReplay::leave(RankState& r, Time begin, std::span<const std::uint32_t> live) {
  assert(on());
  if (done_ == entered_) return sub_pools_.clear();  // memory is as it was
  for (Own& own : sub_pools_)
    if (own.machine->rests()) own.machine->play_rest(done_ - own.machine->cycle());
  RankMemory::Layout layout;
  const ByNode<std::size_t> pieces = write_segments(layout);
  const auto piece = [&](const BlockLocation& place) {
    return pieces[static_cast<std::size_t>(place.sub_pool)][static_cast<std::size_t>(place.node)];
  };
  for (const Permanent& p : permanent_)
    layout.tensors.push_back({p.slot, piece({p.sub_pool, p.node}), p.category, p.recorded});
  for (const CycleTrace::Held& h : trace_.held) {
    if (h.tensor < 0) continue;
    layout.tensors.push_back(
        {actual_slot(r.program, h.slot, live), piece(place_of(h.tensor, h.age)),
         trace_.tensors[static_cast<std::size_t>(h.tensor)].category, h.recorded});
  }
  const std::int64_t now = begin.ps + cut_;
  for (const Waiting& w : facts_.waits) {
    auto& waiting = layout.waiting.emplace_back();
    waiting.piece = piece(place_of(w.tensor, w.age));
    for (const auto& [stream, end] : trace_.tensors[static_cast<std::size_t>(w.tensor)].waits) {
      const std::int64_t ticket = begin.ps + end - w.freed_ago * length_;
      if (ticket > now) waiting.events.push_back({stream, ticket});
    }
  }
  r.memory.rebuild(layout);
  sub_pools_.clear();
}

}  // namespace sim::engine
