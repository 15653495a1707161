// allocator.cpp — the hot path: allocate from a free block, free into one.
#include "sim/allocator/allocator.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace sim::allocator {
namespace {

constexpr std::int32_t default_large = 0;
constexpr std::int32_t default_small = 1;

}  // namespace

const char* name(Action action) {
  switch (action) {
    case Action::alloc:
      return "alloc";
    case Action::free_requested:
      return "free_requested";
    case Action::free_completed:
      return "free_completed";
    case Action::segment_alloc:
      return "segment_alloc";
    case Action::segment_free:
      return "segment_free";
    case Action::segment_map:
      return "segment_map";
    case Action::segment_unmap:
      return "segment_unmap";
    case Action::oom:
      return "oom";
  }
  return "";
}

Allocator::Allocator(Driver& driver, Options options, Rules rules)
    : driver_(&driver), options_(std::move(options)), rules_(rules) {
  streams_.clock = driver.clock();
  pools_.push_back({.small = false, .sub_pools = {}});
  pools_.push_back({.small = true, .sub_pools = {}});
  if (rules_ == Rules::newer) set_memory_fraction(options_.per_process_memory_fraction);
  refresh();
}

void Allocator::refresh() {
  derived_.collecting = limit_ != unlimited && options_.garbage_collection_threshold > 0.0;
  derived_.counted |= derived_.collecting;
  derived_.choosy |= options_.expandable_segments || options_.max_split_size != unlimited;
  derived_.divided = std::any_of(options_.roundup_divisions.begin(),
                                 options_.roundup_divisions.end(), [](int n) { return n > 1; });
}

void Allocator::set_memory_fraction(double fraction) {
  assert(fraction >= 0.0);
  assert(fraction <= 1.0);
  const double total = static_cast<double>(driver_->total_memory().n);
  limit_ = static_cast<std::int64_t>(std::floor(fraction * total));
  if (rules_ == Rules::newer && fraction == 1.0) limit_ = unlimited;
  refresh();
}

BlockId Allocator::new_block() {
  if (!unused_blocks_.empty()) {
    const BlockId id = unused_blocks_.back();
    unused_blocks_.pop_back();
    return id;
  }
  blocks_.emplace_back();
  pasts_.emplace_back();
  return static_cast<BlockId>(blocks_.size() - 1);
}

void Allocator::delete_block(BlockId id) {
  unused_blocks_.push_back(id);
}

std::int32_t Allocator::sub_pool_for(std::int32_t pool_index, int stream) {
  const auto& sub_pools = pool(pool_index).sub_pools;
  if (!sub_pools.empty() && sub_pools.front().first == stream) return sub_pools.front().second;
  const auto found = std::lower_bound(sub_pools.begin(), sub_pools.end(), std::pair(stream, 0),
                                      [](auto a, auto b) { return a.first < b.first; });
  if (found != sub_pools.end() && found->first == stream) return found->second;
  return add_sub_pool(pool_index, stream);
}

std::int32_t Allocator::add_sub_pool(std::int32_t pool_index, int stream) {
  auto& sub_pools = pool(pool_index).sub_pools;
  const std::pair entry(stream, static_cast<std::int32_t>(sub_pools_.size()));
  sub_pools.insert(std::upper_bound(sub_pools.begin(), sub_pools.end(), entry), entry);
  sub_pools_.emplace_back();
  sub_pools_.back().pool = pool_index;
  sub_pools_.back().stream = stream;
  return entry.second;
}

// An open private pool serves all streams. If several are open, the newer rules use the one opened
// last, 2.4.0 the one opened first.
std::int32_t Allocator::pool_for(bool small) const {
  if (captures_.open.empty()) return small ? default_small : default_large;
  const int number = rules_ == Rules::newer ? captures_.open.back() : captures_.open.front();
  const PrivatePool& own = captures_.pools.at(number);
  return small ? own.small : own.large;
}

// Flattened (all calls inlined), as is free(): a replay spends most of its time in these two. Calls
// would cost a fifth of that. The position found stays in registers: no code takes its address.
[[gnu::flatten]] BlockId Allocator::allocate(std::int64_t requested, int stream) {
  assert(requested > 0);
  assert(requested <= largest_request);
  poll();

  const std::int64_t size =
      derived_.divided ? round_size(requested, options_) : whole_blocks(requested);
  const bool small = size <= small_size;
  const Request request{size, 0, sub_pool_for(pool_for(small), stream), small};
  const FreeBins& free = sub_pool(request.sub_pool).free;
  const FreeBins::Position fit = find(request);
  if (free.at_end(fit)) return allocate_slowly(request, requested, stream);
  return hand_out(request, requested, {free.block(fit), fit});
}

