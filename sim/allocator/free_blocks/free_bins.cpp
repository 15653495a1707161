#include "sim/allocator/free_blocks/free_bins.h"

#include <algorithm>
#include <cstring>

namespace sim::allocator {

int FreeBins::first_rank_from(Units units) const {
  const auto place = std::lower_bound(
      by_rank_.begin(), by_rank_.end(), units,
      [&](int b, Units wanted) { return bins_[static_cast<std::size_t>(b)].size < wanted; });
  return static_cast<int>(place - by_rank_.begin());
}

void FreeBins::clear() {
  for (Bin& own : bins_) {
    own.count = 0;
    own.others.clear();
  }
  std::ranges::fill(words_, 0);
  std::ranges::fill(summary_, 0);
  size_ = 0;
}

void FreeBins::enter(Units size, int bin) {
  std::size_t i = home(size);
  while (table_[i].size != 0) i = (i + 1) & (table_.size() - 1);
  table_[i] = {size, bin};
}

void FreeBins::drop_empty() {
  FreeBins kept;
  for (const int b : by_rank_) {
    Bin& own = bins_[static_cast<std::size_t>(b)];
    if (own.count == 0) continue;
    const int same = kept.add_bin(own.size);
    kept.bins_[static_cast<std::size_t>(same)] = std::move(own);
    kept.mark(kept.rank_of(same));
  }
  kept.size_ = size_;
  *this = std::move(kept);
}

// Removes a size from the hash table. Entries after it that it displaced move up.
void FreeBins::forget(Units size) {
  const std::size_t mask = table_.size() - 1;
  std::size_t gap = home(size);
  while (table_[gap].size != size) gap = (gap + 1) & mask;
  for (std::size_t i = (gap + 1) & mask; table_[i].size != 0; i = (i + 1) & mask) {
    if (((i - home(table_[i].size)) & mask) < ((i - gap) & mask)) continue;
    table_[gap] = table_[i];
    gap = i;
  }
  table_[gap] = {};
}

// A bin for a size that has none. Sizes that occur only once are many, and a new bin moves the
// ranks of all larger ones. So an empty bin next to the size in the order of sizes takes it over.
int FreeBins::bin_for_new(Units size) {
  const int rank = first_rank_from(size);
  for (const int near : {rank, rank - 1}) {
    if (near < 0 || near >= bins()) continue;
    const int b = by_rank_[static_cast<std::size_t>(near)];
    Bin& own = bins_[static_cast<std::size_t>(b)];
    if (own.count > 0) continue;
    forget(own.size);
    own.size = size;
    enter(size, b);
    return b;
  }
  // Bins of sizes that occur only once slow down all others.
  if (bins_.size() % tidied == 0) drop_empty();
  return add_bin(size);
}

// Inserts a bin in the order of sizes. Larger bins move up by one rank.
int FreeBins::add_bin(Units size) {
  const int b = static_cast<int>(bins_.size());
  const int rank = first_rank_from(size);
  bins_.push_back({size, 0, {}, {}});
  by_rank_.insert(by_rank_.begin() + rank, b);
  for (std::array<int, together>& some : ranks_)
    for (int& other : some) other += other >= rank;
  if (static_cast<std::size_t>(b) % together == 0) ranks_.emplace_back().fill(-1);
  ranks_.back()[static_cast<std::size_t>(b) % together] = rank;

  make_words();
  const std::size_t w = word_of(rank);
  const auto update = [&](std::size_t v, std::uint64_t marks) {
    words_[v] = marks;
    std::uint64_t& summary = summary_[v / word_bits];
    const std::uint64_t bit = bit_of(static_cast<int>(v));
    summary = marks != 0 ? summary | bit : summary & ~bit;
  };
  for (std::size_t v = word_of(b); v > w; --v)
    update(v, words_[v] << 1 | words_[v - 1] >> (word_bits - 1));
  const std::uint64_t below = (UINT64_C(1) << (rank % word_bits)) - 1;
  update(w, (words_[w] & below) | (words_[w] & ~below) << 1);

  if (bins_.size() * 2 > table_.size()) {
    make_table(bins_.size());
    for (int known = 0; known < b; ++known)
      enter(bins_[static_cast<std::size_t>(known)].size, known);
  }
  enter(size, b);
  return b;
}

// Makes room in the bitmaps for all ranks.
void FreeBins::make_words() {
  words_.resize(by_rank_.size() / word_bits + 1);
  summary_.resize(words_.size() / word_bits + 1);
}

// Makes an empty hash table for `bins` bins.
void FreeBins::make_table(std::size_t bins) {
  std::size_t entries = 64;
  for (shift_ = 32 - 6; bins * 2 > entries; shift_ -= 2) entries *= 4;
  table_.assign(entries, {});
}

FreeBins::FreeBins(std::span<const std::int64_t> sizes) {
  const std::size_t count = sizes.size();
  make_table(count);
  bins_.resize(count);
  by_rank_.resize(count);
  make_words();
  ranks_.resize((count + together - 1) / together);
  if (!ranks_.empty()) ranks_.back().fill(-1);
  for (std::size_t b = 0; b < count; ++b) {
    const int rank = static_cast<int>(b);
    bins_[b].size = sizes[b] / size_unit;
    by_rank_[b] = ranks_[b / together][b % together] = rank;
    enter(bins_[b].size, rank);
  }
}

}  // namespace sim::allocator
