// profile.h — the calibration of communication: NCCL's own tables, the real speed of links, and the
// memory of a communicator. Values: calibration/*.textproto, section `communication`; C++ contains
// no numbers of machines.
//
// Two parts must not be mixed. `nccl` is what NCCL assumes: it decides the algorithm, the protocol
// and the channels. `achieved` is what machines reach: it gives the time of the chosen collective.
// NCCL's assumptions stay as in its source; only `achieved` is fitted.
//
// Invariants (check() names every broken one)
// (1) An efficiency is a fraction of a raw data-sheet rate, 0 < fraction <= 1.
// (2) A latency and a byte count is never negative, a rate is never zero where it is used.
// (3) A ramp ascends in bytes, its fractions never fall, and time never falls with size:
//     between two points (b1, f1), (b2, f2): f2 - f1 <= f1 ln(b2 / b1).
//
// Source of the tables: NVIDIA/nccl tag v2.27.7-1, src/graph/tuning.cc, topo.h, search.cc,
// src/transport/*.cc. Formulas that use the fields: cost.h, channels.h, buffers.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"

namespace sim::network {

enum class Protocol : std::uint8_t { ll, ll128, simple };
enum class Algorithm : std::uint8_t { tree, ring, nvls, nvls_tree };
constexpr int protocol_count = 3;
constexpr int algorithm_count = 4;
std::string_view name(Protocol protocol);    // "LL", "LL128", "Simple"
std::string_view name(Algorithm algorithm);  // "Tree", "Ring", "NVLS", "NVLSTree"

// One value per protocol.
template <class T>
struct PerProtocol {
  T ll{}, ll128{}, simple{};
  const T& operator[](Protocol p) const {
    return p == Protocol::ll ? ll : p == Protocol::ll128 ? ll128 : simple;
  }
  friend bool operator==(const PerProtocol&, const PerProtocol&) = default;
};

// One value per number of nodes: one, two, more than two.
struct PerNodes {
  Bandwidth one{}, two{}, more{};
  Bandwidth operator[](int nodes) const { return nodes <= 1 ? one : nodes == 2 ? two : more; }
  friend bool operator==(const PerNodes&, const PerNodes&) = default;
};

// Latency of each algorithm and protocol. NVLS and NVLSTree have only Simple.
struct AlgorithmLatency {
  PerProtocol<Duration> tree, ring;
  Duration nvls{}, nvls_tree{};
  Duration of(Algorithm a, Protocol p) const {
    if (a == Algorithm::nvls) return nvls;
    if (a == Algorithm::nvls_tree) return nvls_tree;
    return a == Algorithm::tree ? tree[p] : ring[p];
  }
  friend bool operator==(const AlgorithmLatency&, const AlgorithmLatency&) = default;
};

// NCCL's tuning tables for one GPU generation (nccl tuning.cc, topo.h, search.cc).
struct NcclModel {
  std::string version;  // "2.21"; only printed

  // --- latency (tuning.cc baseLat, hwLat) ---
  AlgorithmLatency base;     // per collective: Tree 6.8/14/8.4 us, Ring 6.6/14/8.4 us, NVLS 0
  AlgorithmLatency nvlink;   // per step over NVLink: Ring 0.6/1.9/3.4 us, ...
  AlgorithmLatency pcie;     // per step over PCIe: Ring 1.0/2.5/5.7 us, ...
  AlgorithmLatency network;  // per step between nodes: Ring 2.7/4.0/14 us, ...
  Duration nic{};            // extra per step between nodes, twice for Simple; 0 for InfiniBand
  // NCCL_NET_OVERHEAD: minimum of an intra-node step once a group spans nodes, x3 for Simple.
  Duration host_overhead_intel{}, host_overhead_amd{}, host_overhead_arm{};  // 1, 2, 1 us
  double ring_simple_latency_factor = 1;  // Ring Simple AR across nodes, long messages: 1.4

