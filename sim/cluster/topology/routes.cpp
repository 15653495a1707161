#include "sim/cluster/topology/routes.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>

namespace sim::topology {
namespace {

constexpr int cost(LinkKind kind) {
  return kind == LinkKind::nvlink ? 1 : 4;
}

// Dijkstra's algorithm on a small graph. It scans all unfinished vertices for the one of least
// cost, and takes the first one on a tie. Graphs of a node have a few dozen vertices.
template <class Hop, class Cost>
std::vector<Hop> cheapest_tree(const std::vector<std::vector<Hop>>& next, std::size_t source,
                               Cost cost_of) {
  constexpr int far = std::numeric_limits<int>::max();
  std::vector<int> distance(next.size(), far);
  std::vector<bool> finished(next.size(), false);
  std::vector<Hop> tree(next.size());
  distance[source] = 0;
  for (;;) {
    std::size_t best = next.size();
    for (std::size_t v = 0; v < next.size(); ++v) {
      if (finished[v] || distance[v] == far) continue;
      if (best == next.size() || distance[v] < distance[best]) best = v;
    }
    if (best == next.size()) return tree;
    finished[best] = true;
    for (const Hop& hop : next[best]) {
      const auto to = static_cast<std::size_t>(hop.to);
      const int through = distance[best] + cost_of(hop.link);
      if (through >= distance[to]) continue;
      distance[to] = through;
      tree[to] = {static_cast<int>(best), hop.link};
    }
  }
}

// The spine that carries the flows of each spine: itself, if it works. The flows of a failed spine
// take the next one that works, and the others stay where they are. So no failure looks like an
// improvement, whatever the hash. Empty: all have failed.
std::vector<int> spines_of_flows(const Cluster& cluster) {
  std::vector<int> carriers;
  for (int spine = 0; spine < cluster.fabric.spines; ++spine) {
    const bool failed = std::ranges::any_of(cluster.conditions, [&](const Condition& c) {
      return c.spine == spine && c.bandwidth == 0;
    });
    carriers.push_back(failed ? -1 : spine);
  }
  const std::size_t spines = carriers.size();
  for (std::size_t i = 2 * spines; i-- > 0;) {
    int& taken = carriers[i % spines];
    if (taken < 0) taken = carriers[(i + 1) % spines];
  }
  if (spines > 0 && carriers[0] < 0) carriers.clear();
  return carriers;
}

}  // namespace

Routes::Routes(const Cluster& cluster) : cluster_(cluster), layout_(cluster.node) {
  GraphBuilder parts = build_parts(cluster);
  links_ = std::move(parts.links);
  ends_ = std::move(parts.ends);
  const int nodes = cluster.nodes;
  const int per_node = layout_.size();
  numbers_.first_switch = nodes * per_node;
  const int switches = static_cast<int>(parts.vertices.size()) - numbers_.first_switch;
  next_.resize(static_cast<std::size_t>(per_node));
  std::vector<std::vector<Hop>> fabric(static_cast<std::size_t>(switches));
  nics_.up.resize(static_cast<std::size_t>(nodes * layout_.nics));
  nics_.down.resize(nics_.up.size(), -1);
  for (int v = 0; v < numbers_.first_switch + switches; ++v) {
    const Vertex& facts = parts.vertices[static_cast<std::size_t>(v)];
    if (v >= numbers_.first_switch) switches_.push_back(facts);
    if (v < per_node) node_vertices_.push_back(facts);
  }
  const auto nic_of = [&](int vertex) {
    return static_cast<std::size_t>(vertex / per_node * layout_.nics + vertex % per_node -
                                    layout_.nic(0));
  };
  for (const Link& link : links_) {
    const auto [from, to] = ends_[static_cast<std::size_t>(link.id)];
    const bool from_switch = from >= numbers_.first_switch, to_switch = to >= numbers_.first_switch;
    if (from_switch && to_switch) {
      fabric[static_cast<std::size_t>(from - numbers_.first_switch)].push_back(
          {to - numbers_.first_switch, link.id});
    } else if (to_switch) {
      nics_.up[nic_of(from)] = {to - numbers_.first_switch, link.id};
    } else if (from_switch) {
      nics_.down[nic_of(to)] = link.id;
    } else if (from < per_node) {
      next_[static_cast<std::size_t>(from)].push_back({to, link.id});
      ++numbers_.links_per_node;
    }
  }
  for (int v = 0; v < per_node; ++v) {
    local_trees_.push_back(cheapest_tree(next_, static_cast<std::size_t>(v), [&](int link) {
      return cost(links_[static_cast<std::size_t>(link)].kind);
    }));
  }
  next_ = std::move(fabric);
  fabric_trees_.resize(next_.size());
  find_forest();
  const int gpus = cluster.conditions.empty() ? cluster.node.gpus : cluster.gpus();
  for (int gpu = 0; gpu < gpus; ++gpu) nics_.of_gpu.push_back(topology::nics_of_gpu(cluster, gpu));
  numbers_.first_measured = link_count();
  if (!cluster.rates.empty()) add_measured();
  if (cluster.fabric.kind == FabricKind::leaf_spine) working_spines_ = spines_of_flows(cluster);
}

// If switches form trees, the path to a common parent is found without a search.
void Routes::find_forest() {
  std::vector<Stem> all(next_.size());
  std::vector<bool> seen(next_.size(), false);
  for (std::size_t root = 0; root < next_.size(); ++root) {
    if (seen[root]) continue;
    seen[root] = true;
    std::vector<int> queue = {static_cast<int>(root)};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const int v = queue[i];
      Stem& own = all[static_cast<std::size_t>(v)];
      bool met_parent = false;
      for (const Hop& hop : next_[static_cast<std::size_t>(v)]) {
        Stem& other = all[static_cast<std::size_t>(hop.to)];
        if (hop.to == own.parent && !met_parent) {
          met_parent = true;
          own.up = hop.link;
          continue;
        }
        if (seen[static_cast<std::size_t>(hop.to)]) return;
        seen[static_cast<std::size_t>(hop.to)] = true;
        other = {v, own.depth + 1, -1, hop.link};
        queue.push_back(hop.to);
      }
    }
  }
  forest_ = std::move(all);
}

