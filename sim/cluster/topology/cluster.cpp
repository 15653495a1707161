#include "sim/cluster/topology/cluster.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/random.h"

namespace sim::topology {
namespace {

constexpr int most_gpus = 1 << 24;

struct Checker {
  std::vector<std::string> found;

  void expect(bool good, const char* rule) {
    if (!good) found.emplace_back(rule);
  }
};

void check_node(Checker& check, const Node& node) {
  check.expect(node.gpus >= 1 && node.gpus <= 1024, "node.gpus must be 1 ... 1024");
  if (node.interconnect == GpuInterconnect::nvswitch) {
    check.expect(node.nvlinks_per_gpu >= 1, "node.nvlinks_per_gpu must be at least 1 (nvswitch)");
  }
  if (node.interconnect == GpuInterconnect::mesh) {
    check.expect(node.nvlinks_per_pair >= 1, "node.nvlinks_per_pair must be at least 1 (mesh)");
    check.expect(node.gpus <= 16, "a mesh joins at most 16 GPUs; use nvswitch");
  }
  if (node.interconnect != GpuInterconnect::pcie) {
    check.expect(node.nvlink.bytes_per_second > 0, "node.nvlink must be a bandwidth above 0");
  }
  if (node.interconnect == GpuInterconnect::direct) {
    check.expect(node.gpus <= 16, "direct NVLinks join at most 16 GPUs; use nvswitch");
    check.expect(std::ranges::all_of(node.pairs,
                                     [&](const NvlinkPair& p) {
                                       return p.a >= 0 && p.b >= 0 && p.a < node.gpus &&
                                              p.b < node.gpus && p.a != p.b && p.links >= 1 &&
                                              p.links <= 1024;
                                     }),
                 "node.pairs must join two different GPUs of the node by 1 ... 1024 links");
  }
  check.expect(node.sockets >= 1 && node.sockets <= 1024, "node.sockets must be 1 ... 1024");
  const auto in_sockets = [&](const std::vector<int>& list, int size) {
    return list.empty() || (std::ssize(list) == size && std::ranges::all_of(list, [&](int socket) {
                              return socket >= 0 && socket < node.sockets;
                            }));
  };
  check.expect(in_sockets(node.socket_of_gpu, node.gpus),
               "node.socket_of_gpu must have one entry for each GPU, a socket of the node");
  check.expect(in_sockets(node.socket_of_nic, node.nics),
               "node.socket_of_nic must have one entry for each NIC, a socket of the node");
  check.expect(node.pcie.bytes_per_second > 0, "node.pcie must be a bandwidth above 0");
  check.expect(node.nics >= 0 && node.nics <= 1024, "node.nics must be 0 ... 1024");
  if (node.nics == 0) {
    check.expect(node.nic_of_gpu.empty(), "node.nic_of_gpu names a NIC, but node.nics is 0");
    return;
  }
  check.expect(node.nic.bytes_per_second > 0, "node.nic must be a bandwidth above 0");
  check.expect(std::ssize(node.nic_of_gpu) == node.gpus,
               "node.nic_of_gpu must have one entry for each GPU of the node");
  check.expect(
      std::ranges::all_of(node.nic_of_gpu, [&](int nic) { return nic >= 0 && nic < node.nics; }),
      "node.nic_of_gpu must name NICs from 0 to node.nics - 1");
}

bool has_leaves(FabricKind kind) {
  return kind != FabricKind::single_switch && kind != FabricKind::rail_only &&
         kind != FabricKind::torus;
}

void check_routers(Checker& check, const Cluster& cluster) {
  const Fabric& f = cluster.fabric;
  check.expect(f.cable.bytes_per_second > 0, "fabric.cable must be a bandwidth above 0");
  if (f.kind == FabricKind::torus) {
    double routers = 1;
    bool good = !f.dimensions.empty() && f.dimensions.size() <= 8;
    for (const int extent : f.dimensions) {
      good = good && extent >= 1;
      routers *= extent;
    }
    check.expect(good, "fabric.dimensions must be 1 to 8 numbers above 0");
    check.expect(routers >= cluster.nodes && routers <= 1 << 20,
                 "fabric.dimensions must hold all nodes, one at each place, and at most 1048576");
    return;
  }
  check.expect(f.routers_per_group >= 1 && f.routers_per_group <= 4096,
               "fabric.routers_per_group must be 1 ... 4096");
  check.expect(f.groups >= 1 && f.groups <= 4096, "fabric.groups must be 1 ... 4096");
  check.expect(std::int64_t{f.groups} * f.routers_per_group <= 1 << 16,
               "a dragonfly has at most 65536 routers");
  check.expect(f.global_links >= 0 && f.global_links <= 4096,
               "fabric.global_links must be 0 ... 4096");
  const std::int64_t room = std::int64_t{f.groups} * f.routers_per_group * f.nodes_per_leaf;
  check.expect(room >= cluster.nodes,
               "groups x routers_per_group x nodes_per_leaf must hold all nodes");
  check.expect(f.groups == 1 || std::int64_t{f.routers_per_group} * f.global_links >= f.groups - 1,
               "routers_per_group x global_links must reach every other group");
}

void check_fabric(Checker& check, const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  const auto ratio = [](double value) {
    return std::isfinite(value) && value >= 0.01 && value <= 1000;
  };
  if (has_leaves(fabric.kind)) {
    check.expect(fabric.nodes_per_leaf >= 1 && fabric.nodes_per_leaf <= most_gpus,
                 "fabric.nodes_per_leaf must be at least 1");
    check.expect(ratio(fabric.oversubscription),
                 "fabric.oversubscription must be 0.01 ... 1000 (1: full bisection)");
  }
  if (fabric.kind == FabricKind::three_level) {
    check.expect(fabric.leaves_per_pod >= 1 && fabric.leaves_per_pod <= most_gpus,
                 "fabric.leaves_per_pod must be at least 1");
    check.expect(ratio(fabric.pod_oversubscription),
                 "fabric.pod_oversubscription must be 0.01 ... 1000 (1: full bisection)");
  }
  if (fabric.kind == FabricKind::leaf_spine) {
    check.expect(fabric.spines >= 1 && fabric.spines <= 4096, "fabric.spines must be 1 ... 4096");
  }
  if (fabric.kind == FabricKind::rail_only && cluster.nodes > 1) {
    check.expect(cluster.node.interconnect != GpuInterconnect::pcie,
                 "rails that never meet need NVLink inside the node to change rails");
  }
  if (fabric.kind == FabricKind::dragonfly || fabric.kind == FabricKind::torus) {
    check_routers(check, cluster);
  }
  check.expect(fabric.leaf_hop.ps >= 0, "fabric.leaf_hop must not be negative");
  check.expect(fabric.spine_hop.ps >= 0, "fabric.spine_hop must not be negative");
  check.expect(fabric.core_hop.ps >= 0, "fabric.core_hop must not be negative");
}

void check_conditions(Checker& check, const Cluster& cluster) {
  const bool leaf_spine = cluster.fabric.kind == FabricKind::leaf_spine;
  for (const Condition& c : cluster.conditions) {
    const bool node = c.node >= 0 && c.node < cluster.nodes;
    check.expect(c.node < 0 || node, "a condition names a node that is not there");
    check.expect((c.gpu < 0 && c.nic < 0) || node, "a condition of a GPU or NIC needs its node");
    check.expect(c.gpu < cluster.node.gpus, "a condition names a GPU that is not there");
    check.expect(c.nic < cluster.node.nics, "a condition names a NIC that is not there");
    check.expect(c.gpu < 0 || c.nic < 0, "a condition is of a GPU or of a NIC, not of both");
    check.expect(c.leaf < leaf_count(cluster), "a condition names a leaf that is not there");
    check.expect(c.spine < (leaf_spine ? cluster.fabric.spines : 0),
                 leaf_spine ? "a condition names a spine that is not there"
                            : "only the spines of fabric.kind leaf_spine have conditions");
    check.expect((c.node >= 0) + (c.leaf >= 0) + (c.spine >= 0) == 1,
                 "a condition is of a node, of a leaf or of a spine");
    check.expect(std::isfinite(c.speed) && c.speed > 0 && c.speed <= 1,
                 "condition.speed must be above 0 and at most 1");
    check.expect(c.speed == 1 || (c.nic < 0 && c.leaf < 0 && c.spine < 0),
                 "condition.speed is of GPUs: name no NIC, leaf or spine");
    check.expect(std::isfinite(c.bandwidth) && c.bandwidth >= 0 && c.bandwidth <= 1,
                 "condition.bandwidth must be 0 ... 1");
    check.expect(c.bandwidth == 1 || c.node < 0 || c.nic >= 0 ||
                     cluster.node.interconnect != GpuInterconnect::pcie,
                 "condition.bandwidth of a node or GPU is of its NVLinks, and there are none");
    // Below 1/1000 a part counts as broken, not slow. A GPU without its links cannot take part in
    // the job.
    check.expect(c.bandwidth >= 0.001 || (c.bandwidth == 0 && (c.nic >= 0 || c.spine >= 0)),
                 "condition.bandwidth must be at least 0.001; 0, failed, is for NICs and spines");
  }
  if (!check.found.empty()) return;
  for (const Condition& c : cluster.conditions) {
    if (c.nic >= 0 && c.bandwidth == 0 && cluster.nodes > 1) {
      check.expect(!nics_of_gpu(cluster, c.node * cluster.node.gpus).empty(),
                   "every NIC of a node has failed: nothing reaches it");
    }
  }
  const auto failed = [&](int spine) {
    return std::ranges::any_of(cluster.conditions, [&](const Condition& c) {
      return c.spine == spine && c.bandwidth == 0;
    });
  };
  if (!leaf_spine) return;
  bool some = false;
  for (int spine = 0; spine < cluster.fabric.spines; ++spine) some = some || !failed(spine);
  check.expect(some, "every spine has failed: the leaves cannot reach each other");
}

void check_placement(Checker& check, const Cluster& cluster) {
  const NodeRates& rates = cluster.rates;
  if (!rates.empty()) {
    check.expect(std::ssize(rates.names) >= cluster.nodes,
                 "the measured rates between nodes must name every node");
    check.expect(rates.bytes_per_second.size() == rates.names.size() * rates.names.size(),
                 "the measured rates must have one entry for each two nodes");
  }
  check.expect(cluster.gpu_kinds.empty() || std::ssize(cluster.gpu_kinds) == cluster.nodes,
               "every node has one kind of GPU");
  if (cluster.hosts.empty()) return;
  std::vector<int> sorted = cluster.hosts;
  std::ranges::sort(sorted);
  bool each_once = std::ssize(sorted) == cluster.nodes;
  for (int i = 0; each_once && i < cluster.nodes; ++i)
    each_once = sorted[static_cast<std::size_t>(i)] == i;
  check.expect(each_once, "hosts must name every node of the cluster once");
}

}  // namespace

int host_of(const Cluster& cluster, int job_node) {
  return cluster.hosts.empty() ? job_node : cluster.hosts[static_cast<std::size_t>(job_node)];
}

int gpu_of_rank(const Cluster& cluster, int rank) {
  const int gpus = cluster.node.gpus;
  return host_of(cluster, rank / gpus) * gpus + rank % gpus;
}

int nodes_reached(const Cluster& cluster, int job_nodes) {
  if (cluster.hosts.empty()) return job_nodes;
  return 1 + *std::max_element(cluster.hosts.begin(), cluster.hosts.begin() + job_nodes);
}

bool scatters(const Cluster& cluster) {
  return cluster.scattered && cluster.hosts.empty() && cluster.conditions.empty() &&
         !cluster.jitter.draws() && cluster.rates.empty() && cluster.gpu_kinds.empty();
}

std::vector<int> drawn_nodes(const Cluster& cluster, int draw) {
  std::vector<int> nodes(static_cast<std::size_t>(cluster.nodes));
  std::iota(nodes.begin(), nodes.end(), 0);
  Random random(static_cast<std::uint64_t>(draw));
  // Fisher and Yates.
  for (std::size_t left = nodes.size(); left > 1; --left)
    std::swap(nodes[left - 1], nodes[random.next() % left]);
  return nodes;
}

bool nvlinked(const Node& node, int a, int b) {
  switch (node.interconnect) {
    case GpuInterconnect::nvswitch:
    case GpuInterconnect::mesh:
      return true;
    case GpuInterconnect::pcie:
      return false;
    case GpuInterconnect::direct:
      break;
  }
  return std::ranges::any_of(node.pairs, [&](const NvlinkPair& p) {
    return (p.a == a && p.b == b) || (p.a == b && p.b == a);
  });
}

std::vector<NvlinkPair> bridge_pairs(int gpus, int links) {
  std::vector<NvlinkPair> pairs;
  for (int gpu = 0; gpu + 1 < gpus; gpu += 2) pairs.push_back({gpu, gpu + 1, links});
  return pairs;
}

std::vector<NvlinkPair> cube_mesh_pairs() {
  // A GPU has six links. The sides and diagonals of its square have 1, 1 and 2 links. The edge to
  // the other square has 2 links, or 1 if a diagonal took one.
  return {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 2}, {4, 5, 1}, {4, 6, 1},
          {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}, {0, 4, 2}, {1, 5, 2}, {2, 6, 1}, {3, 7, 1}};
}

