#include "sim/memory/free_bins.h"

#include <algorithm>
#include <cstring>

namespace sim::memory {

int FreeBins::first_rank_from(Units units) const {
  const auto place = std::lower_bound(
      by_rank_.begin(), by_rank_.end(), units,
      [&](int b, Units wanted) { return bins_[static_cast<std::size_t>(b)].size < wanted; });
  return static_cast<int>(place - by_rank_.begin());
}

void FreeBins::enter(Units size, int bin) {
  std::size_t i = home(size);
  while (table_[i].size != 0) i = (i + 1) & (table_.size() - 1);
  table_[i] = {size, bin};
}

// Ranks above the new one move up by one.
int FreeBins::add_bin(Units size) {
  assert(!full());
  const int b = static_cast<int>(bins_.size());
  const int rank = first_rank_from(size);
  bins_.push_back({size, rank, 0, {}, {}});
  by_rank_.insert(by_rank_.begin() + rank, b);
  for (std::size_t r = static_cast<std::size_t>(rank) + 1; r < by_rank_.size(); ++r)
    bins_[static_cast<std::size_t>(by_rank_[r])].rank = static_cast<int>(r);

  const auto w = static_cast<std::size_t>(rank / word_bits);
  for (std::size_t v = words_.size() - 1; v > w; --v)
    words_[v] = words_[v] << 1 | words_[v - 1] >> (word_bits - 1);
  const std::uint64_t below = (UINT64_C(1) << (rank % word_bits)) - 1;
  words_[w] = (words_[w] & below) | (words_[w] & ~below) << 1;
  summary_ = 0;
  for (std::size_t v = 0; v < words_.size(); ++v)
    if (words_[v] != 0) summary_ |= UINT64_C(1) << v;

  if (bins_.size() * 2 > table_.size()) {
    table_.assign(table_.size() * 4, {});
    shift_ -= 2;
    for (int known = 0; known < b; ++known)
      enter(bins_[static_cast<std::size_t>(known)].size, known);
  }
  enter(size, b);
  return b;
}

}  // namespace sim::memory
