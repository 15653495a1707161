// steadiness.h — decides which step of a replay stands for all later ones.
//
// In its first steps a job asks the driver for memory (cudaMalloc), and it may give some back
// (cudaFree waits for the device). Each call delays a CPU. A step is steady if
//   (1) the longest delays of the stages, one rank of each, add up to at most 0.1 % of the step, or
//   (2) the step has the same length and the same delays as the step before it, and its allocators
//       end with the memory that they began with: each step calls the driver in the same way. A
//       cache that grows would reach the capacity and then call it otherwise.
// For (1): every start time is a maximum of sums of durations, so a delay of d makes the step at
// most d longer. A chain of dependencies passes the stages one after another. Ranks of one stage
// allocate at the same time, so their delays do not add up; the result is also the same whether one
// rank of a class is replayed or all. Both engines use this class, after each step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/units.h"

namespace sim::engine {

class Steadiness {
 public:
  // The pipeline stage of each rank class.
  explicit Steadiness(std::vector<int> stages) : stages_(std::move(stages)) {}

  // `step`: number of the step that has ended; `length`: of the step; `delays`: by driver calls, of
  // each rank class, since the begin of the job; `reserved`: bytes of each class's allocator at the
  // end of the step. Steps must come in order.
  void end_step(int step, Duration length, std::vector<Duration> delays,
                std::vector<std::int64_t> reserved) {
    const Duration delay = in_step(delays);
    const bool small = delay.ps <= length.ps / per_mille;
    const bool repeats = step > 2 && length == length_ && delay == delay_ && reserved == reserved_;
    steady_ = step >= 2 && (small || repeats);
    before_ = std::move(delays);
    reserved_ = std::move(reserved);
    length_ = length;
    delay_ = delay;
  }
  bool steady() const { return steady_; }

 private:
  static constexpr std::int64_t per_mille = 1000;

  Duration in_step(const std::vector<Duration>& delays) const {
    std::vector<Duration> of_stage;
    for (std::size_t c = 0; c < delays.size(); ++c) {
      const auto stage = static_cast<std::size_t>(stages_[c]);
      if (of_stage.size() <= stage) of_stage.resize(stage + 1);
      const Duration own = before_.empty() ? delays[c] : delays[c] - before_[c];
      of_stage[stage] = std::max(of_stage[stage], own);
    }
    Duration all{};
    for (const Duration one : of_stage) all += one;
    return all;
  }

  std::vector<int> stages_;
  std::vector<Duration> before_;
  std::vector<std::int64_t> reserved_;
  Duration length_{}, delay_{};
  bool steady_ = false;
};

}  // namespace sim::engine
