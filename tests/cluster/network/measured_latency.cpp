// measured_latency.cpp — what machines show in place of NCCL's assumptions: latencies by protocol,
// a rank's own data, heads of NVLS, the transport below NCCL, tables of several versions.
#include <catch2/catch.hpp>

#include "sim/cluster/network/cost.h"
#include "sim/cluster/network/network.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;
using collective::Kind;

namespace {

constexpr std::int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

SolverOptions quiet() {
  SolverOptions o;
  o.cache = "";
  return o;
}

Groups first(int ranks) {
  Groups groups;
  groups.ranks.emplace_back();
  for (int i = 0; i < ranks; ++i) groups.ranks[0].push_back(i);
  return groups;
}

// EFA of p4de: four NICs of 100 Gb/s for eight A100.
constexpr System a100_4efa{8, 4, false, nvswitch, 12.5, topology::HostCpu::intel};

Situation situation_of(const System& system, int nodes) {
  const topology::Cluster cluster = cluster_of(system, nodes);
  const GroupShape shape{nodes * system.gpus, nodes, system.gpus, system.nics};
  return {shape, cluster.node, search_graph(nccl_tables(system.hopper), cluster.node, shape)};
}

double microseconds(const Answer& answer) {
  return seconds(answer.duration) * 1e6;
}

}  // namespace

TEST_CASE("network: between two nodes NCCL raises a tree's speed inside of them") {
  const auto tree_speed = [](const System& system, int nodes) {
    return situation_of(system, nodes).graph.tree_speed / 1e9;
  };
  // Four channels of 12 GB/s: 15, 18, 20 and 24, which is twice the speed between nodes. NVLink
  // carries 10 channels of 24.
  CHECK(tree_speed(a100_4efa, 2) == Approx(24));
  CHECK(tree_speed(a100_4efa, 3) == Approx(12));
  CHECK(tree_speed(a100_4efa, 1) == Approx(20));
  // Eight channels of 24: NVLink carries eight of 30, not of 48.
  CHECK(tree_speed(a100_8hdr, 2) == Approx(30));
  // Eight channels of 48 are the fastest of the list.
  CHECK(tree_speed(h100_8ndr, 2) == Approx(48));
  const auto takes = [](const System& system, int nodes) {
    return choose(nccl_tables(system.hopper), situation_of(system, nodes), Kind::all_reduce,
                  Bytes{GiB})
        .algorithm;
  };
  // The tree sends an array once over each NIC, the ring 2 (N - 1) / N times.
  CHECK(takes(a100_4efa, 2) == Algorithm::tree);
  CHECK(takes(a100_4efa, 4) == Algorithm::ring);
  CHECK(takes(a100_8hdr, 2) == Algorithm::ring);
}

TEST_CASE("network: latencies of one node are those measured, by protocol") {
  const auto profile = ideal_profile();
  profile->achieved.base = AlgorithmLatency{{us(1), us(2), us(3)}, {us(4), us(5), us(6)}, {}, {}};
  profile->achieved.step = AlgorithmLatency{{us(1), us(2), us(3)}, {us(7), us(8), us(9)}, {}, {}};
  profile->achieved.ll_one_node = gbps(50);
  Network network(cluster_of(a100_8hdr, 2), profile, quiet());
  // Ring LL of 8 ranks: 4 + 7 x 7 us, then 1 KiB at 50 GB/s of bus bandwidth.
  const auto ll = network.answer(Kind::all_gather, first(8), Bytes{KiB});
  REQUIRE(ll);
  CHECK(ll->protocol == "LL");
  CHECK(ll->latency == us(53));
  CHECK(ll->algorithm_bandwidth == Approx(50e9 * 8 / 7));
  const auto simple = network.answer(Kind::all_gather, first(8), Bytes{GiB});
  CHECK(simple->protocol == "Simple");
  CHECK(simple->latency == us(6 + 7 * 9));
  // The choice and several nodes keep NCCL's own tables.
  Network usual(cluster_of(a100_8hdr, 2), ideal_profile(), quiet());
  CHECK(network.answer(Kind::all_gather, first(16), Bytes{KiB})->duration ==
        usual.answer(Kind::all_gather, first(16), Bytes{KiB})->duration);
  for (const std::int64_t bytes : {KiB, 256 * KiB, 4 * MiB, 16 * MiB, 256 * MiB})
    CHECK(network.answer(Kind::all_reduce, first(8), Bytes{bytes})->protocol ==
          usual.answer(Kind::all_reduce, first(8), Bytes{bytes})->protocol);
}

TEST_CASE("network: a profile by protocol has its loss by size in Simple only") {
  const auto profile = ideal_profile();
  profile->achieved.ring_one_node = {{Bytes{KiB}, 0.5}};
  const auto rate = [&](std::int64_t bytes) {
    Network network(cluster_of(a100_8hdr, 1), profile, quiet());
    return network.answer(Kind::all_gather, first(8), Bytes{bytes})->algorithm_bandwidth;
  };
  const double ll = rate(KiB), simple = rate(GiB);
  profile->achieved.base = profile->nccl.base;
  CHECK(rate(KiB) == Approx(2 * ll));
  CHECK(rate(GiB) == Approx(simple));
}

