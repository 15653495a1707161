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
#include "sim/calibrate/readers/measurement.h"

namespace sim::calibrate {

struct MeasuredRun {
  std::size_t steps = 0;     // without the first ones, which warm up
  double seconds = 0;        // median of a step; 0: not printed
  double low = 0, high = 0;  // 5th and 95th percentile
  double tflops_gpu = 0, tokens_s_gpu = 0;
  bool counts_recomputation = false;           // tflops_gpu counts recomputed forward passes
  double reserved_gib = 0, allocated_gib = 0;  // maximum over the steps
};
// Statistics of the steps of a log. `tokens` is tokens per step and GPU; it gives the time of steps
// that print only tokens per second.
MeasuredRun measured_run(const std::vector<StepSample>& steps, double tokens);

struct Explanation {
  std::string what;
  double factor = 1;        // on the part's time; 0: only `seconds` applies
  double seconds = 0;       // by which the step would change
  std::string calibration;  // the profile's setting, as text; "": none
};
// Explanations, smallest change first. Empty if measurement and prediction agree within 1 %.
std::vector<Explanation> explanations(const answer::Answer& answer, double measured_seconds);

}  // namespace sim::calibrate
