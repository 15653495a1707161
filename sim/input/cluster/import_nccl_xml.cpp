// import_nccl_xml.cpp — reads NCCL's topology XML: CPUs, PCI switches, GPUs with NVLinks, NICs.
//
// NCCL writes it to NCCL_TOPO_DUMP_FILE; clouds ship such files.
//
//     <system><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD"><pci class="0x060400" ...>
//       <pci class="0x030200" busid="..." link_speed="16 GT/s" link_width="16">
//         <gpu dev="0" sm="80">
//         <nvlink target="..." count="12" tclass="0x068000"/></gpu></pci>
//       <pci class="0x020700"><nic><net name="mlx5_0" dev="0" speed="200000"/></nic></pci> ...
//
// AMD's RCCL writes <xgmi> instead of <nvlink>. A cloud's file may have neither <gpu> nor <net>.
// GPUs and NICs are then the PCI devices of their classes, and the NVLinks are unknown.
//
// expat parses the file. A document type is refused, because it could declare entities. Source:
// NVIDIA/nccl v2.27, src/graph/xml.cc.
#include <expat.h>

#include <algorithm>
#include <map>

#include "sim/base/ascii.h"
#include "sim/input/cluster/import.h"
#include "sim/input/cluster/import_text.h"

namespace sim::input {
namespace {

constexpr int deepest = 64;
constexpr std::size_t most_devices = 1024;

struct Gpu {
  int socket = 0, dev = 0;
  std::vector<int> switches;  // its parent elements, outermost first
  double pcie = 0;
  std::string bus;
  int links_to_switches = 0, sm = 0;
  std::vector<std::pair<std::string, int>> links;
};

struct Nic {
  int socket = 0;
  std::vector<int> switches;
  double rate = 0;
};

struct XmlReader {
  XML_Parser parser = nullptr;
  std::string path;
  Diagnostics problems;
  std::vector<int> above;  // numbers of the open elements
  int elements = 0, sockets = 0;
  std::string bus;
  double pcie = 0;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  // PCI devices of the GPU or network controller class. They count if the file has no <gpu> or
  // <net>, as in NCCL.
  std::vector<Gpu> gpu_functions;
  std::vector<Nic> nic_functions;
  topology::HostCpu cpu = topology::HostCpu::intel;
  bool system = false;

