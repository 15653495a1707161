// place_model.h — the model of place.h: communication time of a step as a function of the order of
// nodes.
//
// If all nodes use the same NICs, only links between leaves are visited per pair of nodes. A node's
// own links carry the same load wherever it is placed.
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
  // messages of a pipeline; otherwise collectives at the efficiency of rings
  bool messages = false;
  double weight = 1;
  std::vector<NodePair> pairs;
  std::vector<double> sent, received;  // bytes by node of the job
};

class PlaceModel {
 public:
  explicit PlaceModel(const answer::CheckedPlan& plan);

  // Seconds of a term for an order of nodes, and the slowest link.
  struct Longest {
    double seconds = 0;
    int link = -1;
  };
  Longest longest(const PlaceTerm& term, const std::vector<int>& order);
  // Sum over all terms.
  double seconds(const std::vector<int>& order);

  const std::vector<PlaceTerm>& terms() const { return terms_; }
  int job_nodes() const { return job_nodes_; }
  std::string label_of(int link) const;
  // Approximate number of links that one evaluation of an order visits.
  std::int64_t work() const;

 private:
  struct Crossed {
    int link = 0;
    double share = 0;  // of the bytes from node to node
  };
  using CrossedLinks = std::vector<Crossed>;
  // Rails whose NICs share a leaf in every node.
  struct Rails {
    double share = 0;          // of the bytes from node to node
    std::vector<int> leaf_of;  // by node
  };
  struct Leaves {
    std::vector<Rails> rails;
    std::vector<double> slowest_up, slowest_down;  // seconds per byte of a node, by node
  };

  const CrossedLinks& way(int from, int to);
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
  std::vector<double> load_;  // bytes on each link; 0 between evaluations
  std::vector<int> touched_;
  std::unordered_map<std::int64_t, CrossedLinks> ways_;  // by pair of nodes; never iterated
  std::vector<std::vector<int>> working_;  // NICs that the GPUs of a node use, one entry per GPU
  std::optional<Leaves> leaves_;
};

}  // namespace sim::study
