// draw.h — a cluster's graph for other programs: SimGrid platform XML, Graphviz. For the eye:
// draw_svg.h.
//
// `busy`: how busy each link is, by its number, as a share of the time; empty: not known. The
// drawings show the busier direction of a cable. Same graph, same bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::topology {

// What NCCL takes a step over a kind of way to last at least. A cluster's file has none of it: its
// own latencies are what comes beside.
struct WayLatencies {
  Duration nvlink{}, pcie{}, network{};
};
// Every vertex is a host or router, every cable two links (one per direction) with its capacity and
// latency: half of its way's, since a way has two ends (all of it between two GPUs), and what the
// cluster says of the cable. SimGrid finds the routes (Floyd).
std::string simgrid_xml(const Cluster& cluster, const WayLatencies& ways = {});
// `alike`: parts that look alike are drawn once, with how many there are (fold.h).
std::string graphviz(const Cluster& cluster, const std::vector<double>& busy = {},
                     bool alike = false);
// "#ff800030": from green through yellow to red, for a share of 0 to 1.
std::string heat_colour(double busy);

}  // namespace sim::topology
