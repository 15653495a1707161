// growth.h — bounds on the further growth of a caching allocator, once the times of a program
// repeat.
#pragma once

#include <cstdint>

namespace sim::engine {

// `--memory bounded` checks after `cycles` cycles without a driver call whether the outcome is
// sure. It assumes that reserved memory grows by at most `percent` more and by `segments`.
struct GrowthStop {
  std::int64_t cycles, percent, segments;
};
constexpr GrowthStop growth_stops[] = {{0, 10, 2}, {16, 8, 1}, {64, 6, 1}};

// The most bytes that an allocator may reserve after such a stop. `reserved`: what it reserves now;
// `largest`: the largest segment that it requests for one tensor. The bound is empirical: best fit
// can waste more in theory. The percentages exceed the growth in all replays of
// workloads/paper-454. In very small models, where the percentage is about a tensor, memory
// grows by one or two segments (tests/engine/bounded.cpp, tests/engine/random_plans.cpp).
constexpr std::int64_t reserved_at_most(std::int64_t reserved, std::int64_t largest,
                                        const GrowthStop& stop) {
  return reserved + reserved / 100 * stop.percent + stop.segments * largest;
}

}  // namespace sim::engine
