#include "sim/cluster/network/cost.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace sim::network {
namespace {

using collective::Kind;

int floor_log2(int n) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1;
}

bool reduces_bandwidth_by_rank(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::all_gather || kind == Kind::reduce_scatter;
}

// NCCL's number of steps: bus bandwidth x n / steps is algorithm bandwidth.
int counted_steps(Kind kind, int ranks) {
  if (kind == Kind::all_reduce) return 2 * (ranks - 1);
  return reduces_bandwidth_by_rank(kind) ? ranks - 1 : ranks;
}

bool ll128_allowed(const Situation& s) {
  return s.node.interconnect != topology::GpuInterconnect::pcie;
}

Duration host_overhead(const NcclModel& model, topology::HostCpu cpu) {
  switch (cpu) {
    case topology::HostCpu::intel:
      return model.host_overhead_intel;
    case topology::HostCpu::amd:
      return model.host_overhead_amd;
    case topology::HostCpu::arm:
      break;
  }
  return model.host_overhead_arm;
}

double latency(const NcclModel& model, const Situation& s, Kind kind, Choice c) {
  const GroupShape& shape = s.shape;
  const bool many = shape.nodes > 1;
  const bool simple = c.protocol == Protocol::simple;
  const AlgorithmLatency& local =
      s.node.interconnect == topology::GpuInterconnect::pcie ? model.pcie : model.nvlink;
  // A group with one GPU per node has no steps inside a node; NCCL prices its hops as those of a
  // tree.
  const Algorithm hop = shape.locals == 1 ? Algorithm::tree : c.algorithm;
  const double base = seconds(model.base.of(c.algorithm, c.protocol));
  const double intra = seconds(local.of(c.algorithm, c.protocol));
  const double inter =
      seconds(model.network.of(hop, c.protocol)) + seconds(model.nic) * (simple ? 2 : 1);
  const double overhead = many ? seconds(host_overhead(model, s.node.cpu)) * (simple ? 3 : 1) : 0.0;
  const int levels = floor_log2(shape.nodes);
  switch (c.algorithm) {
    case Algorithm::ring: {
      if (!reduces_bandwidth_by_rank(kind)) {  // broadcast: each rank passes the data on
        const double step = many ? seconds(model.network.of(Algorithm::ring, c.protocol)) : intra;
        return base + shape.ranks * step;
      }
      const int steps = counted_steps(kind, shape.ranks);
      const int crossing = !many ? 0 : (kind == Kind::all_reduce ? 2 : 1) * (shape.nodes - 1);
      return base + (steps - crossing) * std::max(intra, overhead) + crossing * inter;
    }
    case Algorithm::tree:
      return base + 2.0 * ((shape.locals - 1) * intra + levels * inter);
    case Algorithm::nvls:
      return base + intra + (many ? inter : 0.0);
    case Algorithm::nvls_tree:
      break;
  }
  return base + intra + 2.0 * levels * inter;
}

// Bus bandwidth after the cost of the protocol.
double protocol_bus(const NcclModel& model, const Situation& s, Choice c, double bus) {
  const int nodes = s.shape.nodes;
  const double channels = s.graph.channels;
  const PerNodes& many = s.node.cpu == topology::HostCpu::amd ? model.ll_amd : model.ll_intel;
  const double ll_most = rate(nodes == 1 ? model.ll_one_node : many[nodes]);
  if (c.algorithm == Algorithm::ring) {
    if (c.protocol == Protocol::ll) return std::min(ll_most, bus / 2);
    if (c.protocol == Protocol::ll128) {
      return std::min(0.92 * bus, channels * rate(model.ring_ll128_channel));
    }
    return bus;
  }
  bus = std::min(0.92 * bus, channels * rate(model.tree_channel[nodes]));
  const double shape = s.graph.plain_tree ? model.plain_tree : 1;
  if (c.protocol == Protocol::ll) return shape * std::min(bus / 3.8, ll_most);
  if (c.protocol == Protocol::ll128) {
    const double share = nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0;
    return shape * std::min(bus * share, channels * rate(model.tree_ll128_channel[nodes]));
  }
  return shape * bus;
}

