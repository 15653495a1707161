// chunks.cpp — the chunks of NVLSTree as NCCL's enqueue.cc sizes them, and the time that they take
// to fill the tree.
#include "sim/cluster/network/chunks.h"

#include <catch2/catch.hpp>

#include "sim/cluster/network/network.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;

namespace {

constexpr std::int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

NcclModel sixteen_channels() {
  NcclModel model = nccl_tables(true);
  model.nvls_channels = 16;
  return model;
}

Situation nodes_of_eight(int nodes) {
  const topology::Cluster cluster = cluster_of(h100_8ndr, nodes);
  const GroupShape shape{nodes * 8, nodes, 8, 8};
  return {shape, cluster.node, search_graph(sixteen_channels(), cluster.node, shape)};
}

}  // namespace

TEST_CASE("network: chunks of NVLSTree follow NCCL's thresholds") {
  const auto chunk = [](int nodes, std::int64_t bytes) {
    return nvls_tree_chunk(sixteen_channels(), nodes_of_eight(nodes), Bytes{bytes}).n;
  };
  // 16 channels x 8 heads = 128 chunks at once. Two nodes: 128 KiB from 64 MiB on, 64 KiB from
  // 8 MiB on, 32 KiB below. A head sends the chunks of its 16 channels.
  CHECK(chunk(2, GiB) == 16 * 128 * KiB);
  CHECK(chunk(2, 64 * MiB) == 16 * 128 * KiB);
  CHECK(chunk(2, 64 * MiB - 1) == 16 * 64 * KiB);
  CHECK(chunk(2, 8 * MiB) == 16 * 64 * KiB);
  CHECK(chunk(2, 8 * MiB - 1) == 16 * 32 * KiB);
  CHECK(chunk(2, MiB) == MiB / 8);  // shorter than one chunk of each channel
  // Four nodes and more: at most 64 KiB.
  CHECK(chunk(3, GiB) == 16 * 128 * KiB);
  CHECK(chunk(4, GiB) == 16 * 64 * KiB);
}

TEST_CASE("network: each level of NVLSTree waits for a chunk, the root for half of one") {
  const auto fill = [](int nodes, std::int64_t bytes) {
    return nvls_tree_fill(sixteen_channels(), nodes_of_eight(nodes), 50e9, Bytes{bytes});
  };
  CHECK(fill(2, GiB) == Approx(2.0 * MiB / 50e9));
  CHECK(fill(4, GiB) == Approx(3.0 * MiB / 50e9));
  CHECK(fill(8, GiB) == Approx(5.0 * MiB / 50e9));
  CHECK(fill(128, GiB) == Approx(13.0 * MiB / 50e9));
}

TEST_CASE("network: NVLSTree takes measured steps and the losses of NVLS in a node") {
  const auto profile = ideal_profile(true);
  profile->nccl = sixteen_channels();
  profile->nccl.nvls = true;
  profile->achieved.step =
      AlgorithmLatency{profile->nccl.nvlink.tree, profile->nccl.nvlink.ring, us(10), us(10)};
  profile->achieved.nvls_tree_step = us(30);
  profile->achieved.nvls_one_node = {{Bytes{GiB}, 0.5}};
  Groups groups;
  groups.ranks.emplace_back();
  for (int i = 0; i < 16; ++i) groups.ranks[0].push_back(i);
  SolverOptions options;
  options.cache = "";
  Network network(cluster_of(h100_8ndr, 2), profile, options);
  const auto answer = network.answer(collective::Kind::all_reduce, groups, Bytes{GiB});
  REQUIRE(answer);
  CHECK(answer->algorithm == "NVLSTree");
  CHECK(seconds(answer->latency) == Approx(10e-6 + 2 * 30e-6 + 2.0 * MiB / 50e9));
  // Half of 450 GB/s over 1 + 1/8, which is less than the NICs carry.
  CHECK(answer->algorithm_bandwidth == Approx(0.5 * 450e9 / 1.125));
}

TEST_CASE("network: a tree waits for a chunk at each GPU of the chain and each level") {
  // Eight channels of 48, launched twice: a chunk of 512 KiB crosses a GPU at 8 x 38.7 / 16 GB/s,
  // a NIC at 8 x 50 / 16 GB/s.
  const NcclModel model = sixteen_channels();
  const auto fill = [&](int nodes, std::int64_t bytes) {
    return tree_fill(model, nodes_of_eight(nodes), 50e9, Bytes{bytes});
  };
  const auto expected = [](int levels, double chunk) {
    return 2 * 7 * chunk / (8 * 38.7e9 / 16) + (2 * levels - 1) * chunk / (8 * 50e9 / 16);
  };
  CHECK(fill(2, GiB) == Approx(expected(1, 512 * KiB)));
  CHECK(fill(8, GiB) == Approx(expected(3, 512 * KiB)));
  CHECK(fill(8, 16 * 512 * KiB) == Approx(expected(3, 512 * KiB)));
  CHECK(fill(8, MiB) == Approx(expected(3, 64 * KiB)));  // less than a chunk a channel
}
