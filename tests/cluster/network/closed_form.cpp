// closed_form.cpp — SimGrid, merging by symmetry and calculations by hand must agree: bandwidths of
// collectives on idle and shared fabrics, for every kind of node.
#include <catch2/catch.hpp>

#include "sim/cluster/network/network.h"
#include "sim/job/mesh/communicators.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;
using collective::Kind;
using mesh::Communicator;
using mesh::Degrees;
using topology::FabricKind;

namespace {

constexpr std::int64_t GiB = 1 << 30;

// The ways to answer a query.
enum class Engine { merged, simgrid };

SolverOptions options(Engine engine) {
  SolverOptions o;
  o.cache = "";
  o.reduce = engine == Engine::merged;
  return o;
}

// Seconds for the bytes, without the latency, of a ring in every group at once.
double seconds_of_bytes(const topology::Cluster& cluster, Kind kind, const Groups& groups,
                        Engine engine, bool hopper = false) {
  Network network(cluster, ideal_profile(hopper), options(engine));
  const Result<Answer> answer = network.answer(kind, groups, Bytes{64 * GiB});
  REQUIRE(answer);
  if (kind != Kind::send_receive && kind != Kind::ring_exchange && kind != Kind::all_to_all) {
    REQUIRE(answer->algorithm == "Ring");
    REQUIRE(answer->protocol == "Simple");
  }
  if (engine == Engine::simgrid) CHECK(network.solver().asked() == 1);
  return 64.0 * GiB / answer->algorithm_bandwidth;
}

Groups groups_of(Communicator kind, const Degrees& degrees) {
  return {mesh::groups(kind, degrees)};
}

// One group of the given ranks.
Groups one(std::vector<int> ranks) {
  return {{std::move(ranks)}};
}

void check(const topology::Cluster& cluster, Kind kind, const Groups& groups, double bus,
           bool hopper = false) {
  const int n = static_cast<int>(groups.ranks[0].size());
  const double expected = collective::bus_factor(kind, n) * 64.0 * GiB / bus;
  for (const Engine engine : {Engine::merged, Engine::simgrid}) {
    INFO(name(kind) << (engine == Engine::merged ? " merged" : " by SimGrid") << " expected "
                    << expected);
    CHECK(seconds_of_bytes(cluster, kind, groups, engine, hopper) ==
          Approx(expected).epsilon(1e-9));
  }
}

constexpr Kind rings[] = {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter};

}  // namespace

TEST_CASE("network: a ring in a node runs at the NVLinks of one GPU") {
  // A100: 12 links of 25 GB/s.
  const topology::Cluster cluster = cluster_of(a100_8hdr, 1);
  for (const Kind kind : rings) {
    check(cluster, kind, one({0, 1, 2, 3, 4, 5, 6, 7}), 300e9);
    check(cluster, kind, one({2, 5}), 300e9);
    // Two groups of a node do not share links under an NVSwitch.
    check(cluster, kind, {{{0, 1, 2, 3}, {4, 5, 6, 7}}}, 300e9);
  }
}

TEST_CASE("network: a ring between nodes runs at the NICs its GPUs own") {
  // 8 GPUs own 8 ports of 25 GB/s: 200 GB/s. PCIe of 31.5 and NVLink of 300 are wider.
  const topology::Cluster cluster = cluster_of(a100_8hdr, 4);
  for (const Kind kind : rings) {
    check(cluster, kind, groups_of(Communicator::world, {.tp = 8, .dp = 4}), 200e9);
    // One GPU per node: one NIC each, on eight rails side by side.
    check(cluster, kind, groups_of(Communicator::dp, {.tp = 8, .dp = 4}), 25e9);
  }
}

TEST_CASE("network: groups that share a NIC share its rate") {
  // 4 ports for 8 GPUs, one GPU per group and node: two groups on each port, 12.5 GB/s each.
  const topology::Cluster cluster = cluster_of(a100_4hdr, 4);
  for (const Kind kind : rings) {
    check(cluster, kind, groups_of(Communicator::dp, {.tp = 8, .dp = 4}), 12.5e9);
    check(cluster, kind, one({0, 8, 16, 24}), 25e9);  // alone it has the whole port
    // tp 2: the dp groups of both GPUs at a port, and nothing else.
    check(cluster, kind, groups_of(Communicator::dp, {.tp = 2, .dp = 4, .pp = 4}), 300e9);
  }
}

