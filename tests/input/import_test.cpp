// import_test.cpp — outputs of other tools about machines and fabrics: read correctly, and refused
// in bounded time when hostile. The texts were written for the tests in the formats of the tools.
#include "sim/input/cluster/import.h"

#include <catch2/catch.hpp>

#include "sim/input/cluster/cluster.h"
#include "sim/input/cluster/import_cluster.h"

using namespace sim;
using namespace sim::input;
using topology::GpuInterconnect;

namespace {

const std::string four_gpus =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV6\tNV6\tNV6\tPIX\tSYS\t0-31\t0\t\tN/A\n"
    "GPU1\tNV6\t X \tNV6\tNV6\tNODE\tSYS\t0-31\t0\t\tN/A\n"
    "GPU2\tNV6\tNV6\t X \tNV6\tSYS\tPIX\t32-63\t1\t\tN/A\n"
    "GPU3\tNV6\tNV6\tNV6\t X \tSYS\tSYS\t32-63\t1\t\tN/A\n"
    "NIC0\tPIX\tNODE\tSYS\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tSYS\tPIX\tSYS\tSYS\t X \n\nLegend:\n  X    = Self\n";

std::string first_problem(const Result<Imported>& result) {
  return result ? "" : result.errors()[0].where + ": " + result.errors()[0].message;
}

TEST_CASE("input: a machine and a fabric that were read become a cluster like a known one") {
  // A cloud's topology file: eight GPUs by their PCI class, without NVLinks.
  std::string cloud = "<system version=\"1\"><cpu numaid=\"0\" vendor=\"GenuineIntel\">";
  for (int gpu = 0; gpu < 8; ++gpu)
    cloud += "<pci busid=\"0000:1" + std::to_string(gpu) +
             ":1d.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>" +
             "<pci busid=\"0000:2" + std::to_string(gpu) +
             ":1d.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>";
  cloud += "</cpu></system>";
  const auto node = import_text(cloud, "cloud.xml");
  REQUIRE(node);
  CHECK_FALSE(node->nvlinks_known);
  const auto tree = import_text(
      "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=top Switches=a,b\n", "t");
  REQUIRE(tree);
  const std::vector<ImportedFile> files = {{"cloud.xml", *node}, {"topology.conf", *tree}};
  const auto text = cluster_text(files, "dgx-a100", "mine");
  INFO((text ? *text : text.errors()[0].message));
  REQUIRE(text);
  const auto machine = parse_cluster(*text, "mine");
  REQUIRE(machine);
  const auto known = find_cluster("dgx-a100");
  CHECK(machine->cluster.name == "mine");
  CHECK(machine->cluster.nodes == 8);
  CHECK(machine->cluster.fabric.kind == topology::FabricKind::fat_tree);
  CHECK(machine->cluster.fabric.nodes_per_leaf == 4);
  CHECK(machine->cluster.node.interconnect == known->cluster.node.interconnect);
  CHECK(machine->cluster.node.nvlinks_per_gpu == known->cluster.node.nvlinks_per_gpu);
  CHECK(machine->cluster.node.nvlink.bytes_per_second ==
        known->cluster.node.nvlink.bytes_per_second);
  CHECK(machine->gpu.name == known->gpu.name);

  const std::vector<ImportedFile> two = {files[0], files[0]};
  CHECK(cluster_text(two, "dgx-a100", "mine").errors()[0].message.find("already") !=
        std::string::npos);
  CHECK_FALSE(cluster_text(files, "no-such-cluster", "mine"));
}

}  // namespace

TEST_CASE("input: the matrix of nvidia-smi becomes a node") {
  const auto read = import_text(four_gpus, "topo.txt");
  REQUIRE(read);
  REQUIRE(read->node);
  const topology::Node& node = *read->node;
  CHECK(node.gpus == 4);
  CHECK(node.interconnect == GpuInterconnect::mesh);
  CHECK(node.nvlinks_per_pair == 6);
  CHECK(node.nics == 2);
  CHECK(node.sockets == 2);
  CHECK(node.socket_of_gpu == std::vector{0, 0, 1, 1});
  CHECK(node.socket_of_nic == std::vector{0, 1});
  // GPU 3 is equally far from both NICs and gets the one with fewer GPUs.
  CHECK(node.nic_of_gpu == std::vector{0, 0, 1, 1});
}