int kind_of_gpu(const Cluster& cluster, int gpu) {
  if (cluster.gpu_kinds.empty()) return 0;
  return cluster.gpu_kinds[static_cast<std::size_t>(gpu / cluster.node.gpus)];
}

int leaf_count(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  if (!has_leaves(fabric.kind)) return 0;
  if (fabric.kind == FabricKind::dragonfly) return fabric.groups * fabric.routers_per_group;
  const int units = (cluster.nodes - 1) / fabric.nodes_per_leaf + 1;
  return fabric.kind == FabricKind::rail_optimised ? units * cluster.node.nics : units;
}

int first_node_of_leaf(const Cluster& cluster, int leaf) {
  const int rails = cluster.fabric.kind == FabricKind::rail_optimised ? cluster.node.nics : 1;
  return leaf / rails * cluster.fabric.nodes_per_leaf;
}

namespace {

// The product of `part` over the conditions that affect the GPU.
double left_of(const Cluster& cluster, int gpu, double Condition::*part) {
  double left = 1;
  for (const Condition& c : cluster.conditions) {
    if (c.node != gpu / cluster.node.gpus || c.nic >= 0) continue;
    if (c.gpu < 0 || c.gpu == gpu % cluster.node.gpus) left *= c.*part;
  }
  return left;
}

}  // namespace

