// layer_choices.h — which layers of a chunk keep what they save for their backward pass, which swap
// it to the CPU, and which run again: the choice that takes least time of those that leave no more
// than a budget behind, by the times of the plan's own blocks.
//
// Of L layers, f forward, b backward, r running again, c copying one way. Swapped layer i, with j
// the next one above that swaps (none: the last layer), waits
//
//     forward    max(0, c_i - sum of f over i + 1 .. j)         copied down until j is done
//     backward   max(0, c_i - sum of b and r over i + 1 .. j)   copied up once j is back
//
// as the program has it (program/parallel/offload/offload.h). Bytes left behind: all that a layer
// keeps, or the input of one that runs again. A dynamic programme from the last layer down; what is
// above a layer matters by its bytes, its waits, and the time since the nearest swap, so of two
// ways the one that is no better in any of these goes.
//
// Wahib et al., "Scaling Distributed Deep Learning Workloads beyond the Memory Capacity with
// KARMA", SC 2020 (arXiv:2008.11421), section III; its solver is an ant colony, this one is exact.
#pragma once

#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Of one layer, in seconds and bytes.
struct LayerCost {
  double forward = 0, backward = 0, again = 0, copy = 0;
  double kept = 0, input = 0;
};

// Seconds that a choice takes beyond forward and backward, and bytes behind the forward pass.
struct ChoiceCost {
  double seconds = 0, bytes = 0;
};
// REQUIRES: as many choices as layers.
ChoiceCost cost_of(const std::vector<LayerCost>& layers,
                   const std::vector<program::LayerChoice>& choices);

// The last layer never swaps. Of choices that take as long, one with least bytes. Empty: none
// leaves so few bytes.
std::vector<program::LayerChoice> choose(const std::vector<LayerCost>& layers, double budget);

// The plan with the choices of its layers where it asks for them to be planned, else as it is: all
// kept where that fits, else the fastest that does by the replay; where none does, those that leave
// least behind. REQUIRES: problems(plan, site) is empty.
program::Plan chosen(const program::Plan& plan, Site& site);

}  // namespace sim::answer
