#include "sim/input/cluster/import_cluster.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include "sim/cluster/topology/wiring.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;

v1::Fabric::Kind kind_of(topology::FabricKind kind) {
  switch (kind) {
    case topology::FabricKind::single_switch:
      return v1::Fabric::single_switch;
    case topology::FabricKind::rail_optimised:
      return v1::Fabric::rail_optimised;
    case topology::FabricKind::rail_only:
      return v1::Fabric::rail_only;
    case topology::FabricKind::three_level:
      return v1::Fabric::three_level;
    default:
      return v1::Fabric::fat_tree;
  }
}

void take_nvlinks(const v1::Node& from, v1::Node& to) {
  to.set_interconnect(from.interconnect());
  to.set_nvlinks_per_gpu(from.nvlinks_per_gpu());
  to.set_nvlinks_per_pair(from.nvlinks_per_pair());
  *to.mutable_nvlink_pair() = from.nvlink_pair();
  if (from.has_nvlink_sharp()) to.set_nvlink_sharp(from.nvlink_sharp());
}

// The imported node, with unknown values taken from the known cluster.
Diagnostics set_node(const ImportedFile& file, const std::string& like, v1::Node& node) {
  const v1::Node known = node;
  node.Clear();
  Source source(file.path);
  v1::Cluster read;
  if (Diagnostics problems =
          source.read(node_text(*file.read.node, file.read.format), read, {}, false);
      !problems.empty())
    return problems;
  node = read.node();
  std::string rest = fmt::format("rates that it does not say: {}", like);
  if (!file.read.nvlinks_known && known.gpus() == node.gpus()) {
    take_nvlinks(known, node);
    rest = fmt::format("NVLinks and {}", rest);
  }
  const bool linked = node.interconnect() != v1::Node::pcie;
  if (linked && node.nvlink_bandwidth().empty())
    node.set_nvlink_bandwidth(known.nvlink_bandwidth());
  if (node.pcie_bandwidth().empty()) node.set_pcie_bandwidth(known.pcie_bandwidth());
  if (node.nics() > 0 && node.nic_bandwidth().empty())
    node.set_nic_bandwidth(known.nic_bandwidth());
  node.clear_source();
  node.add_source(fmt::format("{} ({})", file.path, file.read.format));
  node.add_source(rest);
  return {};
}

void set_fabric(const ImportedFile& file, const std::string& like, v1::Cluster& cluster) {
  const topology::WiringShape shape = topology::shape_of(*file.read.wiring);
  v1::Fabric fabric;
  const v1::Fabric& known = cluster.fabric();
  fabric.set_kind(kind_of(shape.fabric.kind));
  fabric.set_nodes_per_leaf(shape.fabric.nodes_per_leaf);
  fabric.set_oversubscription(shape.fabric.oversubscription);
  if (shape.fabric.leaves_per_pod > 0) fabric.set_leaves_per_pod(shape.fabric.leaves_per_pod);
  fabric.set_leaf_hop(known.leaf_hop());
  fabric.set_spine_hop(known.spine_hop());
  if (shape.fabric.leaves_per_pod > 0) fabric.set_core_hop(known.core_hop());
  fabric.add_source(fmt::format("{} ({}): {}", file.path, file.read.format, shape.seen));
  fabric.add_source(fmt::format("latencies: {}", like));
  *cluster.mutable_fabric() = fabric;
  cluster.set_nodes(shape.nodes);
  cluster.clear_condition();
  cluster.clear_host();
}

Diagnostics twice(std::span<const ImportedFile> files) {
  const ImportedFile *node = nullptr, *wiring = nullptr;
  for (const ImportedFile& file : files) {
    const ImportedFile*& seen = file.read.node ? node : wiring;
    if (seen != nullptr)
      return {{file.path, fmt::format("{} says what a {} is already; give one file of each kind",
                                      seen->path, file.read.node ? "node" : "fabric")}};
    seen = &file;
  }
  return {};
}

}  // namespace

Result<std::string> cluster_text(std::span<const ImportedFile> files, const std::string& like,
                                 const std::string& name) {
  if (Diagnostics problems = twice(files); !problems.empty()) return problems;
  const Result<std::string> path = locate(Kind::topology, like);
  if (!path) return path.errors();
  Source source(*path);
  v1::Cluster cluster;
  if (Diagnostics problems = load(source, cluster); !problems.empty()) return problems;
  cluster.set_name(name);
  cluster.clear_site();
  cluster.mutable_gpu()->clear_alias();
  cluster.clear_source();
  cluster.add_source(fmt::format("the GPU, and what else no file says: {}", like));
  for (const ImportedFile& file : files) {
    if (file.read.node) {
      if (Diagnostics problems = set_node(file, like, *cluster.mutable_node()); !problems.empty())
        return problems;
    } else {
      set_fabric(file, like, cluster);
    }
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(cluster, &text);
  if (const Result<Machine> machine = parse_cluster(text, name); !machine) return machine.errors();
  return text;
}

}  // namespace sim::input
