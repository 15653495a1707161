#include "sim/network/network.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "sim/network/buffers.h"
#include "sim/network/channels.h"
#include "sim/network/cost.h"
#include "sim/network/flows.h"
#include "sim/network/layout.h"
#include "sim/topology/routes.h"

namespace sim::network {
namespace {

using collective::Kind;
using Some = std::span<const int>;  // numbers of groups

constexpr int pattern_count = 7;

// What the solver found for a group, or for the slowest of several: seconds per byte of the
// pattern, and the latency that the fabric adds to a step between nodes.
struct Rate {
  double inside = 0, outside = 0;  // flows within a node, flows between nodes
  Duration extra{};
  double slowest() const { return std::max(inside, outside); }
  void no_faster_than(const Rate& other) {
    inside = std::max(inside, other.inside);
    outside = std::max(outside, other.outside);
    extra = std::max(extra, other.extra);
  }
};

// Of all groups that use the links at once.
struct Rates {
  std::vector<Rate> of_group, of_shape;
};

using GroupsId = Network::GroupsId;

// Groups of one kind, looked at once.
struct Layout {
  std::vector<std::vector<int>> ranks;  // GPUs that they stand on
  std::vector<Spread> spreads;
  std::vector<int> shape_of_group;
  std::vector<Situation> situations;  // one per shape, in order of first appearance
  // The layout that is this one some periods of the cluster away, whose rates are these.
  std::optional<GroupsId> like;
  std::array<std::optional<Rates>, pattern_count> rates;  // by pattern
  std::map<std::pair<Kind, std::int64_t>, Answer> known;
  std::optional<Traffic> pairs;
};

}  // namespace

struct Network::State {
  State(topology::Cluster c, std::shared_ptr<const CommunicationProfile> p, SolverOptions options)
      : cluster(std::move(c)), profile(std::move(p)), solver(std::move(options)) {}

  GroupsId layout_of(const Groups& groups);
  std::optional<GroupsId> find_like(GroupsId id);
  Layout& layout(GroupsId id) { return *layouts[static_cast<std::size_t>(id)]; }
  Layout& layout(const Groups& groups) { return layout(layout_of(groups)); }
  Situation situation(const Shape& shape) const {
    return {shape, cluster.node, search_graph(profile->nccl, cluster.node, shape)};
  }
  // Among the nodes that this layout uses; built again, larger, when a layout needs more.
  const topology::Routes& routes_for(const std::vector<Spread>& spreads) {
    int nodes = 1;
    for (const Spread& group : spreads) {
      for (const Locals& locals : group) nodes = std::max(nodes, locals.node + 1);
    }
    return routes_among(nodes);
  }
  const topology::Routes& routes_among(int nodes) {
    if (!routes || routes->cluster().nodes < nodes) {
      // At least twice as many as before, so that growing step by step stays cheap.
      if (routes) nodes = std::max(nodes, std::min(cluster.nodes, 2 * routes->cluster().nodes));
      routes = std::make_unique<topology::Routes>(topology::first_nodes(cluster, nodes));
    }
    return *routes;
  }
  Traffic traffic_of(const Layout& layout, Pattern pattern) {
    return traffic(pattern, layout.spreads, layout.ranks, routes_for(layout.spreads),
                   profile->achieved, profile->nccl.send_channels_network, places);
  }
  Result<const Rates*> rates(Layout& layout, Pattern pattern);
  // The slowest of these groups of the shape; none named: of all.
  Result<Rate> rate(Layout& layout, Pattern pattern, std::size_t shape, Some groups);
  double nvls_rate(const Layout& layout, std::size_t shape, Some groups) const;
  Result<Answer> compute(Layout& layout, Kind kind, Bytes bytes, Some groups);
  Result<Answer> collective(Layout& layout, std::size_t shape, Kind kind, Bytes bytes, Some groups);
  Answer send(const Situation& s, Kind kind, const Rate& rate, Bytes bytes) const;
  Result<Answer> ask(Layout& layout, Kind kind, Bytes bytes);
  Duration pairs(Layout& layout, std::span<const std::int64_t> bytes);

