// cluster_fields.h — settings "key=value" applied to a cluster description: what a what-if changes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/fields/plan_fields.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

// A setting of a cluster rather than of a plan: "fabric.oversubscription=4", "node.nics=8",
// "cluster.nodes=64", "condition={node: 3 gpu: 1 speed: 0.8}".
bool is_cluster_setting(std::string_view text);
// Those of the settings, in their order.
std::vector<std::string> cluster_settings_of(const std::vector<std::string>& settings);

// What is wrong with a key by itself: a cluster has no such setting; "" if it has.
std::string cluster_setting_problem(std::string_view key);

// Applies the settings in order; the place of NICs and sockets that a new number of them makes
// untrue is dropped and dealt out again. A list is replaced; `condition` adds one.
Diagnostics apply(std::span<const Setting> settings, rehearse::v1::Cluster& cluster,
                  Source& source);

}  // namespace sim::input
