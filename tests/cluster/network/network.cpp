// network.cpp — properties of network times that callers rely on: zero time for no data, monotony,
// independence of names; memory and channels.
#include "sim/cluster/network/network.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "sim/cluster/network/layout.h"
#include "sim/cluster/topology/graph.h"
#include "sim/job/mesh/communicators.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;
using collective::Kind;
using mesh::Communicator;
using mesh::Degrees;

namespace {

constexpr std::int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;
constexpr Kind all_kinds[] = {Kind::all_reduce,   Kind::all_gather, Kind::reduce_scatter,
                              Kind::broadcast,    Kind::all_to_all, Kind::send_receive,
                              Kind::ring_exchange};

SolverOptions quiet() {
  SolverOptions o;
  o.cache = "";
  return o;
}

Groups groups_of(Communicator kind, const Degrees& degrees) {
  return {mesh::groups(kind, degrees)};
}

// Efficiencies, ramps and latencies as a fit may produce them.
std::shared_ptr<CommunicationProfile> lossy_profile(bool hopper) {
  auto profile = ideal_profile(hopper);
  profile->nccl = nccl_tables(hopper);
  Achieved& a = profile->achieved;
  a.nvlink = 0.8, a.pcie = 0.76, a.network = 0.96, a.nvls = 0.68, a.nvls_tree = 0.9;
  a.send_nvlink = 0.7, a.send_network = 0.9;
  const Ramp ramp = {{Bytes{MiB}, 0.5}, {Bytes{16 * MiB}, 0.75}, {Bytes{GiB}, 1.0}};
  a.ring_one_node = a.ring_many_nodes = a.tree_many_nodes = a.nvls_one_node = ramp;
  a.nvls_many_nodes = a.send_one_node = a.send_many_nodes = ramp;
  a.latency_one_node = us(5), a.latency_many_nodes = us(10);
  a.send_base = us(8), a.send_nvlink_ll = us(0.6), a.send_nvlink_simple = us(3.4);
  a.send_pcie = us(5.7), a.send_network_simple = us(14);
  return profile;
}

}  // namespace

TEST_CASE("network: no bytes and one rank take no time and no communicator") {
  Network network(cluster_of(h100_8ndr, 2), lossy_profile(true), quiet());
  for (const Kind kind : all_kinds) {
    CHECK(network.duration(kind, {{{0, 1}}}, Bytes{0}) == Duration{0});
    CHECK(network.duration(kind, {{{0}, {1}}}, Bytes{GiB}) == Duration{0});
    CHECK(network.duration(kind, Groups{}, Bytes{GiB}) == Duration{0});
    CHECK(network.duration(kind, {{{0, 1}}}, Bytes{1}) > Duration{0});
  }
  CHECK(network.communicator_memory({{{0}}}) == Bytes{0});
  CHECK(network.channels({{{0}}}) == 0);
}

TEST_CASE("network: duration is latency and bytes over the rate and rounds up") {
  // Ring LL in an A100 node, 8 ranks, 1 KiB all-gather: 6.6 + 7 x 0.6 us = 10.8 us; LL carries
  // min(87.7, 300 / 2) GB/s x 8/7; 1024 B of that is 10.2166 ns.
  Network network(cluster_of(a100_8hdr, 1), ideal_profile(), quiet());
  const Groups node{{{0, 1, 2, 3, 4, 5, 6, 7}}};
  const double seconds = 10.8e-6 + 1024.0 / (87.7e9 * 8 / 7);
  const Duration d = network.duration(Kind::all_gather, node, Bytes{KiB});
  CHECK(d.ps >= static_cast<std::int64_t>(seconds * 1e12) - 1);
  CHECK(d.ps <= static_cast<std::int64_t>(seconds * 1e12) + 2);
  const auto answer = network.answer(Kind::all_gather, node, Bytes{KiB});
  REQUIRE(answer);
  CHECK(answer->algorithm == "Ring");
  CHECK(answer->protocol == "LL");
  CHECK(answer->latency == Duration{10'800'000});
}

