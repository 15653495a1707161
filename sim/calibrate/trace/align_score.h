// align_score.h — what it is worth to give an operation the kernels that follow each other.
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

constexpr std::int32_t skip_operation = 3;

class Score {
 public:
  Score(std::span<const AlignItem> operations, std::span<const AlignItem> kernels);

  static constexpr std::int32_t impossible = -(1 << 30);

  // Of operation i with kernels [j, j + g), 1 <= g <= longest_group; `impossible` where they cannot
  // be its.
  std::int32_t group(std::size_t i, std::size_t j, std::size_t g) const {
    const std::int8_t families = (*of_families_[i])[j * longest_group + g - 1];
    if (families == none) return impossible;
    if (!timed_[i]) return families;
    const std::int32_t apart = std::abs(long_[i] - sums_[j * longest_group + g - 1]);
    return families + std::max(least_for_time, most_for_time - apart);
  }

  // Of leaving kernels [from, to) to nobody.
  std::int32_t skip_kernels(std::size_t from, std::size_t to) const {
    return skips_[to] - skips_[from];
  }

 private:
  static constexpr std::int8_t none = -128;
  // Less 1 for every factor of 2^(1/4): beyond a factor of 32 an operation and a kernel of its own
  // family are better left alone.
  static constexpr std::int32_t most_for_time = 4, least_for_time = -18;

  using Kind = std::pair<KernelFamily, Purposes>;
  std::vector<std::int8_t> of_kind(const Kind& kind, std::span<const AlignItem> kernels) const;

  std::map<Kind, std::vector<std::int8_t>> families_;         // of each group of kernels
  std::vector<const std::vector<std::int8_t>*> of_families_;  // of operations
  std::vector<bool> timed_;             // of operations: how long they take says something
  std::vector<std::int16_t> long_;      // of operations: quarters of octaves
  std::vector<std::int16_t> sums_;      // of groups of kernels: the same
  std::vector<std::int32_t> skips_{0};  // of the first kernels: what leaving them all costs
};

}  // namespace sim::calibrate