// The deepest common ancestor of two switches. REQUIRES: they are in one tree.
int Routes::meeting(int a, int b) const {
  while (a != b) {
    int& deeper = stem(a).depth >= stem(b).depth ? a : b;
    deeper = stem(deeper).parent;
  }
  return a;
}

// Adds a link from each node to each other node, between their hosts.
void Routes::add_measured() {
  const int nodes = cluster_.nodes;
  const auto host = [&](int node) { return node * layout_.size() + layout_.host(); };
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (from == to) continue;
      const Bandwidth rate{static_cast<std::int64_t>(cluster_.rates.at(from, to))};
      links_.push_back({LinkKind::measured, link_count(), rate, {}});
      ends_.emplace_back(host(from), host(to));
    }
  }
}

int Routes::measured_link(int from_node, int to_node) const {
  const int place = to_node < from_node ? to_node : to_node - 1;
  return numbers_.first_measured + from_node * (cluster_.nodes - 1) + place;
}

Vertex Routes::vertex(int number) const {
  if (number >= numbers_.first_switch)
    return switches_[static_cast<std::size_t>(number - numbers_.first_switch)];
  Vertex vertex = node_vertices_[static_cast<std::size_t>(number % layout_.size())];
  vertex.node = number / layout_.size();
  return vertex;
}

void Routes::local(int node, int from, int to, Path& path) const {
  const auto begin = static_cast<std::ptrdiff_t>(path.links.size());
  const Tree& tree = local_trees_[static_cast<std::size_t>(from)];
  for (int v = to; v != from; v = tree[static_cast<std::size_t>(v)].to) {
    const int link = tree[static_cast<std::size_t>(v)].link;
    assert(link >= 0);
    path.links.push_back(node * numbers_.links_per_node + link);
  }
  std::reverse(path.links.begin() + begin, path.links.end());
}

