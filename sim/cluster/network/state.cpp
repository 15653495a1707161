#include "sim/cluster/network/state.h"

#include <algorithm>
#include <cassert>

namespace sim::network {

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

GroupsId Network::State::layout_of(const Groups& groups) {
  const GroupsHash hash = hash_of(groups.ranks);
  const auto [entry, added] = layout_by_hash.try_emplace(hash, GroupsId{});
  if (!added) return entry->second;
  entry->second = static_cast<GroupsId>(layouts.size());
  Layout& layout = *layouts.emplace_back(std::make_unique<Layout>());
  layout.ranks = groups.ranks;
  std::map<GroupShape, int> numbers;
  for (std::vector<int>& ranks : layout.ranks) {
    assert(!ranks.empty());
    assert(ranks.size() == groups.ranks.front().size());
    for (int& rank : ranks) rank = topology::gpu_of_rank(cluster, rank);
    const GroupShape shape = shape_of(layout.spreads.emplace_back(spread(ranks, cluster)));
    const auto [at, fresh] = numbers.try_emplace(shape, static_cast<int>(numbers.size()));
    if (fresh) layout.situations.push_back(situation(shape));
    layout.shape_of_group.push_back(at->second);
  }
  layout.like = find_like(entry->second, hash);
  return entry->second;
}

// The first layout that equals this one shifted by whole symmetry steps of the cluster; none: this
// is the first. `hash`: of its ranks.
std::optional<GroupsId> Network::State::find_like(GroupsId id, GroupsHash hash) {
  const int period = topology::period(cluster) * cluster.node.gpus;
  if (period == 0) return {};
  const Layout& own = layout(id);
  int first = cluster.gpus();
  for (const std::vector<int>& group : own.ranks) first = std::min(first, std::ranges::min(group));
  const int beyond = first / period * period;
  if (beyond > 0 || !cluster.hosts.empty()) {
    std::vector<std::vector<int>> ranks = own.ranks;
    for (std::vector<int>& group : ranks)
      for (int& gpu : group) gpu -= beyond;
    hash = hash_of(ranks);
  }
  const auto [entry, fresh] = layout_in_front.try_emplace(hash, id);
  return fresh ? std::nullopt : std::optional(entry->second);
}

Result<Rates> Network::State::solve(const Layout& layout, const Traffic& traffic) {
  const Result<Finish> finish = solver.solve(traffic.query);
  if (!finish) return finish.errors();
  Rates rates{std::vector<Rate>(layout.ranks.size()), std::vector<Rate>(layout.situations.size())};
  for (std::size_t f = 0; f < traffic.query.flows.size(); ++f) {
    const auto group = static_cast<std::size_t>(traffic.group[f]);
    Rate& rate = rates.of_group[group];
    double& seconds = traffic.inside[f] ? rate.inside : rate.outside;
    seconds = std::max(seconds, (*finish)[f] / traffic_scale);
    rate.extra = traffic.extra[group];
    if (!traffic.inside[f]) rate.extra += cluster.fabric.transport.message_latency;
  }
  for (std::size_t group = 0; group < layout.ranks.size(); ++group)
    rates.of_shape[static_cast<std::size_t>(layout.shape_of_group[group])].no_faster_than(
        rates.of_group[group]);
  return rates;
}

// The traffic of the same groups on the nodes of a draw.
Traffic Network::State::drawn_traffic(const Layout& layout, Pattern pattern, int draw) {
  if (!drawn_routes) drawn_routes = std::make_unique<topology::Routes>(cluster);
  const std::vector<int> nodes = topology::drawn_nodes(cluster, draw);
  std::vector<std::vector<int>> ranks = layout.ranks;
  std::vector<GroupNodes> spreads;
  for (std::vector<int>& group : ranks) {
    for (int& gpu : group)
      gpu = nodes[static_cast<std::size_t>(gpu / cluster.node.gpus)] * cluster.node.gpus +
            gpu % cluster.node.gpus;
    spreads.push_back(spread(group, cluster));
  }
  return traffic(pattern, spreads, ranks, *drawn_routes, profile->achieved,
                 profile->nccl.send_channels_network, places, Of::one_of_alike);
}

// Solves a pattern for all groups at once; for scattered jobs, for each draw.
Result<const std::vector<Rates>*> Network::State::rates(Layout& layout, Pattern pattern) {
  if (layout.like) return rates(this->layout(*layout.like), pattern);
  std::vector<Rates>& found = layout.rates[static_cast<std::size_t>(pattern)];
  if (!found.empty()) return &found;
  const bool draws =
      topology::scatters(cluster) &&
      std::ranges::any_of(layout.situations, [](const Situation& s) { return s.shape.nodes > 1; });
  std::vector<Rates> all;
  for (int draw = 0; draw < (draws ? scattered_draws : 1); ++draw) {
    Result<Rates> one = solve(layout, draws ? drawn_traffic(layout, pattern, draw)
                                            : traffic_of(layout, pattern, Of::one_of_alike));
    if (!one) return one.errors();
    all.push_back(std::move(*one));
  }
  found = std::move(all);
  return &found;
}

Result<Rate> Network::State::rate(Layout& layout, Pattern pattern, std::size_t shape, Some groups) {
  const Result<const std::vector<Rates>*> solved = rates(layout, pattern);
  if (!solved) return solved.errors();
  Rate mean;
  for (const Rates& rates : **solved) {
    Rate slowest;
    if (groups.empty()) slowest = rates.of_shape[shape];
    for (const int group : groups)
      if (layout.shape_of_group[static_cast<std::size_t>(group)] == static_cast<int>(shape))
        slowest.no_faster_than(rates.of_group[static_cast<std::size_t>(group)]);
    mean.inside += slowest.inside;
    mean.outside += slowest.outside;
    mean.extra += slowest.extra;
  }
  const auto draws = static_cast<double>((*solved)->size());
  return Rate{mean.inside / draws, mean.outside / draws,
              Duration{mean.extra.ps / static_cast<std::int64_t>((*solved)->size())}};
}

}  // namespace sim::network
