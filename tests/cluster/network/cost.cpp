// cost.cpp — NCCL's choice of algorithm, protocol and channels, against values derived from its
// source.
#include "sim/cluster/network/cost.h"

#include <catch2/catch.hpp>

#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;
using collective::Kind;

namespace {

constexpr std::int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

Situation situation_of(const System& system, int nodes, int locals = 0) {
  const topology::Cluster cluster = cluster_of(system, nodes);
  if (locals == 0) locals = system.gpus;
  const int nics = std::max(1, locals * system.nics / system.gpus);
  const GroupShape shape{nodes * locals, nodes, locals, nics};
  return {shape, cluster.node, search_graph(nccl_tables(system.hopper), cluster.node, shape)};
}

double time_of(const System& system, const Situation& s, Kind kind, std::int64_t bytes) {
  const NcclModel model = nccl_tables(system.hopper);
  const Choice choice = choose(model, s, kind, Bytes{bytes});
  return terms(model, s, kind, choice, believed(model, s), Bytes{bytes})
      ->seconds(static_cast<double>(bytes));
}

double busbw(const System& system, const Situation& s, Kind kind, std::int64_t bytes) {
  return static_cast<double>(bytes) / time_of(system, s, kind, bytes) / 1e9 *
         collective::bus_factor(kind, s.shape.ranks);
}

std::string picks(const System& system, const Situation& s, Kind kind) {
  const NcclModel model = nccl_tables(system.hopper);
  std::string text;
  Choice last{Algorithm::nvls, Protocol::ll};
  for (std::int64_t bytes = KiB; bytes <= 4 * GiB; bytes *= 2) {
    const Choice now = choose(model, s, kind, Bytes{bytes});
    if (now == last) continue;
    last = now;
    const std::string size = bytes >= GiB   ? std::to_string(bytes / GiB) + "G"
                             : bytes >= MiB ? std::to_string(bytes / MiB) + "M"
                                            : std::to_string(bytes / KiB) + "K";
    text += (text.empty() ? "" : " ") + size + ":" + std::string(name(now.algorithm)) + "/" +
            std::string(name(now.protocol));
  }
  return text;
}

}  // namespace

TEST_CASE("network: the graph search finds NCCL's channels") {
  // Search result, channels after the split, channels launched: derived from NCCL's search by hand
  // (channels.h); some agree with logs.
  const struct {
    System system;
    int nodes, locals, channels;
    double speed;
    int launched;
  } cases[] = {
      {a100_8hdr, 1, 8, 12, 20, 24},  // 6 x 40, "Channel 23/24" in logs
      {a100_8hdr, 2, 8, 8, 24, 16},   // 8 x 24, not split below 25
      {a100_4hdr, 2, 8, 4, 24, 8},    // 4 x 24
      {h100_8ndr, 1, 8, 12, 30, 24},  // 6 x 60
      {h100_8ndr, 4, 8, 8, 48, 16},   // kept whole below 50
      {h100_mesh, 1, 4, 12, 30, 24},  // 6 links a pair: 2 x 60 each, 6 rings of all three pairs
      {h100_mesh, 4, 4, 4, 24, 8},    //
      {a100_8hdr, 4, 1, 1, 24, 2},    // one GPU per node
      {h100_8ndr, 4, 1, 2, 24, 4},    // 1 x 48 is split: at most 4 channels
      {h100_mesh, 1, 2, 4, 30, 8},    // a pair: 2 x 60
  };
  for (const auto& c : cases) {
    const Situation s = situation_of(c.system, c.nodes, c.locals);
    INFO(c.nodes << " nodes x " << c.locals << " of " << c.system.gpus);
    CHECK(s.graph.channels == c.channels);
    CHECK(s.graph.speed == Approx(c.speed * 1e9));
    CHECK(s.graph.launched == c.launched);
  }
}

TEST_CASE("network: Hopper's fast rings across nodes are doubled once more") {
  // H100 x 8 with one NDR400 port of 48 per pair of GPUs: 4 x 48, split to 8 x 24, 16 launched.
  System four = h100_8ndr;
  four.nics = 4;
  CHECK(situation_of(four, 2).graph.launched == 16);
  // The doubling needs a ring above 45: keep 6 rings of 48 whole, 12 launched, then 24.
  System six{6, 6, true, nvswitch, 50, topology::HostCpu::intel};
  CHECK(situation_of(six, 2).graph.channels == 6);
  CHECK(situation_of(six, 2).graph.launched == 24);
}

