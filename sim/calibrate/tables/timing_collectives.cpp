// timing_collectives.cpp — predicts collectives of nccl.csv by kind, GPUs, nodes and size. Rows are
// compared from 1 MB on, on nodes with NVSwitch, over networks that the row names.
#include <fmt/format.h>

#include <regex>

#include "sim/calibrate/tables/timing_kernels.h"

namespace sim::calibrate {

namespace {

using collective::Kind;

constexpr std::int64_t least_bytes = 1'000'000;

std::optional<Kind> kind_of(std::string_view name) {
  if (name == "all_reduce") return Kind::all_reduce;
  if (name == "all_gather") return Kind::all_gather;
  if (name == "reduce_scatter") return Kind::reduce_scatter;
  if (name == "alltoall" || name == "all2all") return Kind::all_to_all;
  return std::nullopt;
}

// Reason why a row does not measure NCCL's own choice on the GPU's clock; "" if it does.
std::string measured_otherwise(const std::string& notes, const std::string& algorithm) {
  if (notes.find("host-timed") != std::string::npos) return "timed from the host";
  if (!algorithm.empty() && !algorithm.starts_with("auto")) return "algorithm forced: " + algorithm;
  if (algorithm.find("NCCL_") != std::string::npos)
    return "NCCL's settings changed: " + algorithm.substr(0, 80);
  return "";
}

// One group over the first `each` GPUs of every node.
network::Groups over_nodes(std::int64_t nodes, std::int64_t each, int per_node) {
  network::Groups group;
  group.ranks.emplace_back();
  for (std::int64_t n = 0; n < nodes; ++n)
    for (std::int64_t g = 0; g < each; ++g)
      group.ranks[0].push_back(static_cast<int>(n * per_node + g));
  return group;
}

}  // namespace

void time_collectives(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out) {
  Timing& t = out.emplace_back();
  const auto text = [&](std::string_view column) {
    const auto found = row.cells.find(column);
    return found == row.cells.end() ? std::string() : found->second;
  };
  const std::int64_t gpus = size_in(row, "n_gpus"), nodes = size_in(row, "nodes");
  t.group = fmt::format("{}, {} x{} on {}", text("gpu"), text("collective"), gpus, nodes);
  // Within a node NVLink, between nodes the NICs and the network: "over IB NDR 8x400Gb/s per node".
  const std::string carried = text(nodes == 1 ? "intra_net" : "inter_net");
  if (!carried.empty())
    t.fabric = fmt::format("over {}{}", carried.substr(0, carried.find(" (")),
                           nodes == 1 ? ", one node" : "");
  const std::int64_t bytes = size_in(row, "bytes");
  const std::optional<Kind> kind = kind_of(text("collective"));
  if (!kind) {
    t.reason = "collective '" + text("collective") + "' is not compared";
    return;
  }
  if (gpus < 2 || nodes < 1 || bytes == 0 || gpus > 1 << 20 || gpus % nodes != 0) {
    t.reason = "no shape";
    return;
  }
  if (bytes < least_bytes) {
    t.reason = "below 1 MB";
    return;
  }
  const std::string net = text("inter_net");
  static const std::regex links(R"((\d{1,2})x(\d{2,4})Gb/s)");
  std::smatch found;
  const bool named = nodes == 1 || (net.size() < 200 && std::regex_search(net, found, links));
  if (!named || net.find("unstated") != std::string::npos) {
    t.reason = "the fabric is not stated";
    return;
  }
  t.reason = measured_otherwise(text("notes"), text("algo"));
  if (!t.reason.empty()) return;
  answer::Site* site = site_of(text("gpu"), sites, t);
  if (site == nullptr) return;
  if (site->machine.cluster.node.interconnect != topology::GpuInterconnect::nvswitch) {
    t.reason = "no NVSwitch";
    return;
  }
  answer::SiteChange change;
  if (nodes > site->machine.cluster.nodes) change.nodes = static_cast<int>(nodes);
  if (nodes > 1) {
    change.nics = std::stoi(found[1]);
    change.nic = {std::stoll(found[2]) * 125'000'000};
  }
  const Result<answer::Site*> own = sites.find(cluster_of_gpu(text("gpu")), "", change);
  if (!own || gpus / nodes > (*own)->machine.cluster.node.gpus) {
    t.reason = "the machine cannot be built";
    return;
  }
  const network::Groups group = over_nodes(nodes, gpus / nodes, (*own)->machine.cluster.node.gpus);
  t.measured_us = number(text("time_us_oop")).value_or(0);
  if (const std::optional<double> bus = number(text("busbw_oop"));
      t.measured_us <= 0 && bus && *bus > 0)
    t.measured_us = collective::bus_factor(*kind, static_cast<int>(gpus)) *
                    static_cast<double>(bytes) / *bus * 1e-3;
  t.predicted_us = 1e6 * seconds((*own)->network->duration(*kind, group, Bytes{bytes}));
}

}  // namespace sim::calibrate
