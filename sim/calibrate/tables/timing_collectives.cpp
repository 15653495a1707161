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

std::string cell(const input::TableRow& row, std::string_view column) {
  const auto found = row.cells.find(column);
  return found == row.cells.end() ? std::string() : found->second;
}

// The collective of a row.
struct Measured {
  std::optional<Kind> kind;
  std::int64_t gpus = 0, nodes = 0, bytes = 0;
  answer::SiteChange change;  // the nodes and NICs of the row
};

// Reads the shape of a row. Returns the reason why it is not compared, or "".
std::string read_collective(const input::TableRow& row, Measured& m) {
  m.kind = kind_of(cell(row, "collective"));
  if (!m.kind) return "collective '" + cell(row, "collective") + "' is not compared";
  if (m.gpus < 2 || m.nodes < 1 || m.bytes == 0 || m.gpus > 1 << 20 || m.gpus % m.nodes != 0)
    return "no shape";
  if (m.bytes < least_bytes) return "below 1 MB";
  const std::string net = cell(row, "inter_net");
  static const std::regex links(R"((\d{1,2})x(\d{2,4})Gb/s)");
  std::smatch found;
  const bool named = m.nodes == 1 || (net.size() < 200 && std::regex_search(net, found, links));
  if (!named || net.find("unstated") != std::string::npos) return "the fabric is not stated";
  if (m.nodes > 1) {
    m.change.nics = std::stoi(found[1]);
    m.change.nic = {std::stoll(found[2]) * 125'000'000};
  }
  return measured_otherwise(cell(row, "notes"), cell(row, "algo"));
}

// Microseconds: as measured, or from the bus bandwidth that NCCL's tests print.
double measured_us(const input::TableRow& row, const Measured& m) {
  const double time = number(cell(row, "time_us_oop")).value_or(0);
  const std::optional<double> bus = number(cell(row, "busbw_oop"));
  if (time > 0 || !bus || *bus <= 0) return time;
  return collective::bus_factor(*m.kind, static_cast<int>(m.gpus)) * static_cast<double>(m.bytes) /
         *bus * 1e-3;
}

}  // namespace

void time_collectives(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out) {
  Timing& t = out.emplace_back();
  Measured m;
  m.gpus = size_in(row, "n_gpus");
  m.nodes = size_in(row, "nodes");
  m.bytes = size_in(row, "bytes");
  t.group =
      fmt::format("{}, {} x{} on {}", cell(row, "gpu"), cell(row, "collective"), m.gpus, m.nodes);
  // Within a node NVLink, between nodes the NICs and the network: "over IB NDR 8x400Gb/s per node".
  const std::string carried = cell(row, m.nodes == 1 ? "intra_net" : "inter_net");
  if (!carried.empty())
    t.fabric = fmt::format("over {}{}", carried.substr(0, carried.find(" (")),
                           m.nodes == 1 ? ", one node" : "");
  t.reason = read_collective(row, m);
  if (!t.reason.empty()) return;
  const answer::Site* site = site_of(cell(row, "gpu"), sites, t);
  if (site == nullptr) return;
  if (site->machine.cluster.node.interconnect != topology::GpuInterconnect::nvswitch) {
    t.reason = "no NVSwitch";
    return;
  }
  if (m.nodes > site->machine.cluster.nodes) m.change.nodes = static_cast<int>(m.nodes);
  const Result<answer::Site*> own = sites.find(cluster_of_gpu(cell(row, "gpu")), "", m.change);
  if (!own || m.gpus / m.nodes > (*own)->machine.cluster.node.gpus) {
    t.reason = "the machine cannot be built";
    return;
  }
  const network::Groups group =
      over_nodes(m.nodes, m.gpus / m.nodes, (*own)->machine.cluster.node.gpus);
  t.measured_us = measured_us(row, m);
  t.predicted_us = 1e6 * seconds((*own)->network->duration(*m.kind, group, Bytes{m.bytes}));
}

}  // namespace sim::calibrate