  // --- bandwidth caps (tuning.cc llMaxBws, perCh*; GB/s of bus bandwidth) ---
  Bandwidth ll_one_node{};         // Ampere 87.7, Hopper 141
  PerNodes ll_intel{}, ll_amd{};   // two: 39.0 / 22.5, more: 20.4 / 19.0; `one` is not used
  Bandwidth ring_ll128_channel{};  // 20 Ampere, 36.7 Hopper; per search channel
  PerNodes tree_ll128_channel{};   // 20/20/20; Hopper 36.7/36.7/29.0
  PerNodes tree_channel{};         // 24.0/23.6/17.8; Hopper 38.7/41.4/36.0
  double plain_tree = 1;           // of a tree's bandwidth, if it is plain (channels.h): 0.85
  bool plain_tree_early = false;   // Hopper+: a plain tree is tried before longer paths to NICs
  // Tree AR correction by floor(log2(bytes / 64)), 64 B ... 256 MB; 1 outside
  // (treeCorrectionFactor).
  PerProtocol<std::array<double, 23>> tree_factor{};

  // --- assumptions of the graph search (topo.h, search.cc) ---
  Bandwidth nvlink_payload{};              // one link, one direction: 20.0 sm80, 20.6 sm90
  double pcie_payload = 0;                 // of the raw x16 rate: 24 / 31.5 = 48 / 63 = 0.762
  std::vector<Bandwidth> speeds_one_node;  // per channel, descending: sm80 40 30 20 18 15 12
  std::vector<Bandwidth> speeds_network;   // sm80 48 30 28 24 20 18 15 12
  Bandwidth split_from{};                  // channels at least this fast are split in two: 25
  Bandwidth
      keep_whole_below{};  // Hopper+: not split if slower than this and > 4 channels: 50; else 0
  // Hopper+ across nodes: channels faster than this are doubled once more when fewer than 16: 45;
  // 0 = never. (2.18, 2.19 doubled whenever it fitted in max_channels.)
  Bandwidth double_above{};
  int max_channels = 0;  // 32 until 2.24, 64 from 2.26

  // --- NVLS: all-reduce inside the switch (Hopper+, NVSwitch, more than 2 GPUs on the node) ---
  bool nvls = false;
  int nvls_channels = 0;      // 16 on Hopper
  Bandwidth nvls_total{};     // heads x head speed that the search reaches: 400 (8 x 50)
  double nvls_bus_share = 0;  // algorithm bandwidth / (heads x speed): 5/6
  // From 2.28 in place of nvls_total and nvls_bus_share: the share of a head's speed that NVLS
  // reaches (nvlsEfficiency: Hopper 0.85, Blackwell 0.74). 0: an older version.
  double nvls_efficiency = 0;
  PerNodes nvls_tree_channel{};  // from 2.28, per head: two 57.7, more 45.5 on Hopper; 0: no limit

  // --- send and receive (enqueue.cc, paths.cc) ---
  int send_channels_nvlink = 0;   // channels per NVLink peer in a one-node group: 32
  int send_channels_network = 0;  // channels per peer once a group spans nodes: 2
  Bytes send_ll_per_channel{};    // LL up to this many bytes per channel inside a node: 16 KiB

  friend bool operator==(const NcclModel&, const NcclModel&) = default;
};

// Fraction of the long-message rate at one message size; log-linear between points, constant
// outside. `bytes` is the size of the whole array, as in nccl-tests.
struct RampPoint {
  Bytes bytes{};
  double fraction = 1;  // (0, 1]
  friend bool operator==(const RampPoint&, const RampPoint&) = default;
};
using Ramp = std::vector<RampPoint>;  // empty: 1 at every size

// The speeds that machines reach. Efficiencies hold for long messages, relative to raw rates of the
// cluster description (cluster/topology/cluster.h). The solver uses raw x efficiency as a link's
// capacity.
struct Achieved {
  double nvlink = 1;   // ring over NVLink: 0.78 A100, 0.82 Hopper
  double pcie = 1;     // GPU - PCIe switch - NIC: 0.76
  double network = 1;  // NIC and fabric links: 0.96 InfiniBand, 0.80-0.83 RoCE and EFA
  double nvls = 1;     // NVLS all-reduce: S(1 + 1/n) bytes per GPU over its NVLinks: 0.68 Hopper
  double nvls_shared = 1;  // ... of that rate, where GPUs outnumber NVLS's 32 heads (a rack)
  double nvls_tree = 1;  // NVLSTree, of the slower of its links between nodes and NVLS inside: 0.9
  double send_nvlink = 1;   // one send over NVLink, of the path's raw rate
  double send_network = 1;  // one send between nodes (2 channels), of the path's raw rate
  // NICs of a node that rings of sends between nodes (ring attention) really use; 0: each GPU's
  // own. Fitted from measurements: on TSUBAME4 all four GPUs behave as if they shared one.
  int exchange_nics = 0;

