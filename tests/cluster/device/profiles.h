// profiles.h — the shipped profiles for tests of this room, which knows no protobuf: a reader of
// the little text format that calibration/*.textproto use. The program reads them through config/.
#pragma once

#include <string>

#include "sim/cluster/device/gpu.h"
#include "sim/cluster/device/profile.h"

namespace sim::device::profiles {

Profile load(const std::string& name);  // calibration/<name>.textproto, without `communication`
// The same with the attention implementation of this figure first.
Profile with_attention(const std::string& name, const std::string& figure);

// Data sheets: what topologies/ says of these GPUs (80 GB parts).
Gpu a100();
Gpu h100();

}  // namespace sim::device::profiles
