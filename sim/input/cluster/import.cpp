#include "sim/input/cluster/import.h"

#include <fmt/format.h>

#include "sim/input/text/textproto.h"

namespace sim::input {

namespace {

// Removes the escape sequences that underline the heading of `nvidia-smi topo -m`.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '[') ++i;
    while (i + 1 < text.size() && !((text[i + 1] | 0x20) >= 'a' && (text[i + 1] | 0x20) <= 'z'))
      ++i;
    ++i;
  }
  return plain;
}

}  // namespace

Result<Imported> import_text(const std::string& given, const std::string& path) {
  const std::string text = given.find('\x1b') == std::string::npos ? given : without_escapes(given);
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '<') return import_nccl_xml(text, path);
  if (has("SwitchName=") || has("BlockName=")) return import_slurm(text, path);
  if (has("GPU0") && (has("CPU Affinity") || has(" X "))) return import_nvidia_smi(text, path);
  if (has("vendid=") || has("switchguid=") || has("caguid=") || text.starts_with("Switch"))
    return import_ibnetdiscover(text, path);
  return Diagnostics{{path,
                      "not a topology that is read: NCCL topology XML, `nvidia-smi topo -m`, "
                      "Slurm's topology.conf or ibnetdiscover"}};
}

Result<Imported> import_topology(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.errors();
  return import_text(*text, path);
}

std::string node_text(const topology::Node& node, const std::string& source) {
  using topology::GpuInterconnect;
  const auto numbers = [](const std::vector<int>& all) {
    return fmt::format("[{}]", fmt::join(all, ", "));
  };
  const auto rate = [](Bandwidth b) { return fmt::format("\"{:g}GB/s\"", gb_per_second(b)); };
  std::string text = fmt::format("node {{\n  gpus: {}\n  interconnect: {}\n", node.gpus,
                                 topology::name(node.interconnect));
  if (node.interconnect == GpuInterconnect::nvswitch)
    text += fmt::format("  nvlinks_per_gpu: {}\n", node.nvlinks_per_gpu);
  if (node.interconnect == GpuInterconnect::mesh)
    text += fmt::format("  nvlinks_per_pair: {}\n", node.nvlinks_per_pair);
  for (const topology::NvlinkPair& pair : node.pairs)
    text += fmt::format("  nvlink_pair {{ a: {} b: {} links: {} }}\n", pair.a, pair.b, pair.links);
  const auto said = [&](const char* field, Bandwidth value, const char* comment) {
    text += value.bytes_per_second > 0
                ? fmt::format("  {}: {}\n", field, rate(value))
                : fmt::format("  # {}: the file does not say; {}\n", field, comment);
  };
  if (node.interconnect != GpuInterconnect::pcie)
    said("nvlink_bandwidth", node.nvlink, "25GB/s a link on A100 and H100, 50 on B200");
  said("pcie_bandwidth", node.pcie, "31.5GB/s for Gen4 x16, 63 for Gen5");
  if (node.nics > 0) {
    text += fmt::format("  nics: {}\n", node.nics);
    said("nic_bandwidth", node.nic, "one direction, for example 400Gb/s");
    text += fmt::format("  nic_of_gpu: {}\n", numbers(node.nic_of_gpu));
  }
  if (node.sockets > 1) {
    text += fmt::format("  sockets: {}\n  socket_of_gpu: {}\n", node.sockets,
                        numbers(node.socket_of_gpu));
    if (node.nics > 0) text += fmt::format("  socket_of_nic: {}\n", numbers(node.socket_of_nic));
  }
  return text + fmt::format("  cpu: {}\n  source: \"{}\"\n}}\n", topology::name(node.cpu), source);
}

}  // namespace sim::input
