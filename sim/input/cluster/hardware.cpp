#include "sim/input/cluster/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/text.h"
#include "sim/input/cluster/spines.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using topology::FabricKind;
using topology::GpuInterconnect;
using topology::HostCpu;

GpuInterconnect interconnect(v1::Node::Interconnect value) {
  if (value == v1::Node::direct || value == v1::Node::bridges || value == v1::Node::cube_mesh)
    return GpuInterconnect::direct;
  if (value == v1::Node::mesh) return GpuInterconnect::mesh;
  return value == v1::Node::pcie ? GpuInterconnect::pcie : GpuInterconnect::nvswitch;
}

HostCpu cpu(v1::Node::Cpu value) {
  if (value == v1::Node::amd) return HostCpu::amd;
  return value == v1::Node::arm ? HostCpu::arm : HostCpu::intel;
}

FabricKind fabric_kind(v1::Fabric::Kind value) {
  switch (value) {
    case v1::Fabric::single_switch:
      return FabricKind::single_switch;
    case v1::Fabric::rail_optimised:
      return FabricKind::rail_optimised;
    case v1::Fabric::three_level:
      return FabricKind::three_level;
    case v1::Fabric::rail_only:
      return FabricKind::rail_only;
    case v1::Fabric::leaf_spine:
      return FabricKind::leaf_spine;
    case v1::Fabric::dragonfly:
      return FabricKind::dragonfly;
    case v1::Fabric::torus:
      return FabricKind::torus;
    default:
      return FabricKind::fat_tree;
  }
}

// Checks that the NVLink fields match `interconnect`, and that no others are set.
void check_links(const v1::Node& node, HardwareLoad& load) {
  const bool has_links = node.interconnect() != v1::Node::pcie && node.gpus() > 1;
  if (has_links && node.nvlink_bandwidth().empty())
    load.add(node, "nvlink_bandwidth",
             "GPUs that are linked need 'nvlink_bandwidth', one link in one direction; write for "
             "example nvlink_bandwidth: \"25GB/s\"");
  if (node.interconnect() == v1::Node::nvswitch && node.nvlinks_per_gpu() < 1 && node.gpus() > 1)
    load.add(node, "nvlinks_per_gpu",
             "'nvswitch' needs 'nvlinks_per_gpu', the links of one GPU to the switches: 12 on "
             "A100, 18 on H100");
  if (node.interconnect() == v1::Node::mesh && node.nvlinks_per_pair() < 1 && node.gpus() > 1)
    load.add(node, "nvlinks_per_pair",
             "'mesh' needs 'nvlinks_per_pair', the links between each two GPUs: 4 on a node of "
             "four A100, 6 on four H100");
  if (node.interconnect() == v1::Node::mesh && node.nvlinks_per_gpu() > 0)
    load.add(node, "nvlinks_per_gpu", "a 'mesh' has 'nvlinks_per_pair', not 'nvlinks_per_gpu'");
  if (node.interconnect() == v1::Node::nvswitch && node.nvlinks_per_pair() > 0)
    load.add(node, "nvlinks_per_pair", "'nvswitch' has 'nvlinks_per_gpu', not 'nvlinks_per_pair'");
  if (node.interconnect() == v1::Node::bridges && node.nvlinks_per_pair() < 1)
    load.add(node, "nvlinks_per_pair",
             "'bridges' needs 'nvlinks_per_pair', the links between two bridged GPUs");
  if (node.interconnect() == v1::Node::direct && node.nvlink_pair_size() == 0)
    load.add(node, "nvlink_pair",
             "'direct' needs the pairs that are linked; write for example "
             "nvlink_pair { a: 0 b: 1 links: 4 }");
  if (node.interconnect() != v1::Node::direct && node.nvlink_pair_size() > 0)
    load.add(node, "nvlink_pair", "only interconnect 'direct' names its pairs");
  if (node.interconnect() == v1::Node::cube_mesh && node.gpus() != 8)
    load.add(node, "gpus", "a cube mesh has 8 GPUs");
}

