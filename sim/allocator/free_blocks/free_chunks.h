// free_chunks.h — free blocks by (size, address) when they have many sizes: see free_list.h.
//
// A sorted sequence, cut into chunks of at most 64 entries. A chunk stores its sizes in one array.
// A search counts the smaller sizes of a chunk with a few vector instructions and no branch. `move`
// changes the key of an entry in place, since splitting or merging a free block seldom changes its
// neighbours in the order. No call allocates memory while its chunk has room.
//
// Invariants
//  (1) No chunk is empty. Keys rise strictly from the first entry to the last.
//  (2) After the entries of a chunk, its sizes are `beyond`, which is larger than any key.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/allocator/free_blocks/free_entry.h"

namespace sim::allocator {

class FreeChunks {
 public:
  using Position = FreePosition;

  FreeChunks() = default;
  FreeChunks(FreeChunks&&) = default;
  FreeChunks& operator=(FreeChunks&&) = default;
  FreeChunks(const FreeChunks& other) { *this = other; }
  FreeChunks& operator=(const FreeChunks& other);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }

  Position first() const { return chunks_.empty() ? Position{} : Position{0, 0}; }
  Position next(Position p) const {
    if (++p.index < chunk_at(p).count) return p;
    return p.group + 1 < static_cast<int>(chunks_.size()) ? Position{p.group + 1, 0} : Position{};
  }

  BlockId block(Position p) const { return chunk_at(p).blocks[static_cast<std::size_t>(p.index)]; }
  std::int64_t size_at(Position p) const {
    return chunk_at(p).sizes[static_cast<std::size_t>(p.index)] * size_unit;
  }
  // Size of the last entry; 0 if the list is empty.
  std::int64_t largest_size() const { return chunks_.empty() ? 0 : lasts_.back() * size_unit; }

  // The first entry whose size is at least `size`, or the end.
  Position first_fit(std::int64_t size) const;
  std::int64_t address_at(Position p) const {
    return chunk_at(p).addresses[static_cast<std::size_t>(p.index)];
  }
  // The position of an entry. REQUIRES: the entry is in the list.
  Position find(std::int64_t size, std::int64_t address) const;

  // REQUIRES: size is a multiple of size_unit, 0 < size <= largest_free_size.
  void insert(std::int64_t size, std::int64_t address, BlockId block);
  void erase(Position p);
  // Replaces the key and the block of the entry at p.
  void move(Position p, std::int64_t size, std::int64_t address, BlockId block);

 private:
  static constexpr int capacity = 64;
  static constexpr Units beyond = INT64_MAX;

  struct Key {
    Units size = 0;
    std::int64_t address = 0;
  };

  struct Chunk {
    alignas(64) std::array<Units, capacity> sizes;
    std::array<std::int64_t, capacity> addresses;
    std::array<BlockId, capacity> blocks;
    int count = 0;

    Chunk() { sizes.fill(beyond); }
    void set(int i, const Key& key, BlockId block);
    void shift(int from, int to, int n);  // moves n entries
    bool before(int i, const Key& key) const;
    int smaller(Units size) const;          // number of entries with a smaller size
    int lower_bound(const Key& key) const;  // first index with a key not below `key`, or count
  };

  static Key key_of(std::int64_t size, std::int64_t address) {
    assert(size % size_unit == 0);
    assert(size <= largest_free_size);
    return {size / size_unit, address};
  }
  const Chunk& chunk_at(Position p) const { return *chunks_[static_cast<std::size_t>(p.group)]; }
  Chunk& chunk_at(Position p) { return *chunks_[static_cast<std::size_t>(p.group)]; }
  int chunk_of(const Key& key) const;
  void halve(int c);
  void note_last(int c);
  std::unique_ptr<Chunk> fresh_chunk();

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Units> lasts_;      // size of the last entry of each chunk
  std::unique_ptr<Chunk> spare_;  // the chunk that emptied last, for reuse
  int size_ = 0;
};

}  // namespace sim::allocator
