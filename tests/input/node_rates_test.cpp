// node_rates_test.cpp — tables of rates measured between nodes, and the order of a job's hosts.
#include "sim/input/cluster/node_rates.h"

#include <catch2/catch.hpp>

#include "sim/input/cluster/cluster.h"
#include "support.h"

using namespace sim;
using namespace sim::input;
using support::contains;
using support::problems;

namespace {

constexpr const char* three = "GB/s,a,b,c\na,,46.1,46.3\nb,46.0,0,11.8\nc,46.2,11.9,\n";

std::string refused(const std::string& text) {
  return problems(parse_node_rates(text, "rates.csv"));
}

}  // namespace

TEST_CASE("input: rates between nodes are read in their unit") {
  const auto file = parse_node_rates(three, "rates.csv");
  REQUIRE(file);
  CHECK(file->rates.names == std::vector<std::string>{"a", "b", "c"});
  CHECK(file->rates.at(1, 2) == Approx(11.8e9));
  CHECK(file->rates.at(2, 1) == Approx(11.9e9));
  const auto bits = parse_node_rates("Gb/s,a,b\na,,400\nb,8,\n", "rates.csv");
  REQUIRE(bits);
  CHECK(bits->rates.at(0, 1) == Approx(50e9));
  CHECK(bits->rates.at(1, 0) == Approx(1e9));
}

TEST_CASE("input: rates between nodes that are none are refused with their line") {
  CHECK(contains(refused(""), "rates.csv:1: "));
  CHECK(contains(refused("a,b\n1,2\n"), "the first cell is the unit, GB/s or Gb/s; it is 'a'"));
  CHECK(contains(refused("GB/s,a\na,\n"), "two of them or more"));
  CHECK(contains(refused("GB/s,a,a\na,,1\na,1,\n"), "a node is named twice"));
  CHECK(contains(refused("GB/s,a,b\na,,1\n"), "2 nodes have 1 row"));
  CHECK(contains(refused("GB/s,a,b\na,,1\nb,1,\nc,1,\n"), "2 nodes have 3 rows"));
  CHECK(contains(refused("GB/s,a,b\nb,,1\na,1,\n"),
                 "rates.csv:2: the row of 'a' comes here, as in the header; it is 'b'"));
  // Messages show the beginning of a long name.
  const std::string name = "n" + std::string(99, 'x');
  CHECK(
      contains(refused("GB/s,a,b\n" + name + ",,1\na,1,\n"), "it is '" + name.substr(0, 40) + "'"));
  CHECK(contains(refused(name + ",a\n1,2\n"), "it is '" + name.substr(0, 40) + "'"));
  CHECK(contains(refused("GB/s,a,b\na,,1\nb,1\n"), "rates.csv:3: 2 cells instead of 3"));
  for (const char* rate : {"0", "-1", "nan", "inf", "x", "", "1e300"})
    CHECK(contains(refused(std::string("GB/s,a,b\na,,") + rate + "\nb,1,\n"),
                   "rates.csv:2: from 'a' to 'b': '" + std::string(rate) + "' is not a rate"));
}

TEST_CASE("input: a cluster takes measured rates and an order of hosts") {
  support::Scratch scratch;
  const std::string table = scratch.write("rates.csv", three);
  const std::string dgx = support::in_repository("topologies/dgx-h100.textproto");
  const auto machine = load_cluster(dgx, {"node_bandwidth=" + table, "host=[2,0]"});
  REQUIRE(machine);
  CHECK(machine->cluster.nodes == 3);  // those that were measured
  CHECK(machine->cluster.hosts == std::vector{2, 0, 1});
  CHECK(contains(machine->text, "46.1"));  // an answer depends on it
  CHECK(contains(problems(load_cluster(dgx, {"node_bandwidth=" + table, "host=[3]"})),
                 "host 3 is not there: nodes are 0 to 2"));
  // Nodes with another GPU.
  const auto mixed = load_cluster(
      dgx, {"other_gpu={first_node: 2 nodes: 3 cluster: \"dgx-a100\"}", "cluster.nodes=6"});
  REQUIRE(mixed);
  CHECK(mixed->cluster.gpu_kinds == std::vector{0, 0, 1, 1, 1, 0});
  CHECK(mixed->others.front().name == "A100-SXM4-80GB");
  CHECK(contains(
      problems(load_cluster(dgx, {"other_gpu={first_node: 2040 nodes: 9 cluster: \"dgx-a100\"}"})),
      "nodes 2040 to 2048 are not all there"));
  CHECK(contains(problems(load_cluster(dgx, {"host=[1,1]"})), "host 1 is named twice"));
  CHECK(contains(problems(load_cluster(dgx, {"node_bandwidth=nowhere.csv"})), "cannot read"));
}
