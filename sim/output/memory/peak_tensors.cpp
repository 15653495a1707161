#include "sim/output/memory/peak_tensors.h"

#include <algorithm>
#include <cassert>

namespace sim::output {

void PeakTensors::keep(Class& own) {
  if (own.rising) own.peak = own.held;
  own.rising = false;
}

void PeakTensors::memory(const engine::MemoryChange& change) {
  const auto index = static_cast<std::size_t>(change.rank_class);
  if (classes_.size() <= index) classes_.resize(index + 1);
  Class& own = classes_[index];
  if (own.closed) return;
  if (change.delta > 0) {
    const auto entry =
        own.held.try_emplace({change.category, std::string(change.label)}, Amount{}).first;
    entry->second.count += 1;
    entry->second.bytes += change.delta;
    own.at[change.address] = entry;
    own.allocated += change.delta;
    if (own.allocated > own.most) {
      own.most = own.allocated;
      own.rising = true;
    }
    return;
  }
  keep(own);
  const auto found = own.at.find(change.address);
  assert(found != own.at.end());
  found->second->second.count -= 1;
  found->second->second.bytes += change.delta;
  own.allocated += change.delta;
  own.at.erase(found);
}

void PeakTensors::memory_state(const engine::MemoryState& state) {
  const auto index = static_cast<std::size_t>(state.rank_class);
  if (classes_.size() <= index) classes_.resize(index + 1);
  Class& own = classes_[index];
  if (own.closed) return;
  keep(own);
  if (!state.out_of_memory) return;
  own.peak = own.held;
  own.closed = true;
}

std::vector<HeldTensors> PeakTensors::of(std::size_t rank_class) const {
  std::vector<HeldTensors> all;
  if (rank_class >= classes_.size()) return all;
  for (const auto& [key, amount] : classes_[rank_class].peak)
    if (amount.count > 0) all.push_back({key.first, key.second, amount.count, {amount.bytes}});
  std::stable_sort(all.begin(), all.end(),
                   [](const HeldTensors& a, const HeldTensors& b) { return a.bytes > b.bytes; });
  return all;
}

}  // namespace sim::output
