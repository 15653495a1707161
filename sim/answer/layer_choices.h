// layer_choices.h — chooses for each layer of a chunk: keep saved tensors, swap them to the CPU, or
// recompute.
//
// resolve_balanced.h calls `chosen` for plans with layer_choices: planned. The result is the
// fastest choice with saved bytes within a budget. Times come from the plan's own priced blocks.
//
// Each layer has the times f (forward), b (backward), r (recomputation) and c (copy in one
// direction). Let layer i be swapped. Let j be the next swapped layer above i, or the last layer if
// there is none. Layer i waits
//
//     forward    max(0, c_i - sum of f over i + 1 .. j)         copied to the CPU until j is done
//     backward   max(0, c_i - sum of b and r over i + 1 .. j)   copied back after j is back
//
// as in the program (program/parallel/offload/offload.h). The saved bytes are the kept tensors of a
// layer, or the input of a recomputed layer.
//
// The algorithm is a dynamic program from the last layer down. The layers above affect a layer
// through three values only: saved bytes, waits, and time since the nearest swap. A partial choice
// that is no better in any value is discarded. The result is exact.
//
// Source: Wahib et al., "Scaling Distributed Deep Learning Workloads beyond the Memory Capacity
// with KARMA", SC 2020 (arXiv:2008.11421), section III. KARMA's solver is an ant colony.
#pragma once

#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Costs of one layer. Times are in seconds; `kept` (saved tensors) and `input` are in bytes.
struct LayerCost {
  double forward = 0, backward = 0, again = 0, copy = 0;
  double kept = 0, input = 0;
};

// Cost of a choice: seconds beyond plain forward and backward, and bytes saved after the forward
// pass.
struct ChoiceCost {
  double seconds = 0, bytes = 0;
};
// REQUIRES: one choice for each layer.
ChoiceCost cost_of(const std::vector<LayerCost>& layers,
                   const std::vector<program::LayerChoice>& choices);

// The fastest choice within `budget` bytes; at equal time the one with fewer bytes. The last layer
// is never swapped. Empty if no choice stays within the budget.
std::vector<program::LayerChoice> choose(const std::vector<LayerCost>& layers, double budget);

// Fills the layer choices of a plan with layer_choices: planned. Other plans are returned
// unchanged. Keeps everything if that fits. Otherwise bisects the budget and takes the fastest
// choice whose replay fits. If none fits, the choice with the fewest saved bytes.
CheckedPlan chosen(const CheckedPlan& plan);

}  // namespace sim::answer