void Routes::between_gpus(int from, int to, Path& path) const {
  const int gpus = layout_.gpus;
  assert(from / gpus == to / gpus);
  local(from / gpus, layout_.gpu(from % gpus), layout_.gpu(to % gpus), path);
}

void Routes::gpu_to_nic(int gpu, int nic, Path& path) const {
  assert(gpu / layout_.gpus == nic / layout_.nics);
  local(gpu / layout_.gpus, layout_.gpu(gpu % layout_.gpus), layout_.nic(nic % layout_.nics), path);
}

void Routes::nic_to_gpu(int nic, int gpu, Path& path) const {
  assert(gpu / layout_.gpus == nic / layout_.nics);
  local(gpu / layout_.gpus, layout_.nic(nic % layout_.nics), layout_.gpu(gpu % layout_.gpus), path);
}

// Fewest switches, by breadth-first search: switches are numerous, and all their links cost the
// same.
const Routes::Tree& Routes::fabric_tree(int source) const {
  Tree& tree = fabric_trees_[static_cast<std::size_t>(source)];
  if (!tree.empty()) return tree;
  tree.resize(next_.size());
  std::vector<bool> seen(next_.size(), false);
  std::vector<int> queue = {source};
  seen[static_cast<std::size_t>(source)] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const Hop& hop : next_[static_cast<std::size_t>(queue[i])]) {
      if (seen[static_cast<std::size_t>(hop.to)]) continue;
      seen[static_cast<std::size_t>(hop.to)] = true;
      tree[static_cast<std::size_t>(hop.to)] = {queue[i], hop.link};
      queue.push_back(hop.to);
    }
  }
  return tree;
}

// Appends links in reverse order, as between_nics collects them.
void Routes::over_spine(int from, int to, int from_leaf, int to_leaf, Path& path) const {
  // A hash that spreads neighbours: the finaliser of SplitMix64.
  std::uint64_t hash = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to);
  hash += 0x9e3779b97f4a7c15 * (1 + static_cast<std::uint64_t>(cluster_.fabric.hash_seed));
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  hash ^= hash >> 31;
  const int spine = working_spines_[hash % working_spines_.size()];
  // A leaf's links are listed by spine, and a spine's links by leaf.
  const int leaves = static_cast<int>(next_.size()) - cluster_.fabric.spines;
  const auto& up = next_[static_cast<std::size_t>(from_leaf)];
  const auto& down = next_[static_cast<std::size_t>(leaves + spine)];
  path.links.push_back(down[static_cast<std::size_t>(to_leaf)].link);
  path.links.push_back(up[static_cast<std::size_t>(spine)].link);
}

void Routes::between_nics(int from, int to, Path& path) const {
  path.links.push_back(nics_.up[static_cast<std::size_t>(from)].link);
  between_leaves_of(from, to, path);
  path.links.push_back(nics_.down[static_cast<std::size_t>(to)]);
  if (!cluster_.rates.empty())
    path.links.push_back(measured_link(from / layout_.nics, to / layout_.nics));
}

void Routes::between_leaves_of(int from, int to, Path& path) const {
  assert(from / layout_.nics != to / layout_.nics);
  const auto begin = static_cast<std::ptrdiff_t>(path.links.size());
  const Hop& up = nics_.up[static_cast<std::size_t>(from)];
  const int target = nics_.up[static_cast<std::size_t>(to)].to;
  if (up.to != target && !working_spines_.empty()) {
    over_spine(from, to, up.to, target, path);
  } else {
    between_leaves(up.to, target, [&](int link) {
      assert(link >= 0);
      path.links.push_back(link);
    });
  }
  std::reverse(path.links.begin() + begin, path.links.end());
  Duration latency = link(up.link).latency + link(nics_.down[static_cast<std::size_t>(to)]).latency;
  for (auto id = path.links.begin() + begin; id != path.links.end(); ++id) {
    latency += link(*id).latency;
  }
  path.latency = std::max(path.latency, latency);
}

}  // namespace sim::topology
