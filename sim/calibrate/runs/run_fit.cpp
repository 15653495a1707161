#include "sim/calibrate/runs/run_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/base/in_parallel.h"
#include "sim/calibrate/fit/minimum.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

namespace {

constexpr double difference = 0.1;     // of a factor, for a derivative
constexpr double first_noise = 0.05;   // before the runs themselves tell
constexpr double least_noise = 0.015;  // two equal runs of one cluster differ by 1 to 2 %
constexpr double largest_noise = 0.15;
constexpr double furthest = 3;  // prior widths that a factor may move
constexpr int rounds = 2;       // of derivatives
constexpr std::size_t folds = 10;

using Residuals = std::vector<std::optional<double>>;

// ln(measured / predicted) of the step time; nothing if one of them is missing.
std::optional<double> residual(const input::RunsRow& row, const Prediction& prediction) {
  if (prediction.status != "predicted") return std::nullopt;
  if (const auto error = relative_error(row.cells, prediction, quantities()[throughput]))
    return std::log1p(*error);
  if (const auto error = relative_error(row.cells, prediction, quantities()[iteration_time]))
    return -std::log1p(*error);
  return std::nullopt;
}

class Replayed {
 public:
  Replayed(const std::vector<input::RunsRow>& rows, const RunsWanted& wanted)
      : rows_(rows), wanted_(wanted) {}

  // `reasons`, if wanted, gets one text for each row.
  Residuals residuals(const input::ProfileDraft& profile,
                      std::vector<std::string>* reasons = nullptr) const {
    answer::Sites sites;
    input::ProfileFile file;
    file.device = profile.device();
    file.has_communication = true;
    file.communication = profile.communication();
    file.path = wanted_.profile;
    file.text = profile.text("");
    sites.use(std::move(file));
    Residuals all;
    for (const input::RunsRow& row : rows_) {
      const Prediction prediction =
          predict(row, sites, {wanted_.machine, engine::MemoryDetail::none});
      all.push_back(residual(row, prediction));
      if (reasons == nullptr) continue;
      const bool predicted = prediction.status == "predicted";
      reasons->push_back(predicted ? "it states neither its time nor its throughput"
                                   : prediction.reason);
    }
    return all;
  }

  // J[i][k], with a row of every run.
  std::vector<std::vector<double>> derivatives(const input::ProfileDraft& base,
                                               const std::vector<Factor>& factors,
                                               const std::vector<double>& x,
                                               const Residuals& here) const {
    std::vector<Residuals> moved(factors.size());
    in_parallel(factors.size(), wanted_.threads, [&](std::size_t k) {
      std::vector<double> to = x;
      to[k] += difference;
      moved[k] = residuals(scaled(base, factors, to));
    });
    std::vector<std::vector<double>> all(rows_.size(), std::vector<double>(factors.size()));
    for (std::size_t k = 0; k < factors.size(); ++k)
      for (std::size_t i = 0; i < rows_.size(); ++i)
        if (here[i] && moved[k][i]) all[i][k] = (*here[i] - *moved[k][i]) / difference;
    return all;
  }

 private:
  const std::vector<input::RunsRow>& rows_;
  const RunsWanted& wanted_;
};

// The negative logarithm of the prior at x: how far x is from the base, in prior widths.
double prior_loss(const std::vector<Factor>& factors, const double* x) {
  double sum = 0;
  for (std::size_t k = 0; k < factors.size(); ++k)
    sum += x[k] * x[k] / (2 * factors[k].prior * factors[k].prior);
  return sum;
}

// The fit in a neighbourhood of `at`, where the residuals are `here` and their derivatives J.
struct Linear {
  const std::vector<Factor>& factors;
  std::vector<double> at, here;
  std::vector<std::vector<double>> J;

