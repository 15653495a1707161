// growth.h — bounds on how much a caching allocator may still grow once the times of a program
// repeat.
#pragma once

#include <cstdint>

namespace sim::engine {

// `--memory bounded` asks after `cycles` cycles without a driver call whether the outcome is sure.
// It then allows reserved memory to grow by `percent` more.
struct GrowthStop {
  std::int64_t cycles, percent;
};
constexpr GrowthStop growth_stops[] = {{0, 10}, {16, 8}, {64, 6}};

// The most bytes that an allocator may come to reserve after such a stop, in bytes. `reserved`:
// what it reserves now; `largest`: its largest segment for one tensor. No theorem says so: best fit
// can waste more. The percentages stand above what was seen in the replays of workloads/paper-454.
// Models so small that this is less than a tensor grow by one segment (tests/engine/bounded.cpp).
constexpr std::int64_t reserved_at_most(std::int64_t reserved, std::int64_t largest,
                                        const GrowthStop& stop) {
  return reserved + reserved / 100 * stop.percent + largest;
}

}  // namespace sim::engine
