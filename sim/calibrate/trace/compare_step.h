// compare_step.h — where model and machine part ways in a step: operation by operation, what was
// predicted and what a trace says; the step again with the measured times in the replay.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/readers/measurement.h"
#include "sim/calibrate/trace/match.h"

namespace sim::calibrate {

// What a trace says of one expected operation, over its steps.
struct OperationTime {
  std::int64_t steps = 0;  // in which it was matched
  double sum_s = 0;        // of all of them
  double median_s = 0, least_s = 0;
  bool own_family = false;  // its kernels are of its family, not only alike
  // For a fit: the median of the kernels of its family, without what stands beside them.
  double own_median_s = 0;
  bool in_pieces = false;  // several passes over memory where the program has one
  bool stand_in = false;   // copies in place of a collective
  double mean_s() const { return steps > 0 ? sum_s / static_cast<double>(steps) : 0; }
};
// Of each expected operation.
std::vector<OperationTime> operation_times(const ExpectedStep& expected, const MeasuredTrace& trace,
                                           const TraceMatch& match);

// Operations of one name in one kind of pass; per step.
struct OperationRow {
  std::string queue, label, family, pass;
  double count = 0, matched = 0;
  double predicted_s = 0, measured_s = 0;  // of those that were matched
};
// What one side alone has; per step.
struct Unmatched {
  std::string name, family;
  double count = 0, seconds = 0;
};

struct StepComparison {
  MatchShare share;
  std::vector<OperationRow> rows;              // largest difference first
  std::vector<Unmatched> kernels, operations;  // most time first
  double measured_s = 0;                       // median of the trace's steps
  double predicted_s = 0;                      // by the model alone
  double rebuilt_s = 0;                        // by the replay with measured kernels
  std::size_t steps = 0;
};
StepComparison compare_step(const ExpectedStep& expected, const MeasuredTrace& trace,
                            const TraceMatch& match);

// The prices of the step with the measured times where there are any: kernels as they are, of
// collectives and messages the shortest, which waited least. Other classes take over what they
// share.
engine::Times measured_prices(const ExpectedStep& expected,
                              const std::vector<OperationTime>& times);

// Kernels and collectives of a step as measurements: each shape once, with how often it was seen.
Measurements measurements_of(const ExpectedStep& expected, const std::vector<OperationTime>& times,
                             Duration arrival, const std::string& source, const std::string& gpu);

}  // namespace sim::calibrate
