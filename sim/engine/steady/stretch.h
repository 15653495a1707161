// stretch.h — consecutive cycles of a job, all with the same times.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/engine/fast/rank_state.h"

namespace sim::engine {

struct Stretch {
  std::size_t base = 0, cycle = 0;  // first cut; cuts in a cycle
  Time begin{};
  Duration length{};   // of a cycle
  bool alone = false;  // a class may run a cycle alone (run_alone.cpp)

  // When cycle `n` begins.
  Time at(std::int64_t n) const { return begin + n * length; }
};

// The pass with which a class begins cycle `n` of the stretch.
inline std::uint32_t pass_at(const RankState& r, const Stretch& stretch, std::int64_t n) {
  return r.program.cuts[stretch.base + static_cast<std::size_t>(n) * stretch.cycle] + r.beyond;
}

}  // namespace sim::engine