std::vector<topology::NvlinkPair> pairs(const v1::Node& node) {
  if (node.interconnect() == v1::Node::bridges)
    return topology::bridge_pairs(node.gpus(), node.nvlinks_per_pair());
  if (node.interconnect() == v1::Node::cube_mesh) return topology::cube_mesh_pairs();
  std::vector<topology::NvlinkPair> all;
  for (const v1::NvlinkPair& pair : node.nvlink_pair()) {
    all.push_back({pair.a(), pair.b(), pair.links()});
  }
  return all;
}

std::vector<int> nics_of_gpus(const v1::Node& node, HardwareLoad& load) {
  std::vector<int> nics;
  if (node.nics() == 0 && node.nic_of_gpu_size() > 0)
    load.add(node, "nic_of_gpu", "the node has no NICs ('nics' is 0 or left out)");
  if (node.nics() == 0) return nics;
  if (node.nic_bandwidth().empty())
    load.add(node, "nic_bandwidth",
             "a node with NICs needs 'nic_bandwidth'; write for example nic_bandwidth: "
             "\"200Gb/s\"");
  if (node.nic_of_gpu_size() == 0) {
    for (int gpu = 0; gpu < node.gpus(); ++gpu) {
      const std::int64_t dealt = std::int64_t{gpu} * node.nics() / node.gpus();
      nics.push_back(static_cast<int>(dealt));
    }
    return nics;
  }
  if (node.nic_of_gpu_size() != node.gpus())
    load.add(node, "nic_of_gpu",
             fmt::format("{} entries for {} GPUs; give one NIC per GPU, or leave the field out to "
                         "deal them out evenly",
                         node.nic_of_gpu_size(), node.gpus()));
  for (int i = 0; i < node.nic_of_gpu_size(); ++i) {
    if (node.nic_of_gpu(i) >= node.nics())
      load.add(node, "nic_of_gpu",
               fmt::format("NIC {} does not exist; the node has NICs 0 to {}", node.nic_of_gpu(i),
                           node.nics() - 1),
               i);
    nics.push_back(node.nic_of_gpu(i));
  }
  return nics;
}

topology::Transport transport(const v1::Transport& from, HardwareLoad& load) {
  topology::Transport to;
  to.names = {from.name().begin(), from.name().end()};
  to.plugin = from.plugin();
  to.reported_latency = to_duration(from.reported_latency());
  to.message_latency = to_duration(from.message_latency());
  to.bandwidth = from.bandwidth();
  for (const v1::SlowerMessage& slower : from.slower())
    to.slower.push_back({to_bytes(slower.above()), to_duration(slower.latency())});
  for (const v1::TunerRegion& region : from.region()) {
    if (region.bytes_size() != region.ranks_size() || region.bytes_size() < 3)
      load.add(region, "bytes",
               fmt::format("{} sizes and {} numbers of ranks; a region has three corners or more, "
                           "each with both",
                           region.bytes_size(), region.ranks_size()));
    to.regions.push_back({region.collective(),
                          region.gpus_per_node(),
                          region.algorithm(),
                          region.protocol(),
                          {region.bytes().begin(), region.bytes().end()},
                          {region.ranks().begin(), region.ranks().end()}});
  }
  return to;
}

}  // namespace

topology::Node read_node(const v1::Node& from, HardwareLoad& load) {
  check_links(from, load);
  topology::Node to;
  to.gpus = from.gpus();
  to.interconnect = interconnect(from.interconnect());
  to.nvlinks_per_gpu = from.nvlinks_per_gpu();
  to.nvlinks_per_pair = from.nvlinks_per_pair();
  to.nvlink = to_bandwidth(from.nvlink_bandwidth());
  to.pcie = to_bandwidth(from.pcie_bandwidth());
  to.nics = from.nics();
  to.nic = to_bandwidth(from.nic_bandwidth());
  to.nic_of_gpu = nics_of_gpus(from, load);
  to.cpu = cpu(from.cpu());
  to.pairs = pairs(from);
  to.sockets = from.has_sockets() ? from.sockets() : 1;
  to.socket_of_gpu = {from.socket_of_gpu().begin(), from.socket_of_gpu().end()};
  to.socket_of_nic = {from.socket_of_nic().begin(), from.socket_of_nic().end()};
  to.socket_link = to_bandwidth(from.socket_bandwidth());
  to.host_copy = to_bandwidth(from.host_copy_bandwidth());
  to.cpu_memory_bandwidth = to_bandwidth(from.cpu_memory_bandwidth());
  to.cpu_cores = from.cpu_cores();
  to.cpu_memory = to_bytes(from.cpu_memory());
  to.nvlink_sharp = !from.has_nvlink_sharp() || from.nvlink_sharp();
  return to;
}

