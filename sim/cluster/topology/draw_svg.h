// draw_svg.h — draws a cluster as SVG: switches of the fabric by level, and below them each node
// with its NICs, its GPUs and the links between GPUs.
//
// Cables show their speeds. With `busy` (draw.h) their colours go from green (idle) to red (full),
// with numbers and a legend. The frame of a GPU shows how busy its NVLinks are. The same graph
// gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// `alike`: parts that look alike are drawn once, with their number (fold.h).
std::string svg(const Cluster& cluster, const std::vector<double>& busy = {}, bool alike = false);

}  // namespace sim::topology
