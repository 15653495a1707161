#include "sim/study/tune/link_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/study/tune/step_traffic.h"

namespace sim::study {
namespace {

std::string kind_name(const topology::Routes& routes, int link) {
  constexpr std::array<std::string_view, 8> names = {"GPU", "NVSwitch", "PCIe switch", "host",
                                                     "NIC", "leaf",     "spine",       "core"};
  const auto of = [&](const topology::Vertex& v) {
    return names[static_cast<std::size_t>(v.kind)];
  };
  if (routes.link(link).kind == topology::LinkKind::measured) return "node - node";
  topology::Vertex a = routes.source(link), b = routes.target(link);
  if (b.kind < a.kind) std::swap(a, b);  // both directions are one kind
  return fmt::format("{} - {}", of(a), of(b));
}

}  // namespace

std::vector<LinkUse> link_use(const answer::CheckedPlan& plan, Duration step) {
  const answer::Site& site = plan.site();
  const program::Job& job = plan.job();
  const topology::Cluster& cluster = site.machine.cluster;
  site.network->cover(
      std::min(cluster.nodes, topology::nodes_of(plan->world(), cluster.node.gpus)));
  std::map<int, LinkUse> uses;
  for (const StepTraffic& t : step_traffic(job, cluster)) {
    const std::string who(name(t.stream));
    const auto times = static_cast<double>(t.times);
    for (const network::LinkLoad& load : site.network->loads(t.kind, t.groups, t.bytes)) {
      LinkUse& use = uses[load.link];
      use.link = load.link;
      use.bytes += load.bytes * times;
      use.busy += load.busy_seconds * times;
      use.bytes_of[who] += load.bytes * times;
    }
  }
  std::vector<LinkUse> all;
  for (const auto& [link, use] : uses) {
    all.push_back(use);
    all.back().busy /= std::max(seconds(step), 1e-12);
  }
  return all;
}

std::vector<LinkKindUse> by_kind(const std::vector<LinkUse>& uses, const topology::Routes& routes) {
  std::map<std::string, std::pair<LinkKindUse, const LinkUse*>> kinds;
  for (const LinkUse& use : uses) {
    auto& [kind, most] = kinds[kind_name(routes, use.link)];
    ++kind.links;
    kind.mean += use.busy;
    if (most == nullptr || use.busy > most->busy) most = &use;
  }
  std::vector<LinkKindUse> all;
  for (auto& [key, entry] : kinds) {
    auto& [kind, most] = entry;
    kind.kind = key;
    kind.mean /= kind.links;
    kind.busy = most->busy;
    const topology::LinkKind of = routes.link(most->link).kind;
    kind.fabric = of == topology::LinkKind::network || of == topology::LinkKind::measured;
    kind.busiest = label(routes.source(most->link)) + " -> " + label(routes.target(most->link));
    std::vector<std::pair<double, std::string>> shares;
    for (const auto& [who, bytes] : most->bytes_of) shares.emplace_back(bytes / most->bytes, who);
    std::ranges::stable_sort(shares, [](auto& a, auto& b) { return a.first > b.first; });
    for (const auto& [share, who] : shares) {
      if (share < 0.005) continue;
      kind.traffic +=
          fmt::format("{}{} {:.0f} %", kind.traffic.empty() ? "" : ", ", who, 100 * share);
    }
    all.push_back(kind);
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.busy > b.busy; });
  return all;
}

}  // namespace sim::study
