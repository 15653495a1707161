// profile.h — loads calibration profiles of GPUs and of NCCL (calibration/*.textproto,
// profile.proto).
//
// Sites::of (answer/site.h) loads the profiles of each cluster; `rehearse check` loads single
// files. A ProfileFile has passed the schema's rules and the checks of device/ and network/.
#pragma once

#include <string>

#include "sim/base/result.h"
#include "sim/cluster/device/profile.h"
#include "sim/cluster/network/profile.h"
#include "sim/input/cluster/cluster.h"

namespace sim::input {

struct ProfileFile {
  device::Profile device;
  network::CommunicationProfile communication;
  bool has_communication = false;
  std::string path;
  std::string text;  // canonical text of all fields; part of an answer's digest
};

// The profile of a file. Errors have line and column.
Result<ProfileFile> load_profile(const std::string& path);

// Both profiles of a machine: the GPU's device profile and the fabric's communication profile. They
// may come from two files. Error: the fabric has no communication profile.
Result<ProfileFile> find_profiles(const Machine& machine);
// The profile that a GPU names. `beside`: path of the file that contains the GPU.
Result<ProfileFile> find_profile(const device::Gpu& gpu, const std::string& beside);

}  // namespace sim::input