TEST_CASE("network: groups of different lengths meet as max-min shares say") {
  // One port per node. Group {0,8} is between nodes 0 and 1, {1,16} between 0 and 2, {17,24}
  // between 2 and 3: they share ports at node 0 and at node 2. Two groups on a port of 25 get 12.5
  // each. All end together, as every group shares a port with another.
  System single = a100_8hdr;
  single.nics = 1;
  const topology::Cluster cluster = cluster_of(single, 4);
  check(cluster, Kind::all_gather, {{{0, 8}, {1, 16}, {17, 24}}}, 12.5e9);
  // Three groups on the port of node 0 leave 25 - 25/3 for the fourth; the slowest group has 25/3.
  check(cluster, Kind::all_gather, {{{0, 8}, {1, 16}, {2, 24}, {17, 25}}}, 25e9 / 3);
}

TEST_CASE("network: an oversubscribed spine is shared by the rings that cross it") {
  // Nodes 0-3 on one leaf, 4-7 on the other; trunk = 4 nodes x 8 x 25 / 4 = 200 GB/s. The dp
  // groups of 8 nodes cross it once in each direction: 8 groups, 25 GB/s each: just not narrower.
  topology::Cluster cluster = cluster_of(a100_8hdr, 8);
  cluster.fabric.oversubscription = 4;
  check(cluster, Kind::all_reduce, groups_of(Communicator::dp, {.tp = 8, .dp = 8}), 25e9);
  // At 16:1 the trunk has 50 GB/s for 8 groups.
  cluster.fabric.oversubscription = 16;
  check(cluster, Kind::all_reduce, groups_of(Communicator::dp, {.tp = 8, .dp = 8}), 6.25e9);
  // Pipeline order swapped: groups of nodes {0,2,4,6}, {1,3,5,7} still cross once, 16 groups.
  check(cluster, Kind::all_reduce, groups_of(Communicator::pp, {.tp = 16, .pp = 4}), 50e9 / 16);
  // Groups that stay on a leaf do not use it.
  check(cluster, Kind::all_reduce, groups_of(Communicator::dp, {.tp = 8, .dp = 4, .pp = 2}), 25e9);
}

TEST_CASE("network: rails meet no other rail and units meet at the spine") {
  topology::Cluster cluster = cluster_of(h100_8ndr, 8);
  cluster.fabric = {FabricKind::rail_optimised, 4, 8.0, {}, {}};
  // Leaf trunk = 4 x 50 / 8 = 25 GB/s, for the one dp group of its rail. PCIe and port are wider.
  check(cluster, Kind::all_reduce, groups_of(Communicator::dp, {.tp = 8, .dp = 8}), 25e9, true);
  check(cluster, Kind::all_reduce, groups_of(Communicator::dp, {.tp = 8, .dp = 4, .pp = 2}), 50e9,
        true);
}

TEST_CASE("network: rings in a mesh use all pairs of the group") {
  // 6 links of 25 GB/s per pair: 150 GB/s for two GPUs, 300 for three, 450 for four.
  const topology::Cluster cluster = cluster_of(h100_mesh, 2);
  for (const Kind kind : rings) {
    check(cluster, kind, one({0, 1}), 150e9, true);
    check(cluster, kind, one({0, 1, 3}), 300e9, true);
    check(cluster, kind, {{{0, 1, 2, 3}, {4, 5, 6, 7}}}, 450e9, true);
    // tp x cp = 8 across two nodes: four ports of 25 GB/s. An all-reduce takes the tree there,
    // whose speed NCCL raises inside the nodes.
    if (kind == Kind::all_reduce) continue;
    check(cluster, kind, one({0, 1, 2, 3, 4, 5, 6, 7}), 100e9, true);
  }
}

TEST_CASE("network: without NVLink a ring runs over PCIe") {
  System bare = a100_8hdr;
  bare.interconnect = topology::GpuInterconnect::pcie;
  // Every GPU sends one and receives one ring over its 31.5 GB/s.
  check(cluster_of(bare, 1), Kind::all_gather, one({0, 1, 2, 3}), 31.5e9);
}

