#include "sim/cluster/network/network.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/cluster/network/buffers.h"
#include "sim/cluster/network/chunks.h"
#include "sim/cluster/network/state.h"
#include "sim/cluster/network/window.h"

namespace sim::network {
namespace {

// The loss at this size in a node of NVLS. Each head works on its own part, so the loss depends on
// the size of a part. Profiles state it for a node of eight GPUs.
double nvls_ramp(const Achieved& a, const Situation& s, Bytes bytes) {
  constexpr double heads_of_profile = 8;
  const double like = static_cast<double>(bytes.n) * heads_of_profile / nvls_heads(s);
  return at(a.nvls_one_node, Bytes{std::max<std::int64_t>(1, std::llround(like))});
}

// The loss at this size, beyond NCCL's formula. LL and LL128 have none where they were measured
// apart.
double ramp(const Achieved& a, const Situation& s, Choice choice, Bytes bytes) {
  const bool many = s.shape.nodes > 1;
  if (a.base && choice.protocol != Protocol::simple) return 1;
  switch (choice.algorithm) {
    case Algorithm::ring:
      return at(many ? a.ring_many_nodes : a.ring_one_node, bytes);
    case Algorithm::tree:
      return many ? at(a.tree_many_nodes, bytes) : at(a.ring_one_node, bytes);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      break;
  }
  return many ? at(a.nvls_many_nodes, bytes) : nvls_ramp(a, s, bytes);
}

// The number of steps between nodes that pay the fabric's own latency, counted as in cost.h.
int crossings(const GroupShape& shape, Kind kind, Algorithm algorithm) {
  if (shape.nodes == 1) return 0;
  if (algorithm != Algorithm::ring) {
    return 2 * static_cast<int>(std::log2(static_cast<double>(shape.nodes)));
  }
  return (kind == Kind::all_reduce ? 2 : 1) * (shape.nodes - 1);
}

// The extra latency of a step between nodes at this size.
Duration slower(const topology::Transport& transport, Bytes bytes) {
  Duration latency{};
  for (const topology::Transport::Slower& step : transport.slower)
    if (bytes > step.above) latency = step.latency;
  return latency;
}

// The share of a ring's rate in one node that is left after a rank has read its own data.
double ring_share(const Achieved& a, const Situation& s, Kind kind, Choice choice) {
  if (s.shape.nodes > 1 || choice.algorithm != Algorithm::ring ||
      choice.protocol != Protocol::simple)
    return 1;
  const double steps = collective::ring_steps(kind, s.shape.ranks);
  return steps / (steps + a.ring_extra_steps);
}

}  // namespace

// NCCL's formulas with what machines show in place of what NCCL assumes. Between nodes a channel
// carries what NVIDIA measured for its newest tables. A plain tree is slower in NCCL's choice only:
// its links are solved.
NcclModel measured_model(const NcclModel& nccl, const NcclModel& newest, const Achieved& a,
                         bool many) {
  NcclModel model = nccl;
  if (many) {
    model.plain_tree = 1;
    model.tree_channel = newest.tree_channel;
    model.tree_ll128_channel = newest.tree_ll128_channel;
    model.ring_ll128_channel = newest.ring_ll128_channel;
    if (a.nvls_tree_step) model.network.nvls_tree = *a.nvls_tree_step;
    if (a.step) model.nvlink.nvls_tree = a.step->nvls_tree;
    return model;
  }
  if (a.base) model.base = *a.base;
  if (a.step) model.nvlink = *a.step;
  if (a.ll_one_node.bytes_per_second > 0) model.ll_one_node = a.ll_one_node;
  if (a.ll128_channel_one_node.bytes_per_second > 0)
    model.ring_ll128_channel = a.ll128_channel_one_node;
  return model;
}

// The profile's rates on the cluster's transport.
std::shared_ptr<const CommunicationProfile> on_transport(
    std::shared_ptr<const CommunicationProfile> profile, const topology::Transport& transport) {
  if (transport.bandwidth <= 0) return profile;
  CommunicationProfile own = *profile;
  const double change = transport.bandwidth / own.achieved.network;
  own.achieved.network = transport.bandwidth;
  own.achieved.send_network = std::min(1.0, own.achieved.send_network * change);
  return std::make_shared<const CommunicationProfile>(std::move(own));
}

// Bytes of the array per second that NVLS inside a node carries. Each GPU sends and receives S (1 +
// 1/n) over its NVLinks; the GPU with the slowest links decides.
double Network::State::nvls_rate(const Layout& layout, std::size_t shape, Some groups) const {
  const Situation& s = layout.situations[shape];
  double left = 1;
  const auto consider = [&](std::size_t group) {
    if (layout.shape_of_group[group] != static_cast<int>(shape)) return;
    for (const int gpu : layout.ranks[group])
      left = std::min(left, topology::nvlinks_of_gpu(cluster, gpu));
  };
  if (!cluster.conditions.empty()) {
    for (const int group : groups) consider(static_cast<std::size_t>(group));
    for (std::size_t group = 0; groups.empty() && group < layout.ranks.size(); ++group)
      consider(group);
  }
  const double links = static_cast<double>(s.node.nvlink.bytes_per_second) * s.node.nvlinks_per_gpu;
  const double shared = s.shape.locals > nvls_heads(s) ? profile->achieved.nvls_shared : 1;
  return left * links * shared * profile->achieved.nvls / (1.0 + 1.0 / nvls_heads(s));
}

// Seconds until the pipeline of a tree is full; other algorithms have NCCL's own latency.
double Network::State::fill(const Situation& s, Choice choice, Bytes bytes) const {
  const double nic = std::min(network::rate(s.node.nic) * profile->achieved.network,
                              network::rate(s.node.pcie) * profile->achieved.pcie);
  if (choice.algorithm == Algorithm::nvls_tree) return nvls_tree_fill(measured_many, s, nic, bytes);
  const bool chunks = choice == Choice{Algorithm::tree, Protocol::simple} && s.shape.nodes > 1;
  if (chunks) return tree_fill(measured_many, s, nic, bytes);
  return 0;
}

// A collective in the groups of one shape: NCCL's choice, at the solved speed of the links.
Result<Answer> Network::State::collective(Layout& layout, std::size_t shape, Kind kind, Bytes bytes,
                                          Some groups) {
  const Situation& s = layout.situations[shape];
  const Achieved& a = profile->achieved;
  const Choice choice = this->choice(s, kind, bytes);
  Buses buses;
  Duration extra{};
  if (choice.algorithm == Algorithm::nvls) {
    buses.nvls = nvls_rate(layout, shape, groups);
  } else {
    const Pattern pattern = pattern_of(kind, choice.algorithm);
    const Result<Rate> solved = rate(layout, pattern, shape, groups);
    if (!solved) return solved.errors();
    extra = solved->extra;
    buses.ring = 1.0 / solved->slowest();
    buses.tree = 2.0 / solved->slowest();
    // The switch adds inside the node while the tree works between nodes; the slower one decides.
    buses.nvls_tree = std::min(1.0 / solved->slowest(),
                               nvls_rate(layout, shape, groups) * nvls_ramp(a, s, bytes)) *
                      a.nvls_tree;
  }
  const bool many = s.shape.nodes > 1;
  if (many) buses = within_window(measured_many, buses, choice, s, extra, bytes);
  const auto t = terms(many ? measured_many : measured_one, s, kind, choice, buses, bytes);
  assert(t);
  const double factor = many ? a.latency_factor_many_nodes : a.latency_factor_one_node;
  const double latency = factor * t->latency + fill(s, choice, bytes) +
                         seconds(many ? a.latency_many_nodes : a.latency_one_node) +
                         crossings(s.shape, kind, choice.algorithm) *
                             seconds(extra + slower(cluster.fabric.transport, bytes));
  const double carried = t->bandwidth * ramp(a, s, choice, bytes) * ring_share(a, s, kind, choice);
  const double time = latency + static_cast<double>(bytes.n) / carried;
  return Answer{from_seconds(time), name(choice.algorithm), name(choice.protocol),
                from_seconds(latency), carried};
}

// Sends take a start, one hop, and the time of the slowest message. An all-to-all handles its peers
// in batches of eight (NCCL's work batch).
Answer Network::State::send(const Situation& s, Kind kind, const Rate& rate, Bytes bytes) const {
  const Achieved& a = profile->achieved;
  const NcclModel& m = profile->nccl;
  const bool pcie = s.node.interconnect == topology::GpuInterconnect::pcie;
  const double size = static_cast<double>(bytes.n);
  const int batches = kind == Kind::all_to_all ? (s.shape.ranks + 6) / 8 : 1;
  const bool short_message =
      s.shape.nodes == 1 && !pcie && bytes.n <= m.send_channels_nvlink * m.send_ll_per_channel.n;
  Answer slowest;
  const auto consider = [&](double seconds_per_byte, Duration hop, const Ramp& loss, bool ll) {
    if (seconds_per_byte <= 0) return;
    const double latency = seconds(a.send_base) + batches * seconds(hop);
    // LL sends a flag with every word of data, so half of the traffic is data.
    double each = seconds_per_byte * (ll ? 2 : 1);
    if (kind == Kind::all_to_all && a.send_own.bytes_per_second > 0)
      each += 1.0 / (s.shape.ranks * static_cast<double>(a.send_own.bytes_per_second));
    const double speed = at(loss, bytes) / each;
    const Duration time = from_seconds(latency + size / speed);
    if (time <= slowest.duration) return;
    slowest = {time, "send", name(ll ? Protocol::ll : Protocol::simple), from_seconds(latency),
               speed};
  };
  const Duration hop = pcie ? a.send_pcie : short_message ? a.send_nvlink_ll : a.send_nvlink_simple;
  consider(rate.inside, hop, a.send_one_node, short_message);
  // Each peer of an all-to-all has a connection of its own.
  const double peers = kind == Kind::all_to_all ? s.shape.ranks : 1;
  const double waits = 1 / (peers * send_window_rate(m, rate.extra));
  consider(rate.outside > 0 ? std::max(rate.outside, waits) : 0,
           a.send_network_simple + rate.extra + slower(cluster.fabric.transport, bytes),
           a.send_many_nodes, false);
  return slowest;
}

Result<Answer> Network::State::compute(Layout& layout, Kind kind, Bytes bytes, Some groups) {
  Answer slowest;
  const auto is_of = [&](std::size_t shape) {
    return [&layout, shape](int group) {
      return layout.shape_of_group[static_cast<std::size_t>(group)] == static_cast<int>(shape);
    };
  };
  for (std::size_t shape = 0; shape < layout.situations.size(); ++shape) {
    if (!groups.empty() && std::ranges::none_of(groups, is_of(shape))) continue;
    Answer one;
    if (is_send(kind)) {
      const Result<Rate> found = rate(layout, pattern_of(kind, Algorithm::ring), shape, groups);
      if (!found) return found.errors();
      one = send(layout.situations[shape], kind, *found, bytes);
    } else {
      const Result<Answer> found = collective(layout, shape, kind, bytes, groups);
      if (!found) return found.errors();
      one = *found;
    }
    if (one.duration > slowest.duration) slowest = one;
  }
  return slowest;
}

Result<Answer> Network::State::ask(Layout& layout, Kind kind, Bytes bytes) {
  assert(bytes.n >= 0);
  if (bytes.n == 0 || layout.ranks.empty() || layout.ranks.front().size() == 1) return Answer{};
  if (const auto known = layout.known.find({kind, bytes.n}); known != layout.known.end()) {
    return known->second;
  }
  const Result<Answer> found = compute(layout, kind, bytes, {});
  if (found) layout.known.emplace(std::pair{kind, bytes.n}, *found);
  return found;
}

Network::Network(topology::Cluster cluster, std::shared_ptr<const CommunicationProfile> profile,
                 SolverOptions options)
    : state_(std::make_unique<State>(std::move(cluster), std::move(profile), std::move(options))) {
  assert(topology::problems(state_->cluster).empty());
  assert(check(*state_->profile).empty());
}

Network::~Network() = default;

Result<Answer> Network::answer(Kind kind, const Groups& groups, Bytes bytes) {
  return state_->ask(state_->layout(groups), kind, bytes);
}

Duration Network::duration(Kind kind, const Groups& groups, Bytes bytes) {
  return duration(kind, state_->layout_of(groups), bytes);
}

const topology::Routes& Network::cover(int nodes) {
  assert(nodes >= 1 && nodes <= state_->cluster.nodes);
  return state_->routes_among(topology::nodes_reached(state_->cluster, nodes));
}

Network::GroupsId Network::remember(const Groups& groups) {
  return state_->layout_of(groups);
}

Duration Network::duration(Kind kind, GroupsId groups, Bytes bytes) {
  const Result<Answer> found = state_->ask(state_->layout(groups), kind, bytes);
  if (!found) throw SolverFailed(found.errors().front().message);
  return found->duration;
}

Duration Network::duration(Kind kind, GroupsId groups, Bytes bytes, std::span<const int> of) {
  Layout& layout = state_->layout(groups);
  if (of.empty() || bytes.n == 0 || layout.ranks.front().size() == 1) return Duration{};
  const Result<Answer> found = state_->compute(layout, kind, bytes, of);
  if (!found) throw SolverFailed(found.errors().front().message);
  return found->duration;
}

Duration Network::duration(const Groups& groups, std::span<const std::int64_t> bytes) {
  if (groups.ranks.empty() || groups.ranks.front().size() == 1) return {};
  return state_->pairs(state_->layout(groups), bytes);
}

bool Network::crosses_nodes(const Groups& groups) const {
  const Layout& layout = state_->layout(groups);
  return std::ranges::any_of(layout.situations,
                             [](const Situation& s) { return s.shape.nodes > 1; });
}

Bytes Network::communicator_memory(const Groups& groups, Purpose purpose) const {
  const Layout& layout = state_->layout(groups);
  Bytes most{};
  for (const Situation& s : layout.situations) {
    most = std::max(most, communicator_buffers(*state_->profile, s, purpose != Purpose::sends,
                                               purpose != Purpose::collectives));
  }
  return most;
}

int Network::channels(const Groups& groups) const {
  const Layout& layout = state_->layout(groups);
  int most = 0;
  for (const Situation& s : layout.situations) {
    if (s.shape.ranks > 1) most = std::max(most, s.graph.launched);
  }
  return most;
}

const topology::Cluster& Network::cluster() const {
  return state_->cluster;
}

const Solver& Network::solver() const {
  return state_->solver;
}

}  // namespace sim::network