  topology::Cluster cluster;
  std::shared_ptr<const CommunicationProfile> profile;
  Solver solver;
  std::unique_ptr<topology::Routes> routes;
  LinkPlaces places;
  std::map<GroupsHash, GroupsId> layout_by_hash, layout_in_front;
  std::vector<std::unique_ptr<Layout>> layouts;
};

Network::GroupsId Network::State::layout_of(const Groups& groups) {
  const auto [entry, added] = layout_by_hash.try_emplace(hash_of(groups.ranks), GroupsId{});
  if (!added) return entry->second;
  entry->second = static_cast<GroupsId>(layouts.size());
  Layout& layout = *layouts.emplace_back(std::make_unique<Layout>());
  layout.ranks = groups.ranks;
  std::map<Shape, int> numbers;
  for (std::vector<int>& ranks : layout.ranks) {
    assert(!ranks.empty());
    assert(ranks.size() == groups.ranks.front().size());
    for (int& rank : ranks) rank = topology::gpu_of_rank(cluster, rank);
    const Shape shape = shape_of(layout.spreads.emplace_back(spread(ranks, cluster)));
    const auto [at, fresh] = numbers.try_emplace(shape, static_cast<int>(numbers.size()));
    if (fresh) layout.situations.push_back(situation(shape));
    layout.shape_of_group.push_back(at->second);
  }
  layout.like = find_like(entry->second);
  return entry->second;
}

// The first layout that is this one moved by whole periods of the cluster; none: this one is.
std::optional<GroupsId> Network::State::find_like(GroupsId id) {
  const int period = topology::period(cluster) * cluster.node.gpus;
  if (period == 0) return {};
  std::vector<std::vector<int>> ranks = layout(id).ranks;
  int first = cluster.gpus();
  for (const std::vector<int>& group : ranks) first = std::min(first, std::ranges::min(group));
  for (std::vector<int>& group : ranks)
    for (int& gpu : group) gpu -= first / period * period;
  const auto [entry, fresh] = layout_in_front.try_emplace(hash_of(ranks), id);
  return fresh ? std::nullopt : std::optional(entry->second);
}

// Solves a pattern for all groups at once.
Result<const Rates*> Network::State::rates(Layout& layout, Pattern pattern) {
  if (layout.like) return rates(this->layout(*layout.like), pattern);
  auto& found = layout.rates[static_cast<std::size_t>(pattern)];
  if (found) return &*found;
  const Traffic all = traffic_of(layout, pattern);
  const Result<Finish> finish = solver.solve(all.query);
  if (!finish) return finish.errors();
  Rates rates{std::vector<Rate>(layout.ranks.size()), std::vector<Rate>(layout.situations.size())};
  for (std::size_t f = 0; f < all.query.flows.size(); ++f) {
    const auto group = static_cast<std::size_t>(all.group[f]);
    Rate& rate = rates.of_group[group];
    double& seconds = all.inside[f] ? rate.inside : rate.outside;
    seconds = std::max(seconds, (*finish)[f] / traffic_scale);
    rate.extra = all.extra[group];
  }
  for (std::size_t group = 0; group < layout.ranks.size(); ++group)
    rates.of_shape[static_cast<std::size_t>(layout.shape_of_group[group])].no_faster_than(
        rates.of_group[group]);
  found = std::move(rates);
  return &*found;
}

Result<Rate> Network::State::rate(Layout& layout, Pattern pattern, std::size_t shape, Some groups) {
  const Result<const Rates*> solved = rates(layout, pattern);
  if (!solved) return solved.errors();
  if (groups.empty()) return (**solved).of_shape[shape];
  Rate slowest;
  for (const int group : groups)
    if (layout.shape_of_group[static_cast<std::size_t>(group)] == static_cast<int>(shape))
      slowest.no_faster_than((**solved).of_group[static_cast<std::size_t>(group)]);
  return slowest;
}

namespace {

// Loss at this size beyond NCCL's formula.
double ramp(const Achieved& a, Algorithm algorithm, bool many, Bytes bytes) {
  switch (algorithm) {
    case Algorithm::ring:
      return at(many ? a.ring_many_nodes : a.ring_one_node, bytes);
    case Algorithm::tree:
      return many ? at(a.tree_many_nodes, bytes) : at(a.ring_one_node, bytes);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      break;
  }
  return at(many ? a.nvls_many_nodes : a.nvls_one_node, bytes);
}

// Steps between nodes that pay the fabric's own latency, as cost.h counts them.
int crossings(const Shape& shape, Kind kind, Algorithm algorithm) {
  if (shape.nodes == 1) return 0;
  if (algorithm != Algorithm::ring) {
    return 2 * static_cast<int>(std::log2(static_cast<double>(shape.nodes)));
  }
  return (kind == Kind::all_reduce ? 2 : 1) * (shape.nodes - 1);
}

bool is_send(Kind kind) {
  return kind == Kind::send_receive || kind == Kind::ring_exchange || kind == Kind::all_to_all;
}

Pattern pattern_of(Kind kind, Algorithm algorithm) {
  if (kind == Kind::send_receive) return Pattern::sends;
  if (kind == Kind::ring_exchange) return Pattern::exchange;
  if (kind == Kind::all_to_all) return Pattern::all_to_all;
  if (algorithm == Algorithm::tree) return Pattern::tree;
  return algorithm == Algorithm::nvls_tree ? Pattern::nvls_tree : Pattern::ring;
}

}  // namespace

// Bytes of the array per second that NVLS inside a node carries: each GPU sends and receives
// S (1 + 1/n) over its NVLinks, the one with the slowest links leads.
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
  return left * links * profile->achieved.nvls / (1.0 + 1.0 / s.shape.locals);
}