TEST_CASE("input: NVLinks of a matrix are a switch, a mesh, some pairs or none") {
  // Four GPUs. `pair` is the link within the first two and within the last two, `across` the link
  // between the pairs.
  const auto node = [](const std::string& pair, const std::string& across) {
    std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n";
    for (int a = 0; a < 4; ++a) {
      text += "GPU" + std::to_string(a);
      for (int b = 0; b < 4; ++b) text += "\t" + (a == b ? "X" : a / 2 == b / 2 ? pair : across);
      text += "\t0-31\tN/A\n";
    }
    const auto read = import_text(text, "t");
    REQUIRE(read);
    CHECK(read->node->sockets == 1);  // none is said
    CHECK(read->node->socket_of_gpu == std::vector{0, 0, 0, 0});
    CHECK(read->node->nics == 0);
    CHECK(read->node->nic_of_gpu.empty());
    return *read->node;
  };
  const topology::Node none = node("PIX", "SOC");
  CHECK(none.interconnect == GpuInterconnect::pcie);
  CHECK(none.pairs.empty());
  const topology::Node pairs = node("NV4", "SYS");
  CHECK(pairs.interconnect == GpuInterconnect::direct);
  REQUIRE(pairs.pairs.size() == 2);
  CHECK(pairs.pairs[0].a == 0);
  CHECK(pairs.pairs[0].b == 1);
  CHECK(pairs.pairs[1].a == 2);
  CHECK(pairs.pairs[1].b == 3);
  CHECK(pairs.pairs[1].links == 4);
  const topology::Node unlike = node("NV4", "NV2");
  CHECK(unlike.interconnect == GpuInterconnect::direct);
  CHECK(unlike.pairs.size() == 6);
  // A GPU has 18 links. 6 to each of 3 others are direct cables. 7 to each would be 21, so there is
  // a switch.
  const topology::Node mesh = node("NV6", "NV6");
  CHECK(mesh.interconnect == GpuInterconnect::mesh);
  CHECK(mesh.nvlinks_per_pair == 6);
  CHECK(mesh.pairs.empty());
  const topology::Node switched = node("NV7", "NV7");
  CHECK(switched.interconnect == GpuInterconnect::nvswitch);
  CHECK(switched.nvlinks_per_gpu == 7);
  CHECK(switched.pairs.empty());
}

