// mesh.h — the ranks of one job: groups, rank classes and replicas. All callers ask this class.
//
// A rank class represents ranks that run the same program with the same times. Tensor-parallel
// peers always do; data-parallel replicas do unless their GPUs differ. Classes are numbered by
// their places, the slowest first: stage, replica, context rank, tensor rank (of axes with
// classes).
//
// Results are cached, so a repeated query is cheap. A Mesh must not be used by two threads at the
// same time.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/job/mesh/axes.h"
#include "sim/job/mesh/communicators.h"

namespace sim::mesh {

// How ranks are grouped into classes.
struct Alike {
  bool all_ranks = false;  // every rank is a class
  // The class of each data-parallel rank if replicas differ (slow GPUs), numbered by first
  // appearance. Empty: all replicas are alike.
  std::vector<int> class_of_replica;
  // The work (microbatches of a step) of each data-parallel rank, if it differs. Replicas with
  // different work are in different classes. Empty: all have the same work.
  std::vector<int> work_of_replica = {};
};

// The coordinates of a rank class.
struct Coordinates {
  int stage = 0, dp_rank = 0, cp_rank = 0, tp_rank = 0;
};

class Mesh {
 public:
  Mesh() : Mesh(Degrees{}) {}
  // REQUIRES: problem(degrees, order) is empty; `alike` has an entry for each of dp replicas, or
  // none.
  explicit Mesh(const Degrees& degrees, const Order& order = megatron_order, Alike alike = {});
  // `order` in the notation of a plan; "": Megatron-LM's. REQUIRES: parse_order accepts it.
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
  // Each rank of a group paired with its successor in the group.
  Groups neighbours(Communicator communicator) const;

  int classes() const { return degrees_.pp * dp_classes() * degrees_.cp * tp_classes(); }
  int tp_classes() const { return alike_.all_ranks ? degrees_.tp : 1; }
  int dp_classes() const { return dp_classes_; }
  int replica_class(int dp_rank) const;
  // The first data-parallel rank of a class of replicas.
  int first_replica(int replica_class) const;
  int class_of(const Coordinates& at) const;
  Coordinates coordinates(int rank_class) const;
  // The class whose program is shared by all classes that differ only in their GPUs.
  int first_like(int rank_class) const;
  int class_of_rank(int rank) const;
  std::vector<int> ranks_of(int rank_class) const;
  int rank_count(int rank_class) const;

  // Classes that meet `rank_class` in collectives of the communicator, ascending: classes with a
  // rank in a group of its ranks, and transitively theirs.
  const std::vector<int>& members(Communicator communicator, int rank_class) const;
  // The groups of those classes, and their indices in groups(), ascending.
  Groups groups_of(Communicator communicator, int rank_class) const;
  std::vector<int> group_numbers(Communicator communicator, int rank_class) const;
  // {rank at stage `from`, rank at stage `to`} of the pipelines that pass through the class.
  Groups pairs_of(int rank_class, int from, int to) const;
  std::vector<int> pair_numbers(int rank_class, int from, int to) const;
  // The stage, and the class, `offset` stages further (cyclic).
  int stage_at(int stage, int offset) const { return (stage + offset + degrees_.pp) % degrees_.pp; }
  int peer(int rank_class, int offset) const;

  // The same ranks, with classes only for ranks that differ by their place in the program or by
  // their work.
  Mesh merged() const { return Mesh(degrees_, order_, Alike{false, {}, alike_.work_of_replica}); }
  bool all_ranks() const { return alike_.all_ranks; }

 private:
  // Classes that meet: the index of each class's group, and the groups.
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
