// free_list.h — the free blocks of one pool and stream, ordered by (size, address).
//
// DESCRIPTION. A sorted sequence of (size, address, block), cut into chunks of at most 64 entries.
// Best fit is a search for the first size that is large enough; the order of equal sizes makes the
// lowest address win.
//
// Sizes are multiples of 512 bytes, so a chunk keeps them as 32-bit counts beside each other, and a
// search counts those that are smaller: no branch that could be guessed wrong, a few vector
// instructions for a chunk. `move` changes the key of an entry in place: splitting or merging a
// free block seldom changes its neighbours in the order. Nothing is allocated while a chunk has
// room.
//
// Invariants
//  (1) No chunk is empty; keys rise strictly from the first entry to the last.
//  (2) Behind the entries of a chunk its sizes are `beyond`, which no key reaches.
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
  static constexpr std::int64_t unit = 512;                                  // of sizes
  static constexpr std::int64_t largest = unit * (INT64_C(0x7fffffff) - 1);  // that a size may be

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

  BlockId block(Position p) const { return chunk(p).blocks[static_cast<std::size_t>(p.index)]; }
  std::int64_t size_at(Position p) const {
    return chunk(p).sizes[static_cast<std::size_t>(p.index)] * unit;
  }
  // Of the last entry, 0 if there is none.
  std::int64_t largest_size() const { return chunks_.empty() ? 0 : lasts_.back() * unit; }

  // The first entry whose size is at least `size`, or the end.
  Position first_fit(std::int64_t size) const;
  // REQUIRES: the entry is there.
  Position find(std::int64_t size, std::int64_t address) const;

  // REQUIRES: size is a multiple of `unit`, 0 < size <= largest.
  void insert(std::int64_t size, std::int64_t address, BlockId block);
  void erase(Position p);
  // Gives the entry at p another key and block.
  void move(Position p, std::int64_t size, std::int64_t address, BlockId block);

 private:
  static constexpr int capacity = 64;
  static constexpr std::int32_t beyond = INT32_MAX;

  struct Key {
    std::int32_t size = 0;
    std::int64_t address = 0;
  };

  struct Chunk {
    alignas(64) std::array<std::int32_t, capacity> sizes;
    std::array<std::int64_t, capacity> addresses;
    std::array<BlockId, capacity> blocks;
    int count = 0;

    Chunk() { sizes.fill(beyond); }
    void set(int i, const Key& key, BlockId block);
    void shift(int from, int to, int n);  // moves n entries
    bool before(int i, const Key& key) const;
    int smaller(std::int32_t size) const;   // how many entries have a smaller size
    int lower_bound(const Key& key) const;  // the first index that is not before `key`, or count
  };

  static Key key_of(std::int64_t size, std::int64_t address) {
    assert(size % unit == 0);
    assert(size <= largest);
    return {static_cast<std::int32_t>(size / unit), address};
  }
  const Chunk& chunk(Position p) const { return *chunks_[static_cast<std::size_t>(p.chunk)]; }
  Chunk& chunk(Position p) { return *chunks_[static_cast<std::size_t>(p.chunk)]; }
  int chunk_of(const Key& key) const;
  void halve(int c);
  void note_last(int c);
  std::unique_ptr<Chunk> fresh_chunk();

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::int32_t> lasts_;  // the size of each chunk's last entry
  std::unique_ptr<Chunk> spare_;     // the last chunk that emptied, for the next one needed
  int size_ = 0;
};

}  // namespace sim::memory
