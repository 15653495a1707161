// growth.h — by how much a caching allocator may still grow when the times of a program repeat.
#pragma once

#include <cstdint>

namespace sim::engine {

// Cycles without a driver call after which `bounded` asks whether the outcome is sure, and by how
// many percent of what is reserved then it may still grow.
struct GrowthStop {
  std::int64_t cycles, percent;
};
constexpr GrowthStop growth_stops[] = {{0, 10}, {16, 8}, {64, 6}};

// Most bytes that an allocator that reserves `reserved` may come to reserve from such a stop on in
// which it asked the driver for nothing; `largest` is its largest segment for one tensor. No
// theorem says so: best fit can waste more. It is half as much again as what was seen. From the
// first memory-only stretch of that many cycles on, in the replays of workloads/paper-454 that had one
// (445, 343 and 212 of 523), reserved peaks grew by 6.9 % after none, by 5.7 % after 16 and by 4.0
// % after 64 cycles at most; where a model is so small that this is less than a tensor, by one
// such segment (tests/engine/bounded.cpp, on drawn plans).
constexpr std::int64_t reserved_at_most(std::int64_t reserved, std::int64_t largest,
                                        const GrowthStop& stop) {
  return reserved + reserved / 100 * stop.percent + largest;
}

}  // namespace sim::engine
