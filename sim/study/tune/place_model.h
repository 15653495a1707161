// place_model.h — what a step waits for by the order of a job's nodes: the model of place.h.
//
// Where all nodes use the same NICs, a look at an order costs the links between the leaves of each
// pair instead of all that the pair crosses: the load of a node's own links moves along with it.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/cluster/topology/routes.h"

namespace sim::study {

// Bytes from one node of the job to another.
struct NodePair {
  int from = 0, to = 0;
  double bytes = 0;
};

// Traffic that shares the links at the same time.
struct PlaceTerm {
  std::string who;
  bool messages = false;  // else collectives: they lose what rings lose
  double weight = 1;
  std::vector<NodePair> pairs;
  std::vector<double> sent, received;  // by node of the job, bytes
};

class PlaceModel {
 public:
  explicit PlaceModel(const answer::CheckedPlan& plan);

  // Seconds of a term with the job's nodes on these nodes of the cluster, and the link that takes
  // them.
  struct Longest {
    double seconds = 0;
    int link = -1;
  };
  Longest longest(const PlaceTerm& term, const std::vector<int>& order);
  // Of all terms.
  double seconds(const std::vector<int>& order);

  const std::vector<PlaceTerm>& terms() const { return terms_; }
  int job_nodes() const { return job_nodes_; }
  std::string label_of(int link) const;
  // Links that one look at an order touches, about.
  std::int64_t work() const;

 private:
  struct Crossed {
    int link = 0;
    double share = 0;  // of the bytes from node to node
  };
  using Way = std::vector<Crossed>;
  // Rails whose NICs are on the same leaf, in every node.
  struct Rails {
    double share = 0;          // of the bytes from node to node
    std::vector<int> leaf_of;  // by node
  };
  struct Leaves {
    std::vector<Rails> rails;
    std::vector<double> slowest_up, slowest_down;  // seconds a byte of a node's, by node
  };

  const Way& way(int from, int to);
  std::optional<Leaves> leaves_of_nodes() const;
  double seconds_by_leaves(const PlaceTerm& term, const std::vector<int>& order);
  void load(int link, double bytes);
  template <class Visit>
  void unload(double efficiency, const Visit& visit);
  double capacity(int link, double efficiency) const;
  double efficiency(const PlaceTerm& term) const;

  const topology::Cluster& cluster_;
  topology::Routes routes_;
  const network::Achieved& achieved_;
  int job_nodes_;
  std::vector<PlaceTerm> terms_;
  std::vector<double> load_;  // of each link, bytes; 0 between questions
  std::vector<int> touched_;
  std::unordered_map<std::int64_t, Way> ways_;  // by both nodes; never walked through
  std::vector<std::vector<int>> working_;  // NICs that the GPUs of a node use, one entry for each
  std::optional<Leaves> leaves_;
};

}  // namespace sim::study
