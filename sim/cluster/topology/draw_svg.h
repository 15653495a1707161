// draw_svg.h — the drawing of a cluster for the eye: switches of the fabric by level, under them
// each node with its NICs, its GPUs and what joins them.
//
// Cables carry their speeds; with `busy` (draw.h) they go from green (idle) to red (full), with
// numbers and a legend, and the frame of a GPU says how busy its NVLink is. Same graph, same bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// `alike`: parts that look alike are drawn once, with how many there are (fold.h).
std::string svg(const Cluster& cluster, const std::vector<double>& busy = {}, bool alike = false);

}  // namespace sim::topology
