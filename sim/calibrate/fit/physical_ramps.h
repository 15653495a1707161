// physical_ramps.h — ramps of collectives that a machine can have. fit_network() calls it for each
// set of parameters that it tries.
#pragma once

#include "sim/input/profile/profile_draft.h"

namespace sim::calibrate {

// Makes ramps monotone: rate and time never fall with size (cluster/network/profile.h, invariant
// 3).
void make_physical(input::ProfileDraft& draft);

}  // namespace sim::calibrate
