// recording_ranges.h — derives facts that a recording leaves out, for its replays.
//
// They are the order of the streams, the address ranges of expandable segments, and the private
// pool of an address.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "sim/allocator/recorded/recording.h"

namespace sim::allocator {

// Numbers of the streams in the order of their handles: lists then sort as in the process.
std::map<std::uint64_t, int> stream_numbers(const Recording& recording);

// All mapped ranges of one pool and stream belong to one expandable segment. The end of its address
// range is not recorded; it is at most the start of the next segment.
using Group = std::tuple<std::int64_t, int, bool>;  // stream, pool, small

struct Ranges {
  std::map<Group, std::pair<std::int64_t, std::int64_t>> of;  // base address, bytes
  std::int64_t shortest = std::int64_t{1} << 40;              // length of the shortest, bytes
};

Ranges address_ranges(const Recording& recording);

// The private pool of the memory at an address, by the segments at the start, then at the end; 0:
// none.
int pool_at(const Recording& recording, std::int64_t address);

// A recording does not tell which streams use a freed block. Each such block has a stream of its
// own from this number on.
inline constexpr int first_hidden_stream = 1 << 24;

}  // namespace sim::allocator
