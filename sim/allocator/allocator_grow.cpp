// allocator_grow.cpp — gets memory from the driver: cudaMalloc, and expandable segments.
//
// An expandable segment is a reserved range of addresses; physical pages are mapped as needed.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/allocator/allocator.h"

namespace sim::allocator {

bool Allocator::grow(const Request& request, bool retry, Found& found) {
  if (retry) ++record_.statistics.num_alloc_retries;
  if (limit_ != unlimited && total_ + request.segment > limit_) return false;
  const bool default_pool = pool(sub_pool(request.sub_pool).pool).number == 0;
  if (expandable_on(request) && (rules_ == Rules::newer || default_pool)) {
    return grow_expandable(request, found);
  }

  const auto address = driver_->cuda_malloc({request.segment});
  if (!address) return false;
  total_ += request.segment;
  const BlockId id = new_block();
  Block& block = at(id);
  block = {};
  past(id) = {};
  block.address = *address;
  block.size = request.segment;
  block.sub_pool = request.sub_pool;
  block.small = request.small;
  segments_[*address] = {request.segment, 0, id};
  for (PoolStatistics* s : {&record_.statistics.all, &pool_statistics(request.small)}) {
    s->segment.up(1);
    s->reserved_bytes.up(request.segment);
  }
  if (request.segment >= options_.max_split_size) record_.statistics.oversize_segments.up(1);
  ++record_.statistics.num_device_alloc;
  trace(Action::segment_alloc, *address, request.segment, sub_pool(request.sub_pool).stream);
  found = {id, {}};
  return true;
}

bool Allocator::grow_expandable(const Request& request, Found& found) {
  BlockId candidate = expandable_candidate(request);
  if (candidate == no_block) return false;
  if (!at(candidate).mapped) {
    candidate = map(candidate, std::min(request.size, at(candidate).size));
    if (candidate == no_block) return false;
  }
  while (at(candidate).size < request.size) {
    const BlockId next = at(candidate).right;
    assert(next != no_block);
    const std::int64_t missing = request.size - at(candidate).size;
    candidate = map(next, std::min(missing, at(next).size));
    if (candidate == no_block) return false;
  }
  const Block& block = at(candidate);
  found = {candidate, sub_pool(request.sub_pool).free.find(block.size, block.address)};
  return true;
}

// The first run of idle blocks, mapped or not, that is long enough and has unmapped memory. Without
// one: a new segment.
BlockId Allocator::expandable_candidate(const Request& request) {
  for (const BlockId unmapped : sub_pool(request.sub_pool).unmapped) {
    const BlockId before = at(unmapped).left;
    const BlockId start = idle(before) ? before : unmapped;
    std::int64_t bytes = 0;
    for (BlockId id = start; bytes < request.size && idle(id); id = at(id).right) {
      bytes += at(id).size;
    }
    if (bytes >= request.size) return start;
  }
  return new_expandable_segment(request);
}

BlockId Allocator::new_expandable_segment(const Request& request) {
  const std::int64_t page = request.small ? small_segment : options_.large_segment;
  const std::int64_t total = driver_->total_memory().n;
  std::int64_t bytes = total + total / 8;
  if (options_.expandable_reserve_fraction > 0.0) {
    const double share = options_.expandable_reserve_fraction * static_cast<double>(total);
    bytes = std::min(bytes, static_cast<std::int64_t>(share));
  }
  if (options_.expandable_reserve_bytes > 0) {
    bytes = std::min(bytes, options_.expandable_reserve_bytes);
  }
  bytes = (bytes + page - 1) / page * page;
  const auto address = bytes > 0 ? driver_->reserve_addresses({bytes}) : std::nullopt;
  if (!address) return no_block;

  const BlockId id = new_block();
  Block& block = at(id);
  block = {};
  past(id) = {};
  block.address = *address;
  block.size = bytes;
  block.sub_pool = request.sub_pool;
  block.small = request.small;
  block.expandable = true;
  block.mapped = false;
  segments_[*address] = {bytes, page, id};
  list(id);
  // A range that is too short never serves this request. It stays for smaller ones.
  return bytes < request.size ? no_block : id;
}

// Maps whole pages that cover `bytes` from the start of an unmapped block. The remainder stays
// unmapped; the mapped part merges with idle neighbours. Returns the resulting free block, or
// no_block if the driver has no memory.
BlockId Allocator::map(BlockId id, std::int64_t bytes) {
  assert(!at(id).mapped);
  assert(bytes <= at(id).size);
  const std::int64_t page = segment_of(at(id)).page;
  const std::int64_t start = at(id).address;
  const std::int64_t mapped = std::min((bytes + page - 1) / page * page, at(id).size);
  if (!driver_->map(start, {mapped})) return no_block;

  unlist(id);
  if (mapped < at(id).size) {
    const BlockId rest = cut(id, mapped);
    past(rest).requested = 0;
    list(rest);
  }
  at(id).mapped = true;
  const bool small = at(id).small;
  const int stream = sub_pool(at(id).sub_pool).stream;
  const BlockId result = merge_unlisted(id);
  list(result);

  total_ += mapped;
  record_.statistics.all.reserved_bytes.up(mapped);
  pool_statistics(small).reserved_bytes.up(mapped);
  ++record_.statistics.num_device_alloc;
  trace(Action::segment_map, start, mapped, stream);
  return result;
}

// Merges a block that is in no list with its idle neighbours of the same kind.
BlockId Allocator::merge_unlisted(BlockId id) {
  const bool mapped = at(id).mapped;
  const BlockId left = at(id).left;
  const BlockId right = at(id).right;
  if (mergeable(right, mapped)) {
    unlist(right);
    absorb(id, right);
  }
  if (!mergeable(left, mapped)) return id;
  unlist(left);
  past(left).requested = past(id).requested;
  absorb(left, id);
  return left;
}

void Allocator::list(BlockId id) {
  Block& block = at(id);
  SubPool& home = sub_pool(block.sub_pool);
  past(id).stamp = pool(home.pool).searches;
  if (block.mapped) return home.free.insert(block.size, block.address, id);
  const auto by_address = [&](BlockId a, std::int64_t address) { return at(a).address < address; };
  home.unmapped.insert(
      std::lower_bound(home.unmapped.begin(), home.unmapped.end(), block.address, by_address), id);
}

void Allocator::unlist(BlockId id) {
  const Block& block = at(id);
  SubPool& home = sub_pool(block.sub_pool);
  if (block.mapped) return home.free.erase(home.free.find(block.size, block.address));
  const auto by_address = [&](BlockId a, std::int64_t address) { return at(a).address < address; };
  const auto place =
      std::lower_bound(home.unmapped.begin(), home.unmapped.end(), block.address, by_address);
  assert(place != home.unmapped.end());
  assert(*place == id);
  home.unmapped.erase(place);
}

void Allocator::report_oom(const Request& request, std::int64_t requested, int stream) {
  const std::int64_t device_free = driver_->free_memory().n;
  record_.last_oom = {requested, request.size, request.segment, device_free, stream};
  ++record_.statistics.num_ooms;
  trace(Action::oom, device_free, request.size, stream);
}

}  // namespace sim::allocator
