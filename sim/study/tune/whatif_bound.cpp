#include "sim/study/tune/whatif_bound.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::study {
namespace {

using output::WhatifRow;

bool changes(const std::vector<std::string>& settings, std::string_view prefix) {
  return std::ranges::any_of(settings, [&](const std::string& setting) {
    const std::string_view text = setting;
    return text.starts_with(prefix) ||
           (text.starts_with("cluster.") && text.substr(8).starts_with(prefix));
  });
}

// The busiest link outside or inside of nodes whose kind contains a word; nullptr: none is used.
const WhatifRow::Link* busiest(const WhatifRow& row, bool fabric, std::string_view word = "") {
  const WhatifRow::Link* most = nullptr;
  for (const WhatifRow::Link& link : row.links)
    if (link.fabric == fabric && link.kind.find(word) != std::string::npos &&
        (most == nullptr || link.busy > most->busy))
      most = &link;
  return most;
}

// The changed link is not the one that bounds, or compute hides it.
std::string beside(const WhatifRow::Link& changed, const WhatifRow& row) {
  const WhatifRow::Link* most = &changed;
  for (const WhatifRow::Link& link : row.links)
    if (link.busy > most->busy) most = &link;
  if (most == &changed)
    return fmt::format("{} is busy for {:.1f} % of the step, and compute hides that",
                       changed.busiest, 100 * changed.busy);
  return fmt::format("{} is busy for {:.1f} % of the step, {} for {:.1f} %", changed.busiest,
                     100 * changed.busy, most->busiest, 100 * most->busy);
}

std::string of_nvls(const answer::Site& site) {
  const topology::Node& node = site.machine.cluster.node;
  if (!site.profile.communication.nccl.nvls)
    return fmt::format("NVLS does not exist on {}", site.machine.gpu.name);
  if (node.interconnect != topology::GpuInterconnect::nvswitch)
    return "NVLS needs NVSwitches, and these nodes have none";
  return "no all-reduce of this plan is one that NCCL gives to NVLS";
}

// The variant changes the nodes' NICs.
std::string of_nics(const std::vector<std::string>& settings, const answer::Site& site,
                    const WhatifRow& row) {
  const WhatifRow::Link* out = busiest(row, true, "NIC");
  if (out == nullptr) return "no traffic of this plan leaves the nodes";
  const topology::Node& node = site.machine.cluster.node;
  const double slot = gb_per_second(node.pcie) * site.profile.communication.achieved.pcie;
  // A NIC above the raw rate of its slot has a note of its own (answer/cluster_notes.h).
  if (changes(settings, "node.nic_bandwidth") && gb_per_second(node.nic) > slot &&
      !topology::nics_exceed_slots(node))
    return fmt::format("the NIC of {:.0f} GB/s sits on a slot of {:.0f} GB/s, which carries {:.0f}",
                       gb_per_second(node.nic), gb_per_second(node.pcie), slot);
  return beside(*out, row);
}

// Why no traffic crosses a spine, and which settings make some cross.
std::string of_spines(const topology::Cluster& cluster, int gpus) {
  const int nodes = topology::nodes_of(gpus, cluster.node.gpus);
  const int of_leaf = cluster.fabric.nodes_per_leaf;
  if (cluster.fabric.kind == topology::FabricKind::single_switch)
    return "one switch joins all nodes: this fabric has no spine (fabric.kind)";
  if (of_leaf > 0 && nodes <= of_leaf)
    return fmt::format(
        "no traffic of this plan crosses a spine: {} of the job share{} the leaves of one group of "
        "{}; try more GPUs, fabric.nodes_per_leaf={}, or hosts in several groups (host=[0,{}])",
        nodes == 1 ? std::string("the node") : fmt::format("all {} nodes", nodes),
        nodes == 1 ? "s" : "", counted(of_leaf, "node"), std::max(1, nodes / 2), of_leaf);
  return "no traffic of this plan crosses a spine: the ranks of each group that communicates share "
         "leaves";
}

// The variant changes what joins the leaves.
std::string of_fabric(const answer::Site& site, const WhatifRow& row, int gpus) {
  const topology::Cluster& cluster = site.machine.cluster;
  if (busiest(row, true) == nullptr) return "no traffic of this plan leaves the nodes";
  const WhatifRow::Link* out = busiest(row, true, "spine");
  if (out == nullptr) return of_spines(cluster, gpus);
  return beside(*out, row);
}

}  // namespace

std::string why_unchanged(const std::vector<std::string>& settings, const answer::Site& site,
                          const WhatifRow& row, int gpus) {
  if (changes(settings, "node.nvlink_sharp")) return of_nvls(site);
  if (changes(settings, "fabric.")) return of_fabric(site, row, gpus);
  if (changes(settings, "node.nic")) return of_nics(settings, site, row);
  if (changes(settings, "node.nvlink")) {
    const WhatifRow::Link* in = busiest(row, false);
    return in == nullptr ? "no traffic of this plan crosses NVLink" : beside(*in, row);
  }
  return "";
}

std::string spreading_note(const std::vector<std::string>& settings, const answer::Site& site) {
  using topology::FabricKind;
  const FabricKind kind = site.machine.cluster.fabric.kind;
  const bool spreads = kind == FabricKind::fat_tree || kind == FabricKind::rail_optimised ||
                       kind == FabricKind::three_level;
  const bool asked =
      changes(settings, "fabric.oversubscription") || changes(settings, "fabric.pod_oversub");
  if (!spreads || !asked) return "";
  return fmt::format(
      "fabric.kind={} spreads traffic evenly over the spines: no two flows collide (ECMP); "
      "fabric.kind=leaf_spine hashes flows",
      topology::name(kind));
}

}  // namespace sim::study
