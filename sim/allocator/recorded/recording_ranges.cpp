#include "sim/allocator/recorded/recording_ranges.h"

#include <algorithm>
#include <iterator>

namespace sim::allocator {
namespace {

constexpr std::int64_t longest_range = std::int64_t{1} << 40;

}  // namespace

std::map<std::uint64_t, int> stream_numbers(const Recording& recording) {
  std::map<std::uint64_t, int> numbers = {{0, 0}};
  const auto add = [&](std::int64_t stream) {
    numbers.try_emplace(static_cast<std::uint64_t>(stream), 0);
  };
  for (const auto& segment : recording.segments) add(segment.stream);
  for (const auto& event : recording.events) add(event.stream);
  for (const auto& segment : recording.end) add(segment.stream);
  int next = 0;
  for (auto& [handle, number] : numbers) number = next++;
  return numbers;
}

Ranges address_ranges(const Recording& recording) {
  Ranges ranges;
  std::map<std::int64_t, bool> starts;  // every address at which a segment or range starts
  const auto add = [&](std::int64_t address, const Group& group, bool expandable) {
    if (!expandable) {
      starts[address] = true;
      return;
    }
    const auto [it, fresh] = ranges.of.try_emplace(group, address, 0);
    it->second.first = std::min(it->second.first, address);
  };
  for (const auto& s : recording.segments)
    add(s.address, {s.stream, s.pool, s.small}, s.expandable);
  for (const SnapshotEntry& event : recording.events) {
    if (event.action == Action::segment_alloc) add(event.address, {}, false);
  }
  for (const auto& s : recording.end) {
    if (!s.expandable) add(s.address, {}, false);
  }
  for (const auto& [group, range] : ranges.of) starts[range.first] = true;
  for (auto& [group, range] : ranges.of) {
    const auto next = starts.upper_bound(range.first);
    range.second =
        next == starts.end() ? longest_range : std::min(longest_range, next->first - range.first);
    ranges.shortest = std::min(ranges.shortest, range.second);
  }
  return ranges;
}

int pool_at(const Recording& recording, std::int64_t address) {
  if (recording.pools.empty()) return 0;
  const auto holder = [&](const auto& segments) {
    const auto after =
        std::upper_bound(segments.begin(), segments.end(), address,
                         [](std::int64_t a, const auto& s) { return a < s.address; });
    const bool inside =
        after != segments.begin() && address < std::prev(after)->address + std::prev(after)->total;
    return inside ? std::prev(after) : segments.end();
  };
  const auto first = holder(recording.segments);
  if (first != recording.segments.end()) return first->pool;
  const auto last = holder(recording.end);
  return last == recording.end.end() ? 0 : recording.pool_number(*last);
}

}  // namespace sim::allocator
