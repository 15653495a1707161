// profile_limits.cpp — the limits of a communication profile, from both sides, each with the name
// of its field. Also when channels of NCCL's search are split and doubled.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "sim/cluster/network/channels.h"
#include "tests/cluster/network/profiles.h"

using namespace sim;
using namespace sim::network;

namespace {

using Change = std::function<void(CommunicationProfile&)>;

std::vector<std::string> said(const Change& change) {
  CommunicationProfile profile = *ideal_profile(true);
  profile.nccl.nvls = true;
  REQUIRE(check(profile).empty());
  change(profile);
  return check(profile);
}

// Expects a single problem, of this field.
void refused(const std::string& field, const Change& change) {
  const std::vector<std::string> problems = said(change);
  INFO(field);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().starts_with(field));
}

void taken(const Change& change) {
  CHECK(said(change).empty());
}

}  // namespace

TEST_CASE("network: shares are above 0 and at most 1, factors and rates above 0") {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double wrong : {0.0, -0.1, 1.0000001, infinite})
    refused("achieved.nvlink: ", [=](auto& p) { p.achieved.nvlink = wrong; });
  for (const double right : {1e-9, 1.0}) taken([=](auto& p) { p.achieved.nvlink = right; });
  for (const double wrong : {0.0, -1.0, infinite})
    refused("achieved.latency_factor_one_node: ",
            [=](auto& p) { p.achieved.latency_factor_one_node = wrong; });
  taken([](auto& p) { p.achieved.latency_factor_one_node = 17; });
  refused("nccl.ll_one_node: ", [](auto& p) { p.nccl.ll_one_node = {0}; });
  taken([](auto& p) { p.nccl.ll_one_node = {1}; });
  refused("nccl.tree_channel.one: ", [](auto& p) { p.nccl.tree_channel.one = {0}; });
  refused("nccl.tree_channel.two: ", [](auto& p) { p.nccl.tree_channel.two = {0}; });
  refused("nccl.ll_amd.more: ", [](auto& p) { p.nccl.ll_amd.more = {0}; });
  // On a single node that field is not used.
  taken([](auto& p) { p.nccl.ll_amd.one = {0}; });
}

TEST_CASE("network: latencies and sizes may be 0, counts have both ends") {
  refused("achieved.send_base: ", [](auto& p) { p.achieved.send_base = {-1}; });
  taken([](auto& p) { p.achieved.send_base = {0}; });
  refused("buffers.send_network: ", [](auto& p) { p.buffers.send_network = Bytes{-1}; });
  taken([](auto& p) { p.buffers.send_network = Bytes{0}; });
  for (const int wrong : {0, 1025})
    refused("nccl.max_channels: ", [=](auto& p) { p.nccl.max_channels = wrong; });
  for (const int right : {1, 1024}) taken([=](auto& p) { p.nccl.max_channels = right; });
  for (const int right : {0, 1, 64}) taken([=](auto& p) { p.achieved.exchange_nics = right; });
  for (const int wrong : {-1, 65})
    refused("achieved.exchange_nics: ", [=](auto& p) { p.achieved.exchange_nics = wrong; });
}

TEST_CASE("network: speeds descend, ramps ascend and never outrun their bytes") {
  refused("nccl.speeds_network: ", [](auto& p) { p.nccl.speeds_network = rates({40, 40}); });
  refused("nccl.speeds_network: no speed", [](auto& p) { p.nccl.speeds_network.clear(); });
  const auto ramp = [](Ramp points) {
    return [=](CommunicationProfile& p) { p.achieved.ring_one_node = points; };
  };
  taken(ramp({{Bytes{1}, 0.5}, {Bytes{2}, 0.5}}));
  refused("achieved.ring_one_node: sizes", ramp({{Bytes{0}, 0.5}, {Bytes{2}, 0.5}}));
  refused("achieved.ring_one_node: sizes", ramp({{Bytes{2}, 0.5}, {Bytes{2}, 0.6}}));
  refused("achieved.ring_one_node: sizes", ramp({{Bytes{2}, 0.5}, {Bytes{4}, 0.4}}));
  // At most 0.5 ln 2 = 0.3466 may be gained from one size to its double.
  taken(ramp({{Bytes{1024}, 0.5}, {Bytes{2048}, 0.846}}));
  refused("achieved.ring_one_node: so steep", ramp({{Bytes{1024}, 0.5}, {Bytes{2048}, 0.847}}));
}

// [nccl src/graph/connect.cc:ncclTopoPostset; search.cc:ncclTopoDupChannels]
TEST_CASE("network: fast channels are split up to the most that may be launched") {
  const topology::Node node = cluster_of(a100_8hdr, 2).node;
  const GroupShape shape{16, 2, 8, 8};
  NcclModel model = nccl_tables(false);
  model.speeds_network = {{node.nic.bytes_per_second}};
  model.pcie_payload = 1;
  model.split_from = {node.nic.bytes_per_second};
  const auto found = [&](int most) {
    model.max_channels = most;
    return search_graph(model, node, shape);
  };
  const double speed = static_cast<double>(node.nic.bytes_per_second);
  CHECK(found(16).channels == 16);
  CHECK(found(16).speed == speed / 2);
  CHECK(found(16).launched == 16);
  CHECK(found(32).launched == 32);
  CHECK(found(15).channels == 8);
  CHECK(found(15).speed == speed);
  CHECK(found(15).launched == 15);
  model.split_from = {node.nic.bytes_per_second + 1};
  CHECK(found(64).channels == 8);
  CHECK(found(64).launched == 16);
  // More than four channels slower than this are not split.
  model.split_from = {node.nic.bytes_per_second};
  model.keep_whole_below = {node.nic.bytes_per_second + 1};
  CHECK(found(64).channels == 8);
  model.keep_whole_below = {node.nic.bytes_per_second};
  CHECK(found(64).channels == 16);
}
