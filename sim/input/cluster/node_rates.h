// node_rates.h — loads a table of measured bandwidths between all pairs of nodes.
//
// The cluster loader calls it for a cluster with the field node_bandwidth. Measure with nccl-tests
// sendrecv between two nodes, or any point-to-point benchmark that keeps all NICs busy.
//
//     GB/s,gpu-01,gpu-02,gpu-03      the unit (GB/s or Gb/s), then the nodes
//     gpu-01,,46.1,46.3              rates from gpu-01 to each node; the diagonal is ignored
//     gpu-02,46.0,,11.8
//     gpu-03,46.2,11.9,
//
// A table that is returned has the same order of nodes in rows and columns, and each rate off the
// diagonal is above 0.
#pragma once

#include <string>

#include "sim/base/result.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::input {

struct NodeRatesFile {
  topology::NodeRates rates;
  std::string text;  // text of the file; part of an answer's digest
};

Result<NodeRatesFile> load_node_rates(const std::string& path);
Result<NodeRatesFile> parse_node_rates(const std::string& text, const std::string& path);

}  // namespace sim::input
