#include "sim/memory/free_list.h"

#include <algorithm>
#include <cstring>

namespace sim::memory {
namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

inline void FreeList::Chunk::set(int i, std::int64_t size, std::int64_t address, BlockId block) {
  sizes[index(i)] = size;
  addresses[index(i)] = address;
  blocks[index(i)] = block;
}

inline void FreeList::Chunk::shift(int from, int to, int n) {
  const std::size_t length = index(n);
  std::memmove(&sizes[0] + to, &sizes[0] + from, length * sizeof sizes[0]);
  std::memmove(&addresses[0] + to, &addresses[0] + from, length * sizeof addresses[0]);
  std::memmove(&blocks[0] + to, &blocks[0] + from, length * sizeof blocks[0]);
}

// Bitwise, so that the search has no branch to mispredict.
inline bool FreeList::Chunk::before(int i, std::int64_t size, std::int64_t address) const {
  const std::int64_t s = sizes[index(i)];
  return (s < size) | ((s == size) & (addresses[index(i)] < address));
}

// The first index in [low, high) whose key is not before (size, address), or high.
inline int FreeList::Chunk::lower_bound(int low, int high, std::int64_t size,
                                        std::int64_t address) const {
  int length = high - low;
  while (length > 0) {
    const int half = length / 2;
    const bool right = before(low + half, size, address);
    low += right ? half + 1 : 0;
    length = right ? length - half - 1 : half;
  }
  return low;
}

// The first chunk whose last key is not before (size, address); the number of chunks if none.
inline int FreeList::chunk_of(std::int64_t size, std::int64_t address) const {
  int low = 0;
  int length = static_cast<int>(chunks_.size());
  while (length > 0) {
    const int half = length / 2;
    const Chunk& middle = *chunks_[index(low + half)];
    const bool right = middle.before(middle.count - 1, size, address);
    low += right ? half + 1 : 0;
    length = right ? length - half - 1 : half;
  }
  return low;
}

FreeList::Position FreeList::lower_bound(std::int64_t size, std::int64_t address) const {
  const int c = chunk_of(size, address);
  if (c == static_cast<int>(chunks_.size())) return {c, 0};
  const Chunk& home = *chunks_[index(c)];
  return {c, home.lower_bound(0, home.count - 1, size, address)};
}

FreeList::Position FreeList::find(std::int64_t size, std::int64_t address) const {
  const Position p = lower_bound(size, address);
  assert(!at_end(p));
  assert(chunk(p).sizes[at(p)] == size);
  assert(chunk(p).addresses[at(p)] == address);
  return p;
}

std::unique_ptr<FreeList::Chunk> FreeList::fresh_chunk() {
  if (!spare_) return std::make_unique<Chunk>();
  spare_->count = 0;
  return std::move(spare_);
}

void FreeList::halve(int c) {
  auto right = fresh_chunk();
  Chunk& left = *chunks_[index(c)];
  const int half = left.count / 2;
  right->count = left.count - half;
  for (int i = 0; i < right->count; ++i) {
    right->set(i, left.sizes[index(half + i)], left.addresses[index(half + i)],
               left.blocks[index(half + i)]);
  }
  left.count = half;
  chunks_.insert(chunks_.begin() + c + 1, std::move(right));
}

void FreeList::insert(std::int64_t size, std::int64_t address, BlockId block) {
  if (chunks_.empty()) chunks_.push_back(fresh_chunk());
  // A key after all others joins the last chunk.
  int c = std::min(chunk_of(size, address), static_cast<int>(chunks_.size()) - 1);
  if (chunks_[index(c)]->count == capacity) {
    halve(c);
    const Chunk& left = *chunks_[index(c)];
    if (left.before(left.count - 1, size, address)) ++c;
  }
  Chunk& home = *chunks_[index(c)];
  const int i = home.lower_bound(0, home.count, size, address);
  home.shift(i, i + 1, home.count - i);
  home.set(i, size, address, block);
  ++home.count;
  ++size_;
}

void FreeList::erase(Position p) {
  Chunk& home = chunk(p);
  home.shift(p.index + 1, p.index, home.count - p.index - 1);
  --home.count;
  --size_;
  if (home.count > 0) return;
  spare_ = std::move(chunks_[index(p.chunk)]);
  chunks_.erase(chunks_.begin() + p.chunk);
}

void FreeList::move(Position p, std::int64_t size, std::int64_t address, BlockId block) {
  Chunk& home = chunk(p);
  const int i = p.index;
  const int last = home.count - 1;
  if (home.before(i, size, address)) {
    // The new key is larger: it stays here unless it belongs to a later chunk.
    const bool is_last = p.chunk + 1 == static_cast<int>(chunks_.size());
    if (!is_last && home.before(last, size, address)) {
      erase(p);
      return insert(size, address, block);
    }
    const int to = home.lower_bound(i + 1, home.count, size, address) - 1;
    home.shift(i + 1, i, to - i);
    return home.set(to, size, address, block);
  }
  if (p.chunk > 0 && !home.before(0, size, address)) {
    erase(p);
    return insert(size, address, block);
  }
  const int to = home.lower_bound(0, i, size, address);
  home.shift(to, to + 1, i - to);
  home.set(to, size, address, block);
}

}  // namespace sim::memory
