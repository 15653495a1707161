// loads.cpp — the load of groups on links, and the time of all-to-alls whose pairs send different
// amounts.
#include <algorithm>
#include <cassert>
#include <map>

#include "sim/cluster/network/state.h"

namespace sim::network {
namespace {

// Bytes of the pattern for one byte of the array.
double pattern_bytes(Kind kind, Algorithm algorithm, int ranks) {
  const double n = ranks;
  if (is_send(kind) || algorithm == Algorithm::tree || algorithm == Algorithm::nvls_tree) return 1;
  // The switch adds. Every GPU sends its array and receives the sum of its share, and the reverse;
  // the links up and down are those of the ring.
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
        is_send(kind) ? Algorithm::ring : state.choice(s, kind, bytes).algorithm;
    const Pattern pattern = pattern_of(kind, algorithm);
    const auto [at, fresh] = made.try_emplace(pattern);
    if (fresh) at->second = state.traffic_of(layout, pattern, Of::all_nodes);
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

// All messages of a group advance and end together. Other groups share links with them, so the most
// loaded link of each group determines its time.
Duration Network::State::pairs(Layout& layout, std::span<const std::int64_t> bytes) {
  const std::size_t ranks = layout.ranks.front().size();
  assert(bytes.size() == ranks * ranks);
  if (!layout.pairs) layout.pairs = traffic_of(layout, Pattern::pairs, Of::all_nodes);
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
    if (s.shape.nodes > 1) rate.extra += cluster.fabric.transport.message_latency;
    slowest = std::max(slowest, send(s, Kind::all_to_all, rate, Bytes{most}).duration);
  }
  return slowest;
}

}  // namespace sim::network
