// flows.cpp — the load of each pattern of a collective on the links, as a picture: the bytes of
// every flow, and the links that it crosses with their weights. Sums are checked against
// calculations by hand.
#include "sim/cluster/network/flows.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "sim/cluster/network/layout.h"
#include "tests/cluster/network/profiles.h"
#include "tests/picture.h"

using namespace sim;
using namespace sim::network;

namespace {

constexpr Pattern patterns[] = {Pattern::ring,  Pattern::tree,     Pattern::nvls_tree,
                                Pattern::sends, Pattern::exchange, Pattern::all_to_all,
                                Pattern::pairs};
constexpr const char* names[] = {"ring",     "tree",       "nvls tree", "sends",
                                 "exchange", "all to all", "pairs"};

Traffic traffic_of(const topology::Cluster& cluster, Pattern pattern,
                   const std::vector<std::vector<int>>& ranks, const Achieved& achieved = {},
                   int channels = 2) {
  const topology::Routes routes(cluster);
  std::vector<GroupNodes> spreads;
  for (const std::vector<int>& group : ranks) spreads.push_back(spread(group, cluster));
  LinkPlaces places;
  places.seen.resize(static_cast<std::size_t>(routes.link_count()));
  places.query = 1;
  return traffic(pattern, spreads, ranks, routes, achieved, channels, places, Of::all_nodes);
}

std::string told(const topology::Cluster& cluster, const Traffic& t) {
  const topology::Routes routes(cluster);
  std::string text;
  for (std::size_t f = 0; f < t.query.flows.size(); ++f) {
    text += fmt::format("  group {} {:g}{}:", t.group[f], t.query.flows[f].bytes / traffic_scale,
                        t.inside[f] ? " inside" : "");
    for (const Use& use : t.query.flows[f].uses) {
      const auto at = static_cast<std::size_t>(use.link);
      text += fmt::format(" {}{}x{}", "npfm"[static_cast<int>(routes.link(t.links[at]).kind)],
                          t.links[at], use.weight);
    }
    text += "\n";
  }
  return text;
}

// Bytes that a pattern moves over links of one kind, including weights.
double moved(const topology::Cluster& cluster, const Traffic& t, topology::LinkKind kind) {
  const topology::Routes routes(cluster);
  double sum = 0;
  for (const Flow& flow : t.query.flows)
    for (const Use& use : flow.uses)
      if (routes.link(t.links[static_cast<std::size_t>(use.link)]).kind == kind)
        sum += flow.bytes / traffic_scale * use.weight;
  return sum;
}

topology::Cluster rails() {
  topology::Cluster cluster = cluster_of(a100_4hdr, 3);
  cluster.fabric.kind = topology::FabricKind::rail_only;
  return cluster;
}

topology::Cluster without_nvlink() {
  topology::Cluster cluster = cluster_of(a100_4hdr, 2);
  cluster.node.interconnect = topology::GpuInterconnect::pcie;
  return cluster;
}

}  // namespace

TEST_CASE("network: flows of every pattern cross the links that they did") {
  const std::vector<std::pair<const char*, topology::Cluster>> clusters = {
      {"switch, 4 NICs", cluster_of(a100_4hdr, 3)},
      {"switch, 8 NICs", cluster_of(a100_8hdr, 2)},
      {"mesh", cluster_of(h100_mesh, 2)},
      {"rails that never meet", rails()},
      {"PCIe", without_nvlink()}};
  std::string all;
  for (const auto& [name, cluster] : clusters) {
    const int per_node = cluster.node.gpus;
    const std::vector<std::vector<std::vector<int>>> layouts = {{{0, 1, 2, 3}},
                                                                {{0, 2}, {1, 3}},
                                                                {{0, 1, per_node, per_node + 1}},
                                                                {{0, per_node}, {1, per_node + 1}},
                                                                {{1, per_node + 2, per_node + 3}}};
    for (const auto& ranks : layouts)
      for (std::size_t p = 0; p < std::size(patterns); ++p) {
        std::string groups;
        for (const std::vector<int>& group : ranks) {
          groups += " [";
          for (const int rank : group) groups += fmt::format(" {}", rank);
          groups += " ]";
        }
        const Traffic t = traffic_of(cluster, patterns[p], ranks);
        all += fmt::format("{}, {} of{}\n", name, names[p], groups) + told(cluster, t);
      }
  }
  picture::same("cluster/network/pictures/flows.txt", all);
}

