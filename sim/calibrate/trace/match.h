// match.h — matches the kernels of a trace with the operations of a plan, stream by stream.
//
// Stream numbers of a trace have no fixed meaning. Each queue of the program takes the stream with
// the most similar counts of families. A remaining stream joins a queue that still lacks at least
// half of its kernels. Calls are matched (calls.h): an operation gets all kernels of a call or
// none.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/calibrate/trace/calls.h"
#include "sim/calibrate/trace/expected.h"
#include "sim/calibrate/trace/measured.h"

namespace sim::calibrate {

struct StreamQueue {
  program::Stream queue{};
  std::vector<int> streams;  // of the trace
};

struct TraceMatch {
  std::vector<StreamQueue> queues;
  // For each step and each of its kernels the index of the expected operation, or -1.
  std::vector<std::vector<std::int32_t>> owners;
  std::vector<Calls> calls;  // for each step
};

TraceMatch match(const ExpectedStep& expected, const MeasuredTrace& trace);

// The matched share of a trace, over all steps.
struct MatchShare {
  std::size_t kernels = 0, matched = 0;
  std::int64_t nanoseconds = 0, matched_nanoseconds = 0;
  std::int64_t near_nanoseconds = 0;  // of operations predicted within a factor of 2
  std::size_t operations = 0, operations_matched = 0;
  double by_count() const;  // 0 to 1
  double by_time() const;
  // share of the matched time; low if the plan is not the one that ran
  double near_by_time() const;
};
MatchShare share(const ExpectedStep& expected, const MeasuredTrace& trace, const TraceMatch& match);

}  // namespace sim::calibrate
