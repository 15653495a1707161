#include "sim/calibrate/runs/run_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/in_parallel.h"
#include "sim/base/median.h"
#include "sim/calibrate/fit/minimum.h"
#include "sim/calibrate/runs/best_share.h"
#include "sim/calibrate/runs/next_measurement.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

namespace {

constexpr double difference = 0.1;     // of a factor, for a derivative
constexpr double first_noise = 0.05;   // before the runs themselves tell
constexpr double least_noise = 0.015;  // two equal runs of one cluster differ by 1 to 2 %
constexpr double largest_noise = 0.15;
constexpr int rounds = 2;  // of derivatives

using Residuals = std::vector<std::optional<double>>;

// The runs of a fit, replayed with any profile: rows of tables first, then steps of logs.
class Replayed {
 public:
  explicit Replayed(const RunsToFit& runs) : runs_(runs) {}

  std::size_t size() const { return runs_.rows.size() + runs_.logs.size(); }
  std::string id(std::size_t run) const {
    const std::size_t rows = runs_.rows.size();
    return run < rows ? runs_.rows[run].text("row_id") : runs_.logs[run - rows].id;
  }

  // ln(measured / predicted) of each step time. `reasons`, if wanted, gets one text for each run.
  Residuals residuals(const input::ProfileDraft& profile,
                      std::vector<std::string>* reasons = nullptr) const {
    answer::Sites sites;
    sites.use(profile_file(profile, runs_.profile));
    Residuals all;
    for (const input::RunsRow& row : runs_.rows) {
      const Prediction prediction =
          predict(row, sites, {runs_.machine, engine::MemoryDetail::none});
      all.push_back(time_residual(row.cells, prediction));
      if (reasons == nullptr) continue;
      const bool predicted = prediction.status == "predicted";
      reasons->push_back(predicted ? "it states neither its time nor its throughput"
                                   : prediction.reason);
    }
    for (const StepsOfPlan& log : runs_.logs) {
      std::string reason;
      const std::optional<double> seconds = seconds_of(log, sites, reason);
      all.push_back(seconds ? std::optional<double>(std::log(log.seconds / *seconds))
                            : std::nullopt);
      if (reasons != nullptr) reasons->push_back(reason);
    }
    return all;
  }

  // J[i][k], with a row of every run.
  std::vector<std::vector<double>> derivatives(const input::ProfileDraft& base,
                                               const std::vector<Factor>& factors,
                                               const std::vector<double>& x,
                                               const Residuals& here) const {
    std::vector<Residuals> moved(factors.size());
    in_parallel(factors.size(), runs_.threads, [&](std::size_t k) {
      std::vector<double> to = x;
      to[k] += difference;
      moved[k] = residuals(scaled(base, factors, to));
    });
    std::vector<std::vector<double>> all(size(), std::vector<double>(factors.size()));
    for (std::size_t k = 0; k < factors.size(); ++k)
      for (std::size_t i = 0; i < size(); ++i)
        if (here[i] && moved[k][i]) all[i][k] = (*here[i] - *moved[k][i]) / difference;
    return all;
  }

 private:
  static std::optional<double> seconds_of(const StepsOfPlan& log, answer::Sites& sites,
                                          std::string& reason) {
    const Result<answer::Site*> site = sites.of(log.machine);
    const Result<answer::CheckedPlan> plan =
        site ? answer::check(log.plan, **site) : Result<answer::CheckedPlan>(site.errors());
    if (!plan) {
      reason = fmt::format("{}", fmt::join(messages(plan.errors()), "; "));
      return std::nullopt;
    }
    return answer::step_seconds(answer::evaluate(*plan, {.memory = engine::MemoryDetail::none}));
  }

