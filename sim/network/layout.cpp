#include "sim/network/layout.h"

#include <algorithm>
#include <cassert>

namespace sim::network {

Spread spread(const std::vector<int>& ranks, const topology::Cluster& cluster) {
  Spread all;
  for (const int rank : ranks) {
    assert(rank >= 0 && rank < cluster.gpus());
    const int node = rank / cluster.node.gpus;
    // Ranks of a node mostly follow each other: look at the last node first.
    auto at = std::find_if(all.rbegin(), all.rend(),
                           [&](const Locals& locals) { return locals.node == node; });
    if (at == all.rend()) {
      all.push_back({node, {}, {}});
      at = all.rbegin();
    }
    at->gpus.push_back(rank);
  }
  for (Locals& locals : all) {
    for (const int gpu : locals.gpus) {
      const auto own = topology::nics_of_gpu(cluster.node, gpu % cluster.node.gpus);
      locals.nics.insert(locals.nics.end(), own.begin(), own.end());
    }
    std::ranges::sort(locals.nics);
    locals.nics.erase(std::unique(locals.nics.begin(), locals.nics.end()), locals.nics.end());
  }
  return all;
}

Shape shape_of(const Spread& spread) {
  Shape shape{0, static_cast<int>(spread.size()), 0, static_cast<int>(spread.front().nics.size())};
  for (const Locals& locals : spread) {
    shape.ranks += static_cast<int>(locals.gpus.size());
    shape.locals = std::max(shape.locals, static_cast<int>(locals.gpus.size()));
    shape.nics = std::min(shape.nics, static_cast<int>(locals.nics.size()));
  }
  return shape;
}

}  // namespace sim::network