// No free block serves the request.
[[gnu::noinline]] BlockId Allocator::allocate_slowly(Request request, std::int64_t requested,
                                                     int stream) {
  request.segment = segment_size(request.size, options_);
  Found found;
  if (obtain(request, stream, found)) return hand_out(request, requested, found);
  report_oom(request, requested, stream);
  return no_block;
}

// Best fit among the free blocks of the request's sub-pool, or the end.
FreeBins::Position Allocator::find(const Request& request) {
  SubPool& home = sub_pool(request.sub_pool);
  if (derived_.collecting) ++pool(home.pool).searches;
  FreeBins::Position p = home.free.first_fit(request.size);
  if (derived_.choosy && !home.free.at_end(p) && !acceptable(request, p)) return {};
  return p;
}

// Whether the options allow the first fit. It may move `p` to a later block.
bool Allocator::acceptable(const Request& request, FreeBins::Position& p) const {
  const SubPool& home = sub_pool(request.sub_pool);
  if (at(home.free.block(p)).expandable && !choose_expandable(request, p)) return false;
  if (options_.max_split_size == unlimited) return true;
  // An oversized block (max_split_size) serves neither a request below that size nor a much smaller
  // oversized one.
  const std::int64_t size = home.free.size_at(p);
  const std::int64_t rounding = options_.max_non_split_rounding > 0
                                    ? options_.max_non_split_rounding
                                    : options_.large_segment;
  const bool large = request.size >= options_.max_split_size;
  return large ? size < request.size + rounding : size < options_.max_split_size;
}

// The first fit lies in an expandable segment. The reach of a block is its size plus that of the
// unmapped block to its right. With expandable segments on, a later block replaces an expandable
// one while its reach is smaller. With them off, only blocks of ordinary segments serve.
bool Allocator::choose_expandable(const Request& request, FreeBins::Position& p) const {
  const FreeBins& free = sub_pool(request.sub_pool).free;
  if (options_.expandable_segments) {
    const auto reach = [&](BlockId id) {
      const Block& block = at(id);
      const bool grows = block.right != no_block && !at(block.right).mapped;
      return block.size + (grows ? at(block.right).size : 0);
    };
    for (FreeBins::Position next = free.next(p);
         at(free.block(p)).expandable && !free.at_end(next) &&
         reach(free.block(next)) < reach(free.block(p));
         next = free.next(next)) {
      p = next;
    }
    return true;
  }
  do {
    p = free.next(p);
  } while (!free.at_end(p) && at(free.block(p)).expandable);
  return !free.at_end(p);
}

// No free block fits: asks the driver for memory, and gives cached memory back if that fails.
bool Allocator::obtain(Request& request, int stream, Found& found) {
  if (derived_.collecting) collect_garbage();
  if (grow(request, /*retry=*/false, found)) return true;
  if (rules_ == Rules::newer && find_in_spare_pools(request, stream, found)) return true;
  if (release_available(request) && grow(request, /*retry=*/false, found)) return true;
  if (!captures_.open.empty()) return false;
  release_all();
  return grow(request, /*retry=*/true, found);
}

bool Allocator::expandable_on(const Request& request) const {
  if (!options_.expandable_segments) return false;
  return rules_ == Rules::v2_4_0 || !pool(sub_pool(request.sub_pool).pool).user_allocator;
}

inline bool Allocator::worth_splitting(const Request& request, const Block& block) const {
  const std::int64_t rest = block.size - request.size;
  if (!captures_.pools.empty() && pool_of(block).no_split) return false;
  if (request.small || (options_.expandable_segments && expandable_on(request)))
    return rest >= minimum_block;
  return request.size < options_.max_split_size && rest > small_size;
}

BlockId Allocator::hand_out(const Request& request, std::int64_t requested, Found found) {
  const BlockId id = found.block;
  FreeBins& free = sub_pool(request.sub_pool).free;
  const bool listed = !free.at_end(found.position);
  const bool was_split = at(id).split();
  const bool splits = worth_splitting(request, at(id));
  std::int64_t rest_size = 0;

  if (splits) {
    const BlockId back = cut(id, request.size);
    const Block& rest = at(back);
    rest_size = rest.size;
    if (listed) {
      free.move(found.position, rest.size, rest.address, back);
    } else {
      free.insert(rest.size, rest.address, back);
    }
  } else if (listed) {
    free.erase(found.position);
  }

  Block& block = at(id);
  block.allocated = true;
  past(id).requested = requested;
  trace(Action::alloc, block.address, requested, sub_pool(request.sub_pool).stream);
  record_.statistics.all.allocated_bytes.up(block.size);
  record_.statistics.all.active_bytes.up(block.size);
  if (!record_.detailed) return id;

  PoolStatistics& own = pool_statistics(request.small);
  own.allocated_bytes.up(block.size);
  own.active_bytes.up(block.size);
  for (PoolStatistics* s : {&record_.statistics.all, &own}) {
    s->allocation.up(1);
    s->active.up(1);
    s->requested_bytes.up(requested);
    if (block.expandable) continue;
    if (was_split) {
      s->inactive_split_bytes.down(block.size);
      if (!splits) s->inactive_split.down(1);
    } else if (splits) {
      s->inactive_split_bytes.up(rest_size);
      s->inactive_split.up(1);
    }
  }
  if (block.size >= options_.max_split_size) record_.statistics.oversize_allocations.up(1);
  return id;
}

