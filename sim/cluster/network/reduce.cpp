#include "sim/cluster/network/reduce.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <numeric>

namespace sim::network {
namespace {

using Hash = std::uint64_t;

// The finaliser of splitmix64: every bit of the result depends on every bit of the input.
constexpr Hash mix(Hash x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr Hash mix(Hash x, Hash y) {
  return mix(mix(x) ^ y);
}

struct User {
  int flow = 0;
  int weight = 0;
  friend bool operator==(const User&, const User&) = default;
};

// The users of each link, in one array.
struct Links {
  std::vector<double> capacity;
  std::vector<std::uint32_t> begin;  // first user of each link; one entry more than links
  std::vector<User> users;           // ascending flows

  std::size_t size() const { return capacity.size(); }
  const User* first(std::size_t l) const { return users.data() + begin[l]; }
  const User* last(std::size_t l) const { return users.data() + begin[l + 1]; }
  bool same_users(std::size_t a, std::size_t b) const {
    return std::equal(first(a), last(a), first(b), last(b));
  }
};

Links users_of_links(const Query& query) {
  Links all;
  all.capacity = query.capacities;
  all.begin.assign(all.size() + 1, 0);
  for (const Flow& flow : query.flows) {
    for (const Use& use : flow.uses) ++all.begin[static_cast<std::size_t>(use.link)];
  }
  // The end of each link's users: the array is filled backwards, the last flow first.
  std::partial_sum(all.begin.begin(), all.begin.end(), all.begin.begin());
  all.users.resize(all.begin.back());
  for (std::size_t f = query.flows.size(); f-- > 0;) {
    for (const Use& use : query.flows[f].uses) {
      all.users[--all.begin[static_cast<std::size_t>(use.link)]] = {static_cast<int>(f),
                                                                    use.weight};
    }
  }
  return all;
}

// A hash table with at least twice as many places as entries; a place holds an index or -1.
class Table {
 public:
  explicit Table(std::size_t entries) : places_(std::bit_ceil(2 * entries + 2), -1) {}

  // The first place, starting at the hash's own, whose entry is equal or that is free.
  int& find(Hash hash, auto equal) {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = hash & mask;
    while (places_[at] >= 0 && !equal(static_cast<std::size_t>(places_[at]))) {
      at = (at + 1) & mask;
    }
    return places_[at];
  }

 private:
  std::vector<int> places_;
};

// Of links with the same users and weights only the narrowest stays; unused links are dropped.
Links narrowest(const Links& links) {
  std::vector<std::size_t> kept;
  std::vector<Hash> hashes;  // of the remaining links
  Table table(links.size());
  for (std::size_t l = 0; l < links.size(); ++l) {
    if (links.first(l) == links.last(l)) continue;
    Hash hash = 0;
    for (const User* u = links.first(l); u != links.last(l); ++u) {
      hash = mix(hash ^ (static_cast<Hash>(u->flow) << 32) ^ static_cast<Hash>(u->weight));
    }
    int& place = table.find(
        hash, [&](std::size_t k) { return hashes[k] == hash && links.same_users(kept[k], l); });
    if (place < 0) {
      place = static_cast<int>(kept.size());
      kept.push_back(l);
      hashes.push_back(hash);
    } else if (std::size_t& other = kept[static_cast<std::size_t>(place)];
               links.capacity[l] < links.capacity[other]) {
      other = l;
    }
  }
  Links few;
  few.begin.push_back(0);
  for (const std::size_t l : kept) {
    few.capacity.push_back(links.capacity[l]);
    few.users.insert(few.users.end(), links.first(l), links.last(l));
    few.begin.push_back(static_cast<std::uint32_t>(few.users.size()));
  }
  return few;
}

// Gives equal hashes equal numbers, in order of first appearance. Returns the number of different
// ones.
int number(const std::vector<Hash>& hashes, std::vector<int>& classes) {
  classes.resize(hashes.size());
  std::vector<Hash> known;
  Table table(hashes.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    int& place = table.find(hashes[i], [&](std::size_t k) { return known[k] == hashes[i]; });
    if (place < 0) {
      place = static_cast<int>(known.size());
      known.push_back(hashes[i]);
    }
    classes[i] = place;
  }
  return static_cast<int>(known.size());
}

struct Partition {
  std::vector<int> flow, link;
  int flows = 0, links = 0;
};

// Colour refinement: two flows (links) get different colours once their neighbours differ.
Partition refine(const Query& query, const Links& links) {
  std::vector<Hash> flow, link;
  for (const Flow& f : query.flows) flow.push_back(mix(std::bit_cast<Hash>(f.bytes)));
  for (const double c : links.capacity) link.push_back(mix(std::bit_cast<Hash>(c)));
  Partition now;
  now.flows = number(flow, now.flow);
  now.links = number(link, now.link);
  for (;;) {
    std::vector<Hash> next_link(links.size()), next_flow(flow.size());
    for (std::size_t l = 0; l < links.size(); ++l) {
      Hash sum = 0;
      for (const User* u = links.first(l); u != links.last(l); ++u) {
        const Hash weight = static_cast<Hash>(u->weight);
        sum += mix(flow[static_cast<std::size_t>(u->flow)], weight);
        next_flow[static_cast<std::size_t>(u->flow)] += mix(link[l], weight);
      }
      next_link[l] = mix(link[l], sum);
    }
    for (std::size_t f = 0; f < flow.size(); ++f) next_flow[f] = mix(flow[f], next_flow[f]);
    flow = std::move(next_flow);
    link = std::move(next_link);
    const int flows = number(flow, now.flow);
    const int all_links = number(link, now.link);
    if (flows == now.flows && all_links == now.links) return now;
    now.flows = flows;
    now.links = all_links;
  }
}

// The weight of each class of flows on a link, by ascending class.
std::vector<Use> class_weights(const Links& links, std::size_t l, const Partition& partition) {
  std::vector<Use> weights;
  for (const User* u = links.first(l); u != links.last(l); ++u) {
    weights.push_back({partition.flow[static_cast<std::size_t>(u->flow)], u->weight});
  }
  std::ranges::sort(weights);
  std::size_t kept = 0;
  for (const Use& use : weights) {
    if (kept > 0 && weights[kept - 1].link == use.link) {
      weights[kept - 1].weight += use.weight;
    } else {
      weights[kept++] = use;
    }
  }
  weights.resize(kept);
  return weights;
}

// Checks the definition. Members of a class of links have one capacity and carry the same weight of
// each class of flows. Members of a class of flows have the same bytes and cross the same classes
// of links.
bool is_equitable(const Query& query, const Links& links, const Partition& partition,
                  const std::vector<std::size_t>& first_flow,
                  const std::vector<std::size_t>& first_link) {
  std::vector<std::vector<Use>> of_class;
  for (const std::size_t l : first_link) of_class.push_back(class_weights(links, l, partition));
  std::vector<std::vector<int>> crossed(query.flows.size());
  for (std::size_t l = 0; l < links.size(); ++l) {
    const auto c = static_cast<std::size_t>(partition.link[l]);
    if (links.capacity[l] != links.capacity[first_link[c]]) return false;
    if (l != first_link[c] && class_weights(links, l, partition) != of_class[c]) return false;
    for (const User* u = links.first(l); u != links.last(l); ++u) {
      crossed[static_cast<std::size_t>(u->flow)].push_back(partition.link[l]);
    }
  }
  for (std::vector<int>& classes : crossed) {
    std::ranges::sort(classes);
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  }
  for (std::size_t f = 0; f < query.flows.size(); ++f) {
    const std::size_t first = first_flow[static_cast<std::size_t>(partition.flow[f])];
    if (query.flows[f].bytes != query.flows[first].bytes || crossed[f] != crossed[first]) {
      return false;
    }
  }
  return true;
}

std::vector<std::size_t> first_members(const std::vector<int>& classes, int count) {
  std::vector<std::size_t> first(static_cast<std::size_t>(count), classes.size());
  for (std::size_t i = classes.size(); i-- > 0;) first[static_cast<std::size_t>(classes[i])] = i;
  return first;
}

// Joins classes that meet on a link, directly or through others; a class alone is a root with one
// member.
struct Meeting {
  explicit Meeting(int classes) : parent(static_cast<std::size_t>(classes)) {
    std::iota(parent.begin(), parent.end(), 0);
  }
  int root(int c) {
    while (parent[static_cast<std::size_t>(c)] != c) {
      c = parent[static_cast<std::size_t>(c)] =
          parent[static_cast<std::size_t>(parent[static_cast<std::size_t>(c)])];
    }
    return c;
  }
  void join(int a, int b) { parent[static_cast<std::size_t>(root(a))] = root(b); }
  std::vector<int> parent;
};

// Builds the quotient (one flow per class, one link per class of links), and the query that remains
// for a solver.
Reduced quotient(const Query& query, const Links& links, const Partition& partition,
                 const std::vector<std::size_t>& first_flow,
                 const std::vector<std::size_t>& first_link) {
  const auto classes = static_cast<std::size_t>(partition.flows);
  Reduced reduced;
  reduced.class_of_flow = partition.flow;
  reduced.alone.assign(classes, 0.0);
  Meeting meeting(partition.flows);
  std::vector<std::vector<Use>> on_link;
  for (const std::size_t l : first_link) {
    on_link.push_back(class_weights(links, l, partition));
    for (const Use& use : on_link.back()) meeting.join(use.link, on_link.back().front().link);
  }
  std::vector<int> members(classes, 0);
  for (int c = 0; c < partition.flows; ++c) ++members[static_cast<std::size_t>(meeting.root(c))];

  std::vector<int> place(classes, -1);  // in the query for the solver
  for (std::size_t c = 0; c < classes; ++c) {
    if (members[static_cast<std::size_t>(meeting.root(static_cast<int>(c)))] == 1) continue;
    place[c] = static_cast<int>(reduced.query.flows.size());
    reduced.query.flows.push_back({query.flows[first_flow[c]].bytes, {}});
    reduced.class_of_query_flow.push_back(static_cast<int>(c));
  }
  for (std::size_t k = 0; k < first_link.size(); ++k) {
    const double capacity = links.capacity[first_link[k]];
    const auto front = static_cast<std::size_t>(on_link[k].front().link);
    if (place[front] < 0) {
      const double seconds =
          query.flows[first_flow[front]].bytes * on_link[k].front().weight / capacity;
      reduced.alone[front] = std::max(reduced.alone[front], seconds);
      continue;
    }
    int divisor = 0;  // makes weights minimal, because a solver may cross a link weight times
    for (const Use& use : on_link[k]) divisor = std::gcd(divisor, use.weight);
    const auto id = static_cast<int>(reduced.query.capacities.size());
    reduced.query.capacities.push_back(capacity / divisor);
    for (const Use& use : on_link[k]) {
      const auto at = static_cast<std::size_t>(place[static_cast<std::size_t>(use.link)]);
      reduced.query.flows[at].uses.push_back({id, use.weight / divisor});
    }
  }
  return reduced;
}

}  // namespace

Reduced reduce(const Query& query) {
  const Links links = narrowest(users_of_links(query));
  Partition partition = refine(query, links);
  std::vector<std::size_t> first_flow = first_members(partition.flow, partition.flows);
  std::vector<std::size_t> first_link = first_members(partition.link, partition.links);
  if (!is_equitable(query, links, partition, first_flow, first_link)) {
    // After a collision of hashes, every flow and link is a class of its own: also equitable, only
    // larger.
    partition.flows = static_cast<int>(partition.flow.size());
    partition.links = static_cast<int>(partition.link.size());
    std::iota(partition.flow.begin(), partition.flow.end(), 0);
    std::iota(partition.link.begin(), partition.link.end(), 0);
    first_flow = first_members(partition.flow, partition.flows);
    first_link = first_members(partition.link, partition.links);
  }
  return quotient(query, links, partition, first_flow, first_link);
}

Reduced unreduced(const Query& query) {
  Reduced all;
  std::vector<int> place(query.capacities.size(), -1);
  for (const Flow& flow : query.flows) {
    for (const Use& use : flow.uses) place[static_cast<std::size_t>(use.link)] = 0;
  }
  for (std::size_t l = 0; l < place.size(); ++l) {
    if (place[l] < 0) continue;
    place[l] = static_cast<int>(all.query.capacities.size());
    all.query.capacities.push_back(query.capacities[l]);
  }
  all.query.flows = query.flows;
  for (Flow& flow : all.query.flows) {
    for (Use& use : flow.uses) use.link = place[static_cast<std::size_t>(use.link)];
  }
  all.alone.assign(query.flows.size(), 0.0);
  all.class_of_flow.resize(query.flows.size());
  std::iota(all.class_of_flow.begin(), all.class_of_flow.end(), 0);
  all.class_of_query_flow = all.class_of_flow;
  return all;
}

Finish expand(const Reduced& reduced, const Finish& solved) {
  assert(solved.size() == reduced.query.flows.size());
  std::vector<double> of_class = reduced.alone;
  for (std::size_t i = 0; i < solved.size(); ++i) {
    of_class[static_cast<std::size_t>(reduced.class_of_query_flow[i])] = solved[i];
  }
  Finish finish;
  finish.reserve(reduced.class_of_flow.size());
  for (const int c : reduced.class_of_flow) finish.push_back(of_class[static_cast<std::size_t>(c)]);
  return finish;
}

}  // namespace sim::network