  void problem(const std::string& text) {
    problems.push_back({fmt::format("{}:{}:{}", path, XML_GetCurrentLineNumber(parser),
                                    XML_GetCurrentColumnNumber(parser) + 1),
                        text});
    XML_StopParser(parser, XML_FALSE);
  }
};

std::string value_of(const char** attributes, std::string_view name) {
  for (; *attributes != nullptr; attributes += 2) {
    if (name == attributes[0]) return attributes[1];
  }
  return "";
}

// Bytes per second of "16 GT/s PCIe" and width "16", after the encoding of the PCIe generation.
double pcie_rate(const std::string& speed, const std::string& width) {
  const double transfers = std::atof(speed.c_str());
  const double said = std::atof(width.c_str());
  const double lanes = said > 0 ? said : 16;  // NCCL: width 0 is unknown, counts as 16
  const double coded = transfers > 5 ? 128.0 / 130.0 : 0.8;
  const double rate = transfers * 1e9 * lanes / 8 * coded;
  return rate > 0 && rate < 1e13 ? rate : 0;
}

void function_of(XmlReader& r, const std::string& pci_class) {
  const int socket = std::max(0, r.sockets - 1);
  if (pci_class.starts_with("0x0302") && r.gpu_functions.size() < most_devices) {
    Gpu& gpu = r.gpu_functions.emplace_back();
    gpu.socket = socket;
    gpu.dev = static_cast<int>(r.gpu_functions.size()) - 1;
    gpu.switches = r.above;
    gpu.pcie = r.pcie;
    gpu.bus = lower(r.bus);
  }
  const bool network = pci_class.starts_with("0x0207") || pci_class.starts_with("0x0200");
  if (network && r.nic_functions.size() < most_devices)
    r.nic_functions.push_back({socket, r.above, 0});
}

void begin_element(void* data, const char* name_text, const char** attributes) {
  XmlReader& r = *static_cast<XmlReader*>(data);
  const std::string_view name = name_text;
  r.above.push_back(r.elements++);
  if (static_cast<int>(r.above.size()) > deepest) return r.problem("elements are nested too deep");
  const auto text = [&](const char* key) { return value_of(attributes, key); };
  if (name == "system") {
    r.system = true;
  } else if (name == "cpu") {
    ++r.sockets;
    if (text("vendor") == "AuthenticAMD") r.cpu = topology::HostCpu::amd;
    if (text("arch") == "arm64") r.cpu = topology::HostCpu::arm;
  } else if (name == "pci") {
    r.bus = text("busid");
    r.pcie = pcie_rate(text("link_speed"), text("link_width"));
    function_of(r, text("class"));
  } else if (name == "gpu") {
    if (r.gpus.size() >= most_devices) return r.problem("more than 1024 GPUs");
    Gpu& gpu = r.gpus.emplace_back();
    gpu.socket = std::max(0, r.sockets - 1);
    gpu.dev = std::max(0, number_of(text("dev")));
    gpu.sm = std::max(0, number_of(text("sm")));
    gpu.switches = r.above;
    gpu.pcie = r.pcie;
    gpu.bus = lower(r.bus);
  } else if (name == "nvlink" || name == "xgmi") {
    if (r.gpus.empty()) return r.problem(fmt::format("an {} outside of a gpu", name));
    const int count = number_of(text("count"));
    if (count < 1 || count > 1024)
      return r.problem(fmt::format("{}: 'count' must be 1 ... 1024", name));
    Gpu& gpu = r.gpus.back();
    if (text("tclass").starts_with("0x0680")) {
      gpu.links_to_switches += count;
    } else {
      gpu.links.emplace_back(lower(text("target")), count);
    }
  } else if (name == "net") {
    if (r.nics.size() >= most_devices) return r.problem("more than 1024 NICs");
    // Mb/s. Files with Slingshot NICs use kb/s (200000000 for 200 Gb/s).
    constexpr int fastest = 10'000'000;
    const int speed = std::max(0, number_of(text("speed")));
    r.nics.push_back(
        {std::max(0, r.sockets - 1), r.above, speed * (speed > fastest ? 1e3 : 1e6) / 8});
  }
}

void end_element(void* data, const char*) {
  static_cast<XmlReader*>(data)->above.pop_back();
}

void refuse_doctype(void* data, const char*, const char*, const char*, int) {
  static_cast<XmlReader*>(data)->problem("a document type: entities are not read");
}

// The number of common parent elements of two devices: more means nearer.
std::size_t common(const std::vector<int>& a, const std::vector<int>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

void link_gpus(const std::vector<Gpu>& gpus, topology::Node& node) {
  using topology::GpuInterconnect;
  std::map<std::string, int> by_bus;
  for (std::size_t i = 0; i < gpus.size(); ++i) by_bus[gpus[i].bus] = static_cast<int>(i);
  node.interconnect = GpuInterconnect::pcie;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    node.nvlinks_per_gpu = std::max(node.nvlinks_per_gpu, gpus[i].links_to_switches);
    for (const auto& [target, count] : gpus[i].links) {
      const auto peer = by_bus.find(target);
      if (peer == by_bus.end() || peer->second <= static_cast<int>(i)) continue;
      node.pairs.push_back({static_cast<int>(i), peer->second, count});
    }
  }
  if (node.nvlinks_per_gpu > 0) {
    node.interconnect = GpuInterconnect::nvswitch;
    node.pairs.clear();
  } else if (!node.pairs.empty()) {
    const bool alike = std::ranges::all_of(
        node.pairs, [&](const auto& pair) { return pair.links == node.pairs.front().links; });
    node.interconnect = GpuInterconnect::direct;
    if (alike && node.pairs.size() == gpus.size() * (gpus.size() - 1) / 2) {
      node.interconnect = GpuInterconnect::mesh;
      node.nvlinks_per_pair = node.pairs.front().links;
      node.pairs.clear();
    }
  }
}

topology::Node node_of(XmlReader& r) {
  std::ranges::stable_sort(r.gpus, {}, &Gpu::dev);
  topology::Node node;
  node.gpus = static_cast<int>(r.gpus.size());
  node.nics = static_cast<int>(r.nics.size());
  node.sockets = std::max(1, r.sockets);
  node.cpu = r.cpu;
  link_gpus(r.gpus, node);
  std::vector<int> taken(r.nics.size(), 0);
  double slowest = 0;
  for (const Nic& nic : r.nics) {
    node.socket_of_nic.push_back(nic.socket);
    if (nic.rate > 0 && (slowest == 0 || nic.rate < slowest)) slowest = nic.rate;
  }
  node.nic = {static_cast<std::int64_t>(slowest)};
  for (const Gpu& gpu : r.gpus) {
    node.socket_of_gpu.push_back(gpu.socket);
    if (gpu.pcie > 0) node.pcie = {static_cast<std::int64_t>(gpu.pcie)};
    std::size_t best = 0;
    for (std::size_t nic = 1; nic < r.nics.size(); ++nic) {
      const std::size_t near = common(gpu.switches, r.nics[nic].switches);
      const std::size_t so_far = common(gpu.switches, r.nics[best].switches);
      if (near > so_far || (near == so_far && taken[nic] < taken[best])) best = nic;
    }
    if (r.nics.empty()) continue;
    ++taken[best];
    node.nic_of_gpu.push_back(static_cast<int>(best));
  }
  return node;
}

}  // namespace

Result<Imported> import_nccl_xml(const std::string& text, const std::string& path) {
  XmlReader reader;
  reader.path = path;
  reader.parser = XML_ParserCreate(nullptr);
  if (reader.parser == nullptr) return Diagnostics{{path, "no memory to read it"}};
  XML_SetUserData(reader.parser, &reader);
  XML_SetElementHandler(reader.parser, begin_element, end_element);
  XML_SetStartDoctypeDeclHandler(reader.parser, refuse_doctype);
  const auto status =
      XML_Parse(reader.parser, text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (status != XML_STATUS_OK && reader.problems.empty())
    reader.problem(fmt::format("not XML: {}", XML_ErrorString(XML_GetErrorCode(reader.parser))));
  XML_ParserFree(reader.parser);
  if (reader.problems.empty() && !reader.system)
    reader.problems.push_back({path, "no <system>: not a topology of NCCL"});
  const bool named = !reader.gpus.empty();
  if (!named) reader.gpus = std::move(reader.gpu_functions);
  if (reader.nics.empty()) reader.nics = std::move(reader.nic_functions);
  if (reader.problems.empty() && reader.gpus.empty())
    reader.problems.push_back(
        {path,
         "no <gpu> in it, and no PCI function of class 0x0302: NCCL adds the GPUs when "
         "it runs; NCCL_TOPO_DUMP_FILE writes what it found"});
  if (!reader.problems.empty()) return reader.problems;
  return Imported{"NCCL topology XML", node_of(reader), std::nullopt, named};
}

}  // namespace sim::input
