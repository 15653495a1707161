#include "sim/study/campaign/ensemble.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>

#include "sim/base/in_parallel.h"

namespace sim::campaign {
namespace {

// Least squares with four coefficients: solves the normal equations by elimination with the largest
// pivot.
std::array<double, 4> least_squares(const std::vector<std::array<double, 4>>& rows,
                                    const std::vector<double>& values) {
  std::array<std::array<double, 5>, 4> m{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) m[i][j] += rows[r][i] * rows[r][j];
      m[i][4] += rows[r][i] * values[r];
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < 4; ++r)
      if (std::abs(m[r][i]) > std::abs(m[pivot][i])) pivot = r;
    std::swap(m[i], m[pivot]);
    if (m[i][i] == 0) continue;
    for (std::size_t r = 0; r < 4; ++r) {
      if (r == i) continue;
      const double factor = m[r][i] / m[i][i];
      for (std::size_t c = i; c < 5; ++c) m[r][c] -= factor * m[i][c];
    }
  }
  std::array<double, 4> solution{};
  for (std::size_t i = 0; i < 4; ++i) solution[i] = m[i][i] == 0 ? 0 : m[i][4] / m[i][i];
  return solution;
}

}  // namespace

Statistic statistic(std::vector<double> values) {
  Statistic s;
  if (values.empty()) return s;
  const double n = static_cast<double>(values.size());
  for (const double value : values) s.mean += value / n;
  double squares = 0;
  for (const double value : values) squares += (value - s.mean) * (value - s.mean);
  if (values.size() > 1) s.standard_error = std::sqrt(squares / (n - 1) / n);
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(std::llround(share * (n - 1)))];
  };
  s.low = at(0.05);
  s.middle = at(0.5);
  s.high = at(0.95);
  return s;
}

std::vector<Outcome> simulate_all(const Spec& spec, std::uint64_t first, int seeds, int threads,
                                  const std::function<bool()>& go_on) {
  assert(seeds >= 1 && threads >= 1);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(seeds));
  std::atomic<bool> stopped = false;
  in_parallel(outcomes.size(), threads, [&](std::size_t i) {
    if (stopped) return;
    if (go_on && !go_on()) stopped = true;
    outcomes[i] = simulate(spec, first + i);
  });
  if (stopped) outcomes.clear();
  return outcomes;
}

double goodput(const Outcome& outcome) {
  return outcome.wall.ns > 0 ? seconds(outcome.kept.wall) / seconds(outcome.wall) : 0;
}

double effective(const Outcome& outcome) {
  return outcome.wall.ns > 0 ? seconds(outcome.kept.ideal) / seconds(outcome.wall) : 0;
}

Optimum simulated_optimum(Spec spec, double near, double least, std::uint64_t first, int seeds,
                          int threads, const std::function<bool()>& go_on) {
  constexpr int points = 13;
  Optimum best;
  std::vector<std::array<double, 4>> rows;
  std::vector<double> values;
  for (int i = 0; i < points; ++i) {
    // From one third to three times the expected optimum.
    const double interval = std::max(least, near * std::pow(3.0, (i - 6) / 6.0));
    if (!best.points.empty() && best.points.back().interval == interval) continue;
    spec.tiers.back().interval = span(interval);
    std::vector<double> shares;
    for (const Outcome& outcome : simulate_all(spec, first, seeds, threads, go_on))
      shares.push_back(effective(outcome));
    if (shares.empty()) return {};
    const Statistic s = statistic(shares);
    best.points.push_back({interval, s.mean, s.standard_error});
    const double x = interval / near;
    rows.push_back({1 / x, 1, x, x * x});
    values.push_back(s.mean > 0 ? 1 / s.mean : 1e9);
  }
  const auto highest = std::ranges::max_element(best.points, {}, &Optimum::Point::goodput);
  best.interval = highest->interval;
  if (best.points.size() < 6 || highest->goodput <= 0) return best;
  const std::array<double, 4> fit = least_squares(rows, values);
  double lowest = 1e300;
  const double from = best.points.front().interval / near, to = best.points.back().interval / near;
  for (int i = 0; i <= 2000; ++i) {
    const double x = from * std::pow(to / from, i / 2000.0);
    const double overhead = fit[0] / x + fit[1] + fit[2] * x + fit[3] * x * x;
    if (overhead < lowest) {
      lowest = overhead;
      best.interval = x * near;
    }
  }
  return best;
}

}  // namespace sim::campaign