  const RunsToFit& runs_;
};

// Peaks of memory of the rows that state them, against a replay with the allocator.
void compare_memory(const RunsToFit& runs, RunFit& fit) {
  using input::ResidualOf;
  answer::Sites sites;
  sites.use(profile_file(fit.profile, runs.profile));
  const auto& all = quantities();
  for (const input::RunsRow& row : runs.rows) {
    if (!measured(row.cells, all[reserved]) && !measured(row.cells, all[allocated])) continue;
    const Prediction found = predict(row, sites, {runs.machine, engine::MemoryDetail::exact});
    if (const auto r = residual_of(row.cells, found, ResidualOf::reserved))
      fit.reserved.push_back(*r);
    if (const auto r = residual_of(row.cells, found, ResidualOf::allocated))
      fit.allocated.push_back(*r);
  }
}

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
      bounds[k].lower = -furthest_move * factors[k].prior;
      bounds[k].upper = furthest_move * factors[k].prior;
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

// The runs of one fold, predicted by a fit to the others.
std::vector<UnseenRun> unseen_fold(const Linear& linear, double noise, std::size_t fold) {
  const std::size_t runs = linear.here.size(), parts = folds_of(runs);
  const std::vector<double> x =
      linear.best(noise, [&](std::size_t i) { return i % parts != fold; });
  const std::vector<double> base(x.size());
  std::vector<UnseenRun> unseen;
  for (std::size_t i = fold; i < runs; i += parts) {
    const double residual = linear.predicted(i, base.data());
    unseen.push_back({residual, residual - linear.predicted(i, x.data())});
  }
  return unseen;
}

// Residuals of runs that the fit did not see, with a share of the factors that it found.
std::vector<double> held_out(const Linear& linear, double noise, double share) {
  const std::size_t runs = linear.here.size(), parts = folds_of(runs);
  std::vector<double> all(runs);
  for (std::size_t fold = 0; fold < parts; ++fold) {
    const std::vector<UnseenRun> unseen = unseen_fold(linear, noise, fold);
    for (std::size_t n = 0; n < unseen.size(); ++n)
      all[fold + n * parts] = unseen[n].residual - share * unseen[n].shift;
  }
  return all;
}

// Robust standard deviation around 0: the median absolute value of a normal distribution is 0.6745
// of its standard deviation.
double noise_of(std::vector<double> residuals) {
  if (residuals.size() < 4) return first_noise;
  for (double& r : residuals) r = std::abs(r);
  return std::clamp(median(std::move(residuals)) / 0.6745, least_noise, largest_noise);
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
                                         const Eigen::MatrixXd& posterior) {
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
RunsToFit usable(const RunsToFit& all, std::vector<LeftOut>& out) {
  std::vector<std::string> reasons;
  const Replayed replayed(all);
  const Residuals residuals = replayed.residuals(all.base, &reasons);
  RunsToFit found = all;
  found.rows.clear();
  found.logs.clear();
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    if (!residuals[i]) {
      out.push_back({replayed.id(i), reasons[i]});
    } else if (i < all.rows.size()) {
      found.rows.push_back(all.rows[i]);
    } else {
      found.logs.push_back(all.logs[i - all.rows.size()]);
    }
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

Result<RunFit> fit_runs(const RunsToFit& all, const std::vector<Factor>& factors) {
  const input::ProfileDraft& base = all.base;
  RunFit out{{}, {}, {}, first_noise, 1, base, {}};
  const RunsToFit runs = usable(all, out.left_out);
  const Replayed replayed(runs);
  if (replayed.size() == 0) {
    Diagnostics problems;
    for (const LeftOut& one : out.left_out) problems.push_back({one.row_id, one.reason});
    return problems;
  }
  const std::vector<Factor> moved = factors_of(factors, base);
  Linear linear{moved, std::vector<double>(moved.size()), values(replayed.residuals(base)), {}};
  const std::vector<double> before = linear.here;
  for (int round = 0; round < rounds; ++round) {
    linear.J = replayed.derivatives(base, moved, linear.at,
                                    Residuals(linear.here.begin(), linear.here.end()));
    out.noise = noise_of(held_out(linear, out.noise, 1));
    out.share = best_share(linear.here.size(),
                           [&](std::size_t fold) { return unseen_fold(linear, out.noise, fold); });
    const std::vector<double> best = linear.best(out.noise, [](std::size_t) { return true; });
    step(replayed, base, linear, times(best, out.share), out.noise);
  }
  const std::vector<double> unseen = held_out(linear, out.noise, out.share);
  for (std::size_t i = 0; i < replayed.size(); ++i)
    out.runs.push_back({replayed.id(i), before[i], linear.here[i], unseen[i], linear.J[i]});
  const Eigen::MatrixXd posterior = covariance(linear, out.noise);
  out.factors = fitted_factors(linear, linear.at, posterior);
  out.profile = scaled(base, moved, linear.at);
  compare_memory(runs, out);
  out.next = next_measurements(runs, out, posterior);
  return out;
}

RunErrors run_errors(const std::vector<FittedRun>& runs, double FittedRun::*residual) {
  std::vector<double> all;
  RunErrors errors;
  for (const FittedRun& run : runs) {
    all.push_back(100 * std::abs(std::exp(-(run.*residual)) - 1));
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
  constexpr std::size_t least = 4;  // runs; fewer do not tell
  if (fit.runs.size() >= least && unseen.mean > before.mean + 0.5)
    all.push_back(
        fmt::format("runs that the fit did not see are predicted worse than before: "
                    "{:.1f} % against {:.1f} %",
                    unseen.mean, before.mean));
  for (const FittedFactor& one : fit.factors)
    if (std::abs(one.x) >= 0.999 * furthest_move * one.factor.prior)
      all.push_back(fmt::format("{} ended at its bound, {:.2f} times the time of the profile",
                                one.factor.name, std::exp(one.x)));
  return all;
}

}  // namespace sim::calibrate
