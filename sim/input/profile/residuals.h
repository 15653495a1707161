// residuals.h — loads and writes residuals: prediction errors of whole runs, grouped by situation.
//
// `rehearse validate --residuals` writes the file calibration/residuals/runs.textproto. Prediction
// intervals (answer/interval.h) read it. Schema: residuals.proto. A residual is ln(measured /
// predicted); for bubbles it is a difference in percentage points.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

enum class ResidualOf { time, allocated, reserved, bubble };
// The quantity's name in the schema: "step_time".
std::string name(ResidualOf quantity);

struct ResidualGroup {
  ResidualOf quantity = ResidualOf::time;
  std::string profile, framework;
  bool many_nodes = false, context_parallel = false;
  std::string source;
  bool fitted = false;
  bool shards = false;         // parameters are sharded
  bool mixture = false;        // mixture of experts
  std::vector<double> values;  // ascending
  bool fp8 = false;            // products in 8 or 4 bits
};

struct RunResiduals {
  std::string command;
  std::vector<ResidualGroup> groups;
};

Result<RunResiduals> load_residuals(const std::string& path);
// The repository's file; empty residuals if the repository has none.
Result<RunResiduals> find_residuals();

// The text of a residuals file.
std::string to_text(const RunResiduals& residuals);

}  // namespace sim::input
