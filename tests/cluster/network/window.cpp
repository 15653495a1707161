// window.cpp — the rate of a connection over a long distance: its buffer in one round trip.
#include "sim/cluster/network/window.h"

#include <catch2/catch.hpp>

#include "sim/cluster/network/network.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;
using collective::Kind;

namespace {

constexpr std::int64_t MiB = 1 << 20, GiB = 1 << 30;

Answer over(Duration hop, Kind kind, std::int64_t bytes, int nodes = 4) {
  topology::Cluster cluster = cluster_of(a100_8hdr, nodes);
  cluster.fabric.leaf_hop = hop;
  cluster.fabric.spine_hop = {};
  SolverOptions options;
  options.cache = "";
  Network network(cluster, ideal_profile(), options);
  Groups groups;
  groups.ranks.emplace_back();
  for (int i = 0; i < nodes * 8; ++i) groups.ranks[0].push_back(i);
  if (kind == Kind::send_receive) groups.ranks[0] = {0, 8};
  return *network.answer(kind, groups, Bytes{bytes});
}

}  // namespace

TEST_CASE("network: a ring over a long distance carries its buffers once in a round trip") {
  // Eight NICs of 25 GB/s, 16 channels of 4 MiB: 67.1 GB/s of bus bandwidth at 2 x 0.5 ms.
  const Answer near = over(us(1), Kind::all_gather, GiB);
  const Answer far = over(us(500), Kind::all_gather, GiB);
  CHECK(near.algorithm_bandwidth == Approx(200e9 * 32 / 31));
  CHECK(far.algorithm_bandwidth == Approx(16 * 4.0 * MiB / 1e-3 * 32 / 31));
  // At 150 us the window carries 224 GB/s, more than the NICs.
  CHECK(over(us(150), Kind::all_gather, GiB).algorithm_bandwidth ==
        Approx(near.algorithm_bandwidth));
}

TEST_CASE("network: a message over a long distance has the window of its channels") {
  NcclModel model = nccl_tables(false);
  model.send_channels_network = 2;
  // Two channels of eight chunks of 128 KiB.
  CHECK(send_window_rate(model, us(500)) == Approx(2.0 * MiB / 1e-3));
  CHECK(over(us(500), Kind::send_receive, GiB).algorithm_bandwidth <= 2.0 * MiB / 1e-3 * 1.0001);
  CHECK(over(us(1), Kind::send_receive, GiB).algorithm_bandwidth > 10e9);
}
