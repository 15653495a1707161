// cluster.h — a cluster as its description states it: nodes, links, switches, NICs. The numbers
// come from topologies/*.textproto; graph.h turns them into a Boost graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"

namespace sim::topology {

enum class GpuInterconnect : std::uint8_t { nvswitch, mesh, pcie, direct };
enum class HostCpu : std::uint8_t { intel, amd, arm };
enum class FabricKind : std::uint8_t {
  single_switch,
  fat_tree,
  rail_optimised,
  three_level,
  rail_only,
  leaf_spine,
  dragonfly,
  torus,
};

// NVLinks that join two GPUs of a node directly (interconnect `direct`): bridges, cube meshes.
struct NvlinkPair {
  int a = 0, b = 0, links = 1;
  bool operator==(const NvlinkPair&) const = default;
};

// What CPUs reach of their data sheets, and what stands for a sheet that nobody gives.
struct HostLevels {
  double copied = 1;          // share of PCIe that pinned copies reach
  double carried = 1;         // share of the memory's bandwidth that updates draw
  Bandwidth core{};           // what one core draws; 0: cores limit nothing
  Bandwidth pageable{};       // copies of 16 bits down through pageable memory, widened there; 0:
                              // as pinned ones
  Bandwidth socket_memory{};  // bandwidth of a socket's memory where the node says none
  bool operator==(const HostLevels&) const = default;
};

struct Node {
  int gpus = 8;
  GpuInterconnect interconnect = GpuInterconnect::nvswitch;
  int nvlinks_per_gpu = 0;   // links of one GPU (nvswitch), or
  int nvlinks_per_pair = 0;  // links between each pair (mesh)
  Bandwidth nvlink{};        // one link, one direction, raw
  Bandwidth pcie{};          // GPU to its PCIe switch or root, one direction, raw
  int nics = 0;
  Bandwidth nic{};              // one NIC, one direction, raw
  std::vector<int> nic_of_gpu;  // nearest NIC of each GPU; size gpus
  HostCpu cpu = HostCpu::intel;
  std::vector<NvlinkPair> pairs;  // direct
  bool nvlink_sharp = true;       // NVSwitches may add (NVLS); false: NCCL_NVLS_ENABLE=0
  // CPU sockets (or trays of an NVLink domain that is larger than a machine). Empty lists: GPUs
  // and NICs are dealt out evenly in order.
  int sockets = 1;
  std::vector<int> socket_of_gpu, socket_of_nic;
  Bandwidth socket_link{};  // between each two sockets, one direction; 0: the same as `pcie`
  // The CPUs, for what is offloaded to them.
  HostLevels host;
  Bandwidth host_copy{};             // pinned copies of one GPU, one direction; 0: of `pcie`
  Bandwidth cpu_memory_bandwidth{};  // of all sockets, from the data sheet; 0: host.socket_memory
  int cpu_cores = 0;                 // of all sockets; 0: they limit nothing
  Bytes cpu_memory{};                // of the node; 0: nobody says, nothing is refused
  bool operator==(const Node&) const = default;
};

// An NVLink domain, a "node" for placement, may span several machines (NVL72: 18 trays of four
// GPUs): its GPUs reach each other over NVLink and its sockets are joined by nothing else that
// matters, because a path prefers NVLink.

struct Fabric {
  FabricKind kind = FabricKind::fat_tree;
  int nodes_per_leaf = 0;         // nodes whose NICs share one leaf (rail: one leaf per rail)
  double oversubscription = 1.0;  // down-link capacity of a leaf over its up-link capacity
  Duration leaf_hop{};            // extra latency of one leaf crossing
  Duration spine_hop{};           // extra latency of leaf - spine - leaf beyond one leaf
  // three_level
  int leaves_per_pod = 0;
  double pod_oversubscription = 1.0;  // capacity of a pod's leaves over its links to the core
  Duration core_hop{};                // beyond a spine crossing
  // leaf_spine: separate spine switches, a flow takes the one that its hash names
  int spines = 0;
  // dragonfly: `nodes_per_leaf` nodes on a router, all routers of a group joined to each other
  int routers_per_group = 0, groups = 0, global_links = 0;  // links between groups, per router
  // ... where packets take detours round what is busy (Slingshot), else the shortest way
  bool adaptive = false;
  // torus: one router per node; `open`: a mesh, without the links that close its rings
  std::vector<int> dimensions{};
  bool open = false;
  // dragonfly, torus: one cable between routers, one direction
  Bandwidth cable{};
  bool operator==(const Fabric&) const = default;
};

// A part that is not as the description says: slow, broken, or busy with other people's traffic.
// Which part: a GPU, a NIC or all of a node; a leaf's cables to the spine; a spine (leaf_spine).
struct Condition {
  int node = -1, gpu = -1, nic = -1, leaf = -1, spine = -1;
  double speed = 1;      // of the GPU's kernels; (0, 1] of what the profile says
  double bandwidth = 1;  // share of the part's links that is left; 0: failed (NIC, leaf, spine)
  bool operator==(const Condition&) const = default;
};

// What was measured between nodes: bytes per second that one sends another with all its NICs. A
// message crosses the fabric and, as one more link of its own, this rate.
struct NodeRates {
  std::vector<std::string> names;        // of the nodes; empty: nothing was measured
  std::vector<double> bytes_per_second;  // from a to b at a x names + b; on the diagonal 0

