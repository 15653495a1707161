// run_fit.h — fits the physical factors of a cluster to whole measured runs. The command
// `calibrate RUNS.csv` calls it.
//
// A residual is r_i = ln(measured / predicted) of the step time of run i. The fit minimises
//
//    sum over runs    of rho((r_i - sum_k J_ik x_k) / noise)
//  + sum over factors of (x_k / prior_k)^2 / 2
//
// with Huber's rho (minimum.h) and J_ik = d ln(time_i) / d x_k, a difference of two replays. It is
// the maximum of a posterior: one run moves a factor little; many runs that agree move it far. Then
// the runs are replayed with the fitted factors, and J is computed again at that point.
//
// Errors of runs may have causes that no factor describes. So all fitted factors are multiplied by
// one share (best_share.h).
//
// Invariants
// (1) The same runs and the same profile give the same bytes, on any number of threads.
// (2) The replayed objective at the result is not above that of the base.
// (3) `held_out` of a run comes from a fit without that run (up to ten runs) or without its tenth
//     of the runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/answer/interval.h"
#include "sim/calibrate/runs/factors.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/program/plan/plan.h"

namespace sim::calibrate {

struct FittedFactor {
  Factor factor;
  double x = 0;          // logarithm; exp(x) times the time of the base
  double deviation = 0;  // standard deviation of the posterior; `factor.prior` before
  double share = 0;      // its part of the remaining variance of predicted times, 0 to 1
};

struct FittedRun {
  std::string row_id;
  double before = 0, after = 0, held_out = 0;  // ln(measured / predicted)
  std::vector<double> sensitivity;             // d ln(time) / dx, one per factor
};

struct LeftOut {
  std::string row_id, reason;
};

// A measurement to make next, and its effect: the share by which it would reduce the variance of
// the runs' predicted times, 0 to 1.
struct NextMeasurement {
  std::string what;  // "one run with tp 8"
  double reduction = 0;
};

struct RunFit {
  std::vector<FittedFactor> factors;
  std::vector<FittedRun> runs;
  std::vector<LeftOut> left_out;
  double noise = 0;  // standard deviation of a run's residual that no factor explains
  double share = 1;  // the share by which the fitted factors were multiplied, 0 to 1
  input::ProfileDraft profile;
  std::vector<NextMeasurement> next = {};  // the best first
  // ln(measured / predicted) of peaks of memory, of runs that state them. No factor is fitted to
  // them: intervals of memory are made from them.
  std::vector<double> reserved = {}, allocated = {};
  // 90 % intervals of a run's ln(measured / predicted): before, of the runs that are known; after,
  // of these runs, each predicted from the others. Filled by the command.
  std::optional<answer::ResidualRange> spread_before = {}, spread_after = {};
};

// The steps of a log, and the plan that ran.
struct StepsOfPlan {
  std::string id;
  double seconds = 0;  // median of the steps
  program::Plan plan;
  input::Machine machine;
};

struct RunsToFit {
  std::vector<input::RunsRow> rows;
  std::vector<StepsOfPlan> logs;
  input::ProfileDraft base;                 // to start from, with communication (whole_profile)
  std::string profile;                      // its path
  const input::Machine* machine = nullptr;  // of all rows; nullptr: each row names its own
  int threads = 1;
};

// Errors: no run that can be compared, with the reason of each.
Result<RunFit> fit_runs(const RunsToFit& runs, const std::vector<Factor>& factors);

// Mean and median of |exp(r) - 1|, in percent.
struct RunErrors {
  double mean = 0, median = 0;
};
RunErrors run_errors(const std::vector<FittedRun>& runs, double FittedRun::*residual);

// Reasons not to trust the fit, in words; empty if there are none.
std::vector<std::string> doubts(const RunFit& fit);

}  // namespace sim::calibrate
