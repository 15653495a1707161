// residuals.h — loads how far predictions of whole runs were from measurements, by situation
// (calibration/residuals/runs.textproto, schema residuals.proto).
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

enum class ResidualOf { time, allocated, reserved, bubble };
// "step_time", as in the schema.
std::string name(ResidualOf quantity);

struct ResidualGroup {
  ResidualOf quantity = ResidualOf::time;
  std::string profile, framework;
  bool many_nodes = false, context_parallel = false;
  std::string source;
  bool fitted = false;
  bool shards = false;         // parameters in shards
  bool mixture = false;        // of experts
  std::vector<double> values;  // ascending
};

struct RunResiduals {
  std::string command;
  std::vector<ResidualGroup> groups;
};

Result<RunResiduals> load_residuals(const std::string& path);
// The repository's own file; nothing when there is none.
Result<RunResiduals> find_residuals();

// The file's text.
std::string to_text(const RunResiduals& residuals);

}  // namespace sim::input
