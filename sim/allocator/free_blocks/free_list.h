// free_list.h — the free blocks of one pool and stream, ordered by (size, address).
//
// DESCRIPTION. Best fit is the first entry that is large enough; the order of equal sizes makes
// the lowest address win. As long as the sizes that were ever free are few (some thousands; a
// training step has some hundreds) blocks wait in bins by size, and every operation takes a fixed
// handful of instructions. After that, a sorted sequence in chunks takes over for good.
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
  // Of the last entry, 0 if there is none.
  std::int64_t largest_size() const {
    return many_ ? chunks_.largest_size() : bins_.largest_size();
  }

  // The first entry whose size is at least `size`, or the end.
  Position first_fit(std::int64_t size) const {
    return many_ ? chunks_.first_fit(size) : bins_.first_fit(size);
  }
  // REQUIRES: the entry is there.
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
  // Gives the entry at p another key and block.
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
