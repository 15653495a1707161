// cluster.h — a cluster's description: nodes, links, switches, NICs. The numbers come from
// topologies/*.textproto; graph.h turns them into a Boost graph.
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

// NVLinks that directly join two GPUs of a node (interconnect `direct`): bridges, cube meshes.
struct NvlinkPair {
  int a = 0, b = 0, links = 1;
  bool operator==(const NvlinkPair&) const = default;
};

// The share of their data sheet that CPUs reach, and defaults for missing data-sheet values.
struct HostLevels {
  double copied = 1;   // share of PCIe bandwidth for pinned copies
  double carried = 1;  // share of memory bandwidth for updates
  Bandwidth core{};    // bandwidth that one core uses; 0: cores are no limit
  // 16-bit copies down through pageable memory, widened there; 0: as pinned ones
  Bandwidth pageable{};
  Bandwidth socket_memory{};  // bandwidth of a socket's memory if the node gives none
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
  bool nvlink_sharp = true;       // NVSwitches can add (NVLS); false: NCCL_NVLS_ENABLE=0
  // CPU sockets (or trays of an NVLink domain that is larger than a machine). Empty lists: GPUs and
  // NICs are distributed evenly, in order.
  int sockets = 1;
  std::vector<int> socket_of_gpu, socket_of_nic;
  Bandwidth socket_link{};  // between each two sockets, one direction; 0: the same as `pcie`
  // The CPUs, for work that is offloaded to them.
  HostLevels host;
  Bandwidth host_copy{};             // pinned copies of one GPU, one direction; 0: of `pcie`
  Bandwidth cpu_memory_bandwidth{};  // of all sockets, from the data sheet; 0: host.socket_memory
  int cpu_cores = 0;                 // of all sockets; 0: no limit
  Bytes cpu_memory{};                // of the node; 0: unknown, nothing is refused
  bool operator==(const Node&) const = default;
};

// A node is an NVLink domain and may span several machines (NVL72: 18 trays of four GPUs). Its GPUs
// reach each other over NVLink. Other links between its sockets do not matter, because a path
// prefers NVLink.

// The library between NCCL and the NICs, if it is not NCCL's own InfiniBand transport, and how it
// differs from that: EFA and Slingshot through aws-ofi-nccl, for example.
struct Transport {
  // A size from which on a step between nodes takes longer: another protocol of the network.
  struct Slower {
    Bytes above{};  // of the whole array
    Duration latency{};
    bool operator==(const Slower&) const = default;
  };
  // The algorithm and protocol that a tuner plugin chooses in a region of message sizes and numbers
  // of ranks: a polygon in log2 of both.
  struct Region {
    std::string collective;  // "all-reduce"
    int gpus_per_node = 0;
    std::string algorithm, protocol;  // "Tree", "LL128"
    std::vector<std::int64_t> bytes;  // of the corners; as many as ranks
    std::vector<std::int64_t> ranks;
    bool operator==(const Region&) const = default;
  };

  std::vector<std::string> names;  // of the network in tables of measurements: "EFA", "Slingshot"
  std::string plugin;              // "aws-ofi-nccl"; "": NCCL's own transport
  // Latency of a step between nodes that the plugin reports to NCCL; it decides the algorithm only.
  Duration reported_latency{};
  // Time that a step between nodes takes beyond one over InfiniBand.
  Duration message_latency{};
  std::vector<Slower> slower;   // ascending
  std::vector<Region> regions;  // the first that holds a size decides; none: NCCL's own model
  double bandwidth = 0;  // share of a NIC's rate that long messages reach; 0: as in the profile
  bool operator==(const Transport&) const = default;
};

struct Fabric {
  FabricKind kind = FabricKind::fat_tree;
  int nodes_per_leaf = 0;         // nodes whose NICs share one leaf (rail: one leaf per rail)
  double oversubscription = 1.0;  // down-link capacity of a leaf over its up-link capacity
  Duration leaf_hop{};            // extra latency of crossing a leaf
  Duration spine_hop{};           // extra latency of leaf - spine - leaf, in addition to one leaf
  // three_level
  int leaves_per_pod = 0;
  double pod_oversubscription = 1.0;  // capacity of a pod's leaves over its links to the core
  Duration core_hop{};                // in addition to crossing a spine
  // leaf_spine: separate spine switches; the hash of a flow selects one
  int spines = 0;
  // dragonfly: `nodes_per_leaf` nodes on a router; all routers of a group are joined to each other
  int routers_per_group = 0, groups = 0, global_links = 0;  // links between groups, per router
  // ... packets take detours around busy cables (Slingshot); else the shortest path
  bool adaptive = false;
  // torus: one router per node; `open`: a mesh, without the links that close the rings
  std::vector<int> dimensions{};
  bool open = false;
  // dragonfly, torus: one cable between routers, one direction
  Bandwidth cable{};
  Transport transport{};
  std::int64_t hash_seed = 0;  // leaf_spine: another seed sends flows over other spines
  bool operator==(const Fabric&) const = default;
};

// A part that deviates from the description: slow, broken, or busy with other traffic. The part is
// a GPU, a NIC or all of a node; a leaf's cables to the spine; or a spine (leaf_spine).
struct Condition {
  int node = -1, gpu = -1, nic = -1, leaf = -1, spine = -1;
  double speed = 1;  // of the GPU's kernels, relative to the profile; (0, 1]
  // Remaining share of the bandwidth of the part's links: a GPU's NVLinks, a NIC's port, of a node
  // both; 0: failed (NIC, leaf, spine).
  double bandwidth = 1;
  bool operator==(const Condition&) const = default;
};

