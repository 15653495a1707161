#include "sim/cluster/network/layout.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace sim::network {

namespace {

// Finds the first ring through all GPUs, widest links first. The search is bounded; nodes are
// small.
class RingSearch {
 public:
  explicit RingSearch(std::vector<std::vector<int>>& left) : left_(left) {}

  bool find() {
    steps_ = 0;
    order_ = {0};
    used_.assign(left_.size(), false);
    used_[0] = true;
    return extend();
  }
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  bool extend() {
    if (++steps_ > 100'000) return false;
    const std::vector<int>& from = left_[order_.back()];
    if (order_.size() == left_.size()) return from[0] > 0;
    std::vector<std::size_t> next;
    for (std::size_t to = 1; to < left_.size(); ++to) {
      if (!used_[to] && from[to] > 0) next.push_back(to);
    }
    std::ranges::stable_sort(next, [&](std::size_t a, std::size_t b) { return from[a] > from[b]; });
    for (const std::size_t to : next) {
      used_[to] = true;
      order_.push_back(to);
      if (extend()) return true;
      order_.pop_back();
      used_[to] = false;
    }
    return false;
  }

  const std::vector<std::vector<int>>& left_;
  std::vector<std::size_t> order_;
  std::vector<bool> used_;
  int steps_ = 0;
};

}  // namespace

std::vector<std::vector<int>> nvlink_rings(const topology::Node& node,
                                           const std::vector<int>& gpus) {
  std::vector<std::vector<int>> rings;
  if (node.interconnect != topology::GpuInterconnect::direct || gpus.size() < 2) return rings;
  std::vector<std::vector<int>> left(gpus.size(), std::vector<int>(gpus.size(), 0));
  for (const topology::NvlinkPair& pair : node.pairs) {
    const auto a = std::ranges::find(gpus, pair.a), b = std::ranges::find(gpus, pair.b);
    if (a == gpus.end() || b == gpus.end()) continue;
    const auto i = static_cast<std::size_t>(a - gpus.begin());
    const auto j = static_cast<std::size_t>(b - gpus.begin());
    left[i][j] += pair.links;
    left[j][i] += pair.links;
  }
  RingSearch search(left);
  while (search.find()) {
    std::vector<int>& ring = rings.emplace_back();
    for (std::size_t i = 0; i < search.order().size(); ++i) {
      const std::size_t a = search.order()[i];
      --left[a][search.order()[(i + 1) % search.order().size()]];
      ring.push_back(gpus[a]);
    }
  }
  return rings;
}

GroupsHash hash_of(const std::vector<std::vector<int>>& groups) {
  if (groups.empty()) return {};
  // Every group's hash seeds the next, so another division of the ranks changes the result.
  XXH128_hash_t hash{groups.size(), 0};
  for (const std::vector<int>& ranks : groups) {
    const XXH128_hash_t one =
        XXH3_128bits_withSeed(ranks.data(), ranks.size() * sizeof(int), hash.low64);
    hash = {one.low64, one.high64 ^ (hash.high64 * 0x9e3779b97f4a7c15)};
  }
  return {hash.high64, hash.low64};
}

GroupNodes spread(const std::vector<int>& ranks, const topology::Cluster& cluster) {
  GroupNodes all;
  std::size_t most = 0;  // nodes
  for (int last = -1; const int rank : ranks) {
    const int node = rank / cluster.node.gpus;
    most += node != last;
    last = node;
  }
  all.reserve(most);
  // Ranks mostly come in the order of their nodes, so a node above all others is new and the last
  // node is checked first. The index serves other orders.
  int highest = -1;
  std::unordered_map<int, std::size_t> index;
  const auto place_of = [&](int node) {
    if (!all.empty() && all.back().node == node) return all.size() - 1;
    if (node <= highest) {
      if (index.empty())
        for (std::size_t i = 0; i < all.size(); ++i) index.emplace(all[i].node, i);
      if (const auto at = index.find(node); at != index.end()) return at->second;
    }
    highest = std::max(highest, node);
    if (!index.empty()) index.emplace(node, all.size());
    all.push_back({node, {}, {}});
    return all.size() - 1;
  };
  for (const int rank : ranks) {
    assert(rank >= 0 && rank < cluster.gpus());
    all[place_of(rank / cluster.node.gpus)].gpus.push_back(rank);
  }
  for (Locals& locals : all) {
    for (const int gpu : locals.gpus) {
      const auto own = topology::nics_of_gpu(cluster, gpu);
      locals.nics.insert(locals.nics.end(), own.begin(), own.end());
    }
    std::ranges::sort(locals.nics);
    locals.nics.erase(std::unique(locals.nics.begin(), locals.nics.end()), locals.nics.end());
  }
  if (all.size() == 1 && cluster.node.interconnect == topology::GpuInterconnect::direct) {
    std::vector<int> gpus = all.front().gpus;
    for (int& gpu : gpus) gpu %= cluster.node.gpus;
    all.front().nvlink_rings = static_cast<int>(nvlink_rings(cluster.node, gpus).size());
  }
  return all;
}

GroupShape shape_of(const GroupNodes& spread) {
  GroupShape shape{0, static_cast<int>(spread.size()), 0,
                   static_cast<int>(spread.front().nics.size()), spread.front().nvlink_rings};
  for (const Locals& locals : spread) {
    shape.ranks += static_cast<int>(locals.gpus.size());
    shape.locals = std::max(shape.locals, static_cast<int>(locals.gpus.size()));
    shape.nics = std::min(shape.nics, static_cast<int>(locals.nics.size()));
  }
  return shape;
}

}  // namespace sim::network