double speed_of_gpu(const Cluster& cluster, int gpu) {
  const double speed = left_of(cluster, gpu, &Condition::speed);
  const Jitter& jitter = cluster.jitter;
  if (!jitter.draws()) return speed;
  // The seeds of neighbours must differ in many bits, so each is a number of the seed's sequence.
  Random seeds(static_cast<std::uint64_t>(jitter.seed));
  const std::uint64_t first = seeds.next();
  Random random(first ^ (static_cast<std::uint64_t>(gpu) * 0xbf58476d1ce4e5b9));
  double slowdown = 1 + jitter.sigma * std::abs(random.normal());
  if (jitter.slow_share > 0 && random.uniform() < jitter.slow_share) slowdown *= jitter.slow_factor;
  // Six digits: independent of the last bits of the machine's logarithm.
  return speed * std::round(1e6 / slowdown) / 1e6;
}

bool alike(const Cluster& cluster) {
  return cluster.conditions.empty() && cluster.gpu_kinds.empty() && !cluster.jitter.draws();
}

double nvlinks_of_gpu(const Cluster& cluster, int gpu) {
  return left_of(cluster, gpu, &Condition::bandwidth);
}

int period(const Cluster& cluster) {
  if (!cluster.conditions.empty() || !cluster.rates.empty()) return 0;
  const Fabric& fabric = cluster.fabric;
  switch (fabric.kind) {
    case FabricKind::single_switch:
    case FabricKind::rail_only:
      return 1;
    case FabricKind::fat_tree:
    case FabricKind::rail_optimised:
      return fabric.nodes_per_leaf;
    case FabricKind::three_level:
      return fabric.nodes_per_leaf * fabric.leaves_per_pod;
    case FabricKind::dragonfly:
      return fabric.adaptive ? fabric.nodes_per_leaf * fabric.routers_per_group : 0;
    case FabricKind::leaf_spine:  // routes depend on hashes of both ends
    case FabricKind::torus:
      break;
  }
  return 0;
}

