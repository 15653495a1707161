// growth.h — by how much a caching allocator may still grow when the times of a program repeat.
#pragma once

#include <cstdint>

namespace sim::replay {

// Periods without a driver call after which `bounded` asks whether the outcome is sure.
constexpr std::int64_t growth_stops[] = {0, 16, 64};

// Most bytes that an allocator that reserves `reserved` may come to reserve after `periods`
// periods of a step's steady part in which it asked the driver for nothing; `largest` is its
// largest segment for one tensor. No theorem says so: best fit can waste more. It is what was
// seen, rounded up. From the first quiet stretch of that many periods on, in the replays of
// workloads/paper-454 that had one (445, 343 and 212 of 523), reserved peaks grew by 6.9 % after
// none, by 5.7 % after 16 and by 4.0 % after 64 periods at most; where a model is so small that
// this is less than a tensor, by one such segment (tests/replay/bounded.cpp, on drawn plans).
constexpr std::int64_t reserved_at_most(std::int64_t reserved, std::int64_t largest,
                                        std::int64_t periods) {
  const std::int64_t percent = periods >= 64 ? 6 : periods >= 16 ? 8 : 10;
  return reserved + reserved / 100 * percent + largest;
}

}  // namespace sim::replay