TEST_CASE("network: algorithm and protocol change where NCCL's model says") {
  CHECK(picks(a100_8hdr, situation_of(a100_8hdr, 1), Kind::all_reduce) ==
        "1K:Ring/LL 4M:Ring/LL128 32M:Ring/Simple");
  CHECK(picks(a100_8hdr, situation_of(a100_8hdr, 4), Kind::all_reduce) ==
        "1K:Tree/LL 256K:Tree/LL128 32M:Ring/LL128 256M:Ring/Simple");
  CHECK(picks(a100_8hdr, situation_of(a100_8hdr, 16), Kind::all_reduce) ==
        "1K:Tree/LL 256K:Tree/LL128 256M:Ring/LL128 1G:Ring/Simple");
  CHECK(picks(a100_8hdr, situation_of(a100_8hdr, 1), Kind::all_gather) ==
        "1K:Ring/LL 4M:Ring/LL128 16M:Ring/Simple");
  CHECK(picks(a100_8hdr, situation_of(a100_8hdr, 16), Kind::all_gather) ==
        "1K:Ring/LL 1M:Ring/LL128 1G:Ring/Simple");
  CHECK(picks(a100_4hdr, situation_of(a100_4hdr, 2), Kind::all_reduce) ==
        "1K:Tree/LL 128K:Ring/LL 2M:Ring/LL128 32M:Ring/Simple");
  CHECK(picks(a100_4hdr, situation_of(a100_4hdr, 4), Kind::all_gather) ==
        "1K:Ring/LL 1M:Ring/LL128 32M:Ring/Simple");
  // 8 x H200 with 2.27.7 logs exactly this (stas00/ml-engineering, network/README.md).
  CHECK(picks(h100_8ndr, situation_of(h100_8ndr, 1), Kind::all_reduce) ==
        "1K:Ring/LL 2M:NVLS/Simple");
  CHECK(picks(h100_8ndr, situation_of(h100_8ndr, 4), Kind::all_reduce) ==
        "1K:Tree/LL 256K:Tree/LL128 2M:NVLSTree/Simple 256M:Ring/Simple");
  CHECK(picks(h100_8ndr, situation_of(h100_8ndr, 1), Kind::all_gather) ==
        "1K:Ring/LL 8M:Ring/LL128 32M:Ring/Simple");
  CHECK(picks(h100_mesh, situation_of(h100_mesh, 1), Kind::all_reduce) ==
        "1K:Ring/LL 4M:Ring/LL128 16M:Ring/Simple");
}

