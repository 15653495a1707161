// compared_trace.h — a trace that was compared with what a plan issues, and the profile that such
// traces make.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/calibrate/fit/calibrate.h"
#include "sim/calibrate/trace/compare_step.h"

namespace sim::calibrate {

struct ComparedTrace {
  std::string path;
  int rank = 0;
  std::shared_ptr<const ExpectedStep> expected;
  MeasuredTrace trace;
  TraceMatch match;
  StepComparison comparison;
};

ComparedTrace compared_trace(MeasuredTrace trace, std::shared_ptr<const ExpectedStep> expected,
                             int rank);

// The profile of the base and what the traces say. What kernels take alone follows from what they
// take beside collectives by the profile, so the fit is made again with the profile that it gave;
// `site` has the last but one in the end.
Result<Calibration> calibrate_traces(const std::vector<ComparedTrace>& traces,
                                     const program::ValidPlan& plan, answer::Site& site,
                                     const Wanted& wanted);

}  // namespace sim::calibrate