// Measured rates between nodes: bytes per second from one node to another with all its NICs. A
// message crosses the fabric and one extra link with this rate.
struct NodeRates {
  std::vector<std::string> names;        // of the nodes; empty: no measurements
  std::vector<double> bytes_per_second;  // from a to b at a x names.size() + b; 0: a is b

  bool operator==(const NodeRates&) const = default;
  bool empty() const { return names.empty(); }
  double at(int from, int to) const {
    return bytes_per_second[static_cast<std::size_t>(from) * names.size() +
                            static_cast<std::size_t>(to)];
  }
};

// GPUs that differ by chance: a GPU's kernels take 1 + sigma |z| times as long, z a standard normal
// number that depends on the seed and on the GPU's number only.
struct Jitter {
  double sigma = 0;  // 0: all GPUs are alike
  std::int64_t seed = 0;
  // GPUs that are slow for a while: the share of the time that a GPU is slow, and how many times as
  // long its kernels take then. A replay is one moment: each GPU is slow with this probability.
  double slow_share = 0, slow_factor = 1;
  bool draws() const { return sigma > 0 || slow_share > 0; }
  bool operator==(const Jitter&) const = default;
};

struct Cluster {
  std::string name;
  int nodes = 1;
  Node node;
  Fabric fabric;
  std::vector<Condition> conditions;
  NodeRates rates;  // of at least `nodes` nodes, or empty
  // By node: 0 is the GPU of the description, 1 ... are others; empty: 0.
  std::vector<int> gpu_kinds;
  std::vector<int> hosts;  // the cluster's node for each node of the job; empty: i
  bool scattered = false;  // a job may get any nodes; see scatters()
  Jitter jitter{};
  std::string nccl_version;  // "2.27.5"; "": that of the profile's tables

  bool operator==(const Cluster&) const = default;
  int gpus() const { return nodes * node.gpus; }
};

// Nodes that `gpus` GPUs of a job occupy; the last one may be partly used.
constexpr int nodes_of(int gpus, int gpus_per_node) {
  return (gpus + gpus_per_node - 1) / gpus_per_node;
}

// The cluster's node of a job's node, and the cluster's GPU of a job's rank.
int host_of(const Cluster& cluster, int job_node);
int gpu_of_rank(const Cluster& cluster, int rank);
// The number of leading nodes of the cluster that contain the job's first `job_nodes` nodes.
int nodes_reached(const Cluster& cluster, int job_nodes);

// The nodes of a job are unspecified and all nodes are alike, so a job may have any, in any order.
bool scatters(const Cluster& cluster);
// All nodes in the order of a draw; a job takes the first ones. The same draw is the same on every
// run.
std::vector<int> drawn_nodes(const Cluster& cluster, int draw);

// Switches with NICs that conditions may name; 0: the fabric has no leaves with uplinks.
int leaf_count(const Cluster& cluster);
// The first node below a leaf.
int first_node_of_leaf(const Cluster& cluster, int leaf);

// The symmetry step of the cluster: shifting all ranks by this many nodes (whole leaves or pods)
// changes no route. 0: there is none.
int period(const Cluster& cluster);

// NICs that a GPU of the node owns, ascending: the NIC in nic_of_gpu, and the following NICs that
// no GPU names (nodes with several NICs per GPU). Empty: the node has none.
std::vector<int> nics_of_gpu(const Node& node, int gpu);

// NICs that a GPU of the cluster can use: its own working ones, else the nearest working NIC of its
// node (the next above, cyclically). Empty: no NIC of the node works.
std::vector<int> nics_of_gpu(const Cluster& cluster, int gpu);

int kind_of_gpu(const Cluster& cluster, int gpu);
// Whether all GPUs are of one kind and run at the profile's speed.
bool alike(const Cluster& cluster);
// Speed of a GPU's kernels under the cluster's conditions and jitter; 1: as in the profile.
double speed_of_gpu(const Cluster& cluster, int gpu);
// Remaining share of its NVLinks' bandwidth under the conditions.
double nvlinks_of_gpu(const Cluster& cluster, int gpu);

// Whether two GPUs of a node are joined by NVLinks or an NVSwitch.
bool nvlinked(const Node& node, int a, int b);

// The NVLinks of pairs of bridged cards: (0,1) (2,3) ...
std::vector<NvlinkPair> bridge_pairs(int gpus, int links);
// Eight GPUs as the corners of two squares with diagonals, corner i joined to corner i + 4.
std::vector<NvlinkPair> cube_mesh_pairs();

// Every rule that the cluster breaks, each with valid values. A cluster without problems has a
// graph, and a route between every two of its GPUs.
std::vector<std::string> problems(const Cluster& cluster);

// The first `nodes` nodes in their own order, and the switches that they need. Paths between them
// cross links of the same kinds, capacities and latencies as in the whole cluster. So a small job
// on a large cluster does not build all of it. REQUIRES: 1 <= nodes <= cluster.nodes.
Cluster first_nodes(Cluster cluster, int nodes);

std::string_view name(GpuInterconnect interconnect);
std::string_view name(HostCpu cpu);
std::string_view name(FabricKind kind);

}  // namespace sim::topology
