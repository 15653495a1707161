#include "sim/job/mesh/mesh.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace sim::mesh {
namespace {

Order order_of(std::string_view text) {
  if (text.empty()) return megatron_order;
  const auto parsed = parse_order(text);
  assert(std::holds_alternative<Order>(parsed));
  return std::get<Order>(parsed);
}

// The representative of the set of classes that contains `c`; `first` is a union-find forest.
int root(std::vector<int>& first, int c) {
  auto& above = first[static_cast<std::size_t>(c)];
  if (above != c) above = root(first, above);
  return above;
}

// Classes of replicas, refined by their work.
void tell_apart(Alike& alike) {
  std::vector<int>& classes = alike.class_of_replica;
  if (alike.work_of_replica.empty()) return;
  classes.resize(alike.work_of_replica.size(), 0);
  std::map<std::pair<int, int>, int> numbers;
  for (std::size_t d = 0; d < classes.size(); ++d) {
    const std::pair key(classes[d], alike.work_of_replica[d]);
    classes[d] = numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second;
  }
}

}  // namespace

Mesh::Mesh(const Degrees& degrees, const Order& order, Alike alike)
    : degrees_(degrees), order_(order), alike_(std::move(alike)) {
  assert(problem(degrees_, order_).empty());
  assert(alike_.class_of_replica.empty() ||
         alike_.class_of_replica.size() == static_cast<std::size_t>(degrees_.dp));
  assert(alike_.work_of_replica.empty() ||
         alike_.work_of_replica.size() == static_cast<std::size_t>(degrees_.dp));
  tell_apart(alike_);
  if (alike_.all_ranks) alike_.class_of_replica.clear();
  if (alike_.all_ranks) dp_classes_ = degrees_.dp;
  if (!alike_.class_of_replica.empty())
    dp_classes_ = 1 + *std::ranges::max_element(alike_.class_of_replica);
}

Mesh::Mesh(const Degrees& degrees, std::string_view order, Alike alike)
    : Mesh(degrees, order_of(order), std::move(alike)) {}

const Groups& Mesh::groups(Communicator communicator) const {
  const auto [it, added] = groups_.try_emplace(communicator);
  if (added) it->second = mesh::groups(communicator, degrees_, order_);
  return it->second;
}

const Groups& Mesh::pairs(int from, int to) const {
  const auto [it, added] = pairs_.try_emplace({from, to});
  if (added) it->second = stage_pairs(from, to, groups(Communicator::pp));
  return it->second;
}

Groups Mesh::neighbours(Communicator communicator) const {
  Groups pairs;
  for (const std::vector<int>& ring : groups(communicator).ranks)
    for (std::size_t i = 0; i < ring.size(); ++i)
      pairs.ranks.push_back({ring[i], ring[(i + 1) % ring.size()]});
  return pairs;
}

int Mesh::replica_class(int dp_rank) const {
  if (alike_.all_ranks) return dp_rank;
  const std::vector<int>& classes = alike_.class_of_replica;
  return classes.empty() ? 0 : classes[static_cast<std::size_t>(dp_rank)];
}

int Mesh::first_replica(int replica_class) const {
  const std::vector<int>& classes = alike_.class_of_replica;
  if (classes.empty()) return replica_class;
  return static_cast<int>(std::ranges::find(classes, replica_class) - classes.begin());
}

int Mesh::class_of(const Coordinates& at) const {
  assert(at.stage >= 0 && at.stage < degrees_.pp);
  assert(at.cp_rank >= 0 && at.cp_rank < degrees_.cp);
  assert(at.dp_rank < dp_classes() && at.tp_rank < tp_classes());
  const int replica = at.stage * dp_classes() + at.dp_rank;
  return (replica * degrees_.cp + at.cp_rank) * tp_classes() + at.tp_rank;
}

Coordinates Mesh::coordinates(int rank_class) const {
  Coordinates at;
  at.tp_rank = rank_class % tp_classes();
  at.cp_rank = rank_class / tp_classes() % degrees_.cp;
  at.dp_rank = rank_class / (tp_classes() * degrees_.cp) % dp_classes();
  at.stage = rank_class / (tp_classes() * degrees_.cp * dp_classes());
  return at;
}

