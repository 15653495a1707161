#include "sim/calibrate/trace/align.h"

#include <algorithm>

#include "sim/calibrate/trace/align_score.h"

namespace sim::calibrate {

namespace {

constexpr std::int32_t never = -(1 << 29);
constexpr std::size_t first_band = 384;
constexpr std::size_t small_cells = 1 << 20;  // smaller problems keep the whole table

// Families with one kernel per operation in programs and in traces: they mark the diagonal.
bool anchors(KernelFamily family) {
  return family == KernelFamily::gemm || family == KernelFamily::attention_forward ||
         family == KernelFamily::attention_backward || communicates(family);
}

// For each number of completed operations: the expected number of completed kernels.
std::vector<std::size_t> diagonal(std::span<const AlignItem> a, std::span<const AlignItem> b) {
  const auto count = [](std::span<const AlignItem> items) {
    return static_cast<std::size_t>(std::count_if(
        items.begin(), items.end(), [](const AlignItem& i) { return anchors(i.family); }));
  };
  const std::size_t ours = count(a), theirs = count(b);
  std::vector<std::size_t> centre(a.size() + 1);
  std::size_t seen = 0, j = 0, passed = 0;
  for (std::size_t i = 0; i <= a.size(); ++i) {
    if (ours == 0 || theirs == 0) {
      centre[i] = a.empty() ? b.size() : i * b.size() / a.size();
    } else {
      const std::size_t target = seen * theirs / ours;
      while (j < b.size() && passed < target) passed += anchors(b[j++].family);
      centre[i] = j;
    }
    if (i < a.size()) seen += anchors(a[i].family);
  }
  centre.front() = 0;
  centre.back() = b.size();
  return centre;
}

class Solver {
 public:
  Solver(std::span<const AlignItem> operations, std::span<const AlignItem> kernels,
         const std::vector<std::size_t>& centre, std::size_t width)
      : score_(operations, kernels), owners_(kernels.size(), -1) {
    const std::size_t n = operations.size(), m = kernels.size();
    for (std::size_t i = 0; i <= n; ++i) {
      // The bands of consecutive rows overlap, even if the centre jumps.
      const std::size_t before = i == 0 ? 0 : centre[i - 1], after = i == n ? m : centre[i + 1];
      low_.push_back(std::min(before, centre[i]) > width ? std::min(before, centre[i]) - width : 0);
      high_.push_back(std::min(m, std::max(after, centre[i]) + width));
    }
    solve(0, n, 0, m);
  }

  std::vector<std::int32_t> take() { return std::move(owners_); }
  bool touched() const { return touched_; }

 private:
  using Row = std::vector<std::int32_t>;

  // The part of row i inside both the band and the rectangle.
  std::size_t from(std::size_t i, std::size_t j0) const { return std::max(j0, low_[i]); }
  std::size_t to(std::size_t i, std::size_t j1) const { return std::min(j1, high_[i]); }

  // The best score of all paths from (i0, j0) to each cell of row i1; indices are j - j0.
  Row forward(std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) const {
    Row now(j1 - j0 + 1, never), next = now;
    for (std::size_t j = j0; j <= to(i0, j1); ++j) now[j - j0] = -score_.skip_kernels(j0, j);
    for (std::size_t i = i0; i < i1; ++i) {
      for (std::size_t j = from(i + 1, j0); j <= to(i + 1, j1); ++j) {
        std::int32_t best = now[j - j0] - skip_operation;
        if (j > j0) best = std::max(best, next[j - j0 - 1] - score_.skip_kernels(j - 1, j));
        for (std::size_t g = 1; g <= longest_group && g <= j - j0; ++g) {
          if (now[j - g - j0] <= never / 2) continue;
          const std::int32_t gain = score_.group(i, j - g, g);
          if (gain > never) best = std::max(best, now[j - g - j0] + gain);
        }
        next[j - j0] = std::max(best, never);
      }
      forget(now, i, j0, j1);
      now.swap(next);
    }
    return now;
  }

  // The best score of all paths from each cell of row i0 to (i1, j1).
  Row backward(std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) const {
    Row now(j1 - j0 + 1, never), next = now;
    for (std::size_t j = from(i1, j0); j <= j1; ++j) now[j - j0] = -score_.skip_kernels(j, j1);
    for (std::size_t i = i1; i-- > i0;) {
      for (std::size_t j = to(i, j1) + 1; j-- > from(i, j0);) {
        std::int32_t best = now[j - j0] - skip_operation;
        if (j < j1) best = std::max(best, next[j - j0 + 1] - score_.skip_kernels(j, j + 1));
        for (std::size_t g = 1; g <= longest_group && g <= j1 - j; ++g) {
          if (now[j + g - j0] <= never / 2) continue;
          const std::int32_t gain = score_.group(i, j, g);
          if (gain > never) best = std::max(best, now[j + g - j0] + gain);
        }
        next[j - j0] = std::max(best, never);
      }
      forget(now, i + 1, j0, j1);
      now.swap(next);
    }
    return now;
  }

