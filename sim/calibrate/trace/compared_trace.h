// compared_trace.h — a trace matched with the expected step of a plan, and the fit of a profile to
// such traces. The command `calibrate` calls it.
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

// Fits a profile to traces, and to `others`: kernels and collectives of other sources. Kernel times
// without overlapping collectives depend on the profile itself, so the fit runs several rounds.
// After the call `site` has the profile of the last round but one.
Result<Calibration> calibrate_traces(const std::vector<ComparedTrace>& traces,
                                     const std::vector<SourceFile>& others,
                                     const program::ValidPlan& plan, answer::Site& site,
                                     const CalibrateOptions& wanted);

}  // namespace sim::calibrate
