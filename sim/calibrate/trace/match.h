// match.h — the kernels of a trace and the operations of a plan: which is which, stream by stream.
//
// The trace numbers its streams as it likes. Each is given to the queue of the program whose
// families it has as often; streams that are left join the queue that still lacks what they hold.
// What is matched are calls (calls.h): an operation has all kernels of a call or none.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/calibrate/trace/calls.h"
#include "sim/calibrate/trace/expected.h"
#include "sim/calibrate/trace/measured.h"

namespace sim::calibrate {

struct Lane {
  program::Stream queue{};
  std::vector<int> streams;  // of the trace
};

struct TraceMatch {
  std::vector<Lane> lanes;
  // For each step and each of its kernels the expected operation, -1: none.
  std::vector<std::vector<std::int32_t>> owners;
  std::vector<Calls> calls;  // of each step
};

TraceMatch match(const ExpectedStep& expected, const MeasuredTrace& trace);

// What was matched, over all steps.
struct MatchShare {
  std::size_t kernels = 0, matched = 0;
  std::int64_t nanoseconds = 0, matched_nanoseconds = 0;
  std::int64_t near_nanoseconds = 0;  // of operations that take within a factor of two of it
  std::size_t operations = 0, operations_matched = 0;
  double by_count() const;  // 0-1
  double by_time() const;
  double near_by_time() const;  // of what is matched: a plan that did not run has little of it
};
MatchShare share(const ExpectedStep& expected, const MeasuredTrace& trace, const TraceMatch& match);

}  // namespace sim::calibrate