// Splits a block after `size` bytes. The remainder becomes a block of the same kind in no list.
BlockId Allocator::cut(BlockId id, std::int64_t size) {
  const BlockId back = new_block();
  Block& front = at(id);
  assert(size > 0);
  assert(size < front.size);
  Block& rest = at(back);
  rest = front;
  rest.address = front.address + size;
  rest.size = front.size - size;
  rest.left = id;
  past(back).requested = past(id).requested;
  if (derived_.counted) past(back).stamp = pool_of(front).searches;
  front.size = size;
  front.right = back;
  if (rest.right != no_block) at(rest.right).left = back;
  return back;
}

bool Allocator::idle(BlockId id) const {
  if (id == no_block) return false;
  const Block& block = at(id);
  return block.idle();
}

// Merges `right` into `left`, its left neighbour. REQUIRES: `right` is in no list.
void Allocator::absorb(BlockId left, BlockId right) {
  Block& into = at(left);
  const Block& gone = at(right);
  assert(into.right == right);
  into.size += gone.size;
  into.right = gone.right;
  if (gone.right != no_block) at(gone.right).left = left;
  delete_block(right);
}

[[gnu::flatten]] void Allocator::free(BlockId id) {
  Block& block = at(id);
  assert(block.allocated);
  block.allocated = false;
  record_.statistics.all.allocated_bytes.down(block.size);
  if (record_.detailed) {
    PoolStatistics& own = pool_statistics(block.small);
    record_.statistics.all.allocation.down(1);
    own.allocation.down(1);
    own.allocated_bytes.down(block.size);
    if (block.size >= options_.max_split_size) record_.statistics.oversize_allocations.down(1);
  }
  trace(Action::free_requested, block.address, past(id).requested, sub_pool(block.sub_pool).stream);

  if (!block.used) return complete(id);
  streams_.pending = true;
  if (captures_.open.empty()) {
    record_events(id);
  } else {
    streams_.deferred.push_back(id);
    streams_.soonest = INT64_MIN;  // process it at the next poll, whatever the clock says
  }
}

// No stream uses the block any more: it merges with its idle neighbours and becomes free.
void Allocator::complete(BlockId id) {
  Block& block = at(id);
  trace(Action::free_completed, block.address, past(id).requested, sub_pool(block.sub_pool).stream);
  const std::int64_t size = block.size;
  const std::int64_t requested = past(id).requested;
  const bool small = block.small;
  const bool counts_split = !block.expandable;
  FreeBins& free = sub_pool(block.sub_pool).free;

  const BlockId left = mergeable(block.left, true) ? block.left : no_block;
  const BlockId right = mergeable(block.right, true) ? block.right : no_block;
  std::int64_t blocks_gone = 0;
  std::int64_t bytes_gone = 0;
  BlockId merged = id;
  if (left != no_block && right != no_block)
    free.erase(free.find(at(right).size, at(right).address));
  const BlockId listed = left != no_block ? left : right;
  FreeBins::Position position;
  if (listed != no_block) position = free.find(at(listed).size, at(listed).address);
  if (right != no_block) {
    blocks_gone += 1;
    bytes_gone += at(right).size;
    absorb(id, right);
  }
  if (left != no_block) {
    blocks_gone += 1;
    bytes_gone += at(left).size;
    past(left).requested = requested;  // PyTorch keeps the Block object of the freed block
    absorb(left, id);
    merged = left;
  }
  Block& result = at(merged);
  if (derived_.counted) past(merged).stamp = pool_of(result).searches;
  if (listed != no_block) {
    free.move(position, result.size, result.address, merged);
  } else {
    free.insert(result.size, result.address, merged);
  }

  record_.statistics.all.active_bytes.down(size);
  if (!record_.detailed) return;
  const std::int64_t blocks_change = (result.split() ? 1 : 0) - blocks_gone;
  const std::int64_t bytes_change = (result.split() ? result.size : 0) - bytes_gone;
  for (PoolStatistics* s : {&record_.statistics.all, &pool_statistics(small)}) {
    if (counts_split) {
      s->inactive_split.change(blocks_change);
      s->inactive_split_bytes.change(bytes_change);
    }
    s->active.down(1);
    s->requested_bytes.down(requested);
  }
  pool_statistics(small).active_bytes.down(size);
}

}  // namespace sim::allocator
