// free_bins.h — the free blocks of one sub-pool, ordered by (size, address).
//
// The allocator searches it in every allocation and changes it in every free. Best fit is the first
// entry that is large enough; among equal sizes the lowest address comes first. The machine of a
// sub-pool (sub_pools/) uses it as well.
//
// A training step requests the same sizes again and again. Every size that was ever free has a bin.
// Bins are ranked by size, and a bitmap marks the ranks of non-empty bins. The smallest size that
// fits is therefore the next set bit: no search. A second bitmap marks the words of the first that
// are not 0.
//
// Invariants
//  (1) The addresses of a bin fall: the lowest is its last entry. That entry is stored in the bin
//      itself, because allocations take it. The other entries are in a vector.
//  (2) Bit r is set if and only if the bin of rank r has an entry.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "sim/allocator/free_blocks/free_entry.h"

namespace sim::allocator {

class FreeBins {
 public:
  using Position = FreePosition;  // {bin, index in the bin}

  static constexpr int word_bits = 64;

  FreeBins() { table_.assign(64, {}); }
  // Creates empty bins of these sizes (bytes). REQUIRES: sizes rise strictly.
  explicit FreeBins(std::span<const std::int64_t> sizes);

  int bins() const { return static_cast<int>(by_rank_.size()); }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear();  // removes all entries; the bins stay

  Position first() const { return empty() ? Position{} : lowest_of(next_rank(0)); }
  Position next(Position p) const {
    if (p.index > 0) return {p.group, p.index - 1};
    const int rank = next_rank(rank_of(p.group) + 1);
    return rank < 0 ? Position{} : lowest_of(rank);
  }
  bool at_end(Position p) const { return p.group < 0; }
  // REQUIRES: !empty().
  Position last() const { return {by_rank_[static_cast<std::size_t>(last_rank())], 0}; }

  BlockId block(Position p) const { return bin(p).at(p.index).block; }
  std::int64_t size_at(Position p) const { return bin(p).size * size_unit; }
  std::int64_t address_at(Position p) const { return bin(p).at(p.index).address; }
  std::int64_t largest_size() const { return empty() ? 0 : size_at(last()); }

  // The first entry whose size is at least `size`, or the end.
  Position first_fit(std::int64_t size) const;
  // The position of an entry. REQUIRES: the entry is in the list.
  Position find(std::int64_t size, std::int64_t address) const;

  // Adds an entry. It may remove empty bins, or give one another size: positions and bin numbers
  // are invalid afterwards.
  // REQUIRES: size is a multiple of size_unit, 0 < size <= largest_free_size.
  void insert(std::int64_t size, std::int64_t address, BlockId block);
  void erase(Position p);
  // Replaces the key and the block of the entry at p.
  void move(Position p, std::int64_t size, std::int64_t address, BlockId block) {
    erase(p);
    insert(size, address, block);
  }

  // The same by bin number, for callers that remember the bin of a size. These calls never remove a
  // bin. bin_of creates a missing bin.
  int bin_of(std::int64_t size) {
    const int b = lookup(size / size_unit);
    return b >= 0 ? b : add_bin(size / size_unit);
  }
  Position first_fit_from(int b) const {
    if (const int count = bins_[static_cast<std::size_t>(b)].count; count > 0)
      return {b, count - 1};
    const int rank = next_rank(rank_of(b));
    return rank < 0 ? Position{} : lowest_of(rank);
  }
  // REQUIRES: the entry is in the bin.
  Position find_in(int b, std::int64_t address) const;
  void insert_in(int b, std::int64_t address, BlockId block);

 private:
  static constexpr std::size_t tidied = 256;  // new bins between two calls of drop_empty

  struct Entry {
    std::int64_t address = 0;
    BlockId block = no_block;
  };
  // One cache line.
  struct alignas(64) Bin {
    Units size = 0;
    int count = 0;
    Entry lowest;  // valid if count > 0
    std::vector<Entry> others;

    const Entry& at(int i) const {
      return i == count - 1 ? lowest : others[static_cast<std::size_t>(i)];
    }
  };
  // An entry of the hash table from sizes to bins (open addressing). Size 0: empty.
  struct Named {
    Units size = 0;
    std::int32_t bin = -1;
  };

  const Bin& bin(Position p) const { return bins_[static_cast<std::size_t>(p.group)]; }
  Bin& bin(Position p) { return bins_[static_cast<std::size_t>(p.group)]; }
  int rank_of(int b) const {
    return ranks_[static_cast<std::size_t>(b) / together][static_cast<std::size_t>(b) % together];
  }
  std::size_t home(Units size) const {
    return (static_cast<std::uint32_t>(size) * UINT32_C(2654435769)) >> shift_;
  }
  // The bin of a size; -1 if it has none.
  int lookup(Units size) const {
    for (std::size_t i = home(size);; i = (i + 1) & (table_.size() - 1)) {
      if (table_[i].size == size) return table_[i].bin;
      if (table_[i].size == 0) return -1;
    }
  }
  static std::size_t place_in(const std::vector<Entry>& others, std::int64_t address);
  int add_bin(Units size);
  int bin_for_new(Units size);
  void forget(Units size);
  void enter(Units size, int bin);
  void make_table(std::size_t bins);
  void make_words();
  void drop_empty();
  int first_rank_from(Units units) const;  // binary search, for sizes without a bin

