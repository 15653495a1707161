// recording_ranges.h — what a recording leaves to be worked out: the order of its streams and how
// far the addresses of its expandable segments reach.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "sim/allocator/recorded/recording.h"

namespace sim::allocator {

// Streams in the order of their handles, so that lists sort as they did in the process.
std::map<std::uint64_t, int> stream_numbers(const Recording& recording);

// All runs of one pool and stream are one expandable segment. How far its addresses reach is not
// recorded: to the next one at most.
using Group = std::tuple<std::int64_t, int, bool>;  // stream, pool, small

struct Ranges {
  std::map<Group, std::pair<std::int64_t, std::int64_t>> of;  // base, bytes
  std::int64_t shortest = std::int64_t{1} << 40;
};

Ranges address_ranges(const Recording& recording);

}  // namespace sim::allocator