TEST_CASE("input: a matrix with a row too short or an unknown word says so with its line") {
  std::string text = four_gpus;
  text.replace(text.find("NV6"), 3, "NVX");
  CHECK(first_problem(import_text(text, "t")).find("t:2: 'NVX' is no connection") == 0);
  CHECK(first_problem(import_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \n", "t"))
            .find("t:2: GPU0 has 1 entries for 2 devices") == 0);
}

TEST_CASE("input: a NIC on the far socket and uneven rails are found") {
  topology::Node node = *import_text(four_gpus, "t")->node;
  CHECK_FALSE(topology::inspect(node)[0].problem);
  node.nic_of_gpu = {0, 0, 0, 1};
  const auto findings = topology::inspect(node);
  REQUIRE(findings.size() >= 2);
  CHECK(findings[0].text.find("GPU 2 (socket 1) uses NIC 0 on the far socket 0") == 0);
  CHECK(findings[1].text == "uneven rails: NIC 1 has 1 GPU; NIC 0 has 3 GPUs");
  // The report names up to eight NICs and counts the others.
  const auto rails = [](int nics) {
    topology::Node uneven;
    uneven.gpus = nics + 1;
    uneven.nics = nics;
    uneven.nic_of_gpu.push_back(0);
    for (int nic = 0; nic < nics; ++nic) uneven.nic_of_gpu.push_back(nic);
    return topology::inspect(uneven).front().text;
  };
  CHECK(rails(9) == "uneven rails: NIC 1, 2, 3, 4, 5, 6, 7, 8 has 1 GPU; NIC 0 has 2 GPUs");
  CHECK(rails(10) ==
        "uneven rails: NIC 1, 2, 3, 4, 5, 6, 7, 8 and 1 more has 1 GPU; NIC 0 has 2 GPUs");
}

TEST_CASE("input: what a GPU has of the network is said, and NICs that their slots slow down") {
  topology::Node node;
  node.gpus = 8;
  node.nics = 2;
  node.nic = Bandwidth{50'000'000'000};
  node.pcie = Bandwidth{50'000'000'000};
  node.sockets = 2;  // GPUs 0 to 3 and NIC 0, GPUs 4 to 7 and NIC 1
  node.nic_of_gpu = {0, 0, 0, 0, 1, 1, 1, 1};
  // Two NICs of 50 GB/s for eight GPUs.
  auto findings = topology::inspect(node);
  REQUIRE(findings.size() == 1);
  CHECK_FALSE(findings[0].problem);
  CHECK(findings[0].text == "8 GPUs, 2 NICs: 12.5 GB/s of network per GPU");
  node.pcie = Bandwidth{49'900'000'000};
  findings = topology::inspect(node);
  REQUIRE(findings.size() == 2);
  CHECK(findings[1].problem);
  CHECK(findings[1].text == "a NIC of 50.0 GB/s sits on PCIe of 49.9 GB/s");
  node.pcie = Bandwidth{};  // not known
  CHECK(topology::inspect(node).size() == 1);
  // Without a list the GPUs are divided evenly over the sockets.
  node.nic_of_gpu = {1, 0, 0, 0, 1, 1, 1, 0};
  findings = topology::inspect(node);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].text.starts_with("GPU 0 (socket 0) uses NIC 1 on the far socket 1"));
  CHECK(findings[1].text.starts_with("GPU 7 (socket 1) uses NIC 0 on the far socket 0"));
  node.nics = 0;
  node.nic_of_gpu.clear();
  findings = topology::inspect(node);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].text == "8 GPUs, 0 NICs");
}

TEST_CASE("input: a bisection is said in percent of the NICs, beside what is claimed") {
  const auto cluster = find_cluster("dgx-h100", "", {"fabric.oversubscription=2"});
  REQUIRE(cluster);
  const std::string said = "the halves of the nodes reach each other at 50.0 % of their NICs";
  const auto last = [&](double least) { return topology::inspect(cluster->cluster, least).back(); };
  CHECK(last(0).text == said);
  CHECK_FALSE(last(0).problem);
  CHECK_FALSE(last(0.5).problem);
  CHECK(last(0.75).problem);
  CHECK(last(0.75).text == said + ", 75.0 % are claimed");
}