TEST_CASE("network: times of NCCL's model equal the worked vectors") {
  // t0 = microseconds at 1 KiB; bus bandwidth at 1 MiB, 16 MiB, 256 MiB, 4 GiB; all rounded there.
  const struct {
    System system;
    Kind kind;
    int nodes;
    double t0, bus[4];
  } cases[] = {
      {a100_8hdr, Kind::all_reduce, 1, 15, {51, 169, 233, 240}},
      {a100_8hdr, Kind::all_reduce, 4, 35, {22, 94, 157, 189}},
      {a100_8hdr, Kind::all_reduce, 16, 55, {17, 88, 136, 182}},
      {a100_8hdr, Kind::all_reduce, 64, 75, {13, 81, 129, 157}},
      {a100_8hdr, Kind::all_gather, 1, 11, {43, 157, 232, 240}},
      {a100_8hdr, Kind::all_gather, 16, 271, {3, 41, 136, 185}},
      {a100_4hdr, Kind::all_reduce, 2, 25, {22, 67, 93, 96}},
      {a100_4hdr, Kind::all_reduce, 4, 35, {17, 59, 89, 96}},
      {a100_4hdr, Kind::all_gather, 4, 43, {11, 58, 91, 96}},
      {a100_4hdr, Kind::all_gather, 16, 159, {5, 34, 79, 95}},
      {h100_8ndr, Kind::all_reduce, 1, 15, {66, 390, 566, 582}},
      {h100_8ndr, Kind::all_reduce, 4, 35, {25, 175, 297, 377}},
      {h100_8ndr, Kind::all_reduce, 16, 55, {18, 138, 294, 357}},
      {h100_8ndr, Kind::all_gather, 1, 11, {53, 205, 343, 359}},
      {h100_8ndr, Kind::all_gather, 16, 159, {5, 48, 223, 364}},
      {h100_mesh, Kind::all_reduce, 1, 10, {74, 255, 351, 359}},
      {h100_mesh, Kind::all_reduce, 4, 31, {20, 71, 90, 96}},
      {h100_mesh, Kind::all_gather, 4, 39, {16, 69, 92, 96}},
  };
  for (const auto& c : cases) {
    const Situation s = situation_of(c.system, c.nodes);
    INFO(name(c.kind) << " on " << c.nodes << " nodes of " << c.system.gpus << " with "
                      << c.system.nics << " NICs");
    CHECK(time_of(c.system, s, c.kind, KiB) * 1e6 == Approx(c.t0).margin(0.51));
    const std::int64_t sizes[] = {MiB, 16 * MiB, 256 * MiB, 4 * GiB};
    for (int i = 0; i < 4; ++i) {
      INFO("size " << sizes[i]);
      CHECK(busbw(c.system, s, c.kind, sizes[i]) == Approx(c.bus[i]).margin(0.75));
    }
  }
}

TEST_CASE("network: NVLS needs a switch and Hopper and more than two GPUs") {
  const NcclModel hopper = nccl_tables(true);
  CHECK(has_nvls(hopper, situation_of(h100_8ndr, 1)));
  CHECK(has_nvls(hopper, situation_of(h100_8ndr, 1, 3)));
  CHECK_FALSE(has_nvls(hopper, situation_of(h100_8ndr, 1, 2)));
  CHECK_FALSE(has_nvls(hopper, situation_of(h100_mesh, 1)));
  CHECK_FALSE(has_nvls(nccl_tables(false), situation_of(a100_8hdr, 1)));
  Situation off = situation_of(h100_8ndr, 1);
  off.node.nvlink_sharp = false;
  CHECK_FALSE(has_nvls(hopper, off));
  CHECK(choose(hopper, off, Kind::all_reduce, Bytes{GiB}).algorithm == Algorithm::ring);
  // 4 GPUs take the ring (363 GB/s measured on H200), 5 and more NVLS.
  CHECK(choose(hopper, situation_of(h100_8ndr, 1, 4), Kind::all_reduce, Bytes{GiB}).algorithm ==
        Algorithm::ring);
  CHECK(choose(hopper, situation_of(h100_8ndr, 1, 5), Kind::all_reduce, Bytes{GiB}).algorithm ==
        Algorithm::nvls);
}

