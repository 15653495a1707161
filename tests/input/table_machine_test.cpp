// table_machine_test.cpp — GPUs of published tables, by the aliases in topologies/*.textproto.
#include "sim/input/profile/table_machine.h"

#include <catch2/catch.hpp>

#include "tests/input/support.h"

using namespace sim;

TEST_CASE("table machine: a GPU is known by its alias, its memory and its site") {
  const support::Scratch scratch;
  REQUIRE(input::table_machines());
  const auto of = [](std::string_view gpu, double gb, std::string_view remarks = "") {
    const input::TableMachine found = input::machine_of_table(gpu, gb, remarks);
    return found.machine ? found.machine->cluster.name : std::string();
  };
  CHECK(of("NVIDIA H100-SXM5-80GB", 80) == "dgx-h100");
  CHECK(of("H100-SXM-94GB (TSUBAME4)", 94) == "tsubame4");
  CHECK(of("A100-SXM", 40) == "azure-ndv4");
  CHECK(of("A100-SXM-40GB (ABCI)", 40) == "abci-a");
  CHECK(of("A100-SXM", 80) == "dgx-a100");
  CHECK(of("A100-SXM", 80, "Omni-Path 4x100Gb/s per node (Jean Zay)") == "jean-zay");
  CHECK(of("A100-SXM4-80GB NVLink, one node", 0) == "dgx-a100");  // the larger one
  // A difference below half a gigabyte counts as rounding.
  CHECK(of("A100-SXM", 80.4) == "dgx-a100");
  CHECK(of("A100-SXM", 80.5).empty());
  CHECK(of("A100-SXM", 79.6) == "dgx-a100");
  CHECK(of("A100-SXM", 79.5).empty());
  CHECK(of("GH200 96GB", 96) == "gh200");
  CHECK(of("B200-SXM", 192) == "dgx-b200");
  CHECK(of("NVIDIA H200-SXM5-141GB", 141) == "dgx-h200");
  CHECK(of("H20", 96) == "hgx-h20");
  CHECK(of("A800-SXM", 80) == "hgx-a800");
  CHECK(of("GB200", 192) == "gb200-nvl72");
  CHECK(input::machine_of_table("GB200", 192).gpus_per_node == 64);
  CHECK(of("A100-SXM", 64).empty());
  CHECK(of("A100-NVL", 80).empty());
  CHECK(of("TPU v4", 0).empty());
}

TEST_CASE("table machine: an alias stands for one cluster") {
  const support::Scratch scratch;
  REQUIRE(input::table_machines());
  for (const input::Machine& machine : *input::table_machines())
    for (const input::GpuAlias& alias : machine.aliases) {
      INFO(machine.cluster.name << " " << alias.name);
      const input::TableMachine found =
          input::machine_of_table(alias.name, alias.memory_gb, machine.site);
      REQUIRE(found.machine != nullptr);
      CHECK(found.machine->cluster.name == machine.cluster.name);
    }
}
