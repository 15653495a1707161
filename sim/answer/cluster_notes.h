// cluster_notes.h — what a reader of a result must know about its cluster: a power limit that slows
// products, NICs that their slots limit, paths that one draw of a hash chose, a node that its file
// does not describe.
//
// The commands `run`, `whatif` and `topo time` print them with every result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/answer/site.h"

namespace sim::answer {

// One sentence each for a job of `gpus` GPUs, without the one on paths; empty: there is none. Of a
// power limit: "limited to 700 of 1000 W (gpu.power_w): matrix products take 1.43 times as long".
std::vector<std::string> cluster_notes(const Site& site, std::int64_t gpus);

// NICs that are faster than their PCIe slots: the sentence on them; "": there are none.
std::string slot_note(const Site& site);

// Whether the hash of flows matters to a job of `gpus` GPUs: leaf_spine, more than one leaf.
bool draws_paths(const topology::Cluster& cluster, std::int64_t gpus);
// The sentence for a result of one draw of the paths; "" if none is drawn.
std::string paths_note(const topology::Cluster& cluster, std::int64_t gpus);

}  // namespace sim::answer
