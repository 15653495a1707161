// profile.h — loads what calibration knows of a GPU and of NCCL (calibration/*.textproto, schema
// profile.proto).
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
  std::string text;  // every field in a fixed order, without comments: what an answer depends on
};

Result<ProfileFile> load_profile(const std::string& path);

// Both profiles of a machine: that of its GPU, and the communication of its fabric, which another
// file may hold. A machine whose fabric has no profile is an error.
Result<ProfileFile> find_profiles(const Machine& machine);
// That of one GPU; `beside`: the file that names it.
Result<ProfileFile> find_profile(const device::Gpu& gpu, const std::string& beside);

}  // namespace sim::input
