#include "sim/input/cluster/cluster.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "support.h"

using sim::input::load_cluster;
using support::contains;
using support::problems;
using support::replaced;

namespace {

std::string dgx() {
  return support::read(support::in_repository("topologies/dgx-h100.textproto"));
}

}  // namespace

TEST_CASE("input: abci-a is the site's node of eight A100-40GB with four shared NICs") {
  const auto machine = load_cluster(support::in_repository("topologies/abci-a.textproto"));
  REQUIRE(machine);
  CHECK(machine->cluster.name == "abci-a");
  CHECK(machine->cluster.gpus() == 960);
  CHECK(machine->cluster.node.nic_of_gpu == std::vector{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(machine->cluster.node.nvlink.bytes_per_second == 25'000'000'000);
  CHECK(machine->cluster.node.nic.bytes_per_second == 25'000'000'000);  // 200 Gb/s
  CHECK(machine->cluster.fabric.spine_hop.ps == 500'000);               // 500 ns
  CHECK(sim::gib(machine->gpu.memory) == Approx(39.39).margin(0.005));
  CHECK(machine->gpu.memory_marketing_gb == 40.0);
  CHECK(machine->gpu.bf16_flops == 312e12);
  CHECK(machine->gpu.fp8_flops == 0);
  CHECK(machine->communication == "a100-40");
}

TEST_CASE("input: a rule of the whole cluster is broken where the field or condition stands") {
  support::Scratch scratch;
  const std::string path = scratch.write(
      "c.textproto", dgx() + "condition { node: 0 speed: 0.5 }\ncondition { node: 1 gpu: 9 }\n");
  const auto at = [&](const std::vector<std::string>& settings) {
    return problems(load_cluster(path, settings));
  };
  const std::string file = at({});
  const std::string own = "a condition names a GPU that is not there";
  // On the line of the second condition, not of the first.
  const std::string before = dgx();
  const auto lines = std::count(before.begin(), before.end(), '\n');
  CHECK(file.starts_with("c.textproto:" + std::to_string(lines + 2) + ":"));
  CHECK(file.ends_with(own + "\n"));
  const std::string all = at({"condition={}", "condition={node: 5000}"});
  CHECK(contains(all, "command line, condition={}: a condition is of a node, of a leaf or of a"));
  CHECK(
      contains(all, "command line, condition={node: 5000}: a condition names a node that is not"));
  CHECK(contains(at({"fabric.oversubscription=0"}), "command line, fabric.oversubscription=0: "));
  CHECK(contains(at({"node.socket_of_gpu=[5]"}),
                 "command line, node.socket_of_gpu=[5]: node.socket_of_gpu must have one entry"));
}

TEST_CASE("input: a node without NVLink SHARP is NCCL with NCCL_NVLS_ENABLE=0") {
  const auto usual = sim::input::find_cluster("dgx-h100");
  REQUIRE(usual);
  CHECK(usual->cluster.node.nvlink_sharp);
  const auto off = sim::input::find_cluster("dgx-h100", "", {{"node.nvlink_sharp=false"}});
  REQUIRE(off);
  CHECK_FALSE(off->cluster.node.nvlink_sharp);
}

TEST_CASE("input: tsubame4 is a mesh of four H100-94GB") {
  const auto machine = load_cluster(support::in_repository("topologies/tsubame4.textproto"));
  REQUIRE(machine);
  CHECK(machine->cluster.node.interconnect == sim::topology::GpuInterconnect::mesh);
  CHECK(machine->cluster.node.nvlinks_per_pair == 6);
  CHECK(machine->cluster.node.cpu == sim::topology::HostCpu::amd);
  CHECK(machine->cluster.gpus() == 960);
  CHECK(machine->gpu.hbm.bytes_per_second == 2'400'000'000'000);
  CHECK(sim::gib(machine->gpu.memory) == Approx(93.10).margin(0.005));
}

TEST_CASE("input: every cluster file loads and names a source for each block") {
  support::Scratch scratch;
  for (const char* name : {"abci-a", "tsubame4", "dgx-a100", "dgx-h100"}) {
    CAPTURE(name);
    const auto machine = sim::input::find_cluster(name);
    CAPTURE(problems(machine));
    REQUIRE(machine);
    CHECK(machine->cluster.name == name);
    for (const char* block : {"cluster: ", "GPU: ", "node: ", "fabric: "}) {
      bool found = false;
      for (const std::string& source : machine->sources) found |= source.starts_with(block);
      CHECK(found);
    }
  }
}

TEST_CASE("input: all mistakes in a cluster file are reported at once with their places") {
  support::Scratch scratch;
  std::string text = dgx();
  text = replaced(text, "memory_bandwidth: \"3350GB/s\"", "memory_bandwith: \"3350GB/s\"");
  text = replaced(text, "nic_bandwidth: \"400Gb/s\"", "nic_bandwidth: \"400\"");
  text = replaced(text, "pcie_bandwidth: \"63GB/s\"", "pcie_bandwidth: \"-63GB/s\"");
  text = replaced(text, "interconnect: nvswitch", "interconnect: nvswich");
  text = replaced(text, "nodes_per_leaf: 32", "nodes_per_leaf: -32");
  const std::string all = problems(load_cluster(scratch.write("x.textproto", text)));
  CAPTURE(all);
  CHECK(contains(all,
                 "x.textproto:12:3: 'Gpu' has no field 'memory_bandwith'; did you mean "
                 "'memory_bandwidth'?"));
  CHECK(contains(all, "'nic_bandwidth': bandwidth \"400\" has no unit"));
  CHECK(contains(all, "\"400Gb/s\""));
  CHECK(contains(all, "'pcie_bandwidth': bandwidth \"-63GB/s\" is negative"));
  CHECK(contains(all, "did you mean 'nvswitch'?"));
  CHECK(contains(all, "'nodes_per_leaf' is -32; it must be between 0 and 1048576"));
  CHECK(std::count(all.begin(), all.end(), '\n') == 5);
}

TEST_CASE("input: all fields that a cluster lacks are reported at once") {
  support::Scratch scratch;
  const std::string all =
      problems(load_cluster(scratch.write("x.textproto", "name: \"x\"\nnodes: 4\n")));
  CAPTURE(all);
  for (const char* field : {"'Gpu' needs the field 'profile'", "'Gpu' needs the field 'bf16'",
                            "'Node' needs the field 'gpus'", "'Fabric' needs the field 'kind'"})
    CHECK(contains(all, field));
  // A GPU without measurements: which profile to take.
  CHECK(contains(all, "borrows the profile of the nearest architecture"));
}

TEST_CASE("input: a bare number says which units there are") {
  support::Scratch scratch;
  const std::string text = replaced(dgx(), "nic_bandwidth: \"400Gb/s\"", "nic_bandwidth: 400");
  const std::string all = problems(load_cluster(scratch.write("x.textproto", text)));
  CHECK(contains(all,
                 "x.textproto:34:18: 'nic_bandwidth': bandwidth \"400\" has no unit; write "
                 "one of "));
}

TEST_CASE("input: a cluster that contradicts itself is refused") {
  support::Scratch scratch;
  struct Case {
    const char* from;
    const char* to;
    const char* said;
  };
  const Case cases[] = {
      {"nic_of_gpu: [0, 1, 2, 3, 4, 5, 6, 7]", "nic_of_gpu: [0, 1, 2]", "3 entries for 8 GPUs"},
      {"nic_of_gpu: [0, 1, 2, 3, 4, 5, 6, 7]", "nic_of_gpu: [0, 1, 2, 3, 4, 5, 6, 8]",
       "NIC 8 does not exist; the node has NICs 0 to 7"},
      {"nvlinks_per_gpu: 18", "", "'nvswitch' needs 'nvlinks_per_gpu'"},
      {"interconnect: nvswitch", "interconnect: mesh", "'mesh' needs 'nvlinks_per_pair'"},
      {"nodes: 2048", "nodes: 0", "'nodes' is 0; it must be between 1 and 1048576"},
      {"nodes: 2048", "nodes: 1048576", "more than 1,048,576 GPUs"},
      {"nodes: 2048", "nodes: 99999999999", "it must be between 1 and 1048576"},
      {"nodes_per_leaf: 32", "", "needs 'nodes_per_leaf'"},
      {"\"85045477376B\"", "\"800GB\"", "more than a GPU sold as 80GB"},
      {"\"3350GB/s\"", "\"0GB/s\"", "is zero; it must be more"},
      {"\"3350GB/s\"", "\"1e-9GB/s\"", "is too little; the least is 10MB/s"},
      {"\"3350GB/s\"", "\"3350KB/s\"", "is too little; the least is 10MB/s"},
      {"\"3350GB/s\"", "\"3350000TB/s\"", "is too much; the most is 1000TB/s"},
      {"\"989.4TFLOP/s\"", "\"1e-18TFLOP/s\"", "is too little; the least is 0.1TFLOP/s"},
      {"sms: 132", "sms: 132 sms: 144", "field 'sms' is given twice; the first is at"},
      {"sms: 132", "sms: nan", "'sms' is a whole number, got 'nan'"},
      {"oversubscription: 1", "oversubscription: inf", "is a finite number"},
      {"oversubscription: 1", "oversubscription: 0x", "is a finite number, got '0x'"},
      {"gpu {", "gpu: 5", "field 'gpu' is a block; write gpu { ... }"},
      {"  cpu: intel", "", "'Node' needs the field 'cpu'; write for example cpu: intel"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.from, one.to);
    const std::string all =
        problems(load_cluster(scratch.write("x.textproto", replaced(dgx(), one.from, one.to))));
    CAPTURE(all);
    CHECK(contains(all, one.said));
  }
}

TEST_CASE("input: files that cannot be read are told apart from files that are wrong") {
  support::Scratch scratch;
  const auto fault = [](const auto& result) { return result.errors().front().fault; };
  const auto missing = load_cluster(scratch.path("absent.textproto"));
  REQUIRE_FALSE(missing);
  CHECK(fault(missing) == sim::Fault::missing);
  CHECK(contains(problems(missing), "No such file"));

  ::mkdir(scratch.path("folder.textproto").c_str(), 0700);
  const auto folder = load_cluster(scratch.path("folder.textproto"));
  REQUIRE_FALSE(folder);
  CHECK(fault(folder) == sim::Fault::missing);
  CHECK(contains(problems(folder), "directory"));

  const std::string locked = scratch.write("locked.textproto", dgx());
  ::chmod(locked.c_str(), 0);
  if (::geteuid() != 0) {  // root reads everything
    const auto refused = load_cluster(locked);
    REQUIRE_FALSE(refused);
    CHECK(fault(refused) == sim::Fault::missing);
  }

  const auto empty = load_cluster(scratch.write("empty.textproto", ""));
  REQUIRE_FALSE(empty);
  CHECK(fault(empty) == sim::Fault::data);
  CHECK(empty.errors().size() == 24);  // of the cluster, and of its gpu, node and fabric
  CHECK(contains(problems(empty), "'Cluster' needs the field 'gpu'"));
}

TEST_CASE("input: a file of two gigabytes is refused without being read") {
  support::Scratch scratch;
  const std::string path = scratch.write("huge.textproto", dgx());
  std::filesystem::resize_file(path, std::uintmax_t{2} << 30);  // sparse
  const auto huge = load_cluster(path);
  REQUIRE_FALSE(huge);
  CHECK(contains(problems(huge), "larger than 16 MiB"));
}

TEST_CASE("input: an unknown cluster name lists what there is") {
  support::Scratch scratch;
  const auto machine = sim::input::find_cluster("dgx-h10");
  REQUIRE_FALSE(machine);
  CHECK(machine.errors().front().fault == sim::Fault::missing);
  CHECK(contains(machine.errors().front().message, "did you mean 'dgx-h100'?"));
  CHECK(contains(machine.errors().front().message, "abci-a, "));
}

TEST_CASE("input: what a file says of a node and of a fabric arrives, field by field") {
  const std::string node =
      "sockets: 2 socket_of_gpu: [0, 1, 0, 1, 0, 1, 0, 1] socket_of_nic: [1, 0, 1, 0, 1, 0, 1, 0] "
      "socket_bandwidth: \"21GB/s\" host_copy_bandwidth: \"22GB/s\" ";
  const std::string text = replaced(dgx(), "gpus: 8", node + "gpus: 8");
  const auto machine = sim::input::parse_cluster(text, "mine.textproto");
  INFO((machine ? "" : problems(machine)));
  REQUIRE(machine);
  const sim::topology::Node& n = machine->cluster.node;
  CHECK(n.gpus == 8);
  CHECK(n.interconnect == sim::topology::GpuInterconnect::nvswitch);
  CHECK(n.nvlinks_per_gpu == 18);
  CHECK(n.nvlink.bytes_per_second == 25'000'000'000);
  CHECK(n.pcie.bytes_per_second == 63'000'000'000);
  CHECK(n.nics == 8);
  CHECK(n.nic.bytes_per_second == 50'000'000'000);
  CHECK(n.nic_of_gpu == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(n.cpu == sim::topology::HostCpu::intel);
  CHECK(n.sockets == 2);
  CHECK(n.socket_of_gpu == std::vector{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(n.socket_of_nic == std::vector{1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(n.socket_link.bytes_per_second == 21'000'000'000);
  CHECK(n.host_copy.bytes_per_second == 22'000'000'000);
  CHECK(n.cpu_memory_bandwidth.bytes_per_second == 614'000'000'000);
  CHECK(n.cpu_cores == 112);
  CHECK(sim::gib(n.cpu_memory) == 2048);
  CHECK(n.host.copied == 0.8);  // calibration/hosts.csv, host 'any'
  CHECK(n.host.carried == 0.72);
  CHECK(n.host.core.bytes_per_second == 22'500'000'000);
  CHECK(n.host.socket_memory.bytes_per_second == 205'000'000'000);
  const sim::topology::Fabric& f = machine->cluster.fabric;
  CHECK(f.kind == sim::topology::FabricKind::rail_optimised);
  CHECK(f.nodes_per_leaf == 32);
  CHECK(f.oversubscription == 1);
  CHECK(f.leaf_hop.ps == 0);
  CHECK(f.spine_hop.ps == 700'000);
}

TEST_CASE("input: a power limit above the rated power of the board is refused") {
  const std::string path = support::in_repository("topologies/dgx-b200.textproto");
  CHECK(problems(load_cluster(path, {"gpu.power_w=1000"})).empty());
  CHECK(contains(problems(load_cluster(path, {"gpu.power_w=2000"})),
                 "2000 W is above the 1000 W that the board is rated for (gpu.rated_power_w); "
                 "write 1000 or less"));
  CHECK(problems(load_cluster(path, {"gpu.power_w=2000", "gpu.rated_power_w=2000"})).empty());
}

TEST_CASE("input: settings that no node of the file has, or that change no time, are noted") {
  const auto notes = [](const char* cluster, const std::vector<std::string>& settings) {
    const auto machine = load_cluster(
        support::in_repository("topologies/" + std::string(cluster) + ".textproto"), settings);
    REQUIRE(machine);
    std::string all;
    for (const std::string& note : machine->notes) all += note + "\n";
    return all;
  };
  CHECK(notes("gb200-nvl72", {"node.gpus=64"}).empty());
  CHECK(contains(notes("dgx-b200", {"node.gpus=64"}),
                 "node.gpus=64: dgx-b200 describes nodes of 8; check that a node of 64 GPUs with 8 "
                 "NICs exists"));
  CHECK(
      contains(notes("dgx-b200", {"transport.name=roce"}), "transport.name=roce changes no time"));
}
