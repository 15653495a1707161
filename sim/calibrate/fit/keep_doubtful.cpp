// keep_doubtful.cpp — the blocks of a fit that are in doubt keep the values of the base.
// calibrate() calls it after the fits, unless the user insists on them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/text.h"
#include "sim/calibrate/fit/fit.h"

namespace sim::calibrate {

namespace {

constexpr double worse_by = 0.5;         // percentage points, on unseen measurements
constexpr double largest_residual = 25;  // percent
constexpr std::size_t least_shapes = 5;

std::string worse_on_unseen(const Fit& fit, const std::string& block) {
  for (const Fit::Unseen& u : fit.unseen)
    if (u.block == block && u.of_one_source && u.percent > u.base_percent + worse_by)
      return fmt::format(
          "measurements that the fit did not see ({}) are predicted worse than before: {:.1f} % "
          "against {:.1f} %",
          u.split, u.percent, u.base_percent);
  return "";
}

std::string far_off(const Fit& fit, const std::string& block) {
  double sum = 0, samples = 0;
  for (const SourceResidual& r : fit.residuals)
    if (r.block == block) {
      sum += r.mean_absolute_percent * static_cast<double>(r.samples);
      samples += static_cast<double>(r.samples);
    }
  if (samples == 0 || sum / samples <= largest_residual) return "";
  return fmt::format(
      "measurements still differ by {:.0f} % after the fit; check the unit, the GPU and the shapes",
      sum / samples);
}

std::string at_bound(const Fit& fit, const std::string& block) {
  for (const FittedParameter& p : fit.parameters)
    if (p.block == block && p.rate && p.at_bound() && p.value != p.base)
      return fmt::format("{} ended at its bound {:.4g}; check the unit and the GPU", p.path,
                         p.value);
  return "";
}

bool moved(const FittedParameter& p) {
  return p.fitted && std::abs(p.value - p.base) > 1e-3 * std::max(std::abs(p.base), 1e-12);
}

// Tables of kernels are of short runs (fit.cpp). In a loop of seconds the clock falls, which a
// profile counts apart.
std::string measured_warm(const Fit& fit, const std::string& block) {
  constexpr double least_fall = 0.05, near = 0.06;
  if (block != "gemm" || fit.profile.paths("gemm.sustained").empty()) return "";
  const double sustained = fit.profile.get("gemm.sustained");
  if (sustained > 1 - least_fall) return "";
  for (const FittedParameter& p : fit.parameters)
    if (p.path.starts_with("gemm.peaks") && moved(p) &&
        std::abs(p.value / p.base / sustained - 1) < near)
      return fmt::format(
          "{} fell to {:.2f} of its value, as clocks do in long runs, which gemm.sustained {:.2f} "
          "counts once more; measure products in loops of milliseconds",
          p.path, p.value / p.base, sustained);
  return "";
}

std::string too_few(const Fit& fit, const std::string& block) {
  const auto of_tables = fit.shapes_of_tables.find(block);
  if (of_tables != fit.shapes_of_tables.end() && of_tables->second < least_shapes)
    return fmt::format("only {} measured, and a fit needs {}",
                       counted(static_cast<std::int64_t>(of_tables->second), "distinct shape"),
                       least_shapes);
  const auto changed = std::ranges::count_if(
      fit.parameters, [&](const FittedParameter& p) { return p.block == block && moved(p); });
  const auto shapes = fit.shapes.find(block);
  if (shapes == fit.shapes.end() || static_cast<std::size_t>(changed) <= shapes->second) return "";
  return fmt::format("{} moved by {}", counted(changed, "parameter"),
                     counted(static_cast<std::int64_t>(shapes->second), "distinct shape"));
}

}  // namespace

void keep_doubtful(const input::ProfileDraft& base, Fit& fit) {
  std::set<std::string> blocks;
  for (const FittedParameter& p : fit.parameters)
    if (moved(p) && p.block != "fields") blocks.insert(p.block);
  for (const std::string& block : blocks) {
    std::string reason;
    for (const auto& doubt : {too_few, far_off, at_bound, measured_warm, worse_on_unseen})
      if (reason.empty()) reason = doubt(fit, block);
    if (reason.empty()) continue;
    fit.kept.push_back({block, reason});
    for (FittedParameter& p : fit.parameters) {
      if (p.block != block) continue;
      p.fitted = false;
      p.value = base.get(p.path);
      fit.profile.set(p.path, p.value);
    }
  }
}

}  // namespace sim::calibrate