TEST_CASE("input: a topology of NCCL becomes a node") {
  const std::string xml =
      "<system version=\"1\">\n"
      "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n"
      " <pci busid=\"0000:00:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
      "  <pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
      "   <gpu dev=\"0\" sm=\"80\"><nvlink target=\"0000:b0:00.0\" count=\"12\" "
      "tclass=\"0x068000\"/></gpu></pci>\n"
      "  <pci busid=\"0000:02:00.0\" class=\"0x020700\"><nic>"
      "<net name=\"mlx5_0\" speed=\"200000\"/></nic></pci>\n"
      " </pci></cpu>\n"
      "<cpu numaid=\"1\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n"
      "  <pci busid=\"0000:81:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
      "   <gpu dev=\"1\" sm=\"80\"><nvlink target=\"0000:b0:00.0\" count=\"12\" "
      "tclass=\"0x068000\"/></gpu></pci></cpu></system>\n";
  const auto read = import_text(xml, "topo.xml");
  REQUIRE(read);
  const topology::Node& node = *read->node;
  CHECK(node.gpus == 2);
  CHECK(node.interconnect == GpuInterconnect::nvswitch);
  CHECK(node.nvlinks_per_gpu == 12);
  CHECK(node.cpu == topology::HostCpu::amd);
  CHECK(node.nic.bytes_per_second == 25'000'000'000);
  // 16 GT/s x 16 lanes / 8 x 128/130 = 31.5 GB/s.
  CHECK(static_cast<double>(node.pcie.bytes_per_second) / 1e9 == Approx(31.5).epsilon(0.001));
  const auto findings = topology::inspect(node);
  CHECK(findings[0].text.find("GPU 1 (socket 1) uses NIC 0 on the far socket 0") == 0);
}

TEST_CASE("input: entity bombs and deep nesting and what is no XML are refused") {
  const std::string bomb =
      "<!DOCTYPE lolz [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>\n"
      "<system>&b;</system>";
  CHECK(first_problem(import_text(bomb, "t")).find("a document type") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<pci>";
  CHECK(first_problem(import_text(deep, "t")).find("nested too deep") != std::string::npos);
  CHECK(first_problem(import_text("<system", "t")).find("not XML") != std::string::npos);
  CHECK(first_problem(import_text("<system/>", "t")).find("no <gpu>") != std::string::npos);
}

TEST_CASE("input: a tree of Slurm becomes switches and hosts") {
  const auto read = import_text(
      "# two leaves\nSwitchName=leaf0 Nodes=n[00-03,9]\nSwitchName=leaf1 Nodes=n[10-12]\n"
      "SwitchName=top Switches=leaf[0-1]\n",
      "topology.conf");
  REQUIRE(read);
  const topology::Wiring& wiring = *read->wiring;
  CHECK(wiring.switches == std::vector<std::string>{"leaf0", "leaf1", "top"});
  REQUIRE(wiring.hosts.size() == 8);
  CHECK(wiring.hosts[1] == "n01");
  CHECK(wiring.hosts[4] == "n9");
  CHECK(wiring.cables.size() == 10);
  // Host names may be numbers alone. An empty item is no name.
  const auto numbers = import_text("SwitchName=leaf Nodes=[08-10,3],,x,[1]y\n", "topology.conf");
  REQUIRE(numbers);
  CHECK(numbers->wiring->hosts == std::vector<std::string>{"08", "09", "10", "3", "x", "1y"});
  const auto behind = import_text("SwitchName=leaf Nodes=,a,b[1-2]\n", "topology.conf");
  REQUIRE(behind);
  CHECK(behind->wiring->hosts == std::vector<std::string>{"a", "b1", "b2"});
}

TEST_CASE("input: cycles and huge lists and unknown switches in a tree are refused") {
  const auto problem = [](const std::string& text) {
    return first_problem(import_text(text, "t"));
  };
  CHECK(problem("SwitchName=a Switches=b\nSwitchName=b Switches=a\n").find("below itself") !=
        std::string::npos);
  CHECK(problem("SwitchName=a\nSwitchName=b Nodes=n[]\n") ==
        "t:2: 'n[]' names nothing; write for example n[0-15]");
  CHECK(problem("SwitchName=a Nodes=n[0-999999999]\n") ==
        "t:1: 'n[0-999999999]' names more than 1048576 nodes");
  CHECK(problem("SwitchName=a Switches=b\n") == "t:1: switch 'b' below 'a' is not described");
  CHECK(problem("SwitchName=a Nodes=n[3-1]\n") == "t:1: '3-1' is not a range of numbers like 0-15");
  CHECK(problem("SwitchName=a Nodes=n[1\n") == "t:1: 'n[1' is not a list of names like n[0-15]");
  CHECK(problem("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n") ==
        "t:2: switch 'a' is there twice");
}

TEST_CASE("input: hosts that nothing reaches are found in a tree") {
  const auto read =
      import_text("SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-5]\n", "topology.conf");
  REQUIRE(read);
  const auto findings = topology::inspect(*read->wiring);
  REQUIRE(findings[0].problem);
  CHECK(findings[0].text == "2 of 6 hosts are not reached by the others: n4, n5");
}

TEST_CASE("input: leaves of different sizes are told with how many hang on each") {
  const auto found = [](const std::string& text) {
    const auto read = import_text(text + "SwitchName=top Switches=a,b,c,d\n", "topology.conf");
    REQUIRE(read);
    std::vector<std::string> texts;
    for (const topology::Finding& finding : topology::inspect(*read->wiring)) {
      CHECK_FALSE(finding.problem);
      texts.push_back(finding.text);
    }
    return texts;
  };
  CHECK(found("SwitchName=a Nodes=n[0-2]\nSwitchName=b Nodes=n3\nSwitchName=c Nodes=n[4-6]\n"
              "SwitchName=d Nodes=n[7-8]\n") ==
        std::vector<std::string>{
            "9 hosts on 4 leaves, 1 switches above them",
            "leaves of different sizes: 1 ports down: b; 2 ports down: d; 3 ports down: a, c"});
  CHECK(found("SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\nSwitchName=c Nodes=n2\n"
              "SwitchName=d Nodes=n3\n") ==
        std::vector<std::string>{"4 hosts on 4 leaves, 1 switches above them"});
}

TEST_CASE("input: a listing of ibnetdiscover becomes switches and hosts and cables") {
  const std::string text =
      "vendid=0x2c9\nswitchguid=0x1(1)\n"
      "Switch\t41 \"S-1\"\t\t# \"leaf0\" enhanced port 0 lid 4 lmc 0\n"
      "[1]\t\"H-a\"[1](aa)\t\t# \"n0 mlx5_0\" lid 17 4xHDR\n"
      "[2]\t\"H-b\"[1](bb)\t\t# \"n0 mlx5_1\" lid 18 4xHDR\n"
      "[3]\t\"H-c\"[1](cc)\t\t# \"n1 mlx5_0\" lid 19 4xHDR\n"
      "[21]\t\"S-2\"[1]\t\t# \"spine0\" lid 5 4xHDR\n"
      "Switch\t41 \"S-2\"\t\t# \"spine0\" enhanced port 0 lid 5 lmc 0\n"
      "[1]\t\"S-1\"[21]\t\t# \"leaf0\" lid 4 4xHDR\n"
      "Ca\t1 \"H-a\"\t\t# \"n0 mlx5_0\"\n[1](aa)\t\"S-1\"[1]\t\t# lid 17 \"leaf0\" 4xHDR\n"
      "Ca\t1 \"H-b\"\t\t# \"n0 mlx5_1\"\nCa\t1 \"H-c\"\t\t# \"n1 mlx5_0\"\n";
  const auto read = import_text(text, "ib.txt");
  REQUIRE(read);
  const topology::Wiring& wiring = *read->wiring;
  CHECK(wiring.switches == std::vector<std::string>{"leaf0", "spine0"});
  CHECK(wiring.hosts == std::vector<std::string>{"n0", "n1"});
  REQUIRE(wiring.cables.size() == 4);
  CHECK(wiring.cables[0].bytes_per_second == 25e9);
  const auto findings = topology::inspect(wiring);
  // n0 has two ports and n1 one; three ports down and one up.
  REQUIRE(findings[0].problem);
  CHECK(findings[0].text == "uneven rails: 1 ports: n1; 2 ports: n0");
  const auto claimed = topology::inspect(wiring, 1);
  CHECK(claimed.back().problem);
}

TEST_CASE("input: no byte of a topology that is lost or changed does more than refuse it") {
  const std::string slurm =
      "SwitchName=leaf0 Nodes=n[00-03,9]\nSwitchName=top Switches=leaf[0-0]\n";
  for (const std::string& text : {four_gpus, slurm}) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string cut = text.substr(0, i), changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 0x15);
      for (const std::string& one : {cut, changed}) {
        const auto read = import_text(one, "t");
        if (!read) CHECK_FALSE(read.errors().empty());
      }
    }
  }
}