// A collective in the groups of one shape: what NCCL picks, at the speed the links have.
Result<Answer> Network::State::collective(Layout& layout, std::size_t shape, Kind kind, Bytes bytes,
                                          Some groups) {
  const Situation& s = layout.situations[shape];
  const Achieved& a = profile->achieved;
  const Choice choice = choose(profile->nccl, s, kind, bytes);
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
    // The switch adds inside the node while the tree works between nodes; the slower one leads.
    buses.nvls_tree =
        std::min(1.0 / solved->slowest(), nvls_rate(layout, shape, groups)) * a.nvls_tree;
  }
  const bool many = s.shape.nodes > 1;
  const auto t = terms(profile->nccl, s, kind, choice, buses, bytes);
  assert(t);
  const double factor = many ? a.latency_factor_many_nodes : a.latency_factor_one_node;
  const double latency = factor * t->latency +
                         seconds(many ? a.latency_many_nodes : a.latency_one_node) +
                         crossings(s.shape, kind, choice.algorithm) * seconds(extra);
  const double carried = t->bandwidth * ramp(a, choice.algorithm, many, bytes);
  const double time = latency + static_cast<double>(bytes.n) / carried;
  return Answer{from_seconds(time), name(choice.algorithm), name(choice.protocol),
                from_seconds(latency), carried};
}

// Sends: a start, one hop, and the slowest message. All-to-all works through its peers in batches
// of eight (NCCL's work batch).
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
    // LL carries a flag beside every word of data: half of what moves.
    const double speed = at(loss, bytes) / (seconds_per_byte * (ll ? 2 : 1));
    const Duration time = from_seconds(latency + size / speed);
    if (time <= slowest.duration) return;
    slowest = {time, "send", name(ll ? Protocol::ll : Protocol::simple), from_seconds(latency),
               speed};
  };
  const Duration hop = pcie ? a.send_pcie : short_message ? a.send_nvlink_ll : a.send_nvlink_simple;
  consider(rate.inside, hop, a.send_one_node, short_message);
  consider(rate.outside, a.send_network_simple + rate.extra, a.send_many_nodes, false);
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

namespace {

// Bytes of the pattern for one byte of the array.
double pattern_bytes(Kind kind, Algorithm algorithm, int ranks) {
  const double n = ranks;
  if (is_send(kind) || algorithm == Algorithm::tree || algorithm == Algorithm::nvls_tree) return 1;
  // The switch adds: every GPU sends its array and gets the sum of its share, and the reverse; the
  // links up and down are those of the ring.
  if (algorithm == Algorithm::nvls) return 1 + 1 / n;
  if (kind == Kind::all_reduce) return 2 * (n - 1) / n;
  return kind == Kind::broadcast ? 1 : (n - 1) / n;
}

}  // namespace

