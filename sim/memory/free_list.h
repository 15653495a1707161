// free_list.h — the free blocks of one pool and stream, ordered by (size, address).
//
// DESCRIPTION. A sorted sequence of (size, address, block), cut into chunks of at most 64 entries
// that lie in memory as arrays. Best fit is a search for the first size that is large enough; the
// order of equal sizes makes the lowest address win.
//
// Every operation costs O(log n) comparisons and moves at most one chunk. `move` changes the key
// of an entry in place: splitting or merging a free block seldom changes its neighbours in the
// order, so most moves touch a handful of words. Nothing is allocated while a chunk has room.
//
// Invariants
//  (1) No chunk is empty; keys rise strictly from the first entry to the last.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

namespace sim::memory {

// Index of a block in its allocator; names a block as long as it is allocated.
enum class BlockId : std::int32_t {};
inline constexpr BlockId no_block{-1};

class FreeList {
 public:
  struct Position {
    int chunk = 0;
    int index = 0;
  };

  FreeList() = default;
  FreeList(FreeList&&) = default;
  FreeList& operator=(FreeList&&) = default;
  FreeList(const FreeList& other) { *this = other; }
  FreeList& operator=(const FreeList& other);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }

  Position first() const { return {0, 0}; }
  bool at_end(Position p) const { return p.chunk == static_cast<int>(chunks_.size()); }
  Position next(Position p) const {
    if (++p.index == chunk(p).count) p = {p.chunk + 1, 0};
    return p;
  }
  // REQUIRES: !empty().
  Position last() const {
    const int c = static_cast<int>(chunks_.size()) - 1;
    return {c, chunk({c, 0}).count - 1};
  }

  BlockId block(Position p) const { return entry(p).block; }
  std::int64_t size_at(Position p) const { return entry(p).size; }

  // The first entry whose size is at least `size`, or the end.
  Position first_fit(std::int64_t size) const { return lower_bound({size, INT64_MIN, no_block}); }
  // REQUIRES: the entry is there.
  Position find(std::int64_t size, std::int64_t address) const;

  void insert(std::int64_t size, std::int64_t address, BlockId block);
  void erase(Position p);
  // Gives the entry at p another key and block.
  void move(Position p, std::int64_t size, std::int64_t address, BlockId block);

 private:
  static constexpr int capacity = 64;

  struct Entry {
    std::int64_t size = 0;
    std::int64_t address = 0;
    BlockId block = no_block;
  };

  struct Chunk {
    int count = 0;
    std::array<Entry, capacity> entries;

    void shift(int from, int to, int n);  // moves n entries
    bool before(int i, const Entry& entry) const;
    int lower_bound(int low, int high, const Entry& entry) const;
  };

  const Chunk& chunk(Position p) const { return *chunks_[static_cast<std::size_t>(p.chunk)]; }
  Chunk& chunk(Position p) { return *chunks_[static_cast<std::size_t>(p.chunk)]; }
  const Entry& entry(Position p) const {
    return chunk(p).entries[static_cast<std::size_t>(p.index)];
  }
  Position lower_bound(const Entry& entry) const;
  int chunk_of(const Entry& entry) const;
  void halve(int index);
  std::unique_ptr<Chunk> fresh_chunk();

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::unique_ptr<Chunk> spare_;  // the last chunk that emptied, for the next one needed
  int size_ = 0;
};

}  // namespace sim::memory