// The algorithm bandwidth that NCCL assumes for NVLS in a node: one head per GPU, each at the
// largest listed speed that all of them reach together.
double nvls_one_node(const NcclModel& model, const Situation& s) {
  const double n = s.shape.locals;
  const double heads = nvls_heads(s);
  // Up to 2.27 a limit of its own; from 2.28 the NVLinks of a GPU, of which a tree leaves out one.
  const double total = model.nvls_efficiency > 0
                           ? s.node.nvlinks_per_gpu * rate(model.nvlink_payload) * n / (n - 1)
                           : rate(model.nvls_total);
  double head = rate(model.speeds_one_node.back());
  for (const Bandwidth speed : model.speeds_one_node) {
    if (rate(speed) * heads > total) continue;
    head = rate(speed);
    break;
  }
  if (model.nvls_efficiency == 0) return heads * head * model.nvls_bus_share;
  return heads * head * model.nvls_efficiency * 2 * (heads - 1) / heads * n / (2 * (n - 1));
}

double tree_factor(const NcclModel& model, Protocol protocol, Bytes bytes) {
  const auto units = static_cast<std::uint64_t>(bytes.n) >> 6;
  if (units == 0) return 1.0;
  const auto index = static_cast<std::size_t>(std::bit_width(units) - 1);
  const auto& factors = model.tree_factor[protocol];
  return index < factors.size() ? factors[index] : 1.0;
}

}  // namespace

int nvls_heads(const Situation& s) {
  constexpr int most_heads = 32;  // NCCL_MAX_NVLS_ARITY
  return std::min(s.shape.locals, most_heads);
}

bool has_nvls(const NcclModel& model, const Situation& s) {
  return model.nvls && s.node.nvlink_sharp &&
         s.node.interconnect == topology::GpuInterconnect::nvswitch && s.shape.locals > 2 &&
         s.shape.locals * s.shape.nodes == s.shape.ranks;
}

Buses believed(const NcclModel& model, const Situation& s) {
  Buses buses;
  buses.ring = s.graph.channels * s.graph.speed;
  buses.tree = s.graph.channels * s.graph.tree_speed;
  if (!has_nvls(model, s)) return buses;
  if (s.shape.nodes == 1) {
    buses.nvls = nvls_one_node(model, s);
  } else if (model.nvls_efficiency > 0) {
    const double n = s.shape.ranks, heads = s.graph.channels;
    const double intra =
        s.graph.tree_speed * model.nvls_efficiency * 2 * std::max(1.0, heads - 1) / heads;
    const double inter = s.graph.speed * (s.shape.nodes <= 2 ? 2 : 1);
    const double most = rate(model.nvls_tree_channel[s.shape.nodes]);
    const double head = std::min(intra, most > 0 ? std::min(inter, most) : inter);
    buses.nvls_tree = heads * head * n / (2 * (n - 1));
  } else {
    buses.nvls_tree = buses.ring * (s.shape.nodes <= 2 ? 1.0 : 0.5) * model.nvls_bus_share;
  }
  return buses;
}

std::optional<Terms> terms(const NcclModel& model, const Situation& s, Kind kind, Choice c,
                           const Buses& buses, Bytes bytes) {
  assert(s.shape.ranks > 1);
  if (c.algorithm != Algorithm::ring && kind != Kind::all_reduce) return std::nullopt;
  if (c.protocol == Protocol::ll128 && !ll128_allowed(s)) return std::nullopt;
  Terms t{latency(model, s, kind, c), 0};
  switch (c.algorithm) {
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      if (c.protocol != Protocol::simple) return std::nullopt;
      t.bandwidth = c.algorithm == Algorithm::nvls ? buses.nvls : buses.nvls_tree;
      if (t.bandwidth <= 0) return std::nullopt;
      return t;
    case Algorithm::tree:
      t.bandwidth =
          protocol_bus(model, s, c, buses.tree) / 2 * tree_factor(model, c.protocol, bytes);
      return t;
    case Algorithm::ring:
      break;
  }
  t.bandwidth =
      protocol_bus(model, s, c, buses.ring) * s.shape.ranks / counted_steps(kind, s.shape.ranks);
  const bool long_message = bytes.n / (std::int64_t{s.graph.launched} * s.shape.ranks) >= 64;
  if (c.protocol == Protocol::simple && kind == Kind::all_reduce && s.shape.nodes > 1 &&
      long_message) {
    t.latency *= model.ring_simple_latency_factor;
  }
  return t;
}

Choice choose(const NcclModel& model, const Situation& s, Kind kind, Bytes bytes) {
  const Buses buses = believed(model, s);
  Choice best;
  double least = -1;
  for (const Algorithm a :
       {Algorithm::tree, Algorithm::ring, Algorithm::nvls, Algorithm::nvls_tree}) {
    for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
      const auto t = terms(model, s, kind, {a, p}, buses, bytes);
      if (!t) continue;
      const double time = t->seconds(static_cast<double>(bytes.n));
      if (least >= 0 && time >= least) continue;
      least = time;
      best = {a, p};
    }
  }
  return best;
}

}  // namespace sim::network
