// place.h — which nodes of the cluster should the job's nodes be? Simulated annealing over their
// order, for clusters whose links are not alike: measured between each two nodes, degraded, or
// shared above the leaves.
//
// What is annealed is a model of the communication that a step waits for, on the routes and
// capacities of the network:
//
//     collectives   of each communicator, all its groups at once: bytes over the link that takes
//                   longest
//     pipeline      of each two stages, in either direction, the longest link; a microbatch in pp
//                   pays it, as 1F1B does
//
// It orders placements and is no prediction; the caller replays the first and the last one.
//
// Invariants: the order found is no worse, by the model, than the order given; same question and
// seed, same order. Ranks of a node stay together and in order.
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
  std::int64_t moves = 0;  // tried; 0: as many as take a few seconds
};

// What one communicator waits for on its longest link, in a step, by the model.
struct PlacedTraffic {
  std::string who;   // "dp-cp", "pp"
  double bytes = 0;  // between nodes, in a step
  double seconds_before = 0, seconds_after = 0;
  std::string link_before, link_after;  // "node 3 host 0 -> node 5 host 0"
};

struct Placement {
  std::vector<int> before, after;  // nodes of the cluster that the job's nodes are
  std::vector<PlacedTraffic> traffic;
  double seconds_before = 0, seconds_after = 0;  // of all traffic, by the model
  std::int64_t moves = 0;
};

Placement place(const answer::CheckedPlan& plan, const PlaceSettings& settings = {});

// What the model says about one order of nodes.
double placement_seconds(const answer::CheckedPlan& plan, const std::vector<int>& order);

}  // namespace sim::study
