#include "sim/memory/free_list.h"

#include <algorithm>
#include <cstring>

namespace sim::memory {

FreeList& FreeList::operator=(const FreeList& other) {
  if (this == &other) return *this;
  chunks_.clear();
  for (const auto& chunk : other.chunks_) chunks_.push_back(std::make_unique<Chunk>(*chunk));
  spare_.reset();
  size_ = other.size_;
  return *this;
}

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

inline void FreeList::Chunk::shift(int from, int to, int n) {
  if (n == 0) return;
  std::memmove(&entries[0] + to, &entries[0] + from, index(n) * sizeof entries[0]);
}

inline bool FreeList::Chunk::before(int i, const Entry& entry) const {
  const Entry& own = entries[index(i)];
  return own.size < entry.size || (own.size == entry.size && own.address < entry.address);
}

// The first index in [low, high) whose entry is not before `entry`, or high. Plain branches: what
// a training step asks for repeats, and a predicted branch is free where a computed step waits.
inline int FreeList::Chunk::lower_bound(int low, int high, const Entry& entry) const {
  for (int length = high - low; length > 0;) {
    const int half = length / 2;
    const bool right = before(low + half, entry);
    low += right ? half + 1 : 0;
    length = right ? length - half - 1 : half;
  }
  return low;
}

// The first chunk whose last entry is not before `entry`; the last chunk if there is none.
inline int FreeList::chunk_of(const Entry& entry) const {
  int low = 0;
  for (int length = static_cast<int>(chunks_.size()) - 1; length > 0;) {
    const int half = length / 2;
    const Chunk& middle = *chunks_[index(low + half)];
    const bool right = middle.before(middle.count - 1, entry);
    low += right ? half + 1 : 0;
    length = right ? length - half - 1 : half;
  }
  return low;
}

FreeList::Position FreeList::lower_bound(const Entry& entry) const {
  if (chunks_.empty()) return {0, 0};
  const int c = chunk_of(entry);
  const Chunk& home = *chunks_[index(c)];
  const int i = home.lower_bound(0, home.count, entry);
  return i < home.count ? Position{c, i} : Position{c + 1, 0};
}

FreeList::Position FreeList::find(std::int64_t size, std::int64_t address) const {
  const Position p = lower_bound({size, address, no_block});
  assert(!at_end(p));
  assert(entry(p).size == size);
  assert(entry(p).address == address);
  return p;
}

std::unique_ptr<FreeList::Chunk> FreeList::fresh_chunk() {
  if (spare_) return std::move(spare_);
  return std::make_unique<Chunk>();
}

void FreeList::halve(int c) {
  auto right = fresh_chunk();
  Chunk& left = *chunks_[index(c)];
  const int half = left.count / 2;
  right->count = left.count - half;
  std::copy_n(left.entries.begin() + half, right->count, right->entries.begin());
  left.count = half;
  chunks_.insert(chunks_.begin() + c + 1, std::move(right));
}

void FreeList::insert(std::int64_t size, std::int64_t address, BlockId block) {
  const Entry fresh{size, address, block};
  if (chunks_.empty()) chunks_.push_back(fresh_chunk());
  int c = chunk_of(fresh);
  if (chunks_[index(c)]->count == capacity) {
    halve(c);
    const Chunk& left = *chunks_[index(c)];
    if (left.before(left.count - 1, fresh)) ++c;
  }
  Chunk& home = *chunks_[index(c)];
  const int i = home.lower_bound(0, home.count, fresh);
  home.shift(i, i + 1, home.count - i);
  home.entries[index(i)] = fresh;
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
  const Entry changed{size, address, block};
  Chunk& home = chunk(p);
  const int i = p.index;
  const int last = home.count - 1;
  if (home.before(i, changed)) {
    if (i == last || !home.before(i + 1, changed)) {
      const bool is_last = p.chunk + 1 == static_cast<int>(chunks_.size());
      if (i < last || is_last) {
        home.entries[index(i)] = changed;
        return;
      }
    }
    // The new key is larger: it stays in this chunk unless it belongs to a later one.
    if (home.before(last, changed) && p.chunk + 1 < static_cast<int>(chunks_.size())) {
      erase(p);
      return insert(size, address, block);
    }
    const int to = home.lower_bound(i + 1, home.count, changed) - 1;
    home.shift(i + 1, i, to - i);
    home.entries[index(to)] = changed;
    return;
  }
  if (i > 0 && home.before(i - 1, changed)) {
    home.entries[index(i)] = changed;
    return;
  }
  if (p.chunk > 0 && !home.before(0, changed)) {
    erase(p);
    return insert(size, address, block);
  }
  const int to = home.lower_bound(0, i, changed);
  home.shift(to, to + 1, i - to);
  home.entries[index(to)] = changed;
}

}  // namespace sim::memory
