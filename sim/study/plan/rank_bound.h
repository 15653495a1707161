// rank_bound.h — lower bound on the time of one rank alone, with a fast CPU and partners that never
// delay it. In any replay the rank takes at least that long: each time is a maximum of sums, and
// this class leaves out terms.
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
  // The collectives that take time. passes: tensor and context parallelism. everything: also
  // parameters and gradients. layers: as passes, but concurrent work never slows a kernel, since
  // each pass has other concurrent work.
  enum class Counts : std::uint8_t { layers, passes, everything };
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min() / 4;

  // The compute stream begins at 0; all other resources are free from `others` on.
  RankBound(const program::Program& program, const engine::ClassTimes& times, Counts counts,
            std::int64_t others = never);

  void run(const program::Instruction& instruction);
  void run(const std::vector<program::Pass>& passes, std::size_t from);

  // End of the compute stream, and of the compute stream and the CPU, in picoseconds.
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

// End of each call of a template on the compute stream, in picoseconds. `sharded` leaves out
// gathers of sharded parameters, since most passes of a pipeline stage find them gathered.
std::vector<std::int64_t> ends_of_calls(const program::Program& program,
                                        const engine::ClassTimes& times,
                                        const program::Template& pattern, bool sharded);

}  // namespace sim::planner
