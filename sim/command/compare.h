// compare.h — the log of a run against the prediction of its plan, for `compare` and `serve`.
#pragma once

#include <optional>
#include <string>

#include "sim/answer/checked_plan.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/output/document.h"

namespace sim::command {

struct Compared {
  output::Document document;
  std::optional<double>
      error_percent;  // of the predicted step; none if the plan runs out of memory
};

// `log` is the name of the source. Stops if it has no step with a time, or prints settings that the
// plan has otherwise. `framework`: of the plan, as residuals name it; "": unknown.
Compared compared(const std::string& log, const calibrate::Source& source,
                  const answer::CheckedPlan& plan, const std::string& framework);

}  // namespace sim::command