int Mesh::first_like(int rank_class) const {
  const Coordinates at = coordinates(rank_class);
  const auto work = [&](int replica_class) {
    const std::vector<int>& of = alike_.work_of_replica;
    return of.empty() ? 0 : of[static_cast<std::size_t>(first_replica(replica_class))];
  };
  int like = 0;
  while (work(like) != work(at.dp_rank)) ++like;
  return class_of({at.stage, like, at.cp_rank, 0});
}

int Mesh::class_of_rank(int rank) const {
  if (class_of_rank_.empty()) {
    class_of_rank_.reserve(static_cast<std::size_t>(world()));
    for (int r = 0; r < world(); ++r)
      class_of_rank_.push_back(
          class_of({place(r, Axis::pp), replica_class(place(r, Axis::dp)), place(r, Axis::cp),
                    alike_.all_ranks ? place(r, Axis::tp) : 0}));
  }
  return class_of_rank_[static_cast<std::size_t>(rank)];
}

std::vector<int> Mesh::ranks_of(int rank_class) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world(); ++rank)
    if (class_of_rank(rank) == rank_class) ranks.push_back(rank);
  return ranks;
}

int Mesh::rank_count(int rank_class) const {
  if (alike_.all_ranks) return 1;
  int replicas = 0;
  const int mine = coordinates(rank_class).dp_rank;
  for (int d = 0; d < degrees_.dp; ++d) replicas += replica_class(d) == mine;
  return degrees_.tp * replicas;
}

Mesh::Meetings Mesh::meet(Communicator communicator) const {
  const auto count = static_cast<std::size_t>(classes());
  std::vector<int> first(count);
  std::iota(first.begin(), first.end(), 0);
  for (const std::vector<int>& group : groups(communicator).ranks) {
    const int mine = root(first, class_of_rank(group.front()));
    for (const int rank : group)
      first[static_cast<std::size_t>(root(first, class_of_rank(rank)))] = mine;
  }
  Meetings all;
  std::map<int, std::size_t> numbers;
  for (int c = 0; c < classes(); ++c) {
    const auto [it, added] = numbers.try_emplace(root(first, c), all.groups.size());
    if (added) all.groups.emplace_back();
    all.groups[it->second].push_back(c);
    all.of_class.push_back(it->second);
  }
  return all;
}

const std::vector<int>& Mesh::members(Communicator communicator, int rank_class) const {
  const auto [it, added] = meetings_.try_emplace(communicator);
  if (added) it->second = meet(communicator);
  const Meetings& all = it->second;
  return all.groups[all.of_class[static_cast<std::size_t>(rank_class)]];
}

namespace {

Groups some(const Groups& all, const std::vector<int>& numbers) {
  Groups chosen;
  for (const int number : numbers)
    chosen.ranks.push_back(all.ranks[static_cast<std::size_t>(number)]);
  return chosen;
}

}  // namespace

std::vector<int> Mesh::group_numbers(Communicator communicator, int rank_class) const {
  const std::vector<int>& who = members(communicator, rank_class);
  std::vector<int> mine;
  int number = 0;
  for (const std::vector<int>& ranks : groups(communicator).ranks) {
    if (std::ranges::binary_search(who, class_of_rank(ranks.front()))) mine.push_back(number);
    ++number;
  }
  return mine;
}

std::vector<int> Mesh::pair_numbers(int rank_class, int from, int to) const {
  const Coordinates at = coordinates(rank_class);
  std::vector<int> mine;
  int number = 0;
  for (const std::vector<int>& pair : pairs(from, to).ranks) {
    Coordinates its = coordinates(class_of_rank(pair.front()));
    its.stage = at.stage;
    if (class_of(its) == rank_class) mine.push_back(number);
    ++number;
  }
  return mine;
}

Groups Mesh::groups_of(Communicator communicator, int rank_class) const {
  return some(groups(communicator), group_numbers(communicator, rank_class));
}

Groups Mesh::pairs_of(int rank_class, int from, int to) const {
  return some(pairs(from, to), pair_numbers(rank_class, from, to));
}

int Mesh::peer(int rank_class, int offset) const {
  Coordinates at = coordinates(rank_class);
  at.stage = stage_at(at.stage, offset);
  return class_of(at);
}

}  // namespace sim::mesh
