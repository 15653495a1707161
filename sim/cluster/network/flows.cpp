#include "sim/cluster/network/flows.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <set>

#include "sim/cluster/collective/tree.h"

namespace sim::network {
namespace {

using topology::GpuInterconnect;
using topology::Path;
using topology::Routes;

constexpr int nobody = -1;  // a GPU of a node whose own links are left out

// The double binary trees of groups, by their nodes.
class Trees {
 public:
  const std::array<collective::Tree, 2>& of(const GroupNodes& spread) {
    const auto [at, added] = by_nodes_.try_emplace(spread.size());
    if (added) at->second = collective::double_binary_tree(static_cast<int>(spread.size()));
    return at->second;
  }

 private:
  std::map<std::size_t, std::array<collective::Tree, 2>> by_nodes_;
};

class Builder {
 public:
  Builder(const Routes& routes, std::array<double, 4> efficiency, int send_channels,
          int exchange_nics, Trees& trees, Traffic& out, LinkPlaces& places)
      : routes_(routes),
        node_(routes.cluster().node),
        efficiency_(efficiency),
        send_channels_(send_channels),
        exchange_nics_(exchange_nics),
        trees_(trees),
        out_(out),
        places_(places) {
    ++places_.query;
    places_.seen.resize(static_cast<std::size_t>(routes.link_count()));
  }

  // Sets the nodes whose own links count from here on; empty: all nodes.
  void show(std::vector<bool> nodes) { shown_ = std::move(nodes); }
  void ring(int group, const GroupNodes& spread);
  void tree(int group, const GroupNodes& spread, bool chain);
  void sends(int group, const std::vector<int>& ranks, bool around);
  void all_to_all(int group, const std::vector<int>& ranks);
  void pairs(int group, const std::vector<int>& ranks);

 private:
  void add(int group, double bytes, std::vector<Use> uses, Duration latency, bool inside) {
    out_.query.flows.push_back({bytes * traffic_scale, std::move(uses)});
    out_.group.push_back(group);
    out_.inside.push_back(inside);
    Duration& extra = out_.extra[static_cast<std::size_t>(group)];
    extra = std::max(extra, latency);
  }
  void flow(int group, double bytes, const Path& crossed, bool inside) {
    std::vector<Use> uses;
    uses.reserve(crossed.links.size());
    for (const int link : crossed.links) count(link, uses);
    add(group, bytes, std::move(uses), crossed.latency, inside);
  }
  void count(int link, std::vector<Use>& uses, int times = 1);
  int nic(const Locals& locals, int channel) const {
    return locals.node * node_.nics + locals.nics[static_cast<std::size_t>(channel)];
  }
  bool owns(int gpu, int nic) const {
    return std::ranges::count(routes_.nics_of_gpu(gpu), nic % node_.nics) > 0;
  }
  // The first of the group's GPUs of a node that owns the NIC.
  int head(const Locals& locals, int nic) const {
    return *std::ranges::find_if(locals.gpus, [&](int gpu) { return owns(gpu, nic); });
  }
  int owner(int node, int nic) const;
  bool shown(int node) const { return shown_.empty() || shown_[static_cast<std::size_t>(node)]; }
  void cross(int gpu, int from, int to, Path& crossed) const;
  std::vector<int> chain(const Locals& locals, int nic) const;
  void all_pairs(const std::vector<int>& gpus, Path& crossed) const;
  std::vector<std::vector<int>> direct_rings(const std::vector<int>& gpus) const;
  void message(int from, int to, int channel, Path& crossed) const;
  int message_channels(int from, int to) const;

