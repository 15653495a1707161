// allocator_release.cpp — gives memory back to the driver: on request, under pressure, by age.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/allocator/allocator.h"

namespace sim::allocator {

void Allocator::empty_cache() {
  release_all();
}

// Frees oversized blocks (max_split_size): one that is large enough, or several from the largest
// down. Freed blocks stay freed even if they were not enough. Parts of a split segment are skipped,
// since cudaFree would fail; they are oversized only if the option was set after the split.
bool Allocator::release_available(const Request& request) {
  if (options_.max_split_size == unlimited) return false;
  const std::int64_t want = std::max(request.size, options_.max_split_size);
  FreeBins& free = sub_pool(request.sub_pool).free;
  const FreeBins::Position fit = free.first_fit(want);
  const auto whole = [&](BlockId id) { return !at(id).expandable && !at(id).split(); };
  if (!free.at_end(fit) && whole(free.block(fit))) {
    release_block(free.block(fit));
    return true;
  }

  std::vector<BlockId> smaller;  // ascending, below `want`
  for (FreeBins::Position p = free.first_fit(options_.max_split_size);
       !free.at_end(p) && free.size_at(p) < want; p = free.next(p)) {
    smaller.push_back(free.block(p));
  }
  std::int64_t freed = 0;
  while (freed < want && !smaller.empty()) {
    const BlockId largest = smaller.back();
    smaller.pop_back();
    if (!whole(largest)) continue;
    freed += at(largest).size;
    release_block(largest);
  }
  return freed >= want;
}

void Allocator::release_all() {
  if (captures_.open.empty()) {
    synchronize_and_free();
    release_pool_blocks(0);
    release_pool_blocks(1);
  }
  for (const auto& [number, own] : captures_.pools) {
    if (own.users > 0) continue;
    release_pool_blocks(own.small);
    release_pool_blocks(own.large);
  }
}

void Allocator::release_pool_blocks(std::int32_t pool_index) {
  std::vector<BlockId> whole;
  std::vector<BlockId> expandable;
  for (const auto& [stream, sub_pool_index] : pool(pool_index).sub_pools) {
    const FreeBins& free = sub_pool(sub_pool_index).free;
    for (FreeBins::Position p = free.first(); !free.at_end(p); p = free.next(p)) {
      const BlockId id = free.block(p);
      if (at(id).expandable) {
        expandable.push_back(id);
      } else if (!at(id).split()) {
        whole.push_back(id);
      }
    }
  }
  for (const BlockId id : whole) release_block(id);
  for (const BlockId id : expandable) drop_if_unmapped(unmap(id));
}

bool Allocator::release_segment(std::int64_t address) {
  const auto it = segments_.find(address);
  if (it == segments_.end() || it->second.page > 0) return false;
  const BlockId id = it->second.head;
  if (!idle(id) || at(id).split()) return false;
  release_block(id);
  return true;
}

void Allocator::release_block(BlockId id) {
  const Block block = at(id);
  assert(!block.expandable);
  assert(!block.split());
  ++record_.statistics.num_device_free;
  trace(Action::segment_free, block.address, block.size, sub_pool(block.sub_pool).stream);
  driver_->cuda_free(block.address, {block.size});
  total_ -= block.size;
  for (PoolStatistics* s : {&record_.statistics.all, &pool_statistics(block.small)}) {
    s->segment.down(1);
    s->reserved_bytes.down(block.size);
  }
  if (block.size >= options_.max_split_size) record_.statistics.oversize_segments.down(1);
  unlist(id);
  segments_.erase(block.address);
  delete_block(id);
}

// Unmaps the whole pages inside a free block of an expandable segment. Returns the block that is
// now unmapped, or no_block if the block contains no whole page.
BlockId Allocator::unmap(BlockId id) {
  const auto& [base, segment] = *std::prev(segments_.upper_bound(at(id).address));
  const std::int64_t page = segment.page;
  const std::int64_t offset = at(id).address - base;
  const std::int64_t begin = base + (offset + page - 1) / page * page;
  const std::int64_t end = base + (offset + at(id).size) / page * page;
  if (begin >= end) return no_block;

  const int stream = sub_pool(at(id).sub_pool).stream;
  driver_->unmap(stream, begin, {end - begin});
  unlist(id);
  BlockId middle = id;
  if (begin > at(id).address) {
    middle = cut(id, begin - at(id).address);
    past(id).requested = 0;
    list(id);
  }
  if (at(middle).size > end - begin) {
    const BlockId rest = cut(middle, end - begin);
    past(rest).requested = 0;
    list(rest);
  }
  at(middle).mapped = false;
  const bool small = at(middle).small;
  middle = merge_unlisted(middle);
  list(middle);

  total_ -= end - begin;
  record_.statistics.all.reserved_bytes.down(end - begin);
  pool_statistics(small).reserved_bytes.down(end - begin);
  ++record_.statistics.num_device_free;
  trace(Action::segment_unmap, begin, end - begin, stream);
  return middle;
}

void Allocator::drop_if_unmapped(BlockId id) {
  if (id == no_block || at(id).split()) return;
  assert(!at(id).mapped);
  driver_->release_addresses(at(id).address, {at(id).size});
  unlist(id);
  segments_.erase(at(id).address);
  delete_block(id);
}

// Frees cached segments of the large default pool that are older than the average. It stops when
// reserved memory is below the threshold or no segment is old (garbage_collection_threshold).
void Allocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(
      std::floor(options_.garbage_collection_threshold * static_cast<double>(limit_)));
  if (total_ <= threshold) return;
  const std::int64_t target = total_ - threshold;

  const Pool& large = pool(0);
  std::vector<BlockId> candidates;
  std::int64_t ages = 0;
  std::int64_t count = 0;
  for (const auto& [stream, sub_pool_index] : large.sub_pools) {
    const FreeBins& free = sub_pool(sub_pool_index).free;
    for (FreeBins::Position p = free.first(); !free.at_end(p); p = free.next(p)) {
      const Block& block = at(free.block(p));
      if (block.split()) continue;
      ages += large.searches - past(free.block(p)).stamp;
      ++count;
      if (!block.expandable) candidates.push_back(free.block(p));
    }
  }

  std::int64_t freed = 0;
  bool progress = true;
  while (freed < target && progress && count > 0) {
    const double limit = static_cast<double>(ages) / static_cast<double>(count);
    progress = false;
    std::vector<BlockId> younger;
    for (const BlockId id : candidates) {
      const std::int64_t age = large.searches - past(id).stamp;
      if (static_cast<double>(age) < limit) {
        younger.push_back(id);
        continue;
      }
      progress = true;
      freed += at(id).size;
      ages -= age;
      --count;
      release_block(id);
    }
    candidates = std::move(younger);
  }
}

// Newer rules: searches private pools with use_on_oom, but never grows them.
bool Allocator::find_in_spare_pools(Request& request, int stream, Found& found) {
  if (pool(sub_pool(request.sub_pool).pool).number != 0) return false;
  for (const auto& [number, own] : captures_.pools) {
    if (!own.use_on_oom) continue;
    Request there = request;
    there.sub_pool = sub_pool_for(request.small ? own.small : own.large, stream);
    const FreeBins& free = sub_pool(there.sub_pool).free;
    const FreeBins::Position fit = find(there);
    if (free.at_end(fit)) continue;
    found = {free.block(fit), fit};
    request = there;
    return true;
  }
  return false;
}

}  // namespace sim::allocator
