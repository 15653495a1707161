// growth.h — bounds on the further growth of a caching allocator, once the times of a program
// repeat.
#pragma once

#include <cstdint>

namespace sim::engine {

// `--memory bounded` checks after `cycles` cycles without a driver call whether the outcome is
// sure. It assumes that reserved memory grows by at most `percent` more.
struct GrowthStop {
  std::int64_t cycles, percent;
};
constexpr GrowthStop growth_stops[] = {{0, 10}, {16, 8}, {64, 6}};

// The most bytes that an allocator may reserve after such a stop. `reserved`: what it reserves now;
// `largest`: the largest segment that it requests for one tensor. The bound is empirical: best fit
// can waste more in theory. The percentages exceed the growth in all replays of
// workloads/paper-454. In very small models, where the percentage is less than a tensor, memory
// grows by one segment (tests/engine/bounded.cpp).
constexpr std::int64_t reserved_at_most(std::int64_t reserved, std::int64_t largest,
                                        const GrowthStop& stop) {
  return reserved + reserved / 100 * stop.percent + largest;
}

}  // namespace sim::engine
