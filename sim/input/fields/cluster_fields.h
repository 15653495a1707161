// cluster_fields.h — applies settings "key=value" to a cluster description.
//
// load_cluster calls it for overrides of the command line, for what-if variants and for the cluster
// settings of a framework.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/fields/plan_fields.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

// True for a setting of a cluster: "fabric.oversubscription=4", "node.nics=8", "cluster.nodes=64",
// "condition={node: 3 gpu: 1 speed: 0.8}".
bool is_cluster_setting(std::string_view text);
// The cluster settings among `settings`, in their order.
std::vector<std::string> cluster_settings_of(const std::vector<std::string>& settings);

// The problem of a key: a cluster has no such setting. "" if it has.
std::string cluster_setting_problem(std::string_view key);

// Applies the settings in order. A new number of GPUs, NICs or sockets drops the old mapping
// between them; the loader then distributes them evenly. A list is replaced; `condition` adds one
// element.
Diagnostics apply(std::span<const Setting> settings, rehearse::v1::Cluster& cluster,
                  Source& source);

}  // namespace sim::input