std::vector<int> nics_of_gpu(const Cluster& cluster, int gpu) {
  const int node = gpu / cluster.node.gpus;
  std::vector<int> own = nics_of_gpu(cluster.node, gpu % cluster.node.gpus);
  const auto failed = [&](int nic) {
    return std::ranges::any_of(cluster.conditions, [&](const Condition& c) {
      return c.node == node && c.nic == nic && c.bandwidth == 0;
    });
  };
  if (cluster.conditions.empty() || own.empty()) return own;
  const int first = own.front();
  std::erase_if(own, failed);
  for (int step = 1; own.empty() && step < cluster.node.nics; ++step) {
    const int nic = (first + step) % cluster.node.nics;
    if (!failed(nic)) own.push_back(nic);
  }
  return own;
}

std::vector<int> nics_of_gpu(const Node& node, int gpu) {
  if (node.nics == 0) return {};
  const int own = node.nic_of_gpu[static_cast<std::size_t>(gpu)];
  std::vector<int> all = {own};
  for (int nic = own + 1; nic < node.nics; ++nic) {
    if (std::ranges::count(node.nic_of_gpu, nic) > 0) break;
    all.push_back(nic);
  }
  return all;
}

std::vector<std::string> problems(const Cluster& cluster) {
  Checker check;
  check_node(check, cluster.node);
  check.expect(cluster.nodes >= 1, "nodes must be at least 1");
  check.expect(cluster.nodes <= most_gpus / std::max(1, cluster.node.gpus),
               "more than 16777216 GPUs");
  if (cluster.nodes > 1) {
    check.expect(cluster.node.nics >= 1, "several nodes need at least one NIC each (node.nics)");
  }
  check_fabric(check, cluster);
  if (check.found.empty()) check_conditions(check, cluster);
  check_placement(check, cluster);
  return std::move(check.found);
}