topology::Fabric read_fabric(const v1::Cluster& cluster, HardwareLoad& load) {
  const v1::Fabric& from = cluster.fabric();
  topology::Fabric to;
  to.kind = fabric_kind(from.kind());
  to.nodes_per_leaf = from.nodes_per_leaf();
  to.oversubscription = from.has_oversubscription() ? from.oversubscription() : 1.0;
  to.leaf_hop = to_duration(from.leaf_hop());
  to.spine_hop = to_duration(from.spine_hop());
  to.leaves_per_pod = from.leaves_per_pod();
  to.pod_oversubscription = from.has_pod_oversubscription() ? from.pod_oversubscription() : 1.0;
  to.core_hop = to_duration(from.core_hop());
  to.spines = from.has_spines() ? from.spines() : spines_of(to, cluster.node().nics());
  to.routers_per_group = from.routers_per_group();
  to.groups = from.groups();
  to.global_links = from.global_links();
  to.adaptive = from.adaptive();
  to.dimensions = {from.dimensions().begin(), from.dimensions().end()};
  to.open = from.open();
  to.cable = to_bandwidth(from.cable_bandwidth());
  if (cluster.has_transport()) to.transport = transport(cluster.transport(), load);
  to.hash_seed = from.hash_seed();
  const bool leaves = to.kind != FabricKind::torus && to.kind != FabricKind::rail_only;
  if (to.kind == FabricKind::single_switch) {
    if (to.nodes_per_leaf == 0) to.nodes_per_leaf = cluster.nodes();
    if (to.nodes_per_leaf < cluster.nodes())
      load.add(
          from, "nodes_per_leaf",
          fmt::format("a single switch holds all {} nodes; leave the field out", cluster.nodes()));
  } else if (leaves && to.nodes_per_leaf < 1) {
    load.add(from, "nodes_per_leaf",
             "a fabric of leaves and spines needs 'nodes_per_leaf', the nodes that share a leaf; "
             "write for example nodes_per_leaf: 20");
  }
  if (cluster.nodes() > 1 && cluster.node().nics() < 1)
    load.add(cluster.node(), "nics",
             fmt::format("{} nodes cannot reach each other without NICs; write for example "
                         "nics: 8",
                         cluster.nodes()));
  return to;
}

device::Gpu read_gpu(const v1::Gpu& from, HardwareLoad& load) {
  device::Gpu to;
  to.name = from.name();
  to.profile = from.profile();
  to.memory = to_bytes(from.memory());
  to.memory_marketing_gb = static_cast<double>(to_bytes(from.memory_marketing()).n) / 1e9;
  to.hbm = to_bandwidth(from.memory_bandwidth());
  to.sms = from.sms();
  to.power_w = from.power_w();
  to.rated_power_w = from.rated_power_w();
  if (to.rated_power_w > 0 && to.power_w > to.rated_power_w)
    load.add(
        from, "power_w",
        fmt::format("{} W is above the {} W that the board is rated for "
                    "(gpu.rated_power_w); write {} or less",
                    shortest(to.power_w), shortest(to.rated_power_w), shortest(to.rated_power_w)));
  to.bf16_flops = to_flop_rate(from.bf16());
  to.tf32_flops = to_flop_rate(from.tf32());
  to.fp32_flops = to_flop_rate(from.fp32());
  to.fp8_flops = to_flop_rate(from.fp8());
  to.fp4_flops = to_flop_rate(from.fp4());
  to.compute_capability = from.compute_capability();
  if (to.memory_marketing_gb > 0 && gib(to.memory) > to.memory_marketing_gb * 1.1)
    load.add(from, "memory",
             fmt::format("{} is more than a GPU sold as {} can report", from.memory(),
                         from.memory_marketing()));
  return to;
}

}  // namespace sim::input
