#include "naive_allocator.h"

#include <algorithm>

namespace naive {
namespace {

constexpr std::int64_t mib = 1 << 20;

std::int64_t round_request(std::int64_t n, const Options& options) {
  if (n < 512) return 512;
  int entry = 0;
  while (entry < 15 && n >= (mib << (entry + 1))) ++entry;
  const std::int64_t divisions = options.roundup_divisions[static_cast<std::size_t>(entry)];
  std::int64_t unit = 512;
  if (divisions > 1 && n > 512 * divisions) {
    std::int64_t power = 1;
    while (power * 2 <= n) power *= 2;
    unit = power / divisions;
  }
  return n % unit == 0 ? n : n + unit - n % unit;
}

}  // namespace

Block* Allocator::neighbour(const Block& block, int direction) {
  auto it = blocks_.find(block.address);
  if (direction < 0) {
    if (it == blocks_.begin()) return nullptr;
    --it;
  } else if (++it == blocks_.end()) {
    return nullptr;
  }
  return it->second.segment == block.segment ? &it->second : nullptr;
}

// In the order of the allocator's sets: stream, size, address.
std::vector<Block*> Allocator::free_blocks(int pool, bool small, const int* stream) {
  std::vector<Block*> found;
  for (auto& [address, block] : blocks_) {
    if (!block.free() || block.pool != pool || block.small != small) continue;
    if (stream == nullptr || block.stream == *stream) found.push_back(&block);
  }
  std::sort(found.begin(), found.end(), [](const Block* a, const Block* b) {
    return std::tuple(a->stream, a->size, a->address) < std::tuple(b->stream, b->size, b->address);
  });
  return found;
}

std::int64_t Allocator::allocate(std::int64_t request, int stream) {
  if (regions_.empty()) process_events(false);
  Want want;
  want.size = round_request(request, options_);
  want.small = want.size <= mib;
  want.stream = stream;
  if (!regions_.empty()) want.pool = newer_ ? regions_.back() : regions_.front();
  want.segment = want.small             ? 2 * mib
                 : want.size < 10 * mib ? options_.large_segment
                                        : (want.size + 2 * mib - 1) / (2 * mib) * (2 * mib);

  Block* block = find(want);
  if (block == nullptr) {
    if (limit_ >= 0 && options_.garbage_collection_threshold > 0) collect_garbage();
    block = grow(want, false);
    if (block == nullptr && release_available(want)) block = grow(want, false);
    if (block == nullptr && regions_.empty()) {
      release_all();
      block = grow(want, true);
    }
  }
  if (block == nullptr) {
    ++ooms;
    trace.push_back({Action::oom, driver_.free_memory().n, want.size, stream});
    return -1;
  }
  if (split_off(want, *block)) cut(*block, want.size);
  block->allocated = true;
  block->requested = request;
  trace.push_back({Action::alloc, block->address, request, stream});
  return block->address;
}

bool Allocator::split_off(const Want& want, const Block& block) const {
  const std::int64_t rest = block.size - want.size;
  if (want.small || options_.expandable_segments) return rest >= 512;
  return want.size < options_.max_split_size && rest > mib;
}

void Allocator::cut(Block& block, std::int64_t size) {
  Block rest = block;
  rest.address += size;
  rest.size -= size;
  rest.stamp = searches_[{block.pool, block.small}];
  block.size = size;
  blocks_[rest.address] = rest;
}

Block* Allocator::find(const Want& want) {
  if (limit_ >= 0 && options_.garbage_collection_threshold > 0) {
    ++searches_[{want.pool, want.small}];
  }
  std::vector<Block*> fits;
  for (Block* block : free_blocks(want.pool, want.small, &want.stream)) {
    if (block->size >= want.size) fits.push_back(block);
  }
  std::size_t i = 0;
  if (i < fits.size() && fits[i]->expandable) {
    if (options_.expandable_segments) {
      const auto reach = [&](Block* block) {
        Block* right = neighbour(*block, 1);
        return block->size + (right != nullptr && !right->mapped ? right->size : 0);
      };
      while (i + 1 < fits.size() && fits[i]->expandable && reach(fits[i + 1]) < reach(fits[i])) ++i;
    } else {
      while (i < fits.size() && fits[i]->expandable) ++i;
    }
  }
  if (i == fits.size()) return nullptr;
  const std::int64_t rounding = options_.max_non_split_rounding > 0
                                    ? options_.max_non_split_rounding
                                    : options_.large_segment;
  const bool oversize = want.size >= options_.max_split_size;
  if (!oversize && fits[i]->size >= options_.max_split_size) return nullptr;
  if (oversize && fits[i]->size >= want.size + rounding) return nullptr;
  return fits[i];
}

Block* Allocator::grow(const Want& want, bool retry) {
  if (retry) ++retries;
  if (limit_ >= 0 && total_ + want.segment > limit_) return nullptr;
  if (options_.expandable_segments && (newer_ || want.pool == 0)) return grow_expandable(want);
  const auto address = driver_.cuda_malloc({want.segment});
  if (!address) return nullptr;
  total_ += want.segment;
  ++device_allocs;
  trace.push_back({Action::segment_alloc, *address, want.segment, want.stream});
  Block block;
  block.address = block.segment = *address;
  block.size = want.segment;
  block.stream = want.stream;
  block.pool = want.pool;
  block.small = want.small;
  return &(blocks_[*address] = block);
}

Block* Allocator::grow_expandable(const Want& want) {
  Block* candidate = nullptr;
  for (auto& [address, block] : blocks_) {
    if (block.mapped || block.pool != want.pool || block.small != want.small) continue;
    if (block.stream != want.stream) continue;
    Block* start = neighbour(block, -1);
    if (start == nullptr || !start->idle()) start = &block;
    std::int64_t bytes = 0;
    for (Block* b = start; b != nullptr && b->idle(); b = neighbour(*b, 1)) bytes += b->size;
    if (bytes >= want.size) {
      candidate = start;
      break;
    }
  }
  if (candidate == nullptr) {
    const std::int64_t page = want.small ? 2 * mib : options_.large_segment;
    const std::int64_t total = driver_.total_memory().n;
    const std::int64_t bytes = (total + total / 8 + page - 1) / page * page;
    Block block;
    block.address = block.segment = *driver_.reserve_addresses({bytes});
    block.size = bytes;
    block.stream = want.stream;
    block.pool = want.pool;
    block.small = want.small;
    block.expandable = true;
    block.mapped = false;
    pages_[block.segment] = page;
    candidate = &(blocks_[block.address] = block);
    if (bytes < want.size) return nullptr;
  }
  if (!candidate->mapped) candidate = map(candidate, std::min(want.size, candidate->size));
  while (candidate != nullptr && candidate->size < want.size) {
    Block* next = neighbour(*candidate, 1);
    candidate = map(next, std::min(want.size - candidate->size, next->size));
  }
  return candidate;
}

Block* Allocator::map(Block* block, std::int64_t bytes) {
  const std::int64_t page = pages_.at(block->segment);
  const std::int64_t mapped = (bytes + page - 1) / page * page;
  if (!driver_.map(block->address, {mapped})) return nullptr;
  if (mapped < block->size) cut(*block, mapped);
  block->mapped = true;
  total_ += mapped;
  ++device_allocs;
  trace.push_back({Action::segment_map, block->address, mapped, block->stream});
  return merge(block);
}

// With both neighbours that are idle and mapped alike.
Block* Allocator::merge(Block* block) {
  for (const int direction : {-1, 1}) {
    Block* other = neighbour(*block, direction);
    if (other == nullptr || !other->idle() || other->mapped != block->mapped) continue;
    Block* first = direction < 0 ? other : block;
    Block* second = direction < 0 ? block : other;
    first->size += second->size;
    first->requested = block->requested;
    blocks_.erase(second->address);
    block = first;
  }
  block->stamp = searches_[{block->pool, block->small}];
  return block;
}

void Allocator::free(std::int64_t address) {
  Block& block = blocks_.at(address);
  block.allocated = false;
  trace.push_back({Action::free_requested, address, block.requested, block.stream});
  if (block.uses.empty()) return complete(block);
  if (regions_.empty()) return record_events(block);
  deferred_.push_back(address);
}

void Allocator::complete(Block& block) {
  trace.push_back({Action::free_completed, block.address, block.requested, block.stream});
  block.capture_uses.clear();
  merge(&block);
}

void Allocator::record_stream(std::int64_t address, int stream) {
  Block& block = blocks_.at(address);
  if (stream == block.stream) return;
  block.uses.insert(stream);
  if (!regions_.empty()) block.capture_uses.insert(stream);
}

void Allocator::record_events(Block& block) {
  for (const int stream : block.uses) {
    queues_[stream].emplace_back(driver_.record_event(stream), block.address);
    ++block.events;
  }
  block.uses.clear();
}

void Allocator::process_events(bool wait) {
  for (const std::int64_t address : deferred_) {
    Block& block = blocks_.at(address);
    for (const int stream : block.capture_uses) block.uses.erase(stream);
    record_events(block);
    if (block.events == 0) complete(block);
  }
  deferred_.clear();
  for (auto& [stream, queue] : queues_) {
    while (!queue.empty()) {
      if (wait) driver_.wait(queue.front().first);
      if (!driver_.event_reached(queue.front().first)) break;
      Block& block = blocks_.at(queue.front().second);
      queue.pop_front();
      if (--block.events == 0) complete(block);
    }
  }
}

bool Allocator::release_available(const Want& want) {
  if (options_.max_split_size == sim::allocator::unlimited) return false;
  const std::int64_t need = std::max(want.size, options_.max_split_size);
  std::vector<Block*> all = free_blocks(want.pool, want.small, &want.stream);
  const auto fit = std::find_if(all.begin(), all.end(), [&](Block* b) { return b->size >= need; });
  // Pieces of segments are passed over, like expandable blocks.
  const auto whole = [&](Block& block) {
    return !block.expandable && neighbour(block, -1) == nullptr && neighbour(block, 1) == nullptr;
  };
  if (fit != all.end() && whole(**fit)) return release(**fit), true;
  std::int64_t freed = 0;
  for (auto it = fit; it != all.begin() && freed < need;) {
    Block& block = **--it;
    if (block.size < options_.max_split_size) break;
    if (!whole(block)) continue;
    freed += block.size;
    release(block);
  }
  return freed >= need;
}

void Allocator::release_all() {
  if (regions_.empty()) {
    ++syncs;
    process_events(true);
    release_pool_memory(0, false);
    release_pool_memory(0, true);
  }
  for (const auto& [pool, users] : users_) {
    if (users > 0) continue;
    release_pool_memory(pool, true);
    release_pool_memory(pool, false);
  }
}

void Allocator::release_pool_memory(int pool, bool small) {
  std::vector<Block*> all = free_blocks(pool, small, nullptr);
  for (Block*& block : all) {
    if (block->expandable) continue;
    if (neighbour(*block, -1) == nullptr && neighbour(*block, 1) == nullptr) release(*block);
    block = nullptr;
  }
  for (Block* block : all) {
    if (block != nullptr) unmap(*block);
  }
}

void Allocator::release(Block& block) {
  ++device_frees;
  trace.push_back({Action::segment_free, block.address, block.size, block.stream});
  driver_.cuda_free(block.address, {block.size});
  total_ -= block.size;
  blocks_.erase(block.address);
}

void Allocator::unmap(Block& block) {
  const std::int64_t page = pages_.at(block.segment);
  const std::int64_t from =
      (block.address - block.segment + page - 1) / page * page + block.segment;
  const std::int64_t to =
      (block.address + block.size - block.segment) / page * page + block.segment;
  if (from >= to) return;
  driver_.unmap(block.stream, from, {to - from});
  Block* middle = &block;
  if (from > block.address) {
    cut(block, from - block.address);
    block.stamp = searches_[{block.pool, block.small}];
    middle = neighbour(block, 1);
  }
  if (middle->address + middle->size > to) cut(*middle, to - from);
  middle->mapped = false;
  total_ -= to - from;
  ++device_frees;
  trace.push_back({Action::segment_unmap, from, to - from, middle->stream});
  middle = merge(middle);
  if (neighbour(*middle, -1) == nullptr && neighbour(*middle, 1) == nullptr) {
    driver_.release_addresses(middle->address, {middle->size});
    pages_.erase(middle->segment);
    blocks_.erase(middle->address);
  }
}

void Allocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(options_.garbage_collection_threshold *
                                                   static_cast<double>(limit_));
  if (total_ <= threshold) return;
  const std::int64_t target = total_ - threshold;
  std::int64_t freed = 0;
  for (bool progress = true; progress && freed < target;) {
    progress = false;
    const std::int64_t now = searches_[{0, false}];
    std::vector<Block*> whole;
    std::int64_t ages = 0;
    for (Block* block : free_blocks(0, false, nullptr)) {
      if (neighbour(*block, -1) != nullptr || neighbour(*block, 1) != nullptr) continue;
      whole.push_back(block);
      ages += now - block->stamp;
    }
    if (whole.empty()) return;
    const double mean = static_cast<double>(ages) / static_cast<double>(whole.size());
    for (Block* block : whole) {
      if (block->expandable || static_cast<double>(now - block->stamp) < mean) continue;
      progress = true;
      freed += block->size;
      release(*block);
    }
  }
}

void Allocator::set_fraction(double fraction) {
  limit_ = static_cast<std::int64_t>(fraction * static_cast<double>(driver_.total_memory().n));
  if (newer_ && fraction == 1.0) limit_ = -1;
}

void Allocator::begin_pool(int pool) {
  ++users_[pool];
  regions_.push_back(pool);
}

void Allocator::end_pool(int pool) {
  regions_.erase(std::find(regions_.begin(), regions_.end(), pool));
}

Counts Allocator::counts() const {
  Counts c;
  for (const auto& [address, block] : blocks_) {
    if (!block.mapped) continue;
    c.reserved += block.size;
    if (block.allocated) c.allocated += block.size, ++c.allocations;
    if (!block.idle()) c.active += block.size, c.requested += block.requested, ++c.actives;
    if (block.expandable) continue;
    if (block.address == block.segment) ++c.segments;
    auto it = blocks_.find(address);
    const bool left = block.address != block.segment;
    const bool right = ++it != blocks_.end() && it->second.segment == block.segment;
    if (block.idle() && (left || right)) c.inactive_split += block.size, ++c.inactive_splits;
  }
  return c;
}

}  // namespace naive
