#include "sim/cluster/network/channels.h"

#include <algorithm>
#include <cmath>

namespace sim::network {
namespace {

// The number of rings of one speed that fit. A pair of links of bandwidth p carries floor(p /
// speed) of them in each direction.
int rings(const NcclModel& model, const topology::Node& node, const GroupShape& shape,
          double speed) {
  const double link = rate(model.nvlink_payload);
  switch (node.interconnect) {
    case topology::GpuInterconnect::nvswitch:
      return static_cast<int>(std::floor(node.nvlinks_per_gpu * link / speed));
    case topology::GpuInterconnect::mesh:
      return static_cast<int>(std::floor(node.nvlinks_per_pair * link / speed)) *
             (shape.locals - 1);
    case topology::GpuInterconnect::direct:
      if (shape.nvlink_rings == 0) break;
      return static_cast<int>(std::floor(shape.nvlink_rings * link / speed));
    case topology::GpuInterconnect::pcie:
      break;
  }
  return static_cast<int>(std::floor(rate(node.pcie) * model.pcie_payload / speed));
}

// The second pass of the search for trees: the highest listed speed below twice the speed between
// nodes, or the first above it, at which all channels fit in the nodes.
double tree_speed(const NcclModel& model, const topology::Node& node, const GroupShape& shape,
                  const SearchGraph& graph) {
  double speed = graph.speed;
  if (shape.nodes != 2 || shape.locals == 1) return speed;
  const std::vector<Bandwidth>& list = model.speeds_network;
  for (std::size_t i = list.size(); i-- > 0 && speed < 2 * graph.speed;) {
    const double next = rate(list[i]);
    if (next <= speed) continue;
    if (rings(model, node, shape, next) < graph.channels) break;
    speed = next;
  }
  return speed;
}

SearchGraph best(const std::vector<Bandwidth>& speeds, auto count) {
  SearchGraph found;
  for (const Bandwidth listed : speeds) {
    const double speed = rate(listed);
    const double total = found.channels * found.speed;
    if (found.speed > 0 && speed <= 0.49 * found.speed) break;
    const int channels = count(speed);
    if (channels >= 1 && channels * speed > total) found = {channels, speed, 0, 0};
  }
  if (found.speed == 0) found.speed = rate(speeds.back());  // NCCL always finds one channel
  return found;
}

}  // namespace

SearchGraph search_graph(const NcclModel& model, const topology::Node& node,
                         const GroupShape& shape) {
  const bool many = shape.nodes > 1;
  SearchGraph graph;
  if (many) {
    const double port = std::min(rate(node.nic), rate(node.pcie) * model.pcie_payload);
    graph = best(model.speeds_network, [&](double speed) {
      return shape.nics * static_cast<int>(std::floor(port / speed));
    });
  } else {
    graph =
        best(model.speeds_one_node, [&](double speed) { return rings(model, node, shape, speed); });
  }
  const bool keep = graph.speed < rate(model.keep_whole_below) && graph.channels > 4;
  if (graph.speed >= rate(model.split_from) && !keep && 2 * graph.channels <= model.max_channels) {
    graph.channels *= 2;
    graph.speed /= 2;
  }
  graph.launched = std::min(2 * graph.channels, model.max_channels);
  if (many && model.double_above.bytes_per_second > 0 && graph.speed > rate(model.double_above) &&
      graph.launched < 16) {
    graph.launched = std::min(2 * graph.launched, model.max_channels);
  }
  graph.tree_speed = tree_speed(model, node, shape, graph);
  return graph;
}

}  // namespace sim::network
