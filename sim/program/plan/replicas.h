// replicas.h — a step's microbatches where data-parallel replicas do not all do as many: those on
// faster GPUs do more of them.
//
// The program of a replica is that of a plan in which all do as many as it does. What its gradients
// count is folded into the scale that they are reduced with (samples of the replica by those of the
// step), which costs nothing; their reduction waits for the slowest replica. Losses are summed over
// replicas once, behind the step: microbatch by microbatch they would not meet.
//
// Megatron-LM's forks for unlike GPUs: SynerFuse USAGE.md (--num-micro-batches-per-dp: counts that
// sum to the global batch) and their arguments.py (num_micro_batches_grad_factor); HexiScale
// (arXiv:2409.01143), in which each pipeline has a batch of its own; DeepSpeed
// runtime/pipe/engine.py:_aggregate_total_loss (the loss, once a step).
#pragma once

#include <string>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// Microbatches of each data-parallel replica. REQUIRES: the plan has no problems.
std::vector<int> microbatches_of_replicas(const Plan& plan);
// The same where not all do as many, else empty.
std::vector<int> unlike_microbatches(const Plan& plan);

// "2x12,4": as a plan writes them.
std::string text_of(const std::vector<int>& microbatches);

// The plan as one replica sees it: it does so many microbatches.
Plan of_replica(const Plan& plan, int dp_rank);

// Rules of the batch: that replicas share it, and what goes with an uneven share.
Diagnostics batch_problems(const Plan& plan);

}  // namespace sim::program
