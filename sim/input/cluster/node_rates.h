// node_rates.h — loads a table of what each node of a cluster sends to each other, as it was
// measured (nccl-tests sendrecv between two nodes, or any point-to-point benchmark that keeps all
// NICs busy).
//
//     GB/s,gpu-01,gpu-02,gpu-03      the unit (GB/s or Gb/s), then the nodes
//     gpu-01,,46.1,46.3              what gpu-01 sends to each; the diagonal is ignored
//     gpu-02,46.0,,11.8
//     gpu-03,46.2,11.9,
//
// Invariant: nodes stand in one order in rows and columns, and every rate off the diagonal is above
// 0.
#pragma once

#include <string>

#include "sim/base/result.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::input {

struct NodeRatesFile {
  topology::NodeRates rates;
  std::string text;  // of the file: what an answer depends on
};

Result<NodeRatesFile> load_node_rates(const std::string& path);
Result<NodeRatesFile> parse_node_rates(const std::string& text, const std::string& path);

}  // namespace sim::input
