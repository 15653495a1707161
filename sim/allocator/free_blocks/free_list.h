// free_list.h — the free blocks of one sub-pool, ordered by (size, address).
//
// The allocator searches it in every allocation and changes it in every free. Best fit is the first
// entry that is large enough; among equal sizes the lowest address comes first.
//
// Two containers implement it, with the same order. FreeBins serves while few sizes occur: a
// training step has some hundreds. Each operation then takes a small, fixed number of instructions.
// Once 4096 bins exist, FreeChunks takes over for good.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>

#include "sim/allocator/free_blocks/free_bins.h"
#include "sim/allocator/free_blocks/free_chunks.h"
#include "sim/allocator/free_blocks/free_entry.h"

namespace sim::allocator {

class FreeList {
 public:
  using Position = FreePosition;

  int size() const { return many_ ? chunks_.size() : bins_.size(); }
  bool empty() const { return size() == 0; }

  Position first() const { return many_ ? chunks_.first() : bins_.first(); }
  bool at_end(Position p) const { return p.group < 0; }
  Position next(Position p) const { return many_ ? chunks_.next(p) : bins_.next(p); }
  BlockId block(Position p) const { return many_ ? chunks_.block(p) : bins_.block(p); }
  std::int64_t size_at(Position p) const { return many_ ? chunks_.size_at(p) : bins_.size_at(p); }
  // Size of the last entry; 0 if the list is empty.
  std::int64_t largest_size() const {
    return many_ ? chunks_.largest_size() : bins_.largest_size();
  }

  // The first entry whose size is at least `size`, or the end.
  Position first_fit(std::int64_t size) const {
    return many_ ? chunks_.first_fit(size) : bins_.first_fit(size);
  }
  // The position of an entry. REQUIRES: the entry is in the list.
  Position find(std::int64_t size, std::int64_t address) const {
    return many_ ? chunks_.find(size, address) : bins_.find(size, address);
  }

  // REQUIRES: size is a multiple of size_unit, 0 < size <= largest_free_size.
  void insert(std::int64_t size, std::int64_t address, BlockId block) {
    if (!many_ && bins_.full()) to_chunks();
    many_ ? chunks_.insert(size, address, block) : bins_.insert(size, address, block);
  }
  void clear() {
    chunks_ = {};
    bins_.clear();
  }
  void erase(Position p) { many_ ? chunks_.erase(p) : bins_.erase(p); }
  // Replaces the key and the block of the entry at p.
  void move(Position p, std::int64_t size, std::int64_t address, BlockId block) {
    if (many_) return chunks_.move(p, size, address, block);
    bins_.erase(p);
    insert(size, address, block);
  }

 private:
  void to_chunks() {
    for (Position p = bins_.first(); !at_end(p); p = bins_.next(p))
      chunks_.insert(bins_.size_at(p), bins_.address_at(p), bins_.block(p));
    bins_ = {};
    many_ = true;
  }

  bool many_ = false;
  FreeBins bins_;
  FreeChunks chunks_;
};

}  // namespace sim::allocator
