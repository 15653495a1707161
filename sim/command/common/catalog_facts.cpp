#include "sim/command/common/catalog_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/base/text.h"

namespace sim::command {

namespace {

// "NVSwitch 300 GB/s": the links between the GPUs of a node, of one GPU in one direction.
std::string links_text(const topology::Node& node) {
  using topology::GpuInterconnect;
  const double link = gb_per_second(node.nvlink);
  switch (node.interconnect) {
    case GpuInterconnect::nvswitch:
      return fmt::format("NVSwitch {:g} GB/s", node.nvlinks_per_gpu * link);
    case GpuInterconnect::mesh:
      return fmt::format("NVLink mesh {:g} GB/s", node.nvlinks_per_pair * (node.gpus - 1) * link);
    case GpuInterconnect::direct:
      return fmt::format("NVLink between pairs {:g} GB/s",
                         node.pairs.empty() ? 0 : node.pairs.front().links * link);
    case GpuInterconnect::pcie:
      break;
  }
  return fmt::format("PCIe {:g} GB/s", gb_per_second(node.pcie));
}

std::string nics_text(const topology::Cluster& cluster) {
  const topology::Node& node = cluster.node;
  if (node.nics == 0) return "no NICs";
  const std::vector<std::string>& names = cluster.fabric.transport.names;
  return fmt::format("{} of {:g} Gb/s{}", counted(node.nics, "NIC"), 8 * gb_per_second(node.nic),
                     names.empty() ? "" : " (" + names.front() + ")");
}

std::string fabric_text(const topology::Fabric& fabric) {
  return fabric.oversubscription > 1
             ? fmt::format("{} {:g}:1", topology::name(fabric.kind), fabric.oversubscription)
             : std::string(topology::name(fabric.kind));
}

std::string gpu_text(const device::Gpu& gpu) {
  std::string rates;
  const auto add = [&](const char* name, double flops) {
    if (flops > 0) rates += fmt::format(", {} {:g}", name, flops * 1e-12);
  };
  add("bf16", gpu.bf16_flops);
  add("tf32", gpu.tf32_flops);
  add("fp32", gpu.fp32_flops);
  add("fp8", gpu.fp8_flops);
  add("fp4", gpu.fp4_flops);
  return fmt::format("GPU {}: {} at {:g} GB/s, {} SMs; dense TFLOP/s: {}{}", gpu.name,
                     human(gpu.memory), gb_per_second(gpu.hbm), gpu.sms, rates.substr(2),
                     gpu.rated_power_w > 0 ? fmt::format("; {:g} W", gpu.rated_power_w) : "");
}

std::string cpu_text(const topology::Node& node) {
  std::string text =
      fmt::format("CPU: {}, {}", topology::name(node.cpu), counted(node.sockets, "socket"));
  if (node.cpu_cores > 0) text += fmt::format(", {} cores", node.cpu_cores);
  if (node.cpu_memory.n > 0) text += ", " + human(node.cpu_memory);
  if (node.cpu_memory_bandwidth.bytes_per_second > 0)
    text += fmt::format(" at {:g} GB/s", gb_per_second(node.cpu_memory_bandwidth));
  return text;
}

}  // namespace

std::string cluster_line(const input::Machine& machine) {
  const topology::Cluster& cluster = machine.cluster;
  return fmt::format("{} x {} {}, {}, {}, {}", cluster.nodes, cluster.node.gpus, machine.gpu.name,
                     links_text(cluster.node), nics_text(cluster), fabric_text(cluster.fabric));
}

std::vector<std::string> cluster_facts(const input::Machine& machine) {
  const topology::Cluster& cluster = machine.cluster;
  const topology::Node& node = cluster.node;
  std::vector<std::string> all;
  all.push_back(fmt::format("{} of {}: {}", counted(cluster.nodes, "node"),
                            counted(node.gpus, "GPU"), counted(cluster.gpus(), "GPU")));
  all.push_back(gpu_text(machine.gpu));
  all.push_back(fmt::format("links: {} per GPU and direction; PCIe {:g} GB/s", links_text(node),
                            gb_per_second(node.pcie)));
  all.push_back(fmt::format("network: {} per node, {:g} GB/s per GPU", nics_text(cluster),
                            node.nics * gb_per_second(node.nic) / node.gpus));
  all.push_back(
      fmt::format("fabric: {}{}", fabric_text(cluster.fabric),
                  cluster.fabric.nodes_per_leaf > 0
                      ? fmt::format(", {} per leaf", counted(cluster.fabric.nodes_per_leaf, "node"))
                      : ""));
  all.push_back(cpu_text(node));
  all.push_back(fmt::format("kernels: calibration/{}.textproto", machine.gpu.profile));
  if (machine.price_per_gpu_hour > 0)
    all.push_back(fmt::format("price: {:g} per GPU and hour", machine.price_per_gpu_hour));
  return all;
}

std::string model_line(const model::Architecture& model) {
  const auto billions = [](std::int64_t count) { return static_cast<double>(count) * 1e-9; };
  const std::string all = fmt::format("{:.1f} B parameters", billions(model::parameters(model)));
  if (!model.is_mixture()) return all;
  return all + fmt::format(", {:.1f} B active", billions(model::active_parameters(model)));
}

std::vector<std::string> model_facts(const model::Architecture& model) {
  std::vector<std::string> all;
  all.push_back(fmt::format("{}, hidden size {}, vocabulary {}, {} positions",
                            counted(model.layers, "layer"), model.hidden, model.vocab,
                            model.max_positions));
  all.push_back(fmt::format(
      "attention: {} of {}, {}{}", counted(model.heads, "head"), model.head_dim,
      counted(model.kv_heads, "key-value head"),
      model.is_latent()
          ? fmt::format("; latent (MLA), keys and values of rank {}", model.latent.kv_rank)
          : ""));
  all.push_back(fmt::format("MLP: width {}, {}", model.ffn,
                            model.activation == model::Activation::swiglu ? "SwiGLU" : "GELU"));
  if (model.is_mixture())
    all.push_back(
        fmt::format("experts: {} of width {}, {} per token{}; {} of the layers have them",
                    model.experts.count, model.experts.ffn, model.experts.top_k,
                    model.experts.shared_ffn > 0
                        ? fmt::format(", a shared one of width {}", model.experts.shared_ffn)
                        : "",
                    model::mixture_count(model)));
  if (model.tied_embeddings) all.emplace_back("embedding and output layer share their weights");
  return all;
}

std::string top_comment(const std::string& text) {
  std::istringstream lines(text);
  std::string comment;
  for (std::string line; std::getline(lines, line) && line.starts_with('#');) {
    const std::size_t at = line.find_first_not_of("# ");
    if (at == std::string::npos) {
      if (!comment.empty()) comment += '\n';
    } else {
      if (!comment.empty() && comment.back() != '\n') comment += ' ';
      comment += line.substr(at);
    }
  }
  return comment;
}

std::string first_sentence(const std::string& comment) {
  std::size_t end = comment.find('\n');
  if (end == std::string::npos) end = comment.size();
  for (std::size_t at = 0; (at = comment.find(". ", at)) < end; ++at) {
    const char next = at + 2 < comment.size() ? comment[at + 2] : ' ';
    if (next >= 'A' && next <= 'Z') {
      end = at + 1;
      break;
    }
  }
  const std::string sentence = comment.substr(0, end);
  return sentence.ends_with('.') ? sentence.substr(0, sentence.size() - 1) : sentence;
}

std::vector<std::string> sources_in(const std::string& text) {
  constexpr std::string_view field = "source: ";
  std::vector<std::string> all;
  for (std::size_t at = 0; (at = text.find(field, at)) != std::string::npos;) {
    at += field.size();
    std::string source;
    // Strings that follow each other are one.
    while (at < text.size() && text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        source += text[at];
      }
      at = std::min(text.find_first_not_of(" \n", at + 1), text.size());
    }
    if (!source.empty() && std::ranges::find(all, source) == all.end())
      all.push_back(std::move(source));
  }
  return all;
}

}  // namespace sim::command