  // The first marked rank from `rank` on; -1 if there is none.
  int next_rank(int rank) const {
    std::size_t w = word_of(rank);
    if (w >= words_.size()) return -1;
    const std::uint64_t here = words_[w] >> (static_cast<unsigned>(rank) % word_bits);
    if (here != 0) return rank + std::countr_zero(here);
    if (++w == words_.size()) return -1;
    std::uint64_t later = summary_[w / word_bits] >> (w % word_bits);
    for (std::size_t s = w / word_bits; later == 0; later = summary_[s], w = s * word_bits)
      if (++s == summary_.size()) return -1;
    w += static_cast<std::size_t>(std::countr_zero(later));
    return static_cast<int>(w) * word_bits + std::countr_zero(words_[w]);
  }
  int last_rank() const {
    std::size_t s = summary_.size() - 1;
    while (summary_[s] == 0) --s;
    const std::size_t w = s * word_bits + last_bit(summary_[s]);
    return static_cast<int>(w * word_bits + last_bit(words_[w]));
  }
  static std::size_t last_bit(std::uint64_t word) {
    return static_cast<std::size_t>(word_bits - 1 - std::countl_zero(word));
  }
  static std::size_t word_of(int rank) { return static_cast<unsigned>(rank) / word_bits; }
  static std::uint64_t bit_of(int rank) {
    return UINT64_C(1) << (static_cast<unsigned>(rank) % word_bits);
  }
  void mark(int rank) {
    words_[word_of(rank)] |= bit_of(rank);
    summary_[word_of(rank) / word_bits] |= bit_of(static_cast<int>(word_of(rank)));
  }
  void unmark(int rank) {
    std::uint64_t& word = words_[word_of(rank)];
    word &= ~bit_of(rank);
    if (word == 0) summary_[word_of(rank) / word_bits] &= ~bit_of(static_cast<int>(word_of(rank)));
  }
  Position lowest_of(int rank) const {
    const int b = by_rank_[static_cast<std::size_t>(rank)];
    return {b, bins_[static_cast<std::size_t>(b)].count - 1};
  }

  std::vector<Bin> bins_;
  std::vector<int> by_rank_;  // bin of each rank
  // Rank of each bin, in groups of 16, padded with -1. They are not stored in the bins because a
  // new bin changes many ranks, and the loop over a group compiles to vector instructions.
  static constexpr std::size_t together = 16;
  std::vector<std::array<int, together>> ranks_;
  std::vector<std::uint64_t> words_ = {0};    // bit r: the bin of rank r is not empty
  std::vector<std::uint64_t> summary_ = {0};  // bit w: words_[w] is not 0
  std::vector<Named> table_;  // hash table; its size is a power of two, at most half full
  int shift_ = 32 - 6;        // 32 - log2 of the table's size
  int size_ = 0;
};

// Defined in the header so that the allocator's hot path can inline them.

inline FreeBins::Position FreeBins::first_fit(std::int64_t size) const {
  const Units units = (size + size_unit - 1) / size_unit;
  const int known = lookup(units);
  if (known >= 0) return first_fit_from(known);
  const int rank = next_rank(first_rank_from(units));
  return rank < 0 ? Position{} : lowest_of(rank);
}

// Index of the first entry whose address is not above `address`.
inline std::size_t FreeBins::place_in(const std::vector<Entry>& others, std::int64_t address) {
  std::size_t low = 0;
  for (std::size_t length = others.size(); length > 0;) {
    const std::size_t half = length / 2;
    const bool above = others[low + half].address > address;
    low += above ? half + 1 : 0;
    length = above ? length - half - 1 : half;
  }
  return low;
}

inline FreeBins::Position FreeBins::find(std::int64_t size, std::int64_t address) const {
  const int b = lookup(size / size_unit);
  assert(b >= 0);
  return find_in(b, address);
}

inline FreeBins::Position FreeBins::find_in(int b, std::int64_t address) const {
  const Bin& home = bins_[static_cast<std::size_t>(b)];
  if (home.lowest.address == address) return {b, home.count - 1};
  const std::size_t place = place_in(home.others, address);
  assert(place < home.others.size() && home.others[place].address == address);
  return {b, static_cast<int>(place)};
}

inline void FreeBins::insert(std::int64_t size, std::int64_t address, BlockId block) {
  assert(size % size_unit == 0);
  assert(size > 0 && size <= largest_free_size);
  int b = lookup(size / size_unit);
  if (b < 0) b = bin_for_new(size / size_unit);
  insert_in(b, address, block);
}

inline void FreeBins::insert_in(int b, std::int64_t address, BlockId block) {
  Bin& home = bins_[static_cast<std::size_t>(b)];
  const Entry entry{address, block};
  ++size_;
  if (home.count++ == 0) {
    home.lowest = entry;
    return mark(rank_of(b));
  }
  std::vector<Entry>& others = home.others;
  if (address < home.lowest.address) {
    others.push_back(home.lowest);
    home.lowest = entry;
    return;
  }
  const std::size_t place = place_in(others, address);
  others.push_back(entry);
  const std::size_t after = others.size() - 1 - place;
  if (after == 0) return;
  std::memmove(&others[place + 1], &others[place], after * sizeof(Entry));
  others[place] = entry;
}

inline void FreeBins::erase(Position p) {
  Bin& home = bin(p);
  --size_;
  if (p.index == --home.count) {
    if (home.count == 0) return unmark(rank_of(p.group));
    home.lowest = home.others.back();
    return home.others.pop_back();
  }
  const std::size_t after = home.others.size() - 1 - static_cast<std::size_t>(p.index);
  Entry* gone = home.others.data() + p.index;
  if (after > 0) std::memmove(gone, gone + 1, after * sizeof(Entry));
  home.others.pop_back();
}

}  // namespace sim::allocator
