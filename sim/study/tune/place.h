// place.h — chooses nodes of the cluster for a job by simulated annealing over their order. It
// helps clusters with unequal links: measured per pair of nodes, degraded, or oversubscribed above
// the leaves. The commands `topo place` and `plan` call it.
//
// Annealing minimises a model of the communication that a step waits for, on the routes and
// capacities of the network:
//
//    collectives   for each communicator, all its groups at once: the time of the slowest link
//    pipeline      for each kind of message between stages: the time of the slowest link. One of
//                  pp microbatches waits for it, as in 1F1B; compute hides the others
//
// The model orders placements and is no prediction. The caller replays the first and the last one.
//
// Invariants: by the model the result is not worse than the given order. The same question and seed
// give the same order. Ranks of a node stay together and in order.
//
// Yim, Song, Choi, Lee, Jung, "Pipette: automatic fine-grained large language model training
// configurator for real-world clusters", DATE 2024 (arXiv:2405.18093): annealing of node orders on
// measured bandwidths, geometric cooling by 0.999; Kirkpatrick, Gelatt, Vecchi, Science 220 (1983).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::study {

struct PlaceSettings {
  std::uint64_t seed = 1;
  std::int64_t moves = 0;  // moves to try; 0: as many as take a few seconds
};

// Time of one communicator on its longest link per step, by the model.
struct PlacedTraffic {
  std::string who;   // "dp-cp", "pp"
  double bytes = 0;  // between nodes, per step
  double seconds_before = 0, seconds_after = 0;
  std::string link_before, link_after;  // "node 3 host 0 -> node 5 host 0"
};

struct Placement {
  std::vector<int> before, after;  // node of the cluster for each node of the job
  std::vector<PlacedTraffic> traffic;
  double seconds_before = 0, seconds_after = 0;  // of all traffic, by the model
  std::int64_t moves = 0;
};

Placement place(const answer::CheckedPlan& plan, const PlaceSettings& settings = {});

// Time of one order of nodes by the model.
double placement_seconds(const answer::CheckedPlan& plan, const std::vector<int>& order);

}  // namespace sim::study
