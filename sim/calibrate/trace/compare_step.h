// compare_step.h — compares a trace with an expected step, operation by operation, and replays the
// step with the measured times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/readers/measurement.h"
#include "sim/calibrate/trace/match.h"

namespace sim::calibrate {

// Times of one expected operation in a trace, over its steps.
struct OperationTime {
  std::int64_t steps = 0;  // steps with a match
  double sum_s = 0;        // over all steps
  double median_s = 0, least_s = 0;
  std::vector<double> all_s;  // one for each step with a match
  bool own_family = false;    // a kernel has the operation's own family
  // Median time of its kernels of the same family, without companions. Used by fits.
  double own_median_s = 0;
  bool in_pieces = false;  // several passes over memory; the program has one
  bool stand_in = false;   // copies instead of a collective
  double mean_s() const { return steps > 0 ? sum_s / static_cast<double>(steps) : 0; }
};
// The times of each expected operation.
std::vector<OperationTime> operation_times(const ExpectedStep& expected, const MeasuredTrace& trace,
                                           const TraceMatch& match);

// Operations with one name in one kind of pass, per step.
struct OperationRow {
  std::string queue, label, family, pass;
  double count = 0, matched = 0;
  double predicted_s = 0, measured_s = 0;  // of matched operations
};
// Kernels or operations without a counterpart, per step.
struct Unmatched {
  std::string name, family;
  double count = 0, seconds = 0;
};

struct StepComparison {
  MatchShare share;
  std::vector<OperationRow> rows;              // largest difference first
  std::vector<Unmatched> kernels, operations;  // most time first
  double measured_s = 0;                       // median over the trace's steps
  double predicted_s = 0;                      // step time by the replay with modelled times
  double rebuilt_s = 0;                        // step time by the replay with measured times
  std::size_t steps = 0;
};
StepComparison compare_step(const ExpectedStep& expected, const MeasuredTrace& trace,
                            const TraceMatch& match);

// The step's times, with measured times where available: the mean for kernels, the shortest for
// collectives and messages (least waiting). Other rank classes use the same times for operations
// that they share.
engine::Times measured_prices(const ExpectedStep& expected,
                              const std::vector<OperationTime>& times);

// Kernels and collectives of a step as measurements: each shape once, with its count.
Measurements measurements_of(const ExpectedStep& expected, const std::vector<OperationTime>& times,
                             Duration arrival, const std::string& source, const std::string& gpu);

}  // namespace sim::calibrate