TEST_CASE("network: a rank that reads its own data first loses most in small groups") {
  const auto profile = ideal_profile();
  Network usual(cluster_of(a100_8hdr, 2), profile, quiet());
  const auto with = std::make_shared<CommunicationProfile>(*profile);
  with->achieved.ring_extra_steps = 0.5;
  Network network(cluster_of(a100_8hdr, 2), with, quiet());
  const auto left = [&](Kind kind, int ranks) {
    return network.answer(kind, first(ranks), Bytes{GiB})->algorithm_bandwidth /
           usual.answer(kind, first(ranks), Bytes{GiB})->algorithm_bandwidth;
  };
  CHECK(left(Kind::all_gather, 2) == Approx(1 / 1.5));
  CHECK(left(Kind::all_reduce, 2) == Approx(2 / 2.5));
  CHECK(left(Kind::all_gather, 8) == Approx(7 / 7.5));
  CHECK(left(Kind::all_gather, 16) == Approx(1));  // between nodes the copy is hidden
}

TEST_CASE("network: a rank's own part of an all-to-all is a copy") {
  const auto profile = ideal_profile();
  profile->achieved.send_own = gbps(100);
  Network network(cluster_of(a100_8hdr, 1), profile, quiet());
  // 1/2 of the bytes over 300 GB/s, 1/2 copied at 100 GB/s.
  const auto answer = network.answer(Kind::all_to_all, first(2), Bytes{GiB});
  CHECK(answer->algorithm_bandwidth == Approx(1 / (0.5 / 300e9 + 0.5 / 100e9)));
}

TEST_CASE(
    "network: a transport moves the choice by what it reports and the time by what it takes") {
  topology::Cluster cluster = cluster_of(a100_8hdr, 8);
  const auto at = [&](const topology::Transport& transport, Kind kind, std::int64_t bytes) {
    cluster.fabric.transport = transport;
    Network network(cluster, ideal_profile(), quiet());
    return *network.answer(kind, first(64), Bytes{bytes});
  };
  topology::Transport none, slow, reported;
  slow.message_latency = us(10);
  reported.reported_latency = us(75);
  // Tree of 8 nodes: 2 x 3 steps between nodes. Ring: 7 of an all-gather.
  CHECK(microseconds(at(slow, Kind::all_reduce, KiB)) ==
        Approx(microseconds(at(none, Kind::all_reduce, KiB)) + 60));
  CHECK(microseconds(at(slow, Kind::all_gather, KiB)) ==
        Approx(microseconds(at(none, Kind::all_gather, KiB)) + 70));
  CHECK(microseconds(at(reported, Kind::all_gather, KiB)) ==
        Approx(microseconds(at(none, Kind::all_gather, KiB))));
  // 14 steps of a ring against 6 of a tree: a reported latency favours the tree.
  CHECK(at(none, Kind::all_reduce, GiB).algorithm == "Ring");
  CHECK(at(reported, Kind::all_reduce, GiB / 4).algorithm == "Tree");
  CHECK(at(none, Kind::all_reduce, GiB / 4).algorithm == "Ring");
  // Half of the NICs' rate, half of the bandwidth of what crosses them.
  topology::Transport half;
  half.bandwidth = 0.5;
  CHECK(at(half, Kind::all_gather, GiB).algorithm_bandwidth ==
        Approx(0.5 * at(none, Kind::all_gather, GiB).algorithm_bandwidth));
}

TEST_CASE("network: a version of NCCL takes the newest tables that are not newer") {
  CommunicationProfile profile = *ideal_profile();
  profile.nccl.version = "2.27.7";
  profile.other_versions = {profile.nccl, profile.nccl};
  profile.other_versions[0].version = "2.29.2";
  profile.other_versions[1].version = "2.9.6";
  const auto taken = [&](const char* version) { return nccl_model(profile, version).version; };
  CHECK(taken("") == "2.27.7");
  CHECK(taken("2.27.7") == "2.27.7");
  CHECK(taken("2.27.6") == "2.9.6");
  CHECK(taken("2.28.9-1") == "2.27.7");
  CHECK(taken("2.29.2") == "2.29.2");
  CHECK(taken("2.30.3") == "2.29.2");
  CHECK(taken("2.4") == "2.9.6");  // older than all: the oldest
}

TEST_CASE("network: NVLS has at most 32 heads") {
  System rack{72, 72, true, nvswitch, 50, topology::HostCpu::arm};
  CHECK(nvls_heads(situation_of(h100_8ndr, 1)) == 8);
  CHECK(nvls_heads(situation_of(rack, 1)) == 32);
  const auto profile = ideal_profile(true);
  profile->nccl.nvls = true;
  Network network(cluster_of(rack, 1), profile, quiet());
  const auto answer = network.answer(Kind::all_reduce, first(72), Bytes{16 * GiB});
  REQUIRE(answer);
  CHECK(answer->algorithm == "NVLS");
  CHECK(answer->algorithm_bandwidth == Approx(450e9 / (1 + 1.0 / 32)));
  // A head's part of 4 GiB over 32 heads is one of 1 GiB over 8: the loss is the same.
  profile->achieved.nvls_one_node = {{Bytes{GiB}, 0.5}, {Bytes{4 * GiB}, 1.0}};
  Network lossy(cluster_of(rack, 1), profile, quiet());
  CHECK(lossy.answer(Kind::all_reduce, first(72), Bytes{4 * GiB})->algorithm_bandwidth ==
        Approx(0.5 * 450e9 / (1 + 1.0 / 32)));
}

TEST_CASE("network: from 2.28 on NCCL expects of NVLS what NVIDIA measured") {
  NcclModel model = nccl_tables(true);
  model.nvls_efficiency = 0.85;
  // Eight heads of 50 GB/s: 370.8 x 8/7 = 423.8 GB/s in all, so 50 of the list; x 0.85 x 2 x 7/8,
  // and 8/14 of bus bandwidth.
  const Situation s = situation_of(h100_8ndr, 1);
  CHECK(believed(model, s).nvls == Approx(8 * 50e9 * 0.85 * 2 * 7 / 8 * 8 / 14));
}
