// compare.h — compares one measured run with its prediction, and lists what could explain the
// difference. The command `compare` calls it.
//
// Each explanation changes one part of the step and keeps the others. If part P takes x times as
// long, the step grows by P (x - 1). Parts are the accounts of the predicted step
// (answer::mean_accounts); they add up to the step. An explanation is a first-order estimate of one
// calibration factor, not a proof.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/base/result.h"
#include "sim/calibrate/readers/measurement.h"
#include "sim/program/plan/plan.h"

namespace sim::calibrate {

struct MeasuredRun {
  std::size_t steps = 0;     // without the first ones
  std::size_t warm_up = 0;   // the first steps, left out
  std::size_t ramp = 0;      // left out: their global batch is not that of the last step
  double seconds = 0;        // median of a step; 0: not printed
  double low = 0, high = 0;  // 5th and 95th percentile
  double tflops_gpu = 0, tokens_s_gpu = 0;
  bool counts_recomputation = false;           // tflops_gpu counts recomputed forward passes
  double reserved_gib = 0, allocated_gib = 0;  // maximum over the steps
};
// Statistics of the steps of a log. `tokens` is tokens per step and GPU; it gives the time of steps
// that print only tokens per second.
MeasuredRun measured_run(const std::vector<StepSample>& steps, double tokens);

// Tokens of a step on each GPU: of the log where it prints batch, sequence and GPUs, otherwise of
// the plan.
double tokens_per_gpu(const Measurements& log, const program::Plan& plan);

// Settings that a log prints and the plan has otherwise. Empty: the log may be of the plan.
struct OtherRun {
  Diagnostics differences;            // one for each line of the log
  std::vector<std::string> settings;  // of the log, "tp=8"
  bool other_model = false;           // layers or width differ

  explicit operator bool() const { return !differences.empty(); }
  void add(OtherRun more);
  // Says what to write instead: "write gpus=512 tp=8".
  std::string remedy() const;
};
OtherRun other_run(const Measurements& log, const program::Plan& plan);

struct Explanation {
  std::string what;
  double factor = 1;        // on the part's time; 0: only `seconds` applies
  double seconds = 0;       // by which the step would change
  std::string calibration;  // the profile's setting, as text; "": none
};
// Explanations, smallest change first. Empty if measurement and prediction agree within 1 %.
std::vector<Explanation> explanations(const answer::Answer& answer, double measured_seconds);

}  // namespace sim::calibrate
