#include "sim/input/profile/profile.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "support.h"

using sim::input::load_profile;
using support::contains;
using support::problems;
using support::replaced;

namespace {

std::string a100() {
  return support::read(support::in_repository("calibration/a100-40.textproto"));
}

std::string with(const std::string& from, const std::string& to) {
  support::Scratch scratch;
  return problems(load_profile(scratch.write("x.textproto", replaced(a100(), from, to))));
}

}  // namespace

TEST_CASE("input: every profile of calibration loads and is physical") {
  support::Scratch scratch;
  for (const char* name : {"a100-40", "a100-80", "h100-80", "h100-94"}) {
    const auto file =
        load_profile(support::in_repository(std::string("calibration/") + name + ".textproto"));
    CAPTURE(name, problems(file));
    REQUIRE(file);
    CHECK(file->device.name == name);
    CHECK(file->has_communication);
    CHECK_FALSE(file->device.provenance.residuals.empty());
  }
}

TEST_CASE("input: every cluster finds its profiles") {
  support::Scratch scratch;
  for (const char* name : {"abci-a", "tsubame4", "dgx-a100", "dgx-h100"}) {
    const auto machine = sim::input::find_cluster(name);
    REQUIRE(machine);
    const auto file = sim::input::find_profiles(*machine);
    CAPTURE(name, problems(file));
    REQUIRE(file);
    CHECK(file->device.name == machine->gpu.profile);
  }
}

TEST_CASE("input: FlashAttention-3, which runs on Hopper alone, is in no other GPU's profile") {
  support::Scratch scratch;
  int some = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(support::in_repository("topologies"))) {
    if (entry.path().extension() != ".textproto") continue;
    const auto machine = sim::input::load_cluster(entry.path());
    if (!machine) continue;
    const auto file = sim::input::find_profiles(*machine);
    CAPTURE(entry.path(), problems(file));
    REQUIRE(file);
    for (const auto& attention : file->device.attention) {
      if (attention.implementation != "flash-attention-3") continue;
      CHECK(machine->gpu.compute_capability == 90);
      ++some;
    }
  }
  CHECK(some > 0);
}

TEST_CASE("input: a profile carries what its file says") {
  const auto file = load_profile(support::in_repository("calibration/a100-40.textproto"));
  REQUIRE(file);
  CHECK(file->device.memory.engine_workspace.n == 4 << 20);  // "4MiB"
  CHECK(file->device.memory.cublas_workspace.n == 8320 << 10);
  CHECK(file->device.host.loader.mask.ps == 3'800'000'000);  // "3.8ms"
  CHECK(file->device.host.loader.neighbour == 0.13);
  CHECK(file->device.gemm.tiles.size() == 8);
  CHECK(file->device.gemm.split_k == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(file->communication.nccl.base.tree.ll.ps == 6'800'000);  // "6.8us"
  CHECK(file->communication.nccl.ll_intel.more.bytes_per_second == 20'400'000'000);
  CHECK(file->communication.nccl.tree_factor.simple[22] == 0.9);
  CHECK(file->communication.nccl.speeds_one_node.front().bytes_per_second == 40'000'000'000);
  CHECK(file->communication.nccl.plain_tree == 0.85);
  CHECK_FALSE(file->communication.nccl.plain_tree_early);
  CHECK_FALSE(file->communication.buffers.lazy);
}

TEST_CASE("input: mistakes in a profile are reported at their place") {
  CHECK(contains(with("efficiency: 0.95", "efficiency: 1.95"), "gemm.tiles[2].efficiency: 1.95"));
  CHECK(contains(with("kernel_overhead: \"2.5us\"", "kernel_overhead: 2.5"), "has no unit"));
  CHECK(contains(with("  wave_quantisation: 0.55\n", ""),
                 "'GemmProfile' needs the field 'wave_quantisation'"));
  CHECK(
      contains(with("    pcie: 0.76\n", "    pcie: 1.76\n"), "communication.achieved.pcie: 1.76"));
  CHECK(contains(with("ll: [1, 1, 1, 1, 0.9,", "ll: [1, 1, 1, 0.9,"),
                 "'ll' has 22 numbers; write 23"));
  // The place is that of the value: third tile, fifth line after "gemm {" and the peaks.
  const std::string all = with("efficiency: 0.95", "efficiency: 1.95");
  CHECK(contains(all, "x.textproto:"));
  CHECK_FALSE(contains(all, "x.textproto:1:1"));
}

TEST_CASE("input: a machine whose fabric has no profile is refused") {
  support::Scratch scratch;
  const auto machine = sim::input::find_cluster("abci-a");
  REQUIRE(machine);
  sim::input::Machine other = *machine;
  const std::string text = a100();
  other.communication =
      scratch.write("bare.textproto", text.substr(0, text.find("communication {")));
  CHECK(contains(problems(sim::input::find_profiles(other)), "has no section 'communication'"));
  other.communication = "a100-41";
  CHECK(contains(problems(sim::input::find_profiles(other)), "did you mean 'a100-40'?"));
}
