// replicas.h — steps in which data-parallel replicas run different numbers of microbatches: faster
// GPUs run more.
//
// The program of a replica equals that of a plan in which all replicas run as many microbatches as
// it does. Its gradients are weighted by its share of the step's samples; the scale of the
// reduction includes this weight, at no cost. The reduction waits for the slowest replica. Losses
// are summed over replicas once, after the step, because the replicas' microbatches do not pair up.
//
// Sources: Megatron-LM's forks for mixed GPUs: SynerFuse USAGE.md (--num-micro-batches-per-dp:
// counts that sum to the global batch) and their arguments.py (num_micro_batches_grad_factor).
// HexiScale (arXiv:2409.01143), in which each pipeline has its own batch. DeepSpeed
// runtime/pipe/engine.py:_aggregate_total_loss (the loss, once a step).
#pragma once

#include <string>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// Microbatches of each data-parallel replica. REQUIRES: the plan has no problems.
std::vector<int> microbatches_of_replicas(const Plan& plan);
// The same if replicas differ; empty if all run the same number.
std::vector<int> unlike_microbatches(const Plan& plan);

// The counts in the notation of a plan: "2x12,4".
std::string text_of(const std::vector<int>& microbatches);

// The plan as one replica sees it, with that replica's number of microbatches.
Plan of_replica(const Plan& plan, int dp_rank);

}  // namespace sim::program
