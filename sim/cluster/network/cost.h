// cost.h — NCCL's cost model: a latency and a bandwidth for every algorithm and protocol. NCCL
// takes the cheapest combination.
//
//     T = latency x factor + bytes / bandwidth        bytes: the whole array
//
// The same formulas serve twice. With the speeds that NCCL assumes, they give its choice. With the
// rates that the solver found, they give the duration of that choice. Notation: n ranks on N nodes,
// p = n / N on a node, C channels of the search graph, bus = their total speed. Latency of a step:
// intra inside a node, inter between nodes; o = CPU overhead of the network, 0 for one node.
//
//     Ring        latency: base + (steps - s) max(intra, o) + s inter, s = 2(N-1) (AR), N-1
//                 LL min(llMax, bus/2); LL128 min(0.92 bus, C ll128); Simple bus; x n / steps
//     Tree (AR)   latency: base + 2 [(p-1) intra + floor(log2 N) inter]
//                 min(0.92 bus, C tree), LL min(that / 3.8, llMax), LL128 min(that x 7/9 or
//                 120/128, C ll128); x 0.85 if plain; x 1/2; x f[protocol][log2(bytes / 64)]
//     NVLS (AR)   latency: intra; NVLSTree: intra + 2 floor(log2 N) inter; x 5/6 (until 2.27), or
//                 heads x speed x efficiency x 2 (heads - 1) / heads x n / steps (from 2.28)
//
// NVLS of all-gather and reduce-scatter, which NCCL has from 2.19, is left out: by NCCL's own
// formula it never wins where we have measurements.
// NVIDIA/nccl v2.27, v2.29 src/graph/tuning.cc: ncclTopoTuneModel, ncclTopoGetAlgoTime.
#pragma once

#include <optional>

#include "sim/cluster/collective/collective.h"
#include "sim/cluster/network/channels.h"
#include "sim/cluster/network/layout.h"
#include "sim/cluster/network/profile.h"

namespace sim::network {

// The properties of a group that the cost model uses.
struct Situation {
  GroupShape shape;
  topology::Node node;
  SearchGraph graph;
};

// Bus bandwidths in bytes per second, either assumed by NCCL or solved.
struct Buses {
  double ring = 0;       // all channels of the ring
  double tree = 0;       // twice the algorithm bandwidth that the tree's links carry
  double nvls = 0;       // algorithm bandwidth of NVLS inside a node; 0: not available
  double nvls_tree = 0;  // algorithm bandwidth of NVLSTree; 0: not available
};

struct Terms {
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes of the whole array per second
  double seconds(double bytes) const { return latency + bytes / bandwidth; }
};

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// The bandwidths that NCCL assumes for its channels.
Buses believed(const NcclModel& model, const Situation& situation);

// Latency and bandwidth at a size; nullopt if NCCL does not run the combination. REQUIRES: at least
// two ranks; the kind is one that NCCL runs as a collective (not a send).
std::optional<Terms> terms(const NcclModel& model, const Situation& situation,
                           collective::Kind kind, Choice choice, const Buses& buses, Bytes bytes);

// NCCL's choice for a message of this size.
Choice choose(const NcclModel& model, const Situation& situation, collective::Kind kind,
              Bytes bytes);

// GPUs of a node whose part of the array the switch adds.
int nvls_heads(const Situation& situation);

// Whether NVLS runs for this group: inside one node, or as NVLSTree between nodes.
bool has_nvls(const NcclModel& model, const Situation& situation);

}  // namespace sim::network
