#include "sim/cluster/topology/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace sim::topology {
namespace {

struct Switch {
  int hosts = 0;                // cables to hosts, each host once
  double down = 0, up = 0;      // bytes per second to hosts, to switches
  std::vector<int> neighbours;  // switches
  int level = -1;               // 0: a leaf
};

std::vector<Switch> switches_of(const Wiring& wiring, std::vector<std::set<int>>& leaves_of_host) {
  const int count = static_cast<int>(wiring.switches.size());
  std::vector<Switch> all(wiring.switches.size());
  for (const Wiring::Cable& cable : wiring.cables) {
    for (const auto& [one, other] : {std::pair{cable.a, cable.b}, std::pair{cable.b, cable.a}}) {
      if (one >= count) continue;
      Switch& own = all[static_cast<std::size_t>(one)];
      if (other < count) {
        own.neighbours.push_back(other);
        own.up += cable.bytes_per_second;
        continue;
      }
      own.level = 0;
      own.down += cable.bytes_per_second;
      own.hosts += leaves_of_host[static_cast<std::size_t>(other - count)].insert(one).second;
    }
  }
  return all;
}

// Sets the distance of each switch to the nearest leaf. Returns the number of levels above the
// leaves.
int levels(std::vector<Switch>& all) {
  int highest = 0;
  for (bool grown = true; grown; ++highest) {
    grown = false;
    for (Switch& one : all) {
      if (one.level >= 0) continue;
      const bool next = std::ranges::any_of(one.neighbours, [&](int other) {
        return all[static_cast<std::size_t>(other)].level == highest;
      });
      if (next) one.level = -2 - highest;  // not yet visible to other switches of this round
      grown = grown || next;
    }
    for (Switch& one : all)
      if (one.level < -1) one.level = -1 - one.level;
  }
  return highest - 1;
}

// The maximum number of leaves that a switch of level 1 joins.
int largest_pod(const std::vector<Switch>& all) {
  std::vector<bool> seen(all.size(), false);
  int most = 0;
  for (std::size_t first = 0; first < all.size(); ++first) {
    if (all[first].level != 0 || seen[first]) continue;
    int leaves = 0;
    std::vector<std::size_t> open = {first};
    seen[first] = true;
    while (!open.empty()) {
      const Switch& one = all[open.back()];
      open.pop_back();
      leaves += one.level == 0;
      for (const int other : one.neighbours) {
        const auto next = static_cast<std::size_t>(other);
        if (seen[next] || all[next].level > 1 || all[next].level < 0) continue;
        seen[next] = true;
        open.push_back(next);
      }
    }
    most = std::max(most, leaves);
  }
  return most;
}

FabricKind kind_of(int leaves, int levels, bool rails) {
  if (levels >= 2) return FabricKind::three_level;
  if (levels == 0 && rails && leaves > 1) return FabricKind::rail_only;
  if (levels == 0 && leaves == 1) return FabricKind::single_switch;
  return rails ? FabricKind::rail_optimised : FabricKind::fat_tree;
}

}  // namespace

WiringShape shape_of(const Wiring& wiring) {
  std::vector<std::set<int>> leaves_of_host(wiring.hosts.size());
  std::vector<Switch> all = switches_of(wiring, leaves_of_host);
  const int above = levels(all);
  WiringShape shape;
  shape.nodes = static_cast<int>(wiring.hosts.size());
  int leaves = 0, spines = 0;
  const Switch* fullest = nullptr;
  for (const Switch& one : all) {
    leaves += one.level == 0;
    spines += one.level == 1;
    if (one.level == 0 && (fullest == nullptr || one.hosts > fullest->hosts)) fullest = &one;
  }
  const bool rails =
      !leaves_of_host.empty() &&
      std::ranges::all_of(leaves_of_host, [](const auto& l) { return l.size() > 1; });
  Fabric& fabric = shape.fabric;
  fabric.kind = kind_of(leaves, above, rails);
  fabric.nodes_per_leaf = fullest == nullptr ? shape.nodes : fullest->hosts;
  const bool rated = fullest != nullptr && fullest->down > 0 && fullest->up > 0;
  if (rated) fabric.oversubscription = fullest->down / fullest->up;
  if (fabric.kind == FabricKind::three_level) fabric.leaves_per_pod = largest_pod(all);
  shape.seen = fmt::format("{} hosts on {} leaves of at most {} under {} spines{}{}", shape.nodes,
                           leaves, fabric.nodes_per_leaf, spines,
                           above >= 2 ? fmt::format(", {} levels above them", above - 1) : "",
                           rated ? ""
                                 : "; the rates of the leaves' cables are not said: taken as "
                                   "not over-subscribed");
  return shape;
}

}  // namespace sim::topology
