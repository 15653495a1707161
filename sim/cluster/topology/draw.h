// draw.h — exports a cluster's graph for other programs: SimGrid platform XML, Graphviz. draw_svg.h
// draws it as SVG.
//
// `busy`: the share of time that each link is busy, by link number; empty: unknown. The drawings
// show the busier direction of a cable. The same graph gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// NCCL's minimum latency of a step over each kind of link. Cluster files contain only extra
// latencies.
struct WayLatencies {
  Duration nvlink{}, pcie{}, network{};
};
// Every vertex is a host or router, and every cable is two links (one per direction) with its
// capacity and latency. The latency is half of its step's, since a step crosses two ends (all of it
// between two GPUs), plus the cluster's own. SimGrid finds the routes (Floyd).
std::string simgrid_xml(const Cluster& cluster, const WayLatencies& ways = {});
// `alike`: parts that look alike are drawn once, with their number (fold.h).
std::string graphviz(const Cluster& cluster, const std::vector<double>& busy = {},
                     bool alike = false);
// A colour from green through yellow to red, for a share of 0 to 1: "#ff800030".
std::string heat_colour(double busy);

}  // namespace sim::topology
