// state.h — the state of a Network: layouts of groups, their solved rates, and answers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/cluster/network/channels.h"
#include "sim/cluster/network/cost.h"
#include "sim/cluster/network/flows.h"
#include "sim/cluster/network/layout.h"
#include "sim/cluster/network/network.h"
#include "sim/cluster/network/solver.h"
#include "sim/cluster/topology/routes.h"

namespace sim::network {

using collective::Kind;
using GroupsId = Network::GroupsId;
using Some = std::span<const int>;  // numbers of groups

constexpr int pattern_count = 7;
// A scattered job takes the mean of this many draws of its nodes. With rings over 32 nodes the mean
// is within 5 % of the mean of many draws.
constexpr int scattered_draws = 16;

bool is_send(Kind kind);
Pattern pattern_of(Kind kind, Algorithm algorithm);

// The solver's result for a group, or the slowest of several. It holds seconds per byte of the
// pattern, and the latency that the fabric adds to a step between nodes.
struct Rate {
  double inside = 0, outside = 0;  // flows within a node; flows between nodes
  Duration extra{};
  double slowest() const { return std::max(inside, outside); }
  void no_faster_than(const Rate& other) {
    inside = std::max(inside, other.inside);
    outside = std::max(outside, other.outside);
    extra = std::max(extra, other.extra);
  }
};

// The rates of all groups that use the links at once, at one placement of the job.
struct Rates {
  std::vector<Rate> of_group, of_shape;
};

// Groups of one kind, analysed once.
struct Layout {
  std::vector<std::vector<int>> ranks;  // the GPUs of each group
  std::vector<GroupNodes> spreads;
  std::vector<int> shape_of_group;
  std::vector<Situation> situations;  // one per shape, in order of first appearance
  // An equal layout at another offset, a whole number of symmetry steps of the cluster away; its
  // rates are used.
  std::optional<GroupsId> like;
  // By pattern; for scattered jobs by draw. Empty: not solved yet.
  std::array<std::vector<Rates>, pattern_count> rates;
  std::map<std::pair<Kind, std::int64_t>, Answer> known;
  std::optional<Traffic> pairs;
};

NcclModel measured_model(const NcclModel& nccl, const NcclModel& newest, const Achieved& achieved,
                         bool many_nodes);
std::shared_ptr<const CommunicationProfile> on_transport(
    std::shared_ptr<const CommunicationProfile> profile, const topology::Transport& transport);

struct Network::State {
  State(topology::Cluster c, std::shared_ptr<const CommunicationProfile> p, SolverOptions options)
      : cluster(std::move(c)),
        profile(on_transport(std::move(p), cluster.fabric.transport)),
        believed(nccl_model(*profile, cluster.nccl_version)),
        measured_one(measured_model(believed, newest_model(*profile), profile->achieved, false)),
        measured_many(measured_model(believed, newest_model(*profile), profile->achieved, true)),
        solver(std::move(options)) {
    believed.nic += cluster.fabric.transport.reported_latency;
  }

  GroupsId layout_of(const Groups& groups);
  std::optional<GroupsId> find_like(GroupsId id, GroupsHash hash);
  Layout& layout(GroupsId id) { return *layouts[static_cast<std::size_t>(id)]; }
  Layout& layout(const Groups& groups) { return layout(layout_of(groups)); }
  Situation situation(const GroupShape& shape) const {
    return {shape, cluster.node, search_graph(believed, cluster.node, shape)};
  }
  // Routes among the nodes of this layout; rebuilt larger when a layout needs more nodes.
  const topology::Routes& routes_for(const std::vector<GroupNodes>& spreads) {
    int nodes = 1;
    for (const GroupNodes& group : spreads) {
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
  Traffic traffic_of(const Layout& layout, Pattern pattern, Of of) {
    return traffic(pattern, layout.spreads, layout.ranks, routes_for(layout.spreads),
                   profile->achieved, profile->nccl.send_channels_network, places, of);
  }
  Result<Rates> solve(const Layout& layout, const Traffic& traffic);
  Traffic drawn_traffic(const Layout& layout, Pattern pattern, int draw);
  Result<const std::vector<Rates>*> rates(Layout& layout, Pattern pattern);
  // The slowest of these groups of the shape, as the mean over the draws; no groups: the slowest of
  // all.
  Result<Rate> rate(Layout& layout, Pattern pattern, std::size_t shape, Some groups);
  double fill(const Situation& situation, Choice choice, Bytes bytes) const;
  double nvls_rate(const Layout& layout, std::size_t shape, Some groups) const;
  // NCCL's choice, or that of the transport's tuner.
  Choice choice(const Situation& situation, Kind kind, Bytes bytes) const;
  Result<Answer> compute(Layout& layout, Kind kind, Bytes bytes, Some groups);
  Result<Answer> collective(Layout& layout, std::size_t shape, Kind kind, Bytes bytes, Some groups);
  Answer send(const Situation& s, Kind kind, const Rate& rate, Bytes bytes) const;
  Result<Answer> ask(Layout& layout, Kind kind, Bytes bytes);
  Duration pairs(Layout& layout, std::span<const std::int64_t> bytes);

  topology::Cluster cluster;
  std::shared_ptr<const CommunicationProfile> profile;
  NcclModel believed;  // decides: NCCL's tables, with the latency that the plugin reports
  NcclModel measured_one, measured_many;  // gives times: on one node, on several
  Solver solver;
  std::unique_ptr<topology::Routes> routes;
  std::unique_ptr<topology::Routes> drawn_routes;  // among all nodes, for scattered jobs
  LinkPlaces places;
  std::map<GroupsHash, GroupsId> layout_by_hash, layout_in_front;
  std::vector<std::unique_ptr<Layout>> layouts;
};

}  // namespace sim::network
