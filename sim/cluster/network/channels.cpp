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

// The number of channels between nodes that the NVSwitches carry inside a node. A channel leaves
// the node at one of its GPUs, so each GPU passes on all channels but its own.
int channels_inside(const NcclModel& model, const topology::Node& node, const GroupShape& shape,
                    double speed) {
  if (node.interconnect != topology::GpuInterconnect::nvswitch || shape.locals == 1)
    return model.max_channels;
  const double links = node.nvlinks_per_gpu * rate(model.nvlink_payload);
  const double gpus = shape.locals;
  return std::max(1, static_cast<int>(std::floor(links / speed * gpus / (gpus - 1))));
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

// Whether NCCL's tree is plain. A balanced tree needs a second GPU with as short a path to the NIC.
// GPUs share a NIC if there are fewer NICs than GPUs, or a CPU to which their NICs belong (Grace).
// Before Hopper NCCL first tries longer paths, so only a single GPU has a plain tree.
bool is_plain_tree(const NcclModel& model, const topology::Node& node, const GroupShape& shape) {
  if (shape.nodes == 1) return false;
  if (shape.locals == 1) return true;
  const bool share_cpu = node.cpu == topology::HostCpu::arm && node.sockets < node.gpus;
  return model.plain_tree_early && shape.nics >= shape.locals && !share_cpu;
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
      return std::min(shape.nics * static_cast<int>(std::floor(port / speed)),
                      channels_inside(model, node, shape, speed));
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
  graph.plain_tree = is_plain_tree(model, node, shape);
  return graph;
}

}  // namespace sim::network
