#include "sim/calibrate/runs/next_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/in_parallel.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

namespace {

constexpr double direct_noise = 0.03;  // of a factor that is measured by itself
constexpr double moved_for_derivative = 0.1;
constexpr std::size_t most_listed = 5;
constexpr double least_reduction = 0.02;

struct Candidate {
  std::string what;
  Eigen::VectorXd sensitivity;
  double noise = 0;
};

// A run like `from` with other settings, "one run with tp 8".
struct Variant {
  std::string what;
  input::RunsRow row;
};

// `columns`: cells that change. Nothing if the run has these values already.
std::optional<Variant> variant_of(const input::RunsRow& from,
                                  const std::map<std::string, std::string>& columns) {
  Variant made{"one run with ", from};
  bool changed = false;
  for (const auto& [column, text] : columns) {
    if (cell(from.cells, column) != text) changed = true;
    made.what += fmt::format("{}{} {}", made.what.ends_with("with ") ? "" : " and ", column, text);
    made.row.cells[column] = text;
  }
  made.row.cells["dp"] = "";  // what the other degrees leave
  made.row.cells["n_microbatch"] = "";
  if (!changed) return std::nullopt;
  return made;
}

std::vector<Variant> variants_of(const input::RunsRow& from) {
  std::vector<Variant> all;
  const auto add = [&](const std::map<std::string, std::string>& columns) {
    if (const auto one = variant_of(from, columns)) all.push_back(*one);
  };
  for (const char* tp : {"1", "4", "8"}) add({{"tp", tp}});
  for (const char* pp : {"1", "4"}) add({{"pp", pp}});
  const auto times = [&](const char* column, double factor) {
    if (const auto value = number(cell(from.cells, column)); value && *value * factor >= 1)
      add({{column, fmt::format("{:.0f}", *value * factor)}});
  };
  times("seq", 2);
  times("mbs", 2);
  times("gbs", 0.25);
  return all;
}

// Seconds of the step of a row with a profile; nothing if it cannot run.
std::optional<double> seconds_with(const input::RunsRow& row, const input::ProfileDraft& profile,
                                   const RunsToFit& runs) {
  answer::Sites sites;
  sites.use(profile_file(profile, runs.profile));
  const Prediction prediction = predict(row, sites, {runs.machine, engine::MemoryDetail::none});
  if (prediction.status != "predicted") return std::nullopt;
  return prediction.iter_time_s;
}

std::optional<Candidate> candidate_of(const Variant& variant, const RunsToFit& runs,
                                      const RunFit& fit, const std::vector<Factor>& factors) {
  const auto here = seconds_with(variant.row, fit.profile, runs);
  if (!here) return std::nullopt;
  Candidate made{variant.what, Eigen::VectorXd(static_cast<Eigen::Index>(factors.size())),
                 fit.noise};
  for (std::size_t k = 0; k < factors.size(); ++k) {
    std::vector<double> x(factors.size());
    x[k] = moved_for_derivative;
    const auto moved = seconds_with(variant.row, scaled(fit.profile, factors, x), runs);
    made.sensitivity(static_cast<Eigen::Index>(k)) =
        moved ? std::log(*moved / *here) / moved_for_derivative : 0;
  }
  return made;
}

// The mean over the runs of the variance that the candidate takes away, of all that is there.
double reduction_by(const Candidate& candidate, const RunFit& fit,
                    const Eigen::MatrixXd& posterior) {
  double taken = 0, all = 0;
  const Eigen::VectorXd towards = posterior * candidate.sensitivity;
  const double own = candidate.sensitivity.dot(towards) + candidate.noise * candidate.noise;
  for (const FittedRun& run : fit.runs) {
    const Eigen::Map<const Eigen::VectorXd> j(run.sensitivity.data(), posterior.rows());
    taken += std::pow(j.dot(towards), 2) / own;
    all += j.dot(posterior * j);
  }
  return all > 0 ? taken / all : 0;
}

}  // namespace

std::vector<NextMeasurement> next_measurements(const RunsToFit& runs, const RunFit& fit,
                                               const Eigen::MatrixXd& posterior) {
  std::vector<Factor> factors;
  for (const FittedFactor& one : fit.factors) factors.push_back(one.factor);
  std::vector<Candidate> candidates;
  for (std::size_t k = 0; k < factors.size(); ++k)
    candidates.push_back({factors[k].measure,
                          Eigen::VectorXd::Unit(static_cast<Eigen::Index>(factors.size()),
                                                static_cast<Eigen::Index>(k)),
                          direct_noise});
  if (!runs.rows.empty()) {
    const std::vector<Variant> variants = variants_of(runs.rows.front());
    std::vector<std::optional<Candidate>> made(variants.size());
    in_parallel(variants.size(), runs.threads,
                [&](std::size_t i) { made[i] = candidate_of(variants[i], runs, fit, factors); });
    for (const auto& one : made)
      if (one) candidates.push_back(*one);
  }
  std::vector<NextMeasurement> all;
  for (const Candidate& candidate : candidates)
    all.push_back({candidate.what, reduction_by(candidate, fit, posterior)});
  std::ranges::stable_sort(all, std::greater<>(), &NextMeasurement::reduction);
  std::erase_if(all, [](const NextMeasurement& one) { return one.reduction < least_reduction; });
  std::set<std::string> named;  // several factors may ask for the same measurement
  std::erase_if(all, [&](const NextMeasurement& one) { return !named.insert(one.what).second; });
  if (all.size() > most_listed) all.resize(most_listed);
  return all;
}

}  // namespace sim::calibrate