TEST_CASE("input: settings of a cluster change it and follow its rules") {
  const auto cluster = [](const std::vector<std::string>& settings) {
    return load_cluster(std::string(REHEARSE_SOURCE_DIR) + "/topologies/abci-a.textproto",
                        settings);
  };
  const auto changed =
      cluster({"fabric.oversubscription=4", "cluster.nodes=64", "node.nics=8",
               "node.nic_bandwidth=100Gb/s", "condition={node: 3 nic: 1 bandwidth: 0}"});
  REQUIRE(changed);
  CHECK(changed->cluster.fabric.oversubscription == 4);
  CHECK(changed->cluster.nodes == 64);
  CHECK(changed->cluster.node.nic_of_gpu == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
  REQUIRE(changed->cluster.conditions.size() == 1);
  CHECK(changed->cluster.conditions[0].bandwidth == 0);
  const std::vector<std::string> jitter = {"cluster.nodes=100", "jitter.sigma=0.02",
                                           "jitter.seed=7"};
  const auto shaken = cluster(jitter);
  REQUIRE(shaken);
  double mean = 0;
  for (int gpu = 0; gpu < 800; ++gpu) mean += 1 / topology::speed_of_gpu(shaken->cluster, gpu) - 1;
  // A half-normal slowdown has mean sigma sqrt(2 / pi) = 0.016, of 800 within 3 deviations of it.
  CHECK(mean / 800 == Approx(0.016).margin(0.0013));
  CHECK(topology::speed_of_gpu(cluster(jitter)->cluster, 799) ==
        topology::speed_of_gpu(shaken->cluster, 799));
  // A job's GPUs are the same in a larger cluster, and no cluster is too large.
  const auto large = cluster({"cluster.nodes=8192", "jitter.sigma=0.02", "jitter.seed=7"});
  REQUIRE(large);
  CHECK(topology::speed_of_gpu(large->cluster, 799) ==
        topology::speed_of_gpu(shaken->cluster, 799));
  // Another seed is another draw.
  const auto other = cluster({"cluster.nodes=100", "jitter.sigma=0.02", "jitter.seed=8"});
  CHECK(topology::speed_of_gpu(other->cluster, 799) !=
        topology::speed_of_gpu(shaken->cluster, 799));
  const auto problem = [&](const std::string& setting) {
    const auto result = cluster({setting});
    return result ? "" : result.errors()[0].message;
  };
  // A GPU that is slow four times an hour for five minutes is slow for a quarter of the time.
  const auto slow =
      cluster({"jitter.slow_per_hour=4", "jitter.slow_minutes=5", "jitter.slow_factor=1.34"});
  REQUIRE(slow);
  CHECK(slow->cluster.jitter.slow_share == Approx(0.25));
  CHECK(slow->cluster.jitter.slow_factor == 1.34);
  CHECK(problem("jitter.slow_factor=1.34") == "needs slow_per_hour, slow_minutes and slow_factor");
  CHECK(problem("jitter.seed=1") == "nothing differs: give sigma, or the three of slow GPUs");
  CHECK(problem("fabric.oversubscripton=4").find("did you mean") != std::string::npos);
  CHECK(problem("fabric.oversubscription=0") != "");
  CHECK(problem("node.nic_bandwidth=0GB/s") != "");
  CHECK(problem("condition={node: 3000 speed: 0.5}") ==
        "a condition names a node that is not there");
  CHECK(problem("cluster.nodes=100000000") != "");
  CHECK(problem("fabric.kind=dragonfly") != "");
}

TEST_CASE("input: a cloud's topology of NCCL has GPUs and NICs by their PCI class alone") {
  const std::string xml =
      "<system version=\"1\">"
      "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
      "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"0\"/>"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "</pci></cpu>"
      "<cpu numaid=\"1\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
      "<pci busid=\"ffff:ff:02.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
      "<pci busid=\"0002:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "<pci busid=\"0102:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "</pci></cpu></system>";
  const auto read = import_text(xml, "ndv4-topo.xml");
  REQUIRE(read);
  CHECK(read->node->gpus == 2);
  CHECK(read->node->nics == 2);
  CHECK(read->node->nic_of_gpu == std::vector{0, 1});
  CHECK(read->node->socket_of_gpu == std::vector{0, 1});
  CHECK(read->node->pcie.bytes_per_second == 31'507'692'307);  // a width of 0 is one of 16
}

TEST_CASE("input: xGMI links of RCCL join GPUs as NVLinks do, whatever the case of a bus") {
  const std::string xml =
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
      "<pci busid=\"0000:C1:00.0\" class=\"0x038000\" link_speed=\"16 GT/s\" link_width=\"16\">"
      "<gpu dev=\"0\" sm=\"908\"><xgmi target=\"0000:c6:00.0\" count=\"1\" tclass=\"0x038000\"/>"
      "</gpu></pci>"
      "<pci busid=\"0000:C6:00.0\" class=\"0x038000\" link_speed=\"16 GT/s\" link_width=\"16\">"
      "<gpu dev=\"1\" sm=\"908\"><xgmi target=\"0000:C1:00.0\" count=\"1\" tclass=\"0x038000\"/>"
      "</gpu></pci></cpu></system>";
  const auto read = import_text(xml, "rccl.xml");
  REQUIRE(read);
  CHECK(read->node->interconnect == GpuInterconnect::mesh);
  CHECK(read->node->nvlinks_per_pair == 1);
}

TEST_CASE("input: the heading of nvidia-smi may be underlined for a terminal") {
  std::string text = four_gpus;
  text.replace(0, text.find('\n'),
               "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\x1b[0m");
  const auto read = import_text(text, "topo.txt");
  REQUIRE(read);
  CHECK(read->node->gpus == 4);
  CHECK(read->node->nics == 2);
}

TEST_CASE("input: blocks of Slurm are switches of their nodes") {
  const auto read = import_text(
      "BlockName=b1 Nodes=n[00-17]\nBlockName=b2 Nodes=n[18-35]\nBlockSizes=18,36\n", "t");
  REQUIRE(read);
  CHECK(read->format == "Slurm topology.conf");
  CHECK(read->wiring->hosts.size() == 36);
  CHECK(read->wiring->switches.size() == 3);  // and one above them
  CHECK(read->wiring->cables.size() == 38);
}

TEST_CASE("input: the largest number of a host is a host, and a list of it ends") {
  const auto read = import_text("SwitchName=a Nodes=n[2147483647]\n", "t");
  REQUIRE(read);
  CHECK(read->wiring->hosts == std::vector<std::string>{"n2147483647"});
}

TEST_CASE("input: aggregation nodes and adapters without a host's name are no hosts") {
  const std::string text =
      "Switch 41 \"S-01\"  # \"leaf0\" enhanced port 0 lid 4 lmc 0\n"
      "[1] \"H-01\"[1](aa)  # \"node1 mlx5_0\" lid 17 4xHDR\n"
      "[2] \"H-02\"[1](ab)  # \"MT4123 ConnectX6   Mellanox Technologies\" lid 18 4xHDR\n"
      "[3] \"H-03\"[1](ac)  # \"node2 HCA-1\" lid 19 4xHDR\n"
      "[41] \"H-04\"[1](ad)  # \"Mellanox Technologies Aggregation Node\" lid 5 4xHDR\n"
      "Ca 1 \"H-01\"  # \"node1 mlx5_0\"\n"
      "[1](aa) \"S-01\"[1]  # lid 17 lmc 0 \"leaf0\" lid 4 4xHDR\n"
      "Ca 1 \"H-04\"  # \"Mellanox Technologies Aggregation Node\"\n"
      "[1](ad) \"S-01\"[41]  # lid 5 lmc 0 \"leaf0\" lid 4 4xHDR\n";
  const auto read = import_text(text, "ib.txt");
  REQUIRE(read);
  CHECK(read->wiring->hosts == std::vector<std::string>{"node1", "node2"});
  CHECK(read->wiring->cables.size() == 2);
}
