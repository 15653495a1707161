// calibrate.h — fits a profile to sources of measurements and reports the fit's errors. The command
// `calibrate` calls it.
//
// Invariants
// (1) The new profile passes every check of a profile.
// (2) Its bytes depend only on the sources, the base profile, the date and the command.
// (3) Blocks in doubt (keep_doubtful() of fit.h) have the values of the base unless `force` is set.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/fit/fit.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/input/cluster/cluster.h"
#include "sim/output/document.h"

namespace sim::calibrate {

struct SourceFile {
  std::string path;
  std::string format;  // a reader's name
  Measurements measurements;
};

struct CalibrateOptions {
  std::string base;  // path of the profile to start from
  std::string name;  // of the new profile
  std::string date;  // "": the newest date of the sources, else the base's
  std::string command;
  bool planned = false;  // the plan that ran is known
  bool force = false;    // blocks of parameters that are in doubt move all the same
};

struct Calibration {
  std::vector<SourceFile> sources;
  std::string base;  // name
  Fit fit;
  std::string profile;  // the new profile as text
};

// Reasons not to write the profile: doubts of the sources, and the reason of each block that keeps
// its base if none moved. Empty if there are none.
std::vector<std::string> doubts(const Calibration& calibration);

Result<Calibration> calibrate(std::vector<SourceFile> sources, const input::Machine& machine,
                              const CalibrateOptions& wanted);

// Number of parameters that moved. 0: the profile equals its base.
std::size_t fitted(const Calibration& calibration);

output::Document calibration_document(const Calibration& calibration);

// Name of the cluster with the GPU that a source names; "" if no cluster has it.
std::string cluster_for(const std::string& device);

}  // namespace sim::calibrate