Cluster first_nodes(Cluster cluster, int nodes) {
  assert(nodes >= 1);
  assert(nodes <= cluster.nodes);
  // Trunks are sized by the nodes that a leaf has room for, not by the present ones.
  cluster.nodes = nodes;
  cluster.hosts.clear();
  if (!cluster.gpu_kinds.empty()) cluster.gpu_kinds.resize(static_cast<std::size_t>(nodes));
  const int leaves = leaf_count(cluster);
  std::erase_if(cluster.conditions,
                [&](const Condition& c) { return c.node >= nodes || c.leaf >= leaves; });
  return cluster;
}

std::string_view name(GpuInterconnect interconnect) {
  constexpr std::array<std::string_view, 4> names = {"nvswitch", "mesh", "pcie", "direct"};
  return names[static_cast<std::size_t>(interconnect)];
}

std::string_view name(HostCpu cpu) {
  constexpr std::array<std::string_view, 3> names = {"intel", "amd", "arm"};
  return names[static_cast<std::size_t>(cpu)];
}

std::string_view name(FabricKind kind) {
  constexpr std::array<std::string_view, 8> names = {"single_switch", "fat_tree",  "rail_optimised",
                                                     "three_level",   "rail_only", "leaf_spine",
                                                     "dragonfly",     "torus"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace sim::topology
