// packets.cpp — packet simulation: the query, TCP's closed form against ns-3, and max-min sharing
// for comparison.
#include "sim/cluster/network/packets.h"

#include <catch2/catch.hpp>

#include "profiles.h"
#include "sim/cluster/network/packet_check.h"

using namespace sim;
using namespace sim::network;
using collective::Kind;

namespace {

SolverOptions no_cache() {
  SolverOptions options;
  options.cache = "";
  return options;
}

PacketQuery line(double bytes, double rate, double latency, int cables) {
  PacketQuery query;
  query.vertices = cables + 1;
  for (int i = 0; i < cables; ++i) query.cables.push_back({i, i + 1, rate, latency});
  query.messages.push_back({0, 0, cables, bytes});
  return query;
}

topology::Cluster nodes(int count) {
  topology::Cluster c = cluster_of(h100_8ndr, count);
  c.fabric = {topology::FabricKind::fat_tree, 2, 1.0, Duration{1'000'000}, Duration{2'000'000}};
  return c;
}

}  // namespace

TEST_CASE("network: a query of packets reads back, and a wrong one is refused") {
  PacketQuery query = line(1e6, 50e9, 1e-6, 3);
  query.messages.push_back({1, 3, 0, 12345});
  const auto read = parse_packets(text(query));
  REQUIRE(std::holds_alternative<PacketQuery>(read));
  CHECK(std::get<PacketQuery>(read) == query);
  const auto refused = [](PacketQuery wrong) {
    return std::holds_alternative<std::string>(parse_packets(text(wrong)));
  };
  PacketQuery wrong = query;
  wrong.vertices = most_vertices + 1;
  CHECK(refused(wrong));
  wrong = query;
  wrong.cables[0].b = 9;
  CHECK(refused(wrong));
  wrong = query;
  wrong.cables[0].bytes_per_second = 0;
  CHECK(refused(wrong));
  wrong = query;
  wrong.messages[1].to = 3;
  CHECK(refused(wrong));
  wrong = query;
  std::swap(wrong.messages[0], wrong.messages[1]);  // rounds go back
  CHECK(refused(wrong));
  CHECK(std::holds_alternative<std::string>(parse_packets("packets 1\nvertices 4\ncables 9e9")));
  CHECK(std::holds_alternative<std::string>(parse_packets(text(query) + "x")));
}

TEST_CASE("network: ns-3 takes what TCP's closed form says on cables of its own") {
  Solver solver(no_cache());
  struct Case {
    double bytes, rate, latency;
    int cables;
  };
  for (const Case& c : {Case{1e4, 50e9, 1e-6, 1}, Case{1e5, 1e9, 1e-6, 4}, Case{1e5, 50e9, 1e-6, 4},
                        Case{300001, 50e9, 5e-7, 2}, Case{2e5, 450e9, 0, 2}}) {
    const PacketQuery query = line(c.bytes, c.rate, c.latency, c.cables);
    const Result<Finish> finish = solver.simulate(query);
    REQUIRE(finish);
    const double expected = tcp_time(query.cables, c.bytes).total();
    INFO(c.bytes << " at " << c.rate << ": " << (*finish)[0] << ", expected " << expected);
    CHECK((*finish)[0] == Approx(expected).epsilon(0.005));
    CHECK((*finish)[0] > c.bytes / c.rate);
  }
}

TEST_CASE("network: packets and max-min agree but for what TCP adds") {
  const topology::Routes routes(nodes(4));
  Solver solver(no_cache());
  // One send between leaves, one inside a node, and rings over four nodes with one GPU each.
  struct Case {
    Kind kind;
    std::vector<std::vector<int>> groups;
    double bytes;
  };
  for (const Case& c :
       {Case{Kind::send_receive, {{0, 16}}, 4e5}, Case{Kind::send_receive, {{0, 1}}, 4e5},
        Case{Kind::all_reduce, {{0, 8, 16, 24}}, 2e5},
        Case{Kind::all_gather, {{0, 8, 16, 24}}, 2e5},
        // Two groups at once on rails of their own.
        Case{Kind::all_gather, {{0, 8, 16, 24}, {1, 9, 17, 25}}, 2e5}}) {
    const Result<PacketCheck> check = packet_check(routes, solver, c.kind, {c.groups}, c.bytes);
    REQUIRE(check);
    CHECK(check->packets > check->max_min);
    CHECK(std::abs(check->left()) < 0.02 * check->packets);
  }
  // A long array over paths of unequal length, inside a leaf and across the spine: each NIC sends
  // data to one peer and acknowledgements to another, which must not wait for that data.
  const Result<PacketCheck> spine =
      packet_check(routes, solver, Kind::all_gather, {{{0, 8, 16, 24}}}, 4e6);
  REQUIRE(spine);
  CHECK(std::abs(spine->left()) < 0.05 * spine->packets);
  // An all-to-all of four: three messages of a quarter of the array from each, in one round.
  const Result<PacketQuery> exchange =
      packet_query(routes, Kind::all_to_all, {{{0, 8, 16, 24}}}, 4e5);
  REQUIRE(exchange);
  REQUIRE(exchange->messages.size() == 12);
  for (const PacketMessage& m : exchange->messages) {
    CHECK(m.round == 0);
    CHECK(m.bytes == 1e5);
  }
  const Result<PacketCheck> check =
      packet_check(routes, solver, Kind::all_to_all, {{{0, 8, 16, 24}}}, 4e5);
  REQUIRE(check);
  // Each NIC sends and receives three quarters of the array.
  CHECK(check->max_min > 3e5 / 50e9);
  CHECK(check->packets > check->max_min);
  // Two messages into one NIC: each gets half of it, as in max-min sharing.
  PacketQuery shared;
  shared.vertices = 4;
  shared.cables = {{0, 2, 1e9, 0}, {1, 2, 1e9, 0}, {2, 3, 1e9, 0}};
  shared.messages = {{0, 0, 3, 2e5}, {0, 1, 3, 2e5}};
  const Result<Finish> both = solver.simulate(shared);
  REQUIRE(both);
  const double wire = 2 * 2e5 * (segment_bytes + header_bytes) / segment_bytes / 1e9;
  CHECK(std::max((*both)[0], (*both)[1]) == Approx(wire).epsilon(0.02));
}

TEST_CASE("network: what ns-3 cannot stand for is refused") {
  const topology::Routes routes(nodes(4));
  const auto query = packet_query(routes, Kind::all_reduce, {{{0, 8, 16, 24}}}, 1e9);
  REQUIRE_FALSE(query);
  CHECK(query.errors()[0].message.find("ns-3 follows each packet") != std::string::npos);
  // Two NVLink hops and two PCIe hops have the same length, so ns-3 might take either path.
  topology::Cluster shared_switch =
      cluster_of({8, 4, true, nvswitch, 50, topology::HostCpu::intel}, 1);
  const topology::Routes two_ways(shared_switch);
  // With its cables alone there is one path.
  CHECK(packet_query(two_ways, Kind::send_receive, {{{0, 1}}}, 1e5));
}
