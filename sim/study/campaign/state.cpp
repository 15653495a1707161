#include "sim/study/campaign/state.h"

#include <algorithm>

#include "sim/model/architecture.h"
#include "sim/study/tune/link_use.h"

namespace sim::campaign {
namespace {

// Parameters of the adapters: a pair of matrices for each product with an adapter.
double adapter_parameters(const program::Plan& plan) {
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

// Number of nodes of the job, including a partly used last one.
double nodes_of(const program::Plan& plan, const answer::Site& site) {
  return topology::nodes_of(plan.world(), site.machine.cluster.node.gpus);
}

// Adds the share of the step in which its own traffic uses PCIe and the NICs.
void add_busy(const answer::CheckedPlan& plan, double step, Ways& ways) {
  const answer::Site& site = plan.site();
  const std::vector<study::LinkUse> uses = study::link_use(plan, sim::from_seconds(step));
  if (uses.empty()) return;
  for (const study::LinkKindUse& kind : study::by_kind(uses, site.network->cover(1))) {
    const auto has = [&](const char* part) { return kind.kind.find(part) != std::string::npos; };
    const double mean = std::min(kind.mean, 0.95);
    if (has("NIC")) {
      ways.nics = std::max(ways.nics, mean);
    } else if (has("PCIe") || has("host")) {
      ways.pcie = std::max(ways.pcie, mean);
    }
  }
}

}  // namespace

double state_parameters(const program::Plan& plan) {
  return plan.trains_adapters() ? adapter_parameters(plan)
                                : static_cast<double>(model::parameters(plan.architecture));
}

ParameterBytes parameter_bytes(const program::Plan& plan) {
  const program::OptimizerOptions& o = plan.optimizer;
  const double moments = o.exp_avg_bytes + o.exp_avg_sq_bytes;
  // Sharded parameters are fp32 and need no second copy.
  if (plan.shards_parameters()) return {0, 4 + moments};
  return {2, o.main_parameter_bytes + moments};
}

double state_bytes(const program::Plan& plan) {
  const ParameterBytes bytes = parameter_bytes(plan);
  return state_parameters(plan) * (bytes.replicated + bytes.divided);
}

double fabric_seconds(const program::Plan& plan, answer::Site& site, double bytes_of_rank) {
  const int per_node = site.machine.cluster.node.gpus;
  const int nodes = plan.world() / per_node;
  if (nodes < 2 || bytes_of_rank < 1) return 0;
  network::Groups rings;
  for (int gpu = 0; gpu < per_node; ++gpu) {
    std::vector<int> ring;
    for (int node = 0; node < nodes; ++node) ring.push_back(node * per_node + gpu);
    rings.ranks.push_back(std::move(ring));
  }
  return sim::seconds(site.network->duration(collective::Kind::ring_exchange, rings,
                                             {static_cast<std::int64_t>(bytes_of_rank)}));
}

Ways ways_of(const program::ValidPlan& valid, answer::Site& site, double step) {
  const program::Plan& plan = valid;
  Ways ways;
  ways.bytes = state_bytes(plan);
  if (step > 0) add_busy(*answer::check(valid, site), step, ways);
  const double pcie = rate(site.machine.cluster.node.pcie);
  if (pcie > 0) ways.host = ways.bytes / plan.world() / pcie;
  ways.fabric = fabric_seconds(plan, site, ways.bytes / plan.world());
  return ways;
}

Tier tier_of(const input::CheckpointFields& from, const Ways& ways, const program::Plan& plan,
             const answer::Site& site, double step) {
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
  // An overlapped copy shares PCIe with the step, whose traffic has priority.
  const double staged =
      from.overlapped ? std::max(0.0, ways.host / (1 - ways.pcie) - step) : ways.host;
  const double behind = node.nics * rate(node.nic) > 0 && !from.in_memory
                            ? per_node / (node.nics * rate(node.nic)) * ways.nics
                            : written * ways.nics;
  const double delays = behind + (from.overlapped ? ways.host * ways.pcie : 0);
  const double stands = from.asynchronous ? staged + delays : written;
  Tier tier;
  tier.name = from.name;
  tier.interval = span(std::max(0.0, from.interval));
  tier.blocking = span(from.write >= 0 ? from.write : from.fixed + stands);
  tier.background = span(from.background >= 0 ? from.background : from.asynchronous ? written : 0);
  tier.load = span(from.load >= 0 ? from.load : read);
  tier.survives = from.survives >= 0 ? from.survives
                  : from.in_memory   ? from.copies
                                     : survives_everything;
  return tier;
}

}  // namespace sim::campaign