  bool operator==(const NodeRates&) const = default;
  bool empty() const { return names.empty(); }
  double at(int from, int to) const {
    return bytes_per_second[static_cast<std::size_t>(from) * names.size() +
                            static_cast<std::size_t>(to)];
  }
};

struct Cluster {
  std::string name;
  int nodes = 1;
  Node node;
  Fabric fabric;
  std::vector<Condition> conditions;
  NodeRates rates;             // of at least `nodes` nodes, or empty
  std::vector<int> gpu_kinds;  // of each node: 0 the GPU of the description, 1 ... others; empty: 0
  std::vector<int> hosts;      // the node that the job's i-th node is, for all nodes; empty: i
  bool scattered = false;      // a job's nodes lie anywhere; see scatters()

  bool operator==(const Cluster&) const = default;
  int gpus() const { return nodes * node.gpus; }
};

// Nodes that `gpus` GPUs of a job fill, the last one perhaps in part.
constexpr int nodes_of(int gpus, int gpus_per_node) {
  return (gpus + gpus_per_node - 1) / gpus_per_node;
}

// The node, the GPU of the cluster that a job's node, a job's rank stands on.
int host_of(const Cluster& cluster, int job_node);
int gpu_of_rank(const Cluster& cluster, int rank);
// Nodes of the cluster from 0 on among which the job's first `job_nodes` are.
int nodes_reached(const Cluster& cluster, int job_nodes);

// Nobody says which nodes a job has, and all are alike: it may have any, in any order.
bool scatters(const Cluster& cluster);
// All nodes in the order of a draw: a job has the first of them. The same for a draw on every run.
std::vector<int> drawn_nodes(const Cluster& cluster, int draw);

// Switches that NICs are joined to and conditions may name; 0: the fabric has none with cables up.
int leaf_count(const Cluster& cluster);
// The first node below a leaf.
int first_node_of_leaf(const Cluster& cluster, int leaf);

// Nodes by which ranks may move, all together, without a difference to any route: whole leaves or
// pods. 0: there is no such number.
int period(const Cluster& cluster);

// NICs that a GPU of the node owns, ascending: the one it names in nic_of_gpu and those above it
// that no GPU names (nodes with several NICs per GPU). Empty: the node has none.
std::vector<int> nics_of_gpu(const Node& node, int gpu);

// NICs that a GPU of the cluster can use: its own that have not failed, else the nearest working
// one of its node (the next above, around). Empty: the node has none left.
std::vector<int> nics_of_gpu(const Cluster& cluster, int gpu);

int kind_of_gpu(const Cluster& cluster, int gpu);
// Speed of a GPU's kernels under the cluster's conditions, 1: as the profile says.
double speed_of_gpu(const Cluster& cluster, int gpu);
// Share of its NVLinks' bandwidth that the conditions leave.
double nvlinks_of_gpu(const Cluster& cluster, int gpu);

// Two GPUs of a node have NVLinks between them, or an NVSwitch.
bool nvlinked(const Node& node, int a, int b);

// The NVLinks of pairs of bridged cards: (0,1) (2,3) ...
std::vector<NvlinkPair> bridge_pairs(int gpus, int links);
// Eight GPUs as the corners of two squares with diagonals, corner i joined to corner i + 4.
std::vector<NvlinkPair> cube_mesh_pairs();

// Every rule that the cluster breaks, each with what would do. A cluster without problems has a
// graph, and a route between every two of its GPUs.
std::vector<std::string> problems(const Cluster& cluster);

// The first `nodes` nodes in their own order, and the switches they need. Paths between them cross
// links of the same kinds, capacities and latencies as in the whole cluster, so a small job on a
// large cluster need not build all of it. REQUIRES: 1 <= nodes <= cluster.nodes.
Cluster first_nodes(Cluster cluster, int nodes);

std::string_view name(GpuInterconnect interconnect);
std::string_view name(HostCpu cpu);
std::string_view name(FabricKind kind);

}  // namespace sim::topology