std::vector<LinkLoad> Network::loads(Kind kind, const Groups& groups, Bytes bytes) {
  State& state = *state_;
  const Layout& layout = state.layout(groups);
  std::vector<LinkLoad> all;
  if (bytes.n == 0 || layout.ranks.empty() || layout.ranks.front().size() == 1) return all;
  std::map<int, std::size_t> place;
  std::map<Pattern, Traffic> made;
  const int ranks = static_cast<int>(layout.ranks.front().size());
  for (std::size_t shape = 0; shape < layout.situations.size(); ++shape) {
    const Situation& s = layout.situations[shape];
    const Algorithm algorithm =
        is_send(kind) ? Algorithm::ring : choose(state.profile->nccl, s, kind, bytes).algorithm;
    const Pattern pattern = pattern_of(kind, algorithm);
    const auto [at, fresh] = made.try_emplace(pattern);
    if (fresh) at->second = state.traffic_of(layout, pattern);
    const Traffic& traffic = at->second;
    const double scale =
        pattern_bytes(kind, algorithm, ranks) * static_cast<double>(bytes.n) / traffic_scale;
    for (std::size_t f = 0; f < traffic.query.flows.size(); ++f) {
      const auto group = static_cast<std::size_t>(traffic.group[f]);
      if (layout.shape_of_group[group] != static_cast<int>(shape)) continue;
      for (const Use& use : traffic.query.flows[f].uses) {
        const auto link = static_cast<std::size_t>(use.link);
        const auto [entry, added] = place.try_emplace(traffic.links[link], all.size());
        if (added) all.push_back({traffic.links[link], 0, 0, 0});
        const double crossed = traffic.query.flows[f].bytes * use.weight * scale;
        all[entry->second].bytes += crossed;
        ++all[entry->second].flows;
        all[entry->second].busy_seconds += crossed / traffic.query.capacities[link];
      }
    }
  }
  return all;
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

// All messages of a group advance together and end together, so on links that they share with every
// other group the most loaded one of each says how long.
Duration Network::State::pairs(Layout& layout, std::span<const std::int64_t> bytes) {
  const std::size_t ranks = layout.ranks.front().size();
  assert(bytes.size() == ranks * ranks);
  if (!layout.pairs) layout.pairs = traffic_of(layout, Pattern::pairs);
  const Query& query = layout.pairs->query;
  std::vector<std::int64_t> sent(ranks, 0), got(ranks, 0), apart;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sent[i / ranks] += bytes[i];
    got[i % ranks] += bytes[i];
    if (i / ranks != i % ranks) apart.push_back(bytes[i]);
  }
  std::vector<double> load(query.capacities.size(), 0);
  for (std::size_t f = 0; f < query.flows.size(); ++f)
    for (const Use& use : query.flows[f].uses)
      load[static_cast<std::size_t>(use.link)] +=
          use.weight * static_cast<double>(apart[f % apart.size()]);
  std::vector<double> longest(layout.ranks.size(), 0);
  for (std::size_t f = 0; f < query.flows.size(); ++f)
    for (const Use& use : query.flows[f].uses) {
      const auto link = static_cast<std::size_t>(use.link);
      double& seconds = longest[static_cast<std::size_t>(layout.pairs->group[f])];
      seconds = std::max(seconds, load[link] / query.capacities[link]);
    }
  const std::int64_t most =
      std::max(*std::ranges::max_element(sent), *std::ranges::max_element(got));
  Duration slowest{};
  for (std::size_t g = 0; g < longest.size() && most > 0; ++g) {
    const Situation& s = layout.situations[static_cast<std::size_t>(layout.shape_of_group[g])];
    Rate rate;
    (s.shape.nodes == 1 ? rate.inside : rate.outside) = longest[g] / static_cast<double>(most);
    rate.extra = layout.pairs->extra[g];
    slowest = std::max(slowest, send(s, Kind::all_to_all, rate, Bytes{most}).duration);
  }
  return slowest;
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