TEST_CASE("network: messages run at the narrowest link of their way") {
  const topology::Cluster cluster = cluster_of(a100_8hdr, 4);
  check(cluster, Kind::send_receive, one({0, 1}), 300e9);
  check(cluster, Kind::send_receive, one({0, 8}), 25e9);
  // All stages to the next at once: stages of 8 GPUs, so every port carries one message each way.
  check(cluster, Kind::send_receive, groups_of(Communicator::pp, {.tp = 8, .pp = 4}), 25e9);
  check(cluster, Kind::ring_exchange, one({0, 1, 2, 3}), 300e9);
  check(cluster, Kind::ring_exchange, groups_of(Communicator::cp, {.tp = 8, .cp = 4}), 25e9);
  // Two GPUs per port.
  check(cluster_of(a100_4hdr, 2), Kind::ring_exchange,
        groups_of(Communicator::cp, {.tp = 8, .cp = 2}), 12.5e9);
  // In a mesh a message has only its pair's links.
  check(cluster_of(h100_mesh, 1), Kind::ring_exchange, one({0, 1, 2, 3}), 150e9, true);
}

TEST_CASE("network: a message to another rail goes by NVLink first") {
  // PXN: GPU 0 of node 0 sends to GPU 3 of node 1 by NIC 3, so on rails it crosses only one leaf.
  topology::Cluster cluster = cluster_of(a100_8hdr, 2);
  cluster.fabric = {FabricKind::rail_optimised, 2, 1000.0, {}, {}};
  check(cluster, Kind::send_receive, one({0, 11}), 25e9);
}

TEST_CASE("network: all-to-all is bound by the NIC that carries most") {
  // 2 nodes x 8: of S/16 to each of 16 ranks, 8 leave the node: 8 x 8 x S/16 over 8 ports, S/2 per
  // port of 25 GB/s. As bus bandwidth with the factor 15/16.
  const topology::Cluster cluster = cluster_of(a100_8hdr, 2);
  check(cluster, Kind::all_to_all, groups_of(Communicator::world, {.tp = 8, .dp = 2}),
        25e9 * 2 * 15 / 16);
  // 8 nodes: each port carries 56/64 S. 32 nodes: 248/256 S.
  check(cluster_of(a100_8hdr, 8), Kind::all_to_all,
        groups_of(Communicator::world, {.tp = 8, .dp = 8}), 25e9 * 63 / 56);
  check(cluster_of(a100_8hdr, 32), Kind::all_to_all,
        groups_of(Communicator::world, {.tp = 8, .dp = 32}), 25e9 * 255 / 248);
  // In a node each GPU sends 7/8 S over 300 GB/s.
  check(cluster, Kind::all_to_all, one({0, 1, 2, 3, 4, 5, 6, 7}), 300e9);
}

// A million flows, half a minute of SimGrid.
TEST_CASE("network: so it is on 128 nodes", "[.][campaign]") {
  check(cluster_of(a100_8hdr, 128), Kind::all_to_all,
        groups_of(Communicator::world, {.tp = 8, .dp = 128}), 25e9 * 1023 / 1016);
}

TEST_CASE("network: an all-to-all of unequal pairs lasts as long as its most loaded link") {
  const auto seconds_of = [](const topology::Cluster& cluster, const Groups& groups,
                             const std::vector<std::int64_t>& bytes) {
    Network network(cluster, ideal_profile(false), options(Engine::merged));
    return seconds(network.duration(groups, bytes));
  };
  const auto group = [](int ranks) {
    return groups_of(Communicator::world, {.tp = 8, .dp = ranks / 8});
  };
  // If all pairs send the same, it is the equal exchange, on 1, 8 and 32 nodes.
  for (const int ranks : {8, 64, 256}) {
    const topology::Cluster cluster = cluster_of(a100_8hdr, std::max(ranks / 8, 1));
    const auto n = static_cast<std::size_t>(ranks);
    const std::int64_t each = 64 * GiB / ranks;
    Network network(cluster, ideal_profile(false), options(Engine::simgrid));
    const double equal = seconds(network.duration(Kind::all_to_all, group(ranks), Bytes{64 * GiB}));
    CHECK(seconds_of(cluster, group(ranks), std::vector<std::int64_t>(n * n, each)) ==
          Approx(equal).epsilon(1e-9));
  }
  // A node: rank r sends (1 + r) GiB to each; the last one's NVLinks carry 7 x 8 GiB out.
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < 64; ++i) bytes.push_back((1 + i / 8) * GiB);
  CHECK(seconds_of(cluster_of(a100_8hdr, 1), group(8), bytes) ==
        Approx(7 * 8.0 * GiB / 300e9).epsilon(1e-9));
  // Transposed: its NVLinks receive as much.
  for (std::int64_t i = 0; i < 64; ++i) bytes[static_cast<std::size_t>(i)] = (1 + i % 8) * GiB;
  CHECK(seconds_of(cluster_of(a100_8hdr, 1), group(8), bytes) ==
        Approx(7 * 8.0 * GiB / 300e9).epsilon(1e-9));
  // 8 nodes, 1 GiB per pair, twice as much from rank 0. Each port of its node sends the data of 8 +
  // 1 ranks for one rank of each of 7 nodes.
  bytes.assign(64 * 64, GiB);
  for (std::size_t i = 0; i < 64; ++i) bytes[i] = 2 * GiB;
  CHECK(seconds_of(cluster_of(a100_8hdr, 8), group(64), bytes) ==
        Approx(63.0 * GiB / 25e9).epsilon(1e-9));
}

