// draw.h — a cluster's graph for other programs and for the eye: SimGrid platform XML, Graphviz,
// SVG.
//
// `busy`: how busy each link is, by its number, as a share of the time; empty: not known. The
// drawings show the busier direction of a cable. Same graph, same bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/cluster.h"

namespace sim::topology {

// Every vertex is a host or router, every cable two links (one per direction) with its capacity and
// latency; SimGrid finds the routes (Floyd).
std::string simgrid_xml(const Cluster& cluster);
std::string graphviz(const Cluster& cluster, const std::vector<double>& busy = {});
// The fabric: switches by level, a box per node with its NICs; cables from green (idle) to red
// (full).
std::string svg(const Cluster& cluster, const std::vector<double>& busy = {});

}  // namespace sim::topology