  const Routes& routes_;
  const topology::Node& node_;
  std::array<double, 4> efficiency_;  // by kind of link
  int send_channels_;
  int exchange_nics_;  // NICs of a node that rings of sends use; 0: all
  Trees& trees_;
  Traffic& out_;
  LinkPlaces& places_;
  std::vector<bool> shown_;
};

// Adds crossings of a link to the current flow. A link that no flow has crossed joins the query.
void Builder::count(int link, std::vector<Use>& uses, int times) {
  LinkPlaces::Seen& seen = places_.seen[static_cast<std::size_t>(link)];
  if (seen.query != places_.query) {
    seen = {places_.query, static_cast<int>(out_.query.capacities.size()), -1, 0};
    out_.links.push_back(link);
    const topology::Link& facts = routes_.link(link);
    out_.query.capacities.push_back(static_cast<double>(facts.capacity.bytes_per_second) *
                                    efficiency_[static_cast<std::size_t>(facts.kind)]);
  }
  const int flow = static_cast<int>(out_.query.flows.size());
  if (seen.flow != flow) {
    seen.flow = flow;
    seen.use = static_cast<int>(uses.size());
    uses.push_back({seen.place, 0});
  }
  uses[static_cast<std::size_t>(seen.use)].weight += times;
}

// The group's GPUs of a node in the order in which a channel passes them. The owner of the NIC
// comes first, and another owner of the NIC last, if there is one.
std::vector<int> Builder::chain(const Locals& locals, int nic) const {
  std::vector<int> order = locals.gpus;
  const auto first = std::ranges::find_if(order, [&](int gpu) { return owns(gpu, nic); });
  assert(first != order.end());
  std::rotate(order.begin(), first, order.end());
  for (std::size_t i = order.size(); i-- > 1;) {
    if (!owns(order[i], nic)) continue;
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(i),
                order.begin() + static_cast<std::ptrdiff_t>(i) + 1, order.end());
    break;
  }
  return order;
}

// The first GPU of a node that owns a NIC (number in the node); -1: none does.
int Builder::owner(int node, int nic) const {
  for (int gpu = node * node_.gpus; gpu < (node + 1) * node_.gpus; ++gpu) {
    if (owns(gpu, nic)) return gpu;
  }
  return -1;
}

// From a GPU by its NIC `from` to the NIC `to` of another node. If rails never meet, the message
// first moves to the GPU of the other NIC's rail.
void Builder::cross(int gpu, int from, int to, Path& crossed) const {
  if (!routes_.rails_meet() && from % node_.nics != to % node_.nics) {
    const int node = from / node_.nics;
    from = node * node_.nics + to % node_.nics;
    const int via = owner(node, to % node_.nics);
    if (via >= 0 && via != gpu) {
      routes_.between_gpus(gpu, via, crossed);
      gpu = via;
    }
  }
  if (shown(from / node_.nics)) routes_.gpu_to_nic(gpu, from, crossed);
  if (shown_.empty()) {
    routes_.between_nics(from, to, crossed);
    return;
  }
  if (shown(from / node_.nics)) crossed.links.push_back(routes_.links_of_nic(from).up);
  routes_.between_leaves_of(from, to, crossed);
  if (shown(to / node_.nics)) crossed.links.push_back(routes_.links_of_nic(to).down);
}

void Builder::all_pairs(const std::vector<int>& gpus, Path& crossed) const {
  for (const int a : gpus) {
    for (const int b : gpus) {
      if (a != b) routes_.between_gpus(a, b, crossed);
    }
  }
}

// Rings over direct NVLinks, as GPUs of the cluster.
std::vector<std::vector<int>> Builder::direct_rings(const std::vector<int>& gpus) const {
  std::vector<int> local = gpus;
  for (int& gpu : local) gpu %= node_.gpus;
  std::vector<std::vector<int>> rings = nvlink_rings(node_, local);
  for (std::vector<int>& ring : rings) {
    for (int& gpu : ring) gpu += gpus.front() / node_.gpus * node_.gpus;
  }
  return rings;
}

void Builder::ring(int group, const GroupNodes& spread) {
  Path crossed;
  if (spread.size() == 1) {
    const std::vector<int>& gpus = spread[0].gpus;
    double bytes = 1.0;
    const auto rings = direct_rings(gpus);
    if (node_.interconnect == GpuInterconnect::mesh) {
      all_pairs(gpus, crossed);
      bytes /= static_cast<double>(gpus.size() - 1);
    } else if (!rings.empty()) {
      for (const std::vector<int>& ring : rings) {
        for (std::size_t i = 0; i < ring.size(); ++i) {
          routes_.between_gpus(ring[i], ring[(i + 1) % ring.size()], crossed);
        }
      }
      bytes /= static_cast<double>(rings.size());
    } else {
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        routes_.between_gpus(gpus[i], gpus[(i + 1) % gpus.size()], crossed);
      }
    }
    flow(group, bytes, crossed, true);
    return;
  }
  const int channels = shape_of(spread).nics;
  for (int channel = 0; channel < channels; ++channel) {
    Path ring;
    for (std::size_t k = 0; k < spread.size(); ++k) {
      const int here = nic(spread[k], channel),
                next = nic(spread[(k + 1) % spread.size()], channel);
      if (!shown(spread[k].node)) {
        cross(nobody, here, next, ring);
        continue;
      }
      const std::vector<int> order = chain(spread[k], here);
      routes_.nic_to_gpu(here, order.front(), ring);
      for (std::size_t i = 1; i < order.size(); ++i) {
        routes_.between_gpus(order[i - 1], order[i], ring);
      }
      cross(order.back(), here, next, ring);
    }
    flow(group, 1.0 / channels, ring, false);
  }
}