TEST_CASE("network: patterns move as many bytes as their closed forms say") {
  using topology::LinkKind;
  const topology::Cluster one = cluster_of(a100_8hdr, 1);
  const std::vector<std::vector<int>> eight = {{0, 1, 2, 3, 4, 5, 6, 7}};
  // Through the switch an edge crosses the sender's links and the receiver's.
  CHECK(moved(one, traffic_of(one, Pattern::ring, eight), LinkKind::nvlink) == Approx(8 * 2));
  // Two chains of seven edges, half a byte on each, in both directions.
  CHECK(moved(one, traffic_of(one, Pattern::tree, eight), LinkKind::nvlink) == Approx(7 * 2 * 2));
  CHECK(moved(one, traffic_of(one, Pattern::all_to_all, eight), LinkKind::nvlink) ==
        Approx(8 * 7 / 8.0 * 2));
  CHECK(moved(one, traffic_of(one, Pattern::pairs, eight), LinkKind::nvlink) == Approx(8 * 7 * 2));
  CHECK(moved(one, traffic_of(one, Pattern::sends, eight), LinkKind::nvlink) == Approx(7 * 2));
  CHECK(moved(one, traffic_of(one, Pattern::exchange, eight), LinkKind::nvlink) == Approx(8 * 2));
  // A mesh: every ordered pair of four has its own links.
  const topology::Cluster mesh_node = cluster_of(h100_mesh, 1);
  const std::vector<std::vector<int>> four = {{0, 1, 2, 3}};
  CHECK(moved(mesh_node, traffic_of(mesh_node, Pattern::ring, four), LinkKind::nvlink) ==
        Approx(12 / 3.0));
  CHECK(moved(mesh_node, traffic_of(mesh_node, Pattern::tree, four), LinkKind::nvlink) ==
        Approx(12 * 2 / 4.0));
}

TEST_CASE("network: links give what their kind is said to achieve") {
  const topology::Cluster two = cluster_of(a100_8hdr, 2);
  const std::vector<std::vector<int>> ranks = {{0, 1, 8, 9}};
  Achieved achieved;
  achieved.nvlink = 0.5;
  achieved.pcie = 0.25;
  achieved.network = 0.125;
  achieved.send_nvlink = 0.75;
  achieved.send_network = 0.375;
  const topology::Routes routes(two);
  for (const Pattern pattern : patterns) {
    const bool sends =
        pattern != Pattern::ring && pattern != Pattern::tree && pattern != Pattern::nvls_tree;
    const Traffic t = traffic_of(two, pattern, ranks, achieved);
    for (std::size_t i = 0; i < t.links.size(); ++i) {
      const topology::Link& link = routes.link(t.links[i]);
      const double share = link.kind == topology::LinkKind::nvlink ? (sends ? 0.75 : 0.5)
                           : link.kind == topology::LinkKind::pcie ? 0.25
                                                                   : (sends ? 0.375 : 0.125);
      CHECK(t.query.capacities[i] ==
            Approx(share * static_cast<double>(link.capacity.bytes_per_second)));
    }
  }
}

TEST_CASE(
    "network: messages share as many NICs as the channels allow, and exchanges those that are "
    "used") {
  topology::Cluster cluster = cluster_of(h100_mesh, 2);
  const std::vector<std::vector<int>> ranks = {{1, 5}};
  CHECK(traffic_of(cluster, Pattern::sends, ranks, {}, 1).query.flows.size() == 1);
  Achieved one;
  one.exchange_nics = 1;
  const topology::Routes routes(cluster);
  const auto nics = [&](Pattern pattern, const Achieved& achieved) {
    const Traffic t = traffic_of(cluster, pattern, ranks, achieved);
    std::string text;
    for (const Flow& flow : t.query.flows)
      for (const Use& use : flow.uses) {
        const int link = t.links[static_cast<std::size_t>(use.link)];
        for (int nic = 0; nic < 8; ++nic) {
          if (routes.links_of_nic(nic).up == link) text += fmt::format("out {} ", nic);
          if (routes.links_of_nic(nic).down == link) text += fmt::format("in {} ", nic);
        }
      }
    return text;
  };
  CHECK(nics(Pattern::sends, {}) == "out 1 in 5 ");
  CHECK(nics(Pattern::exchange, {}) == "out 1 in 5 out 5 in 1 ");
  CHECK(nics(Pattern::exchange, one) == "out 0 in 4 out 4 in 0 ");
  CHECK(nics(Pattern::sends, one) == "out 1 in 5 ");
}
