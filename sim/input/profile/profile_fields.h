// profile_fields.h — converts messages of profile.proto to the structs of cluster/device and
// cluster/network.
//
// profile.cpp and profile_draft.cpp call it. REQUIRES for both functions: the message has passed
// its rules.
#pragma once

#include "sim/cluster/device/profile.h"
#include "sim/cluster/network/profile.h"
#include "sim/input/schema/profile.pb.h"

namespace sim::input {

device::Profile device_profile(const rehearse::v1::Profile& from);
network::CommunicationProfile communication_profile(const rehearse::v1::CommunicationProfile& from);

}  // namespace sim::input
