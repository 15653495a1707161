// compare.h — one measured run beside its prediction, and what alone would explain the difference.
//
// Each explanation changes one thing and leaves the rest, to first order: with the accounts of the
// predicted step (answer::mean_accounts; they sum to the step) a part P that takes x times as long
// makes the step longer by P (x - 1). It is what one factor of calibration would be, not a proof.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/calibrate/readers/measurement.h"

namespace sim::calibrate {

struct MeasuredRun {
  std::size_t steps = 0;     // that count: the first few warm up
  double seconds = 0;        // median of a step; 0: not said
  double low = 0, high = 0;  // nine in ten steps
  double tflops_gpu = 0, tokens_s_gpu = 0;
  double reserved_gib = 0, allocated_gib = 0;  // the most
};
// Steps that print tokens per second alone take their time from `tokens`, those of a step and GPU.
MeasuredRun measured_run(const std::vector<StepSample>& steps, double tokens);

struct Explanation {
  std::string what;
  double factor = 1;        // of the part's time; 0: seconds say it
  double seconds = 0;       // that the step would change by
  std::string calibration;  // the one factor that a profile would take; "": none
};
// The most likely first: the smallest change of a part. Empty where the two agree within 1 %.
std::vector<Explanation> explanations(const answer::Answer& answer, double measured_seconds);

}  // namespace sim::calibrate
