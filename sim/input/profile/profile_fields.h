// profile_fields.h — messages of profile.proto become the structs of device/ and network/.
// REQUIRES, for all: the message satisfies its rules.
#pragma once

#include "sim/cluster/device/profile.h"
#include "sim/cluster/network/profile.h"
#include "sim/input/schema/profile.pb.h"

namespace sim::input {

device::Profile device_profile(const rehearse::v1::Profile& from);
network::CommunicationProfile communication_profile(const rehearse::v1::CommunicationProfile& from);

}  // namespace sim::input
