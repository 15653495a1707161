// rank_bound.h — one rank by itself: when its compute stream is done with what it is given, with a
// CPU that is far ahead and partners that are always there. Whatever else happens in a replay, the
// rank takes at least that long: every time is a maximum of sums, and a lane leaves terms out.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/engine/rank/queues.h"
#include "sim/engine/replay.h"

namespace sim::planner {

class RankBound {
 public:
  // Which collectives take time: those of tensors and of the sequence, which are a pass's own, or
  // those of parameters and gradients as well. layers: the former, and no kernel is slowed by what
  // runs beside it, for that is another matter in each pass.
  enum class Counts : std::uint8_t { layers, passes, everything };
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min() / 4;

  // The compute stream begins at 0; `others`: when everything else is free.
  RankBound(const program::Program& program, const engine::ClassTimes& times, Counts counts,
            std::int64_t others = never);

  void run(const program::Instruction& instruction);
  void run(const std::vector<program::Pass>& passes, std::size_t from);

  // Picoseconds at which the compute stream is done, and at which the CPU is too.
  std::int64_t compute() const { return tail_[0]; }
  std::int64_t end() const { return tail_[0] > cpu_ ? tail_[0] : cpu_; }

 private:
  void collective(const program::Instruction& instruction);
  bool slowed(const program::Instruction& instruction) const {
    return counts_ != Counts::layers && instruction.flags & program::overlapped;
  }

  const program::Program& program_;
  const engine::ClassTimes& times_;
  Counts counts_;
  std::array<std::int64_t, program::stream_count> tail_;
  std::array<std::int64_t, engine::resource_count> free_;
  std::vector<std::int64_t> events_;
  std::int64_t cpu_;
};

// Picoseconds at which the compute stream has finished each call of a template. `sharded`: without
// what parameters in shards add to it, for where there are stages most passes find them whole.
std::vector<std::int64_t> ends_of_calls(const program::Program& program,
                                        const engine::ClassTimes& times,
                                        const program::Template& pattern, bool sharded);

}  // namespace sim::planner
