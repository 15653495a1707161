// racks_test.cpp — jobs that do not fill their racks: each message leads to a plan that loads.
#include <catch2/catch.hpp>

#include "sim/input/plan/plan.h"

using sim::input::load_plan;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("input: a job on a part of each rack is told a setting that works") {
  const auto loaded = [](const std::string& gpus, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"model=llama-2-7b", "cluster=gb200-nvl72", "gpus=" + gpus,
                                    "global_batch=" + gpus, "sequence=4096"};
    all.insert(all.end(), more.begin(), more.end());
    return load_plan("", all);
  };
  const auto said = [&](const std::string& gpus, const std::vector<std::string>& more) {
    const auto file = loaded(gpus, more);
    return file ? "" : file.errors().front().message;
  };
  // Following a message leads to a plan that loads.
  CHECK(contains(said("100", {}), "cluster.node.gpus=50 cluster.node.nics=50: 50 of each 72"));
  CHECK(said("100", {"cluster.node.gpus=50", "cluster.node.nics=50"}) == "");
  CHECK(contains(said("104", {}), "cluster.node.gpus=52 cluster.node.nics=52: 52 of each 72"));
  CHECK(said("104", {"cluster.node.gpus=52", "cluster.node.nics=52"}) == "");
  CHECK(contains(said("104", {"cluster.node.gpus=4"}),
                 "104 GPUs; gb200-nvl72 has 64 (16 nodes of 4); write at most 64, or "
                 "cluster.nodes=26"));
  CHECK(said("104", {"cluster.node.gpus=4", "cluster.nodes=26"}) == "");
  // A part holds whole tensor-parallel groups.
  CHECK(said("104", {"tp=8", "global_batch=13"}).find("node.gpus") == std::string::npos);
}