TEST_CASE("network: a plain tree counts less in NCCL's choice") {
  NcclModel model = nccl_tables(true);
  model.plain_tree = 0.85;
  model.plain_tree_early = true;
  const auto plain = [&](const System& system, int nodes, int locals) {
    const topology::Cluster cluster = cluster_of(system, nodes);
    const int nics = std::max(1, locals * system.nics / system.gpus);
    return search_graph(model, cluster.node, {nodes * locals, nodes, locals, nics}).plain_tree;
  };
  CHECK(plain(h100_8ndr, 2, 8));        // a NIC for each GPU
  CHECK_FALSE(plain(h100_8ndr, 1, 8));  // no NIC
  System shared = h100_8ndr;
  shared.nics = 4;
  CHECK_FALSE(plain(shared, 2, 8));  // two GPUs share a NIC
  CHECK(plain(shared, 2, 1));
  // Grace with two GPUs: both are as close to its NICs.
  topology::Node grace = cluster_of(h100_8ndr, 2).node;
  grace.cpu = topology::HostCpu::arm;
  grace.sockets = 4;
  CHECK_FALSE(search_graph(model, grace, {16, 2, 8, 8}).plain_tree);
  grace.sockets = 8;
  CHECK(search_graph(model, grace, {16, 2, 8, 8}).plain_tree);
  model.plain_tree_early = false;  // before Hopper: a single GPU only
  CHECK_FALSE(plain(a100_8hdr, 2, 8));
  CHECK(plain(a100_8hdr, 2, 1));

  // 64 H100: 384 x 0.92 > 8 x 36, so LL128 has min(288 x 120 / 128, 8 x 29) = 232 GB/s of bus.
  model.plain_tree_early = true;
  const topology::Cluster cluster = cluster_of(h100_8ndr, 8);
  const GroupShape shape{64, 8, 8, 8};
  const Situation s{shape, cluster.node, search_graph(model, cluster.node, shape)};
  const Choice tree{Algorithm::tree, Protocol::ll128};
  const auto t = terms(model, s, Kind::all_reduce, tree, believed(model, s), Bytes{4 * MiB});
  REQUIRE(t);
  CHECK(t->bandwidth == Approx(0.85 * 232e9 / 2 * 0.8));
  CHECK(choose(model, s, Kind::all_reduce, Bytes{2 * MiB}) == tree);
  // 14 + 2 (7 x 1.25 + 3 x 8.5) + 53.2 us against 25 + 6 x 14 + 26.2 us.
  CHECK(choose(model, s, Kind::all_reduce, Bytes{4 * MiB}).algorithm == Algorithm::nvls_tree);
  model.plain_tree = 1;
  CHECK(choose(model, s, Kind::all_reduce, Bytes{4 * MiB}) == tree);
}

TEST_CASE("network: on two nodes the speed of the NICs decides between ring and tree") {
  // A channel's tree may be twice as fast inside the nodes as its NIC, up to NCCL's limit for a
  // channel; a ring is as fast as its NIC. The network's type does not enter. Long arrays, in GB/s:
  //   4 H100, 4 x NDR200: tree min(0.92 x 4 x 48, 4 x 41.4) / 2 = 82.8, ring 4 x 24 x 8/14 = 54.9
  //   8 A100, 8 x HDR:    tree min(0.92 x 8 x 30, 8 x 23.6) / 2 = 94.4, ring 8 x 24 x 16/30 = 102.4
  //   8 A100, 4 x HDR:    tree 4 x 23.6 / 2 = 47.2, ring 4 x 24 x 16/30 = 51.2
  //   8 A100, 4 x 100 Gb/s: tree 0.92 x 4 x 24 / 2 = 44.2, ring 4 x 12 x 16/30 = 25.6
  const auto long_array = [](const System& system, double share) {
    NcclModel model = nccl_tables(system.hopper);
    model.plain_tree = share;
    model.plain_tree_early = system.hopper;
    const topology::Cluster cluster = cluster_of(system, 2);
    const GroupShape shape{2 * system.gpus, 2, system.gpus, system.nics};
    const Situation s{shape, cluster.node, search_graph(model, cluster.node, shape)};
    return choose(model, s, Kind::all_reduce, Bytes{GiB}).algorithm;
  };
  System slow = a100_4hdr;
  slow.nic_gbps = 12.5;
  for (const double share : {1.0, 0.85}) {
    CHECK(long_array(h100_mesh, share) == Algorithm::tree);
    CHECK(long_array(a100_8hdr, share) == Algorithm::ring);
    CHECK(long_array(a100_4hdr, share) == Algorithm::ring);
    CHECK(long_array(slow, share) == Algorithm::tree);
  }
}

TEST_CASE("network: channels between racks are those that NVLink carries") {
  // 72 GPUs with 18 links of 40.1 GB/s. Each GPU passes on all channels but its own:
  // 721.8 / 45.1 x 72 / 71 = 16.2. 15 channels of 48 are less than 16 of 45.1.
  System rack{72, 72, true, nvswitch, 50, topology::HostCpu::arm};
  topology::Node node = cluster_of(rack, 2).node;
  node.nvlink = gbps(50);
  NcclModel model = nccl_tables(true);
  model.nvlink_payload = gbps(40.1);
  model.speeds_network = rates({96, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3});
  const SearchGraph graph = search_graph(model, node, {144, 2, 72, 72});
  CHECK(graph.channels == 16);
  CHECK(graph.speed == Approx(45.1e9));
}