  // Latencies inside one node as measured, in place of NCCL's own; none: those of NCCL.
  std::optional<AlgorithmLatency> base, step;
  // A step of NVLSTree between nodes as measured; none: NCCL's own.
  std::optional<Duration> nvls_tree_step;
  // Bus bandwidth of Ring LL, and of a search channel of Ring LL128, in one node; 0: NCCL's own.
  Bandwidth ll_one_node{}, ll128_channel_one_node{};
  // A ring of s steps in one node takes as long as s + this many: a rank also reads its own data.
  double ring_extra_steps = 0;
  Bandwidth send_own{};  // rate at which a rank copies its own part of an all-to-all; 0: no limit

  // Loss at smaller sizes beyond NCCL's own formula, by the links that carry the data. Only of
  // Simple and NVLS: LL and LL128 have rates of their own.
  Ramp ring_one_node, ring_many_nodes, tree_many_nodes, nvls_one_node, nvls_many_nodes;
  Ramp send_one_node, send_many_nodes;

  // Latency = factor x NCCL's latency + constant (launch and synchronisation, which NCCL omits).
  double latency_factor_one_node = 1, latency_factor_many_nodes = 1;
  Duration latency_one_node{}, latency_many_nodes{};
  // Send and receive: constant + one hop; NCCL's model has no row for it.
  Duration send_base{};  // 8 us with the kernel's start
  Duration send_nvlink_ll{}, send_nvlink_simple{}, send_pcie{}, send_network_simple{};

  friend bool operator==(const Achieved&, const Achieved&) = default;
};

// Device memory of a communicator (transport/p2p.cc, net.cc, nvls.cc); outside PyTorch's pools.
struct CommunicatorBuffers {
  Bytes per_communicator{};   // state of every communicator, whatever its size
  Bytes ring_channel{};       // per channel, one send + one receive peer over NVLink: 12 MiB
  Bytes tree_channel{};       // the same again for chain neighbours of the tree: 12 MiB
  Bytes network_channel{};    // per channel and direction that a rank has at a NIC: 8.69 MiB
  Bytes send_network{};       // network send/receive buffers, both directions: 128 MiB
  Bytes send_channel{};       // per channel and peer of sends over NVLink: 12 MiB
  Bytes nvls_head_channel{};  // per channel and head: 2 MiB from 2.21 (16 x 8 x 2 = 256 MiB)
  bool lazy = false;          // from 2.22: only used connections are made (no unused tree)
  friend bool operator==(const CommunicatorBuffers&, const CommunicatorBuffers&) = default;
};

struct CommunicationProfile {
  std::string name;    // "A100-SXM4, InfiniBand"
  std::string source;  // tables, rows and papers
  NcclModel nccl;
  std::vector<NcclModel> other_versions;  // the same GPU under other versions of NCCL
  Achieved achieved;
  CommunicatorBuffers buffers;

  friend bool operator==(const CommunicationProfile&, const CommunicationProfile&) = default;
};

// Every broken invariant, as "achieved.nvlink: 1.2 is not a fraction in (0, 1]".
std::vector<std::string> check(const CommunicationProfile& profile);

// The tables of the newest version that is not newer than `version` ("2.27.5"); the oldest ones if
// all are newer; profile.nccl if `version` is "".
const NcclModel& nccl_model(const CommunicationProfile& profile, std::string_view version);

// The tables of the newest version.
const NcclModel& newest_model(const CommunicationProfile& profile);

// The ramp's fraction at this size.
double at(const Ramp& ramp, Bytes bytes);

}  // namespace sim::network
