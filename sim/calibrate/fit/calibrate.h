// calibrate.h — from sources of measurements to a profile: reads, fits, says how well.
//
// Invariants
//  (1) The profile that comes out passes every check of a profile.
//  (2) Its bytes depend on the sources, the base, and the date and command that the caller gives.
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

struct Wanted {
  std::string base;  // path of the profile to start from
  std::string name;  // of the new profile
  std::string date;  // "": the newest of the sources, else that of the base
  std::string command;
};

struct Calibration {
  std::vector<SourceFile> sources;
  std::string base;  // name
  Fit fit;
  std::string profile;  // the new profile as text
};

Result<Calibration> calibrate(std::vector<SourceFile> sources, const input::Machine& machine,
                              const Wanted& wanted);

// Parameters that moved; a profile without any says nothing new.
std::size_t fitted(const Calibration& calibration);

output::Document calibration_document(const Calibration& calibration);

// The cluster whose GPU a source names, "" when none of ours is meant.
std::string cluster_for(const std::string& device);

}  // namespace sim::calibrate
