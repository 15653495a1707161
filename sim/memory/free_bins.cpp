#include "sim/memory/free_bins.h"

#include <algorithm>
#include <cstring>

namespace sim::memory {

FreeBins::Position FreeBins::first_fit(std::int64_t size) const {
  const std::uint64_t units = (static_cast<std::uint64_t>(size) + size_unit - 1) / size_unit;
  if (units > INT32_MAX) return {};
  const int known = lookup(static_cast<std::int32_t>(units));
  const int rank = next_rank(known >= 0 ? bins_[static_cast<std::size_t>(known)].rank
                                        : first_rank_from(static_cast<std::int64_t>(units)));
  return rank < 0 ? Position{} : lowest_of(rank);
}

int FreeBins::first_rank_from(std::int64_t units) const {
  const auto place = std::lower_bound(
      by_rank_.begin(), by_rank_.end(), units,
      [&](int b, std::int64_t wanted) { return bins_[static_cast<std::size_t>(b)].size < wanted; });
  return static_cast<int>(place - by_rank_.begin());
}

// The first of the `count` highest entries of a bin that does not lie above `address`.
std::size_t FreeBins::place_in(const std::vector<Entry>& entries, std::size_t count,
                               std::int64_t address) {
  std::size_t low = 0;
  for (std::size_t length = count; length > 0;) {
    const std::size_t half = length / 2;
    const bool above = entries[low + half].address > address;
    low += above ? half + 1 : 0;
    length = above ? length - half - 1 : half;
  }
  return low;
}

FreeBins::Position FreeBins::find(std::int64_t size, std::int64_t address) const {
  const int b = lookup(static_cast<std::int32_t>(size / size_unit));
  assert(b >= 0);
  const std::vector<Entry>& entries = bins_[static_cast<std::size_t>(b)].entries;
  const std::size_t place = place_in(entries, entries.size(), address);
  assert(place < entries.size() && entries[place].address == address);
  return {b, static_cast<int>(place)};
}

void FreeBins::enter(std::int32_t size, int bin) {
  std::size_t i = home(size);
  while (table_[i].size != 0) i = (i + 1) & (table_.size() - 1);
  table_[i] = {size, bin};
}

// Ranks above the new one move up by one.
int FreeBins::add_bin(std::int32_t size) {
  assert(!full());
  const int b = static_cast<int>(bins_.size());
  const int rank = first_rank_from(size);
  bins_.push_back({size, rank, {}});
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
      enter(static_cast<std::int32_t>(bins_[static_cast<std::size_t>(known)].size), known);
  }
  enter(size, b);
  return b;
}

void FreeBins::insert(std::int64_t size, std::int64_t address, BlockId block) {
  assert(size % size_unit == 0);
  assert(size > 0 && size <= largest_free_size);
  const auto units = static_cast<std::int32_t>(size / size_unit);
  int b = lookup(units);
  if (b < 0) b = add_bin(units);
  Bin& home = bins_[static_cast<std::size_t>(b)];
  std::vector<Entry>& entries = home.entries;
  ++size_;
  const std::size_t count = entries.size();
  entries.push_back({address, block});
  if (count == 0) return mark(home.rank);
  if (entries[count - 1].address > address) return;
  const std::size_t place = place_in(entries, count, address);
  std::memmove(&entries[place + 1], &entries[place], (count - place) * sizeof(Entry));
  entries[place] = {address, block};
}

void FreeBins::erase(Position p) {
  Bin& home = bin(p);
  const auto after = home.entries.size() - 1 - static_cast<std::size_t>(p.index);
  Entry* gone = home.entries.data() + p.index;
  if (after > 0) std::memmove(gone, gone + 1, after * sizeof(Entry));
  home.entries.pop_back();
  if (home.entries.empty()) unmark(home.rank);
  --size_;
}

}  // namespace sim::memory