  double predicted(std::size_t i, const double* x) const {
    double r = here[i];
    for (std::size_t k = 0; k < factors.size(); ++k) r -= J[i][k] * (x[k] - at[k]);
    return r;
  }
  // The best x for the runs that `use` accepts.
  template <class Use>
  std::vector<double> best(double noise, const Use& use) const {
    std::vector<FittedParameter> bounds(factors.size());
    std::vector<double> priors;
    for (std::size_t k = 0; k < factors.size(); ++k) {
      bounds[k].lower = -furthest * factors[k].prior;
      bounds[k].upper = furthest * factors[k].prior;
      priors.push_back(factors[k].prior);
    }
    return minimise(bounds, priors, at, 20000, [&](const double* x) {
      double sum = prior_loss(factors, x);
      for (std::size_t i = 0; i < here.size(); ++i)
        if (use(i)) sum += huber_loss(predicted(i, x), noise);
      return sum;
    });
  }
};

double objective(const std::vector<Factor>& factors, const std::vector<double>& x,
                 const std::vector<double>& residuals, double noise) {
  double sum = prior_loss(factors, x.data());
  for (const double r : residuals) sum += huber_loss(r, noise);
  return sum;
}

std::vector<double> times(std::vector<double> x, double share) {
  for (double& one : x) one *= share;
  return x;
}

// Residuals of runs that the fit did not see, with each of `shares` of the factors that it found.
std::vector<std::vector<double>> held_out(const Linear& linear, double noise,
                                          const std::vector<double>& shares) {
  std::vector<std::vector<double>> all(shares.size(), std::vector<double>(linear.here.size()));
  const std::size_t runs = linear.here.size(), parts = std::min(folds, runs);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::vector<double> x =
        linear.best(noise, [&](std::size_t i) { return i % parts != part; });
    for (std::size_t s = 0; s < shares.size(); ++s) {
      const std::vector<double> taken = times(x, shares[s]);
      for (std::size_t i = part; i < runs; i += parts)
        all[s][i] = linear.predicted(i, taken.data());
    }
  }
  return all;
}

// The share of the factors that predicts unseen runs best; 1 if there are too few to tell.
double best_share(const Linear& linear, double noise) {
  constexpr std::size_t least = 4;
  if (linear.here.size() < least) return 1;
  const std::vector<double> shares = {0, 0.25, 0.5, 0.75, 1};
  double best = 1, least_sum = std::numeric_limits<double>::infinity();
  const auto unseen = held_out(linear, noise, shares);
  for (std::size_t s = 0; s < shares.size(); ++s) {
    double sum = 0;
    for (const double r : unseen[s]) sum += std::abs(r);
    if (sum > least_sum) continue;
    least_sum = sum;
    best = shares[s];
  }
  return best;
}

// Robust standard deviation around 0: the median absolute value of a normal distribution is 0.6745
// of its standard deviation.
double noise_of(std::vector<double> residuals) {
  if (residuals.size() < 4) return first_noise;
  for (double& r : residuals) r = std::abs(r);
  const auto middle = residuals.begin() + static_cast<std::ptrdiff_t>(residuals.size() / 2);
  std::nth_element(residuals.begin(), middle, residuals.end());
  return std::clamp(*middle / 0.6745, least_noise, largest_noise);
}

// Covariance of the posterior: (J^T J / noise^2 + diag(1 / prior^2))^-1.
Eigen::MatrixXd covariance(const Linear& linear, double noise) {
  const auto n = static_cast<Eigen::Index>(linear.factors.size());
  Eigen::MatrixXd information = Eigen::MatrixXd::Zero(n, n);
  for (Eigen::Index k = 0; k < n; ++k) {
    const double prior = linear.factors[static_cast<std::size_t>(k)].prior;
    information(k, k) = 1 / (prior * prior);
  }
  for (const std::vector<double>& row : linear.J) {
    const Eigen::Map<const Eigen::VectorXd> j(row.data(), n);
    information += j * j.transpose() / (noise * noise);
  }
  return information.inverse();
}

std::vector<FittedFactor> fitted_factors(const Linear& linear, const std::vector<double>& x,
                                         double noise) {
  const Eigen::MatrixXd posterior = covariance(linear, noise);
  std::vector<FittedFactor> all;
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto at = static_cast<Eigen::Index>(k);
    const double known = posterior(at, at);
    double variance = 0;
    for (const std::vector<double>& row : linear.J)
      variance += row[k] * row[k] * known / static_cast<double>(linear.J.size());
    all.push_back({linear.factors[k], x[k], std::sqrt(known), variance});
    sum += variance;
  }
  for (FittedFactor& one : all) one.share = sum > 0 ? one.share / sum : 0;
  return all;
}

// The runs that can be compared; the others go to `out`.
std::vector<input::RunsRow> usable(const std::vector<input::RunsRow>& rows,
                                   const input::ProfileDraft& base, const RunsWanted& wanted,
                                   std::vector<LeftOut>& out) {
  std::vector<std::string> reasons;
  const Residuals all = Replayed(rows, wanted).residuals(base, &reasons);
  std::vector<input::RunsRow> found;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (all[i])
      found.push_back(rows[i]);
    else
      out.push_back({rows[i].text("row_id"), reasons[i]});
  }
  return found;
}

