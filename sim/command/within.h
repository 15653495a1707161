// within.h — `validate --within PERCENT`: an exit code for scripts, by the mean error of a table.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/calibrate/tables/timings.h"
#include "sim/calibrate/validate.h"
#include "sim/command/common/command.h"

namespace sim::command {

// Mean absolute errors in percent, |predicted / measured - 1|, with names.
using MeanErrors = std::vector<std::pair<std::string, double>>;

// Of the times of kernels or collectives.
MeanErrors mean_errors(const std::vector<calibrate::Timing>& timings);
// Of each quantity that the rows state.
MeanErrors mean_errors(const std::vector<calibrate::Row>& rows,
                       const std::vector<calibrate::Prediction>& predictions);

// exit_no if --within is given, `code` is exit_yes and an error is larger; otherwise `code`. Names
// the errors that are larger.
int within(const Options& options, int code, const MeanErrors& errors);

}  // namespace sim::command