TEST_CASE("network: the tree's links carry what the double binary tree puts on them") {
  // One node per leaf, trunks of 8 x 25 / 10 = 20 GB/s each way. 2 nodes: each tree has one edge up
  // and one down, with half of the data on each. So each direction carries S at 20 GB/s. 4 nodes: a
  // node that is inner in one tree and leaf in the other sends and receives 2 S: 10 GB/s. NCCL does
  // not know the trunks and takes the tree with LL128 at 1 MiB: 0.92 x 120/128 x f of that; 2^20 /
  // 64 = 2^14 makes f = 0.6.
  const struct {
    int nodes;
    double bandwidth;
  } cases[] = {{2, 20e9}, {4, 10e9}};
  for (const auto& c : cases) {
    for (const Engine engine : {Engine::merged, Engine::simgrid}) {
      topology::Cluster cluster = cluster_of(a100_8hdr, c.nodes);
      cluster.fabric.nodes_per_leaf = 1;
      cluster.fabric.oversubscription = 10;
      Network network(cluster, ideal_profile(), options(engine));
      const auto answer =
          network.answer(Kind::all_reduce, groups_of(Communicator::world, {.tp = 8, .dp = c.nodes}),
                         Bytes{1 << 20});
      REQUIRE(answer);
      REQUIRE(answer->algorithm == "Tree");
      REQUIRE(answer->protocol == "LL128");
      const double expected = 0.92 * c.bandwidth * 120 / 128 * 0.6;
      CHECK(answer->algorithm_bandwidth == Approx(expected).epsilon(1e-9));
    }
  }
}

TEST_CASE("network: merging by symmetry changes no answer on any small cluster and layout") {
  const Degrees layouts[] = {{.tp = 8, .dp = 4},          {.tp = 4, .cp = 2, .dp = 2, .pp = 2},
                             {.tp = 2, .dp = 8, .pp = 2}, {.tp = 1, .cp = 4, .dp = 4, .pp = 2},
                             {.tp = 16, .dp = 2},         {.tp = 3, .dp = 5, .pp = 2}};
  for (const System& system : {a100_8hdr, a100_4hdr, h100_mesh}) {
    for (const FabricKind fabric :
         {FabricKind::single_switch, FabricKind::fat_tree, FabricKind::rail_optimised}) {
      topology::Cluster cluster = cluster_of(system, 32 / system.gpus);
      cluster.fabric = {fabric, 3, 3.0, {}, {}};
      Network merged(cluster, ideal_profile(), options(Engine::merged));
      Network full(cluster, ideal_profile(), options(Engine::simgrid));
      for (const Degrees& degrees : layouts) {
        for (const Communicator kind :
             {Communicator::tp, Communicator::cp, Communicator::dp, Communicator::dp_cp,
              Communicator::pp, Communicator::world}) {
          const Groups groups = groups_of(kind, degrees);
          if (groups.ranks[0].size() == 1) continue;
          for (const Kind what : {Kind::all_reduce, Kind::all_gather, Kind::send_receive,
                                  Kind::ring_exchange, Kind::all_to_all}) {
            INFO(name(fabric) << " " << name(kind) << " " << name(what) << " tp " << degrees.tp
                              << " cp " << degrees.cp << " pp " << degrees.pp << " on "
                              << system.gpus << " GPUs a node");
            const auto a = merged.answer(what, groups, Bytes{GiB});
            const auto b = full.answer(what, groups, Bytes{GiB});
            REQUIRE(a);
            REQUIRE(b);
            CHECK(a->algorithm_bandwidth == Approx(b->algorithm_bandwidth).epsilon(1e-9));
          }
        }
      }
      CHECK(full.solver().started() == 1);
    }
  }
}