void Builder::tree(int group, const GroupNodes& spread, bool with_chain) {
  if (spread.size() == 1) {
    // Both trees are the same chain, so each of its edges carries a byte in each direction.
    Path crossed;
    const std::vector<int>& gpus = spread[0].gpus;
    double bytes = 1.0;
    if (node_.interconnect == GpuInterconnect::mesh) {
      all_pairs(gpus, crossed);
      bytes = 2.0 / static_cast<double>(gpus.size());
    } else {
      for (std::size_t i = 1; i < gpus.size(); ++i) {
        routes_.between_gpus(gpus[i - 1], gpus[i], crossed);
        routes_.between_gpus(gpus[i], gpus[i - 1], crossed);
      }
    }
    flow(group, bytes, crossed, true);
    return;
  }
  const std::array<collective::Tree, 2>& trees = trees_.of(spread);
  const int channels = shape_of(spread).nics;
  for (int channel = 0; channel < channels; ++channel) {
    Path crossed;  // reused for one node's part at a time
    std::vector<Use> uses;
    const auto take = [&](int times) {
      for (const int link : crossed.links) count(link, uses, times);
      crossed.links.clear();
    };
    for (std::size_t k = 0; k < spread.size(); ++k) {
      const int here = nic(spread[k], channel);
      int front = nobody;
      if (shown(spread[k].node)) {
        const std::vector<int> order = chain(spread[k], here);
        front = order.front();
        for (std::size_t i = 1; with_chain && i < order.size(); ++i) {
          routes_.between_gpus(order[i - 1], order[i], crossed);
          routes_.between_gpus(order[i], order[i - 1], crossed);
        }
        take(2);  // once for each tree
      }
      for (const collective::Tree& parents : trees) {
        if (parents[k] < 0) continue;
        const Locals& parent = spread[static_cast<std::size_t>(parents[k])];
        const int there = nic(parent, channel);
        const int to = shown(parent.node) ? head(parent, there) : nobody;
        cross(front, here, there, crossed);
        if (to != nobody) routes_.nic_to_gpu(there, to, crossed);
        cross(to, there, here, crossed);
        if (front != nobody) routes_.nic_to_gpu(here, front, crossed);
      }
      take(1);
    }
    add(group, 0.5 / channels, std::move(uses), crossed.latency, false);
  }
}

// The number of NICs that share a message between nodes: limited by the destination's NICs and by
// the channels.
int Builder::message_channels(int from, int to) const {
  if (from / node_.gpus == to / node_.gpus) return 1;
  const auto& own = routes_.nics_of_gpu(to);
  return std::max(1, std::min(send_channels_, static_cast<int>(own.size())));
}

void Builder::message(int from, int to, int channel, Path& crossed) const {
  const int gpus = node_.gpus;
  if (from / gpus == to / gpus) {
    routes_.between_gpus(from, to, crossed);
    return;
  }
  int there = routes_.nics_of_gpu(to)[static_cast<std::size_t>(channel)];
  if (exchange_nics_ > 0) there %= exchange_nics_;
  int sender = from;
  int rail = there;
  if (!owns(from, there)) {
    const int via = owner(from / gpus, there);
    if (via < 0 || !topology::nvlinked(node_, from % gpus, via % gpus)) {
      const auto& own = routes_.nics_of_gpu(from);
      rail = own[static_cast<std::size_t>(channel) % own.size()];
    } else {
      sender = via;
      routes_.between_gpus(from, sender, crossed);
    }
  }
  const int out = from / gpus * node_.nics + rail;
  const int in = to / gpus * node_.nics + there;
  cross(sender, out, in, crossed);
  routes_.nic_to_gpu(in, to, crossed);
}

void Builder::sends(int group, const std::vector<int>& ranks, bool around) {
  const std::size_t edges = ranks.size() - (around ? 0 : 1);
  Path crossed;
  for (std::size_t i = 0; i < edges; ++i) {
    const int from = ranks[i], to = ranks[(i + 1) % ranks.size()];
    const int channels = message_channels(from, to);
    for (int channel = 0; channel < channels; ++channel) {
      crossed.links.clear();
      crossed.latency = {};
      message(from, to, channel, crossed);
      flow(group, 1.0 / channels, crossed, from / node_.gpus == to / node_.gpus);
    }
  }
}

