// mesh.h — the ranks of one job: who is in whose group, which ranks are one class, which replicas
// there are. Asked here and nowhere else.
//
// A rank class stands for ranks that run the same program with the same timing: tensor-parallel
// peers always do, data-parallel replicas unless their GPUs differ. Classes are numbered by their
// places, the slowest first: stage, replica, context rank, tensor rank (of those that have
// classes).
//
// What was worked out is kept: asking again costs nothing. Not for two threads at the same time.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/job/mesh/axes.h"
#include "sim/job/mesh/communicators.h"

namespace sim::mesh {

// Which ranks are alike.
struct Alike {
  bool all_ranks = false;  // none: one class per rank
  // Where replicas differ (slow GPUs): the class of each data-parallel rank, numbered in order of
  // first appearance. Empty: all alike.
  std::vector<int> class_of_replica;
  // Where replicas do not all do as much (microbatches of a step): how much each data-parallel rank
  // does. Those that do not do as much are of different classes. Empty: all as much.
  std::vector<int> work_of_replica = {};
};

// Of a rank class.
struct Coordinates {
  int stage = 0, dp_rank = 0, cp_rank = 0, tp_rank = 0;
};

class Mesh {
 public:
  Mesh() : Mesh(Degrees{}) {}
  // REQUIRES: problem(degrees, order) is empty; a class for each of dp replicas, or none; its work
  // for each, or none.
  explicit Mesh(const Degrees& degrees, const Order& order = megatron_order, Alike alike = {});
  // `order` as a plan writes it; "" is Megatron-LM's. REQUIRES: parse_order takes it.
  Mesh(const Degrees& degrees, std::string_view order, Alike alike = {});

  const Degrees& degrees() const { return degrees_; }
  const Order& order() const { return order_; }
  int world() const { return static_cast<int>(degrees_.world()); }
  int place(int rank, Axis axis, Fold fold = Fold::attention) const {
    return place_of(rank, axis, degrees_, order_, fold);
  }

  // Every group of the communicator.
  const Groups& groups(Communicator communicator) const;
  // {rank of stage `from`, rank of stage `to`} of every pipeline.
  const Groups& pairs(int from, int to) const;
  // Each rank of a group of the communicator with the one behind it.
  Groups neighbours(Communicator communicator) const;

  int classes() const { return degrees_.pp * dp_classes() * degrees_.cp * tp_classes(); }
  int tp_classes() const { return alike_.all_ranks ? degrees_.tp : 1; }
  int dp_classes() const { return dp_classes_; }
  int replica_class(int dp_rank) const;
  // The first data-parallel rank of a class of replicas.
  int first_replica(int replica_class) const;
  int class_of(const Coordinates& at) const;
  Coordinates coordinates(int rank_class) const;
  // The class whose program all classes alike but for the GPUs under them share.
  int first_like(int rank_class) const;
  int class_of_rank(int rank) const;
  std::vector<int> ranks_of(int rank_class) const;
  int rank_count(int rank_class) const;

  // Classes that meet in one collective, as seen from a class, ascending: those with a rank in a
  // group with one of its ranks, and theirs in turn.
  const std::vector<int>& members(Communicator communicator, int rank_class) const;
  // The groups of those classes, and their places among `groups`, ascending.
  Groups groups_of(Communicator communicator, int rank_class) const;
  std::vector<int> group_numbers(Communicator communicator, int rank_class) const;
  // {rank at `stage`, rank at `other`} of the pipelines that run through the class.
  Groups pairs_of(int rank_class, int from, int to) const;
  std::vector<int> pair_numbers(int rank_class, int from, int to) const;
  // The stage and the class `offset` stages on (cyclic).
  int stage_at(int stage, int offset) const { return (stage + offset + degrees_.pp) % degrees_.pp; }
  int peer(int rank_class, int offset) const;

  // The same ranks, with classes for those alone that differ by their place in the program, or by
  // how much they do.
  Mesh merged() const { return Mesh(degrees_, order_, Alike{false, {}, alike_.work_of_replica}); }
  bool all_ranks() const { return alike_.all_ranks; }

 private:
  // Classes that meet: for each its group, and the groups.
  struct Meetings {
    std::vector<std::size_t> of_class;
    std::vector<std::vector<int>> groups;
  };
  Meetings meet(Communicator communicator) const;

  Degrees degrees_;
  Order order_;
  Alike alike_;
  int dp_classes_ = 1;
  mutable std::map<Communicator, Groups> groups_;
  mutable std::map<std::pair<int, int>, Groups> pairs_;
  mutable std::map<Communicator, Meetings> meetings_;
  mutable std::vector<int> class_of_rank_;
};

}  // namespace sim::mesh