  // Clears only the cells of row i inside the band, since a row is much longer.
  void forget(Row& row, std::size_t i, std::size_t j0, std::size_t j1) const {
    for (std::size_t j = from(i, j0); j <= to(i, j1); ++j) row[j - j0] = never;
  }

  void solve(std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
    if (i0 == i1 || j0 == j1) return;
    const std::size_t mid = (i0 + i1) / 2;
    if (mid == i0 || (i1 - i0 + 1) * (j1 - j0 + 1) <= small_cells) {
      solve_whole(i0, i1, j0, j1);
      return;
    }
    const Row before = forward(i0, mid, j0, j1), behind = backward(mid, i1, j0, j1);
    std::size_t best = 0;
    std::int32_t most = 2 * never;
    for (std::size_t k = 0; k < before.size(); ++k)
      if (before[k] + behind[k] > most) {
        most = before[k] + behind[k];
        best = k;
      }
    const std::size_t j = j0 + best;
    if ((j == low_[mid] && j > 0) || (j == high_[mid] && j < owners_.size())) touched_ = true;
    solve(i0, mid, j0, j);
    solve(mid, i1, j, j1);
  }

  // Solves a small rectangle with a stored table: for each cell the step that led to its best
  // score.
  void solve_whole(std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
    constexpr std::uint8_t by_operation = 101, by_kernel = 102;
    const std::size_t width = j1 - j0 + 1;
    std::vector<std::uint8_t> came((i1 - i0 + 1) * width, by_kernel);
    Row now(width, never), next;
    for (std::size_t k = 0; k < width; ++k) now[k] = -score_.skip_kernels(j0, j0 + k);
    for (std::size_t i = i0; i < i1; ++i) {
      next.assign(width, never);
      std::uint8_t* row = came.data() + (i + 1 - i0) * width;
      for (std::size_t k = 0; k < width; ++k) {
        std::int32_t best = never;
        const auto take = [&](std::int32_t value, std::uint8_t how) {
          if (value <= best) return;
          best = value;
          row[k] = how;
        };
        if (k > 0) take(next[k - 1] - score_.skip_kernels(j0 + k - 1, j0 + k), by_kernel);
        for (std::size_t g = 1; g <= longest_group && g <= k; ++g) {
          const std::int32_t gain = score_.group(i, j0 + k - g, g);
          if (gain > never) take(now[k - g] + gain, static_cast<std::uint8_t>(g));
        }
        take(now[k] - skip_operation, by_operation);
        next[k] = best;
      }
      now.swap(next);
    }
    std::size_t i = i1, k = j1 - j0;
    while (i > i0 || k > 0) {
      const std::uint8_t how = came[(i - i0) * width + k];
      if (how == by_kernel) {
        --k;
      } else if (how == by_operation) {
        --i;
      } else {
        --i;
        for (std::uint8_t g = 0; g < how; ++g) owners_[j0 + --k] = static_cast<std::int32_t>(i);
      }
    }
  }

  Score score_;
  std::vector<std::size_t> low_, high_;
  std::vector<std::int32_t> owners_;
  bool touched_ = false;
};

}  // namespace

std::vector<std::int32_t> align(std::span<const AlignItem> operations,
                                std::span<const AlignItem> kernels) {
  if (operations.empty() || kernels.empty()) return std::vector<std::int32_t>(kernels.size(), -1);
  const std::vector<std::size_t> centre = diagonal(operations, kernels);
  for (std::size_t width = first_band;; width *= 2) {
    Solver solver(operations, kernels, centre, width);
    if (!solver.touched() || width > kernels.size()) return solver.take();
  }
}

std::int64_t alignment_score(std::span<const AlignItem> operations,
                             std::span<const AlignItem> kernels,
                             std::span<const std::int32_t> owners) {
  const Score score(operations, kernels);
  std::int64_t sum = 0;
  std::size_t used = 0;
  for (std::size_t j = 0; j < owners.size();) {
    if (owners[j] < 0) {
      sum -= score.skip_kernels(j, j + 1);
      ++j;
      continue;
    }
    std::size_t g = 1;
    while (j + g < owners.size() && owners[j + g] == owners[j]) ++g;
    sum += score.group(static_cast<std::size_t>(owners[j]), j, g);
    ++used;
    j += g;
  }
  return sum - skip_operation * static_cast<std::int64_t>(operations.size() - used);
}

}  // namespace sim::calibrate