TEST_CASE("network: NVLS all-reduce is timed by what each GPU moves over its links") {
  // H100 x 8: S (1 + 1/8) over 450 GB/s x 0.68 at 16 GiB; 473-482 GB/s bus bandwidth measured.
  Network network(cluster_of(h100_8ndr, 1), lossy_profile(true), quiet());
  const Groups node{{{0, 1, 2, 3, 4, 5, 6, 7}}};
  const auto answer = network.answer(Kind::all_reduce, node, Bytes{16 * GiB});
  REQUIRE(answer);
  CHECK(answer->algorithm == "NVLS");
  CHECK(answer->algorithm_bandwidth == Approx(450e9 * 0.68 / 1.125));
  CHECK(answer->algorithm_bandwidth * 1.75 / 1e9 == Approx(478).margin(5));
}

TEST_CASE("network: sends choose LL when short and pay one hop") {
  Network network(cluster_of(a100_8hdr, 2), lossy_profile(false), quiet());
  // 32 channels x 16 KiB = 512 KiB in a node.
  CHECK(network.answer(Kind::send_receive, {{{0, 1}}}, Bytes{512 * KiB})->protocol == "LL");
  const auto above = network.answer(Kind::send_receive, {{{0, 1}}}, Bytes{512 * KiB + 1});
  CHECK(above->protocol == "Simple");
  CHECK(above->latency == us(11.4));
  const auto across = network.answer(Kind::send_receive, {{{0, 8}}}, Bytes{KiB});
  CHECK(across->protocol == "Simple");  // no LL buffers over the network
  CHECK(across->latency == us(22));
}

TEST_CASE("network: what stays in a node knows nothing of the fabric, and the other way round") {
  topology::Cluster cluster = cluster_of(h100_8ndr, 2);
  const Groups node{{{0, 1, 2, 3, 4, 5, 6, 7}}}, across{{{0, 8}}};
  const auto times = [&](const std::shared_ptr<CommunicationProfile>& profile, const Groups& who) {
    Network network(cluster, profile, quiet());
    std::vector<Duration> all;
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter})
      for (const std::int64_t bytes : {KiB, 64 * KiB, GiB})
        all.push_back(network.duration(kind, who, Bytes{bytes}));
    return all;
  };
  const auto usual = lossy_profile(true);
  const auto in_node = times(usual, node), between = times(usual, across);
  const Ramp half = {{Bytes{KiB}, 0.5}};
  auto many = lossy_profile(true), one = lossy_profile(true);
  Achieved& m = many->achieved;
  m.latency_many_nodes = us(99), m.latency_factor_many_nodes = 9;
  m.ring_many_nodes = m.tree_many_nodes = m.nvls_many_nodes = m.send_many_nodes = half;
  Achieved& o = one->achieved;
  o.latency_one_node = us(99), o.latency_factor_one_node = 9;
  o.ring_one_node = o.nvls_one_node = o.send_one_node = half;
  CHECK(times(many, node) == in_node);
  CHECK(times(one, across) == between);
  for (std::size_t i = 0; i < in_node.size(); ++i) {
    CHECK(times(one, node)[i] > in_node[i]);
    CHECK(times(many, across)[i] > between[i]);
  }
  cluster.fabric.leaf_hop = cluster.fabric.spine_hop = us(300);
  CHECK(times(usual, node) == in_node);
}

