#include "sim/campaign/state.h"

#include <algorithm>

#include "sim/model/architecture.h"
#include "sim/search/link_use.h"

namespace sim::campaign {
namespace {

// Parameters of the adapters: a pair of matrices beside each product that has one.
double adapter_parameters(const workload::Plan& plan) {
  const model::Architecture& a = plan.architecture;
  const double hidden = static_cast<double>(a.hidden), ffn = static_cast<double>(a.ffn);
  const double query = static_cast<double>(a.query_width());
  const double qkv = query + 2 * static_cast<double>(a.kv_width());
  const double halves = a.activation == model::Activation::swiglu ? 2 : 1;
  double widths = 0;
  if (plan.lora.qkv) widths += hidden + qkv;
  if (plan.lora.projection) widths += query + hidden;
  if (plan.lora.fc1) widths += hidden + halves * ffn;
  if (plan.lora.fc2) widths += ffn + hidden;
  return static_cast<double>(a.layers) * plan.lora.rank * widths;
}

double rate(Bandwidth bandwidth) {
  return static_cast<double>(bandwidth.bytes_per_second);
}

// Nodes that the job stands on, the last one perhaps in part.
double nodes_of(const workload::Plan& plan, const search::Site& site) {
  const int per_node = site.machine.cluster.node.gpus;
  return (plan.world() + per_node - 1) / per_node;
}

// Every rank's share to the same GPU of the next node.
double fabric_seconds(const workload::Plan& plan, search::Site& site, double bytes) {
  const int per_node = site.machine.cluster.node.gpus;
  const int nodes = plan.world() / per_node;
  if (nodes < 2) return 0;
  network::Groups rings;
  for (int gpu = 0; gpu < per_node; ++gpu) {
    std::vector<int> ring;
    for (int node = 0; node < nodes; ++node) ring.push_back(node * per_node + gpu);
    rings.ranks.push_back(std::move(ring));
  }
  return sim::seconds(site.network->duration(collective::Kind::ring_exchange, rings,
                                             {static_cast<std::int64_t>(bytes / plan.world())}));
}

// What the step puts on the links between a GPU and its host, as a share of them.
double pcie_busy(const workload::Plan& plan, search::Site& site, double step) {
  if (step <= 0) return 0;
  const std::vector<search::LinkUse> uses = search::link_use(plan, site, sim::from_seconds(step));
  if (uses.empty()) return 0;
  double busy = 0;
  for (const search::LinkKindUse& kind : search::by_kind(uses, site.network->cover(1)))
    if (kind.kind.find("NIC") == std::string::npos &&
        (kind.kind.find("PCIe") != std::string::npos ||
         kind.kind.find("host") != std::string::npos))
      busy = std::max(busy, kind.mean);
  return std::min(busy, 0.95);
}

}  // namespace

double state_bytes(const workload::Plan& plan) {
  const double parameters = plan.trains_adapters()
                                ? adapter_parameters(plan)
                                : static_cast<double>(model::parameters(plan.architecture));
  const workload::OptimizerOptions& o = plan.optimizer;
  const double moments = o.exp_avg_bytes + o.exp_avg_sq_bytes;
  // Sharded parameters are their own fp32 copy.
  const double weights = plan.shards_parameters() ? 4 : 2 + o.main_parameter_bytes;
  return parameters * (weights + moments);
}

Ways ways_of(const workload::Plan& plan, search::Site& site, double step) {
  Ways ways;
  ways.bytes = state_bytes(plan);
  ways.pcie_left = 1 - pcie_busy(plan, site, step);
  const double pcie = rate(site.machine.cluster.node.pcie);
  if (pcie > 0) ways.host = ways.bytes / plan.world() / (pcie * ways.pcie_left);
  ways.fabric = fabric_seconds(plan, site, ways.bytes);
  return ways;
}

Tier tier_of(const config::CheckpointFields& from, const Ways& ways, const workload::Plan& plan,
             const search::Site& site, double step) {
  const topology::Node& node = site.machine.cluster.node;
  const double per_node = ways.bytes / nodes_of(plan, site);
  const auto way = [&](Bandwidth storage) {
    double slowest = 0;
    if (rate(storage) > 0) slowest = std::max(slowest, ways.bytes / rate(storage));
    const double nics = rate(from.node) > 0 ? rate(from.node) : node.nics * rate(node.nic);
    if (nics > 0) slowest = std::max(slowest, per_node / nics);
    if (rate(from.writer) > 0)
      slowest = std::max(slowest, ways.bytes / plan.world() / rate(from.writer));
    return slowest;
  };
  const double written = from.in_memory ? from.copies * ways.fabric : way(from.storage);
  const double read =
      from.in_memory ? ways.fabric : way(rate(from.read) > 0 ? from.read : from.storage);
  const double staged = from.overlapped ? std::max(0.0, ways.host - step) : ways.host;
  Tier tier;
  tier.name = from.name;
  tier.interval = span(std::max(0.0, from.interval));
  tier.blocking = span(from.write >= 0 ? from.write : from.asynchronous ? staged : written);
  tier.background = span(from.background >= 0 ? from.background : from.asynchronous ? written : 0);
  tier.load = span(from.load >= 0 ? from.load : read);
  tier.survives = from.survives >= 0 ? from.survives
                  : from.in_memory   ? from.copies
                                     : survives_everything;
  return tier;
}

}  // namespace sim::campaign