std::vector<double> values(const Residuals& all) {
  std::vector<double> some;
  for (const std::optional<double>& one : all) some.push_back(one.value_or(0));
  return some;
}

// Moves from linear.at towards `to` until the replayed objective falls; updates linear.
void step(const Replayed& replayed, const input::ProfileDraft& base, Linear& linear,
          const std::vector<double>& to, double noise) {
  const double before = objective(linear.factors, linear.at, linear.here, noise);
  for (double part = 1; part > 0.2; part /= 2) {
    std::vector<double> x = linear.at;
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += part * (to[k] - linear.at[k]);
    const std::vector<double> there = values(replayed.residuals(scaled(base, linear.factors, x)));
    if (objective(linear.factors, x, there, noise) > before) continue;
    linear.at = x;
    linear.here = there;
    return;
  }
}

}  // namespace

Result<RunFit> fit_runs(const std::vector<input::RunsRow>& rows, const std::vector<Factor>& factors,
                        const RunsWanted& wanted) {
  const Result<input::ProfileDraft> loaded = input::ProfileDraft::load(wanted.profile);
  if (!loaded) return loaded.errors();
  input::ProfileDraft base = *loaded;
  if (!wanted.communication.empty()) {
    const Result<input::ProfileDraft> other = input::ProfileDraft::load(wanted.communication);
    if (!other) return other.errors();
    base.take_communication(*other);
  }
  RunFit out{{}, {}, {}, first_noise, 1, base};
  const std::vector<input::RunsRow> runs = usable(rows, base, wanted, out.left_out);
  if (runs.empty()) {
    Diagnostics problems;
    for (const LeftOut& one : out.left_out) problems.push_back({one.row_id, one.reason});
    return problems;
  }
  const std::vector<Factor> moved = factors_of(factors, base);
  const Replayed replayed(runs, wanted);
  Linear linear{moved, std::vector<double>(moved.size()), values(replayed.residuals(base)), {}};
  const std::vector<double> before = linear.here;
  const auto all = [](std::size_t) { return true; };
  for (int round = 0; round < rounds; ++round) {
    linear.J = replayed.derivatives(base, moved, linear.at,
                                    Residuals(linear.here.begin(), linear.here.end()));
    out.noise = noise_of(held_out(linear, out.noise, {1}).front());
    out.share = best_share(linear, out.noise);
    step(replayed, base, linear, times(linear.best(out.noise, all), out.share), out.noise);
  }
  const std::vector<double> unseen = held_out(linear, out.noise, {out.share}).front();
  for (std::size_t i = 0; i < runs.size(); ++i)
    out.runs.push_back({runs[i].text("row_id"), before[i], linear.here[i], unseen[i], linear.J[i]});
  out.factors = fitted_factors(linear, linear.at, out.noise);
  out.profile = scaled(base, moved, linear.at);
  return out;
}

RunErrors run_errors(const std::vector<FittedRun>& runs, double FittedRun::*residual) {
  std::vector<double> all;
  RunErrors errors;
  for (const FittedRun& run : runs) {
    all.push_back(100 * std::abs(std::exp(run.*residual) - 1));
    errors.mean += all.back() / static_cast<double>(runs.size());
  }
  std::ranges::sort(all);
  const std::size_t n = all.size();
  if (n > 0) errors.median = n % 2 == 1 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
  return errors;
}

std::vector<std::string> doubts(const RunFit& fit) {
  constexpr double too_far = 25;  // percent
  std::vector<std::string> all;
  const RunErrors before = run_errors(fit.runs, &FittedRun::before);
  const RunErrors after = run_errors(fit.runs, &FittedRun::after);
  const RunErrors unseen = run_errors(fit.runs, &FittedRun::held_out);
  if (after.median > too_far)
    all.push_back(
        fmt::format("the runs still differ by {:.0f} % after the fit: a unit, the model or "
                    "a setting is probably not what ran",
                    after.median));
  if (fit.runs.size() > 1 && unseen.mean > before.mean + 0.5)
    all.push_back(
        fmt::format("runs that the fit did not see are predicted worse than before: "
                    "{:.1f} % against {:.1f} %",
                    unseen.mean, before.mean));
  for (const FittedFactor& one : fit.factors)
    if (std::abs(one.x) >= 0.999 * furthest * one.factor.prior)
      all.push_back(fmt::format("{} ended at its bound, {:.2f} times the time of the profile",
                                one.factor.name, std::exp(one.x)));
  return all;
}

}  // namespace sim::calibrate