TEST_CASE("network: the fabric adds its hops to every step between nodes") {
  topology::Cluster cluster = cluster_of(a100_8hdr, 8);
  const Groups dp = groups_of(Communicator::dp, {.tp = 8, .dp = 8});
  Network near(cluster, ideal_profile(), quiet());
  cluster.fabric.leaf_hop = Duration{100'000};
  cluster.fabric.spine_hop = Duration{300'000};
  Network far(cluster, ideal_profile(), quiet());
  // Ring of 8 nodes, 14 steps of an all-reduce, the longest of which crosses the spine: 0.4 us.
  const Bytes size{4 * GiB};
  CHECK(far.duration(Kind::all_reduce, dp, size) - near.duration(Kind::all_reduce, dp, size) ==
        Duration{14 * 400'000});
}

TEST_CASE("network: more bytes never take less time within one algorithm and protocol") {
  // Between two sizes NCCL's choice may jump, as the real one does, because it does not know our
  // rates.
  for (const bool hopper : {false, true}) {
    Network network(cluster_of(hopper ? h100_8ndr : a100_8hdr, 4), lossy_profile(hopper), quiet());
    for (const Degrees& degrees : {Degrees{.tp = 8, .dp = 4}, Degrees{.tp = 2, .dp = 16}}) {
      for (const Communicator group : {Communicator::tp, Communicator::dp, Communicator::world}) {
        const Groups groups = groups_of(group, degrees);
        for (const Kind kind : all_kinds) {
          Answer last;
          for (std::int64_t bytes = 1; bytes <= 16 * GiB; bytes += bytes / 5 + 1) {
            const auto now = network.answer(kind, groups, Bytes{bytes});
            REQUIRE(now);
            INFO(name(kind) << " " << name(group) << " " << bytes << " " << now->algorithm << "/"
                            << now->protocol);
            // The tree's correction is a table by powers of two, so it jumps as well.
            if (now->algorithm == last.algorithm && now->protocol == last.protocol &&
                now->algorithm != "Tree") {
              CHECK(now->duration >= last.duration);
            }
            last = *now;
          }
        }
      }
    }
  }
}

TEST_CASE("network: more bandwidth is never slower") {
  const auto time = [](auto change, Kind kind, const Groups& groups) {
    topology::Cluster cluster = cluster_of(a100_4hdr, 8);
    cluster.fabric.oversubscription = 3;
    change(cluster);
    return Network(cluster, ideal_profile(), quiet()).duration(kind, groups, Bytes{GiB});
  };
  for (const Kind kind : all_kinds) {
    for (const Communicator group :
         {Communicator::tp, Communicator::dp, Communicator::pp, Communicator::world}) {
      const Groups groups = groups_of(group, {.tp = 4, .dp = 8, .pp = 2});
      const Duration base = time([](auto&) {}, kind, groups);
      INFO(name(kind) << " " << name(group));
      CHECK(time([](auto& c) { c.node.nvlink.bytes_per_second *= 2; }, kind, groups) <= base);
      CHECK(time([](auto& c) { c.node.pcie.bytes_per_second *= 2; }, kind, groups) <= base);
      CHECK(time([](auto& c) { c.fabric.oversubscription = 1; }, kind, groups) <= base);
    }
  }
}

TEST_CASE("network: renaming ranks or reordering groups changes nothing") {
  topology::Cluster cluster = cluster_of(a100_4hdr, 8);
  cluster.fabric.oversubscription = 3;
  Network network(cluster, lossy_profile(false), quiet());
  for (const Kind kind : all_kinds) {
    const Groups groups = groups_of(Communicator::dp, {.tp = 4, .dp = 8, .pp = 2});
    const Duration base = network.duration(kind, groups, Bytes{64 * MiB});
    Groups other = groups;
    std::reverse(other.ranks.begin(), other.ranks.end());
    INFO(name(kind));
    CHECK(network.duration(kind, other, Bytes{64 * MiB}) == base);
    // Whole leaves are exchanged: nodes 0-3 with 4-7.
    for (auto& ranks : other.ranks) {
      for (int& rank : ranks) rank = (rank + 32) % 64;
    }
    CHECK(network.duration(kind, other, Bytes{64 * MiB}) == base);
  }
}

TEST_CASE("network: a scattered job takes the mean of the draws of its nodes") {
  topology::Cluster cluster = cluster_of(a100_4hdr, 48);
  cluster.fabric.kind = topology::FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 8;
  cluster.fabric.spines = 16;
  const Groups dp = groups_of(Communicator::dp, {.tp = 4, .dp = 32});
  const Bytes size{4 * GiB};
  const auto time = [&](const topology::Cluster& c, const Groups& groups) {
    Network network(c, lossy_profile(false), quiet());
    return seconds(network.duration(Kind::reduce_scatter, groups, size));
  };
  const double in_front = time(cluster, dp);
  double sum = 0;
  constexpr int draws = 16;
  for (int draw = 0; draw < draws; ++draw) {
    topology::Cluster told = cluster;
    told.hosts = topology::drawn_nodes(cluster, draw);
    sum += time(told, dp);
  }
  cluster.scattered = true;
  CHECK(time(cluster, dp) == Approx(sum / draws).epsilon(1e-9));
  CHECK(sum / draws > 1.3 * in_front);  // neighbours share uplinks with fewer flows
  const Groups node{{{0, 1, 2, 3, 4, 5, 6, 7}}};
  topology::Cluster packed = cluster;
  packed.scattered = false;
  CHECK(time(cluster, node) == time(packed, node));
  cluster.hosts = topology::drawn_nodes(cluster, 3);
  packed.hosts = cluster.hosts;
  CHECK(time(cluster, dp) == time(packed, dp));  // those that it is told
}

TEST_CASE("network: groups that lie differently take as long as the slowest") {
  Network network(cluster_of(a100_8hdr, 2), ideal_profile(), quiet());
  const Groups inside{{{0, 1}}}, across{{{2, 8}}}, both{{{0, 1}, {2, 8}}};
  for (const Kind kind : {Kind::all_reduce, Kind::ring_exchange}) {
    CHECK(network.duration(kind, both, Bytes{GiB}) == network.duration(kind, across, Bytes{GiB}));
    CHECK(network.duration(kind, inside, Bytes{GiB}) < network.duration(kind, across, Bytes{GiB}));
  }
  CHECK(network.crosses_nodes(both));
  CHECK_FALSE(network.crosses_nodes(inside));
}

TEST_CASE("network: constructing one and asking for what symmetry decides starts no helper") {
  SolverOptions options = quiet();
  options.helper = "/nonexistent/rehearse-network";
  Network network(cluster_of(h100_8ndr, 2048), ideal_profile(true), options);
  CHECK(network.duration(Kind::all_gather, groups_of(Communicator::tp, {.tp = 8, .dp = 4}),
                         Bytes{MiB}) > Duration{0});
  CHECK(network.solver().started() == 0);
}

TEST_CASE("network: a helper that is not there is a value or an exception and never a number") {
  SolverOptions options = quiet();
  options.helper = "/nonexistent/rehearse-network";
  // One port per node. Nodes 0 and 1 have three groups each, node 3 two, node 2 two, so they are
  // not alike.
  System single = a100_8hdr;
  single.nics = 1;
  Network shared(cluster_of(single, 4), ideal_profile(), options);
  const auto answer =
      shared.answer(Kind::all_gather, {{{0, 8}, {1, 16}, {2, 17}, {24, 9}, {18, 25}}}, Bytes{GiB});
  REQUIRE_FALSE(answer);
  CHECK_THROWS_AS(shared.duration(Kind::all_gather, {{{0, 8}, {1, 16}, {2, 17}, {24, 9}, {18, 25}}},
                                  Bytes{GiB}),
                  SolverFailed);
  // Other questions are still answered.
  CHECK(shared.duration(Kind::all_gather, {{{0, 1}}}, Bytes{GiB}) > Duration{0});
}

TEST_CASE("network: remembered groups answer as the groups themselves") {
  Network network(cluster_of(a100_8hdr, 4), lossy_profile(false), quiet());
  const Groups groups = groups_of(Communicator::dp, {.tp = 8, .dp = 4});
  const auto id = network.remember(groups);
  CHECK(network.remember(groups) == id);
  CHECK(network.remember({{{0, 8, 16, 24}}}) != id);
  CHECK(network.duration(Kind::all_reduce, id, Bytes{MiB}) ==
        network.duration(Kind::all_reduce, groups, Bytes{MiB}));
  // The same ranks in other groups are different.
  CHECK(network.remember({{{0, 1}, {2, 3}}}) != network.remember({{{0, 1, 2, 3}}}));
}

TEST_CASE("network: groups that are moved by whole leaves or pods take as long as before") {
  using topology::FabricKind;
  int kinds = 0;
  for (const topology::FabricEntry& entry : topology::fabric_catalog()) {
    topology::Cluster cluster = cluster_of(h100_8ndr, 24);
    cluster.fabric = {entry.kind, 2, 2};
    cluster.fabric.leaves_per_pod = 3, cluster.fabric.pod_oversubscription = 100;
    cluster.fabric.spine_hop = us(1), cluster.fabric.core_hop = us(3);
    cluster.fabric.spines = 4, cluster.fabric.groups = 4, cluster.fabric.routers_per_group = 4;
    cluster.fabric.dimensions = {4, 6};
    INFO(entry.name);
    if (!topology::problems(cluster).empty()) continue;
    const int period = topology::period(cluster);
    ++kinds;
    // Pairs on one leaf, across leaves and across pods; groups of many nodes; some share trunks.
    const std::vector<Groups> all = {{{{0, 8}, {1, 9}, {2, 10}}},
                                     {{{0, 16}, {24, 40}}},
                                     {{{0, 48}, {8, 56}, {1, 49}}},
                                     {{{0, 8, 16, 24}, {1, 9, 17, 25}}},
                                     {{{0, 8, 40, 56}}},
                                     {{{3, 2, 1, 0}, {8, 9, 10, 11}}}};
    Network in_turn(cluster, lossy_profile(true), quiet());
    for (const Groups& groups : all)
      for (int moved = 0; moved < 3; ++moved) {
        Groups there = groups;
        for (std::vector<int>& group : there.ranks)
          for (int& rank : group) rank += moved * std::max(period, 1) * cluster.node.gpus;
        if (std::ranges::max(there.ranks.back()) >= cluster.gpus()) continue;
        for (const Kind kind : all_kinds) {
          Network alone(cluster, lossy_profile(true), quiet());
          INFO(name(kind) << " moved " << moved);
          CHECK(in_turn.duration(kind, there, Bytes{64 * MiB}) ==
                alone.duration(kind, there, Bytes{64 * MiB}));
        }
      }
  }
  CHECK(kinds >= 6);
}

TEST_CASE("network: communicators hold what NCCL connects") {
  // A100 node: 24 channels x (12 + 12) MiB + 1 MiB of state = 577 MiB (688 MB measured on 4).
  Network a100(cluster_of(a100_8hdr, 4), ideal_profile(), quiet());
  const Groups node{{{0, 1, 2, 3, 4, 5, 6, 7}}};
  CHECK(a100.communicator_memory(node) == Bytes{577 * MiB});
  CHECK(a100.channels(node) == 24);
  // One GPU per node: 2 channels, each in and out by its NIC: 4 x 9 MiB + 1.
  const Groups dp = groups_of(Communicator::dp, {.tp = 8, .dp = 4});
  CHECK(a100.communicator_memory(dp) == Bytes{37 * MiB});
  CHECK(a100.channels(dp) == 2);
  // All GPUs of 4 nodes: 16 channels: 24 x 16 + ceil(32 / 8) x 9 + 1.
  const Groups world = groups_of(Communicator::world, {.tp = 8, .dp = 4});
  CHECK(a100.communicator_memory(world) == Bytes{421 * MiB});
  // A pipeline between nodes: its rings were connected when it was made, and the shared send
  // buffers.
  CHECK(a100.communicator_memory(dp, Network::Purpose::sends) == Bytes{(37 + 128) * MiB});
  // A ring of two in a node that also reduces: 577 and 32 channels x 12 MiB to the one neighbour.
  const Groups pair{{{0, 1}}};
  CHECK(a100.communicator_memory(pair, Network::Purpose::both) ==
        a100.communicator_memory(pair) + Bytes{32 * 12 * MiB});
  // Hopper with NVLS: 16 channels x 8 heads x 8 MiB = 1 GiB more (until 2.20).
  auto profile = lossy_profile(true);
  Network h100(cluster_of(h100_8ndr, 1), profile, quiet());
  CHECK(h100.communicator_memory(node) == Bytes{(577 + 1024) * MiB});
  // Connected on first use: rings only.
  auto lazy = std::make_shared<CommunicationProfile>(*profile);
  lazy->buffers.lazy = true;
  CHECK(Network(cluster_of(h100_8ndr, 1), lazy, quiet()).communicator_memory(node) ==
        Bytes{289 * MiB});
  // Its rings never come into being where it only sends: state and 2 x 32 channels x 12 MiB.
  CHECK(Network(cluster_of(h100_8ndr, 1), lazy, quiet())
            .communicator_memory(node, Network::Purpose::sends) == Bytes{(1 + 768) * MiB});
}

TEST_CASE("network: every broken rule of a profile is named") {
  CHECK(check(*lossy_profile(true)).empty());
  CommunicationProfile bad = *lossy_profile(true);
  bad.achieved.nvlink = 1.2;
  bad.achieved.send_base = Duration{-1};
  bad.achieved.ring_one_node = {{Bytes{MiB}, 0.1}, {Bytes{MiB + 1}, 0.9}};
  bad.nccl.speeds_network = rates({10, 20});
  bad.nccl.max_channels = 0;
  const std::vector<std::string> problems = check(bad);
  REQUIRE(problems.size() == 5);
  CHECK(problems[0].find("nccl.speeds_network: speeds must descend") == 0);
  CHECK(problems[1].find("nccl.max_channels: 0 is not in") == 0);
  CHECK(problems[2].find("achieved.nvlink: 1.2 is not a fraction") == 0);
  CHECK(problems[3].find("achieved.ring_one_node: so steep") == 0);
  CHECK(problems[4].find("achieved.send_base: a latency") == 0);
}

TEST_CASE("network: a ramp is log-linear between its points and constant outside") {
  const Ramp ramp = {{Bytes{1024}, 0.5}, {Bytes{4096}, 0.7}};
  CHECK(at(ramp, Bytes{1}) == 0.5);
  CHECK(at(ramp, Bytes{2048}) == Approx(0.6));
  CHECK(at(ramp, Bytes{GiB}) == 0.7);
  CHECK(at({}, Bytes{1}) == 1.0);
}

TEST_CASE("network: rings over direct NVLinks take one link each way, or there are none") {
  // A square with two links on each side: two rings each way round; a third has no diagonal.
  topology::Node node;
  node.gpus = 4;
  node.interconnect = topology::GpuInterconnect::direct;
  node.pairs = {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}, {3, 0, 2}};
  const auto rings = nvlink_rings(node, {0, 1, 2, 3});
  REQUIRE(rings.size() == 4);
  for (const std::vector<int>& ring : rings) {
    REQUIRE(ring.size() == 4);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(std::abs(ring[i] - ring[(i + 1) % 4]) % 2 == 1);  // never across
  }
  CHECK(nvlink_rings(node, {0, 1}).size() == 2);
  CHECK(nvlink_rings(node, {0, 2}).empty());     // nothing joins them
  CHECK(nvlink_rings(node, {0, 1, 2}).empty());  // a path, no ring
  CHECK(nvlink_rings(node, {0}).empty());
  node.interconnect = topology::GpuInterconnect::nvswitch;
  CHECK(nvlink_rings(node, {0, 1, 2, 3}).empty());
}
