#include "sim/study/tune/whatif_bound.h"

#include <fmt/format.h>

#include <algorithm>

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

double gigabytes(Bandwidth rate) {
  return static_cast<double>(rate.bytes_per_second) / 1e9;
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
  const double slot = gigabytes(node.pcie) * site.profile.communication.achieved.pcie;
  if (changes(settings, "node.nic_bandwidth") && gigabytes(node.nic) > slot)
    return fmt::format("the NIC of {:.0f} GB/s sits on a slot of {:.0f} GB/s, which carries {:.0f}",
                       gigabytes(node.nic), gigabytes(node.pcie), slot);
  return beside(*out, row);
}

// The variant changes what joins the leaves.
std::string of_fabric(const WhatifRow& row) {
  if (busiest(row, true) == nullptr) return "no traffic of this plan leaves the nodes";
  const WhatifRow::Link* out = busiest(row, true, "spine");
  if (out == nullptr) return "no traffic of this plan crosses a spine";
  return beside(*out, row);
}

}  // namespace

std::string why_unchanged(const std::vector<std::string>& settings, const answer::Site& site,
                          const WhatifRow& row) {
  if (changes(settings, "node.nvlink_sharp")) return of_nvls(site);
  if (changes(settings, "fabric.")) return of_fabric(row);
  if (changes(settings, "node.nic")) return of_nics(settings, site, row);
  if (changes(settings, "node.nvlink")) {
    const WhatifRow::Link* in = busiest(row, false);
    return in == nullptr ? "no traffic of this plan crosses NVLink" : beside(*in, row);
  }
  return "";
}

}  // namespace sim::study
