// allocator_state.cpp — looking at the allocator: segments and blocks, exact comparison, restoring.
#include <algorithm>
#include <bit>
#include <cassert>

#include "sim/memory/allocator.h"

namespace sim::memory {

std::vector<SegmentView> Allocator::segments() const {
  std::vector<SegmentView> views;
  for (const auto& [base, segment] : segments_) {
    bool open = false;  // the run of mapped blocks that views.back() describes goes on
    for (BlockId id = segment.head; id != no_block; id = at(id).right) {
      const Block& block = at(id);
      if (!block.mapped) {
        open = false;
        continue;
      }
      if (!open) {
        const Lane& home = lane(block.lane);
        views.push_back({.address = block.address,
                         .stream = home.stream,
                         .pool = pool(home.pool).number,
                         .small = block.small,
                         .expandable = block.expandable,
                         .blocks = {}});
        open = true;
      }
      SegmentView& view = views.back();
      const bool pending = block.events > 0 || block.uses != none;
      view.total += block.size;
      if (block.allocated) view.allocated += block.size;
      if (block.allocated || pending) {
        view.active += block.size;
        view.requested += block.requested;
      }
      view.blocks.push_back({id, block.address, block.size, block.requested,
                             block.allocated ? BlockState::active_allocated
                             : pending       ? BlockState::active_pending_free
                                             : BlockState::inactive});
    }
  }
  return views;
}

Bytes Allocator::largest_free_block(int stream) const {
  for (const auto& [name, lane_index] : pool(0).lanes) {
    if (name != stream) continue;
    const FreeList& free = lane(lane_index).free;
    if (free.empty()) return {0};
    return {free.size_at(free.last())};
  }
  return {0};
}

void Allocator::save_state(std::vector<std::int64_t>& out) const {
  out.insert(out.end(), {total_, limit_, static_cast<std::int64_t>(segments_.size())});
  for (const auto& [base, segment] : segments_) {
    const Lane& home = lane(at(segment.head).lane);
    const Pool& own = pool(home.pool);
    out.insert(out.end(), {base, segment.size, segment.page, home.stream,
                           own.number * 2 + (own.small ? 1 : 0)});
    for (BlockId id = segment.head; id != no_block; id = at(id).right) {
      const Block& block = at(id);
      const bool used = block.uses != none;
      const std::int64_t flags = (block.allocated ? 1 : 0) + (block.mapped ? 2 : 0) +
                                 (used ? 4 : 0) + block.events * std::int64_t{8};
      const bool active = block.allocated || used || block.events > 0;
      out.push_back(block.size);
      out.push_back(flags);
      if (active) out.push_back(block.requested);
      if (!active && collecting_) out.push_back(own.searches - block.stamp);
      if (used) {
        const auto& uses = stream_uses_[static_cast<std::size_t>(block.uses)];
        out.push_back(static_cast<std::int64_t>(uses.size()));
        out.insert(out.end(), uses.begin(), uses.end());
      }
    }
  }
  for (const auto& [stream, queue] : queues_) {
    out.push_back(stream);
    out.push_back(static_cast<std::int64_t>(queue.size()));
    for (const auto& [event, id] : queue) out.push_back(at(id).address);
  }
  out.push_back(static_cast<std::int64_t>(deferred_.size()));
  for (const BlockId id : deferred_) out.push_back(at(id).address);
  for (const auto& [id, stream] : capture_uses_) out.insert(out.end(), {at(id).address, stream});
  for (const int number : open_regions_) out.push_back(number);
  for (const auto& [number, own] : private_pools_) out.insert(out.end(), {number, own.users});
  // Options that were changed at run time.
  out.insert(out.end(), {options_.max_split_size, options_.max_non_split_rounding,
                         options_.large_segment, options_.expandable_segments ? 1 : 0,
                         std::bit_cast<std::int64_t>(options_.garbage_collection_threshold)});
  out.insert(out.end(), options_.roundup_divisions.begin(), options_.roundup_divisions.end());
}

void Allocator::restore_segment(std::int64_t address, std::int64_t size, int stream, bool small,
                                std::span<const InitialBlock> blocks, std::vector<BlockId>& ids) {
  assert(size > 0);
  const std::int32_t lane_index = lane_for(small ? 1 : 0, stream);
  BlockId last = new_block();
  at(last) = {};
  at(last).address = address;
  at(last).size = size;
  at(last).lane = lane_index;
  at(last).small = small;
  segments_[address] = {size, 0, last};
  total_ += size;
  std::vector<BlockId> gaps;
  std::int64_t allocated = 0;
  std::int64_t requested = 0;
  // `last` is what remains of the segment to the right of the blocks placed so far.
  for (const InitialBlock& initial : blocks) {
    assert(last != no_block);
    assert(initial.address >= at(last).address);
    assert(initial.address + initial.size <= address + size);
    if (initial.address > at(last).address) {
      const BlockId rest = cut(last, initial.address - at(last).address);
      gaps.push_back(last);
      last = rest;
    }
    const BlockId rest = initial.size < at(last).size ? cut(last, initial.size) : no_block;
    Block& block = at(last);
    block.allocated = true;
    block.requested = initial.requested;
    ids.push_back(last);
    allocated += block.size;
    requested += initial.requested;
    if (block.size >= options_.max_split_size) statistics_.oversize_allocations.up(1);
    last = rest;
  }
  if (last != no_block) gaps.push_back(last);

  const auto count = static_cast<std::int64_t>(blocks.size());
  for (PoolStatistics* s : {&statistics_.all, &pool_statistics(small)}) {
    s->segment.up(1);
    s->reserved_bytes.up(size);
    s->allocation.up(count);
    s->active.up(count);
    s->allocated_bytes.up(allocated);
    s->active_bytes.up(allocated);
    s->requested_bytes.up(requested);
  }
  if (size >= options_.max_split_size) statistics_.oversize_segments.up(1);
  for (const BlockId id : gaps) {
    list(id);
    if (!at(id).split()) continue;
    for (PoolStatistics* s : {&statistics_.all, &pool_statistics(small)}) {
      s->inactive_split.up(1);
      s->inactive_split_bytes.up(at(id).size);
    }
  }
}

}  // namespace sim::memory
