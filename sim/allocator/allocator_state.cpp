// allocator_state.cpp — inspects and restores the allocator: segments, canonical state, rebuild.
#include <algorithm>
#include <bit>
#include <cassert>

#include "sim/allocator/allocator.h"

namespace sim::allocator {

std::vector<SegmentView> Allocator::segments() const {
  std::vector<SegmentView> views;
  for (const auto& [base, segment] : segments_) {
    bool open = false;  // the mapped range of views.back() continues
    for (BlockId id = segment.head; id != no_block; id = at(id).right) {
      const Block& block = at(id);
      if (!block.mapped) {
        open = false;
        continue;
      }
      if (!open) {
        const SubPool& home = sub_pool(block.sub_pool);
        views.push_back({.address = block.address,
                         .stream = home.stream,
                         .pool = pool(home.pool).number,
                         .small = block.small,
                         .expandable = block.expandable,
                         .blocks = {}});
        open = true;
      }
      SegmentView& own = views.back();
      const BlockView& last = own.blocks.emplace_back(view(id));
      own.total += last.size;
      if (last.state == BlockState::active_allocated) own.allocated += last.size;
      if (last.state == BlockState::inactive) continue;
      own.active += last.size;
      own.requested += last.requested;
    }
  }
  return views;
}

Bytes Allocator::largest_free_block(int stream, bool small) const {
  for (const auto& [name, sub_pool_index] : pool(small ? 1 : 0).sub_pools)
    if (name == stream) return {sub_pool(sub_pool_index).free.largest_size()};
  return {0};
}

bool Allocator::takes_what_fits() const {
  return !derived_.collecting && !derived_.divided && options_.max_split_size == unlimited &&
         captures_.open.empty() && captures_.pools.empty();
}

bool Allocator::serves(std::int64_t requested, int stream) const {
  const std::int64_t size = round_size(requested, options_);
  const bool small = size <= small_size;
  for (const auto& [name, sub_pool_index] : pool(pool_for(small)).sub_pools) {
    if (name != stream) continue;
    const FreeBins& free = sub_pool(sub_pool_index).free;
    FreeBins::Position fit = free.first_fit(size);
    return !free.at_end(fit) && acceptable({size, 0, sub_pool_index, small}, fit);
  }
  return false;
}

std::int64_t Allocator::most_from_driver(std::int64_t requested) const {
  const std::int64_t size = round_size(requested, options_);
  // Pages of an expandable segment cover the request, and may begin and end in the middle of one.
  const std::int64_t pages = options_.expandable_segments ? 2 * options_.large_segment : 0;
  return segment_size(size, options_) + pages;
}

std::int64_t Allocator::left_below_limit() const {
  return limit_ == unlimited ? unlimited : limit_ - total_;
}

std::vector<std::int32_t> Allocator::save_state(std::vector<std::int64_t>& out) const {
  std::vector<std::int32_t> numbers(blocks_.size(), -1);
  const auto number_of = [&](BlockId id) -> std::int32_t& {
    return numbers[static_cast<std::size_t>(id)];
  };
  std::int32_t blocks = 0;
  out.insert(out.end(), {total_, limit_, static_cast<std::int64_t>(segments_.size())});
  for (const auto& [base, segment] : segments_) {
    const SubPool& home = sub_pool(at(segment.head).sub_pool);
    const Pool& own = pool(home.pool);
    out.insert(out.end(),
               {segment.size, segment.page, home.stream, own.number * 2 + (own.small ? 1 : 0)});
    for (BlockId id = segment.head; id != no_block; id = at(id).right) {
      const Block& block = at(id);
      number_of(id) = blocks++;
      const bool used = block.used;
      const std::int64_t flags = (block.allocated ? 1 : 0) + (block.mapped ? 2 : 0) +
                                 (used ? 4 : 0) + block.events * std::int64_t{8};
      const bool active = block.allocated || used || block.events > 0;
      out.push_back(block.size);
      out.push_back(flags);
      if (active) out.push_back(past(id).requested);
      if (!active && derived_.collecting) out.push_back(own.searches - past(id).stamp);
      if (used) {
        const auto& uses = streams_.uses[static_cast<std::size_t>(past(id).uses)];
        out.push_back(static_cast<std::int64_t>(uses.size()));
        for (const StreamUse& use : uses) out.push_back(use.stream * 2 + (use.in_capture ? 1 : 0));
      }
    }
  }
  for (const EventQueue& queue : streams_.queues) {
    if (queue.empty()) continue;
    out.push_back(queue.stream);
    out.push_back(static_cast<std::int64_t>(queue.waiting.size() - queue.head));
    for (std::size_t i = queue.head; i < queue.waiting.size(); ++i)
      out.push_back(number_of(queue.waiting[i].second));
  }
  out.push_back(static_cast<std::int64_t>(streams_.deferred.size()));
  for (const BlockId id : streams_.deferred) out.push_back(number_of(id));
  for (const int number : captures_.open) out.push_back(number);
  for (const auto& [number, own] : captures_.pools) out.insert(out.end(), {number, own.users});
  // Options that a program can change at run time.
  out.insert(out.end(), {options_.max_split_size, options_.max_non_split_rounding,
                         options_.large_segment, options_.expandable_segments ? 1 : 0,
                         std::bit_cast<std::int64_t>(options_.garbage_collection_threshold)});
  out.insert(out.end(), options_.roundup_divisions.begin(), options_.roundup_divisions.end());
  return numbers;
}

void Allocator::save_outline(std::vector<std::int64_t>& out) const {
  out.insert(out.end(), {total_, static_cast<std::int64_t>(segments_.size()),
                         static_cast<std::int64_t>(blocks_.size() - unused_blocks_.size()),
                         record_.statistics.all.allocated_bytes.current});
  for (const SubPool& own : sub_pools_) out.push_back(own.free.largest_size());
}

void Allocator::forget_segments() {
  assert(captures_.pools.empty() && streams_.deferred.empty());
  blocks_.clear();
  pasts_.clear();
  unused_blocks_.clear();
  for (SubPool& own : sub_pools_) {
    own.free.clear();
    own.unmapped.clear();
  }
  segments_.clear();
  streams_.queues.clear();
  streams_.uses.clear();
  streams_.unused_uses.clear();
  streams_.pending = false;
  streams_.soonest = INT64_MAX;
  total_ = 0;
}

void Allocator::rebuild(std::span<const InitialSegment> segments, std::vector<BlockId>& ids) {
  forget_segments();
  const Statistics before = std::exchange(record_.statistics, {});
  for (const InitialSegment& segment : segments) restore(segment, ids);
  const auto go_on = [](Statistic& s, const Statistic& old) {
    s.peak = old.peak;
    s.increased = old.increased;
  };
  const auto pool = [&](PoolStatistics& s, const PoolStatistics& old) {
    go_on(s.allocation, old.allocation);
    go_on(s.segment, old.segment);
    go_on(s.active, old.active);
    go_on(s.inactive_split, old.inactive_split);
    go_on(s.allocated_bytes, old.allocated_bytes);
    go_on(s.reserved_bytes, old.reserved_bytes);
    go_on(s.active_bytes, old.active_bytes);
    go_on(s.inactive_split_bytes, old.inactive_split_bytes);
    go_on(s.requested_bytes, old.requested_bytes);
  };
  pool(record_.statistics.all, before.all);
  pool(record_.statistics.small_pool, before.small_pool);
  pool(record_.statistics.large_pool, before.large_pool);
  go_on(record_.statistics.oversize_allocations, before.oversize_allocations);
  go_on(record_.statistics.oversize_segments, before.oversize_segments);
  record_.statistics.num_alloc_retries = before.num_alloc_retries;
  record_.statistics.num_ooms = before.num_ooms;
  record_.statistics.num_sync_all_streams = before.num_sync_all_streams;
  record_.statistics.num_device_alloc = before.num_device_alloc;
  record_.statistics.num_device_free = before.num_device_free;
}

namespace {

// Counts the bytes of a restored piece; below, its block and requests.
void count_bytes(const Allocator::Piece& piece, PoolStatistics& to) {
  if (piece.kind != Allocator::Piece::Kind::unmapped) to.reserved_bytes.up(piece.size);
  if (piece.kind != Allocator::Piece::Kind::allocated) return;
  to.allocated_bytes.up(piece.size);
  to.active_bytes.up(piece.size);
}

void count_blocks(const Allocator::Piece& piece, bool inactive_split, PoolStatistics& to) {
  to.inactive_split.up(inactive_split ? 1 : 0);
  to.inactive_split_bytes.up(inactive_split ? piece.size : 0);
  if (piece.kind != Allocator::Piece::Kind::allocated) return;
  to.allocation.up(1);
  to.active.up(1);
  to.requested_bytes.up(piece.requested);
}

}  // namespace

void Allocator::restore(const InitialSegment& segment, std::vector<BlockId>& ids) {
  std::int32_t pool_index = segment.small ? 1 : 0;
  if (segment.pool != 0) {
    const PrivatePool& own = private_pool(segment.pool, {});
    pool_index = segment.small ? own.small : own.large;
  }
  const std::int32_t sub_pool_index = sub_pool_for(pool_index, segment.stream);
  PoolStatistics& own = pool_statistics(segment.small);
  const bool expandable = segment.page > 0;
  derived_.choosy |= expandable;
  std::int64_t address = segment.address;
  BlockId left = no_block;
  for (const Piece& piece : segment.pieces) {
    assert(piece.size > 0);
    const BlockId id = new_block();
    Block& block = at(id);
    block = {};
    past(id) = {};
    block.address = address;
    block.size = piece.size;
    past(id).requested = piece.requested;
    block.sub_pool = sub_pool_index;
    block.left = left;
    block.small = segment.small;
    block.expandable = expandable;
    block.mapped = piece.kind != Piece::Kind::unmapped;
    block.allocated = piece.kind == Piece::Kind::allocated;
    if (left != no_block) at(left).right = id;
    if (left == no_block) segments_[segment.address] = {0, segment.page, id};
    left = id;
    address += piece.size;
    if (!block.allocated) list(id);
    if (block.mapped) total_ += piece.size;
    if (block.allocated) ids.push_back(id);
    const bool inactive_split =
        piece.kind == Piece::Kind::free && !expandable && segment.pieces.size() > 1;
    count_bytes(piece, record_.statistics.all);
    if (record_.detailed || piece.kind != Piece::Kind::allocated) count_bytes(piece, own);
    if (!record_.detailed) {
      if (block.allocated) own.reserved_bytes.up(piece.size);
      continue;
    }
    count_blocks(piece, inactive_split, record_.statistics.all);
    count_blocks(piece, inactive_split, own);
    if (block.allocated && piece.size >= options_.max_split_size)
      record_.statistics.oversize_allocations.up(1);
  }
  segments_[segment.address].size = address - segment.address;
  if (expandable) return;
  record_.statistics.all.segment.up(1);
  own.segment.up(1);
  if (address - segment.address >= options_.max_split_size)
    record_.statistics.oversize_segments.up(1);
}

}  // namespace sim::allocator
