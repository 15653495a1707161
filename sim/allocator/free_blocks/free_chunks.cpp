#include "sim/allocator/free_blocks/free_chunks.h"

#include <algorithm>
#include <cstring>

namespace sim::allocator {
namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

// Four integers in one vector register, compared at once.
using Four [[gnu::vector_size(4 * sizeof(Units))]] = Units;

}  // namespace

FreeChunks& FreeChunks::operator=(const FreeChunks& other) {
  if (this == &other) return *this;
  chunks_.resize(other.chunks_.size());
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i]) {
      *chunks_[i] = *other.chunks_[i];
    } else {
      chunks_[i] = std::make_unique<Chunk>(*other.chunks_[i]);
    }
  }
  lasts_ = other.lasts_;
  size_ = other.size_;
  return *this;
}

inline void FreeChunks::Chunk::set(int i, const Key& key, BlockId block) {
  sizes[index(i)] = key.size;
  addresses[index(i)] = key.address;
  blocks[index(i)] = block;
}

inline void FreeChunks::Chunk::shift(int from, int to, int n) {
  if (n == 0) return;
  std::memmove(&sizes[0] + to, &sizes[0] + from, index(n) * sizeof sizes[0]);
  std::memmove(&addresses[0] + to, &addresses[0] + from, index(n) * sizeof addresses[0]);
  std::memmove(&blocks[0] + to, &blocks[0] + from, index(n) * sizeof blocks[0]);
}

inline bool FreeChunks::Chunk::before(int i, const Key& key) const {
  const Units own = sizes[index(i)];
  return own < key.size || (own == key.size && addresses[index(i)] < key.address);
}

inline int FreeChunks::Chunk::smaller(Units size) const {
  const Four wanted = {size, size, size, size};
  Four sum = {0, 0, 0, 0};
  for (int i = 0; i < capacity; i += 4) {
    Four own;
    std::memcpy(&own, &sizes[index(i)], sizeof own);
    sum -= own < wanted;  // a comparison gives -1 where it holds
  }
  return static_cast<int>(sum[0] + sum[1] + sum[2] + sum[3]);
}

inline int FreeChunks::Chunk::lower_bound(const Key& key) const {
  int low = smaller(key.size);
  if (low == count || sizes[index(low)] != key.size) return low;
  // Binary search by address among equal sizes.
  int length = smaller(key.size + 1) - low;
  while (length > 0) {
    const int half = length / 2;
    const bool right = addresses[index(low + half)] < key.address;
    low = right ? low + half + 1 : low;
    length = right ? length - half - 1 : half;
  }
  return low;
}

// The first chunk whose last entry is not below `key`; the last chunk if there is none.
inline int FreeChunks::chunk_of(const Key& key) const {
  const int last = static_cast<int>(chunks_.size()) - 1;
  int c = 0;
  if (last < 16) {
    while (c < last && lasts_[index(c)] < key.size) ++c;
  } else {
    c = static_cast<int>(std::lower_bound(lasts_.begin(), lasts_.end() - 1, key.size) -
                         lasts_.begin());
  }
  while (c < last && lasts_[index(c)] == key.size &&
         chunks_[index(c)]->before(chunks_[index(c)]->count - 1, key)) {
    ++c;
  }
  return c;
}

FreeChunks::Position FreeChunks::first_fit(std::int64_t size) const {
  if (size > largest_size()) return {};
  const Key key{(size + size_unit - 1) / size_unit, INT64_MIN};
  const int c = chunk_of(key);
  return {c, chunks_[index(c)]->smaller(key.size)};
}

FreeChunks::Position FreeChunks::find(std::int64_t size, std::int64_t address) const {
  const Key key = key_of(size, address);
  assert(!chunks_.empty());
  const int c = chunk_of(key);
  const Chunk& home = *chunks_[index(c)];
  const int i = home.lower_bound(key);
  assert(i < home.count);
  assert(home.sizes[index(i)] == key.size);
  assert(home.addresses[index(i)] == address);
  return {c, i};
}

std::unique_ptr<FreeChunks::Chunk> FreeChunks::fresh_chunk() {
  if (spare_) return std::move(spare_);
  return std::make_unique<Chunk>();
}

inline void FreeChunks::note_last(int c) {
  const Chunk& home = *chunks_[index(c)];
  lasts_[index(c)] = home.sizes[index(home.count - 1)];
}

void FreeChunks::halve(int c) {
  auto right = fresh_chunk();
  Chunk& left = *chunks_[index(c)];
  const int half = left.count / 2;
  right->count = left.count - half;
  std::copy_n(left.sizes.begin() + half, right->count, right->sizes.begin());
  std::copy_n(left.addresses.begin() + half, right->count, right->addresses.begin());
  std::copy_n(left.blocks.begin() + half, right->count, right->blocks.begin());
  std::fill_n(left.sizes.begin() + half, right->count, beyond);
  left.count = half;
  chunks_.insert(chunks_.begin() + c + 1, std::move(right));
  lasts_.insert(lasts_.begin() + c + 1, 0);
  note_last(c);
  note_last(c + 1);
}

void FreeChunks::insert(std::int64_t size, std::int64_t address, BlockId block) {
  const Key key = key_of(size, address);
  if (chunks_.empty()) {
    chunks_.push_back(fresh_chunk());
    lasts_.push_back(0);
  }
  int c = chunk_of(key);
  if (chunks_[index(c)]->count == capacity) {
    halve(c);
    const Chunk& left = *chunks_[index(c)];
    if (left.before(left.count - 1, key)) ++c;
  }
  Chunk& home = *chunks_[index(c)];
  const int i = home.lower_bound(key);
  home.shift(i, i + 1, home.count - i);
  home.set(i, key, block);
  ++home.count;
  ++size_;
  note_last(c);
}

void FreeChunks::erase(Position p) {
  Chunk& home = chunk_at(p);
  home.shift(p.index + 1, p.index, home.count - p.index - 1);
  home.sizes[index(--home.count)] = beyond;
  --size_;
  if (home.count > 0) return note_last(p.group);
  spare_ = std::move(chunks_[index(p.group)]);
  chunks_.erase(chunks_.begin() + p.group);
  lasts_.erase(lasts_.begin() + p.group);
}

void FreeChunks::move(Position p, std::int64_t size, std::int64_t address, BlockId block) {
  const Key key = key_of(size, address);
  Chunk& home = chunk_at(p);
  const int i = p.index;
  const int last = home.count - 1;
  const bool grows = home.before(i, key);
  const bool leaves = grows
                          ? p.group + 1 < static_cast<int>(chunks_.size()) && home.before(last, key)
                          : p.group > 0 && !home.before(0, key);
  if (leaves) {  // the entry may belong to another chunk
    erase(p);
    return insert(size, address, block);
  }
  int to = i;
  if (grows) {
    if (i < last && home.before(i + 1, key)) {
      to = home.lower_bound(key) - 1;
      home.shift(i + 1, i, to - i);
    }
  } else if (i > 0 && !home.before(i - 1, key)) {
    to = home.lower_bound(key);
    home.shift(to, to + 1, i - to);
  }
  home.set(to, key, block);
  if (to == last || i == last) note_last(p.group);
}

}  // namespace sim::allocator