void Builder::all_to_all(int group, const std::vector<int>& ranks) {
  Path crossed;  // reused for one message at a time: there are n^2 of them
  std::vector<Use> uses;
  bool inside = true;
  for (const int from : ranks) {
    for (const int to : ranks) {
      if (from == to) continue;
      // The rails are used in turn, so that every NIC of the destination takes its share.
      const int channel = (from + to) % message_channels(from, to);
      message(from, to, channel, crossed);
      for (const int link : crossed.links) count(link, uses);
      crossed.links.clear();
      inside = inside && from / node_.gpus == to / node_.gpus;
    }
  }
  add(group, 1.0 / static_cast<double>(ranks.size()), std::move(uses), crossed.latency, inside);
}

void Builder::pairs(int group, const std::vector<int>& ranks) {
  for (const int from : ranks) {
    for (const int to : ranks) {
      if (from == to) continue;
      Path crossed;
      message(from, to, (from + to) % message_channels(from, to), crossed);
      flow(group, 1.0, crossed, from / node_.gpus == to / node_.gpus);
    }
  }
}

// Selects one node of each set of nodes whose own links have the same flows of rings and trees.
std::vector<bool> one_of_alike(Pattern pattern, const std::vector<GroupNodes>& groups,
                               const Routes& routes, Trees& trees) {
  const topology::Node& node = routes.cluster().node;
  const auto rate = [&](int link) -> std::int64_t {  // a NIC of a single node has no link
    return link < 0 ? 0 : routes.link(link).capacity.bytes_per_second;
  };
  std::vector<std::vector<std::int64_t>> put(static_cast<std::size_t>(routes.cluster().nodes));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::vector<int> neighbours(groups[g].size(), 0);
    if (pattern != Pattern::ring) {
      for (const collective::Tree& parents : trees.of(groups[g])) {
        for (std::size_t k = 0; k < parents.size(); ++k) {
          if (parents[k] < 0) continue;
          ++neighbours[k];
          ++neighbours[static_cast<std::size_t>(parents[k])];
        }
      }
    }
    for (std::size_t k = 0; k < groups[g].size(); ++k) {
      const Locals& locals = groups[g][k];
      std::vector<std::int64_t>& all = put[static_cast<std::size_t>(locals.node)];
      all.insert(all.end(), {std::ssize(locals.gpus), static_cast<std::int64_t>(g), neighbours[k]});
      for (const int gpu : locals.gpus) all.push_back(gpu % node.gpus);
      for (const int nic : locals.nics) {
        const Routes::NicLinks links = routes.links_of_nic(locals.node * node.nics + nic);
        all.insert(all.end(), {nic, rate(links.up), rate(links.down)});
      }
    }
  }
  std::set<std::vector<std::int64_t>> known;
  std::vector<bool> first;
  for (std::vector<std::int64_t>& all : put) first.push_back(known.insert(std::move(all)).second);
  return first;
}

}  // namespace

Traffic traffic(Pattern pattern, const std::vector<GroupNodes>& groups,
                const std::vector<std::vector<int>>& ranks, const topology::Routes& routes,
                const Achieved& achieved, int send_channels, LinkPlaces& places, Of of) {
  Traffic out;
  out.extra.resize(groups.size());
  const bool sends = pattern == Pattern::sends || pattern == Pattern::exchange ||
                     pattern == Pattern::all_to_all || pattern == Pattern::pairs;
  // Measured rates already include their losses.
  const std::array<double, 4> efficiency = {sends ? achieved.send_nvlink : achieved.nvlink,
                                            achieved.pcie,
                                            sends ? achieved.send_network : achieved.network, 1};
  const int exchange_nics = pattern == Pattern::exchange ? achieved.exchange_nics : 0;
  Trees trees;
  Builder builder(routes, efficiency, send_channels, exchange_nics, trees, out, places);
  const topology::Cluster& cluster = routes.cluster();
  const bool alike = cluster.conditions.empty() && cluster.rates.empty() && routes.rails_meet();
  if (of == Of::one_of_alike && !sends && alike)
    builder.show(one_of_alike(pattern, groups, routes, trees));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const int group = static_cast<int>(g);
    switch (pattern) {
      case Pattern::ring:
        builder.ring(group, groups[g]);
        break;
      case Pattern::tree:
        builder.tree(group, groups[g], true);
        break;
      case Pattern::nvls_tree:
        builder.tree(group, groups[g], false);
        break;
      case Pattern::sends:
        builder.sends(group, ranks[g], false);
        break;
      case Pattern::exchange:
        builder.sends(group, ranks[g], true);
        break;
      case Pattern::all_to_all:
        builder.all_to_all(group, ranks[g]);
        break;
      case Pattern::pairs:
        builder.pairs(group, ranks[g]);
        break;
    }
  }
  return out;
}

}  // namespace sim::network
