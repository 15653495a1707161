// align_score.h — scores of assigning consecutive kernels to an operation, or of leaving them out.
// Used by align.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/calibrate/trace/align.h"

namespace sim::calibrate {

constexpr std::int32_t skip_operation = 3;  // cost of an operation without kernels

class Score {
 public:
  Score(std::span<const AlignItem> operations, std::span<const AlignItem> kernels);

  static constexpr std::int32_t impossible = -(1 << 30);

  // Score of operation i with kernels [j, j + g), 1 <= g <= longest_group; `impossible` if they
  // cannot belong to it.
  std::int32_t group(std::size_t i, std::size_t j, std::size_t g) const {
    const std::int8_t families = (*of_families_[i])[j * longest_group + g - 1];
    if (families == none) return impossible;
    if (!timed_[i]) return families;
    const std::int32_t apart = std::abs(long_[i] - sums_[j * longest_group + g - 1]);
    return families + std::max(least_for_time, most_for_time - apart);
  }

  // Cost of leaving kernels [from, to) without an operation.
  std::int32_t skip_kernels(std::size_t from, std::size_t to) const {
    return skips_[to] - skips_[from];
  }

 private:
  static constexpr std::int8_t none = -128;
  // The score falls by 1 per factor of 2^(1/4) between durations. Beyond a factor of 32, leaving
  // operation and kernel apart scores higher.
  static constexpr std::int32_t most_for_time = 4, least_for_time = -18;

  using Kind = std::pair<KernelFamily, Purposes>;
  std::vector<std::int8_t> of_kind(const Kind& kind, std::span<const AlignItem> kernels) const;

  std::map<Kind, std::vector<std::int8_t>> families_;         // for each group of kernels
  std::vector<const std::vector<std::int8_t>*> of_families_;  // for each operation
  std::vector<bool> timed_;             // for each operation: whether its duration counts
  std::vector<std::int16_t> long_;      // for each operation: log2 of its duration, in quarters
  std::vector<std::int16_t> sums_;      // for each group of kernels: the same
  std::vector<std::int32_t> skips_{0};  // prefix sums of the costs of leaving kernels out
};

}  // namespace sim::calibrate
