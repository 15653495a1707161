// evaluate.h — turns a plan and a cluster into an Answer: build programs, price them, replay them.
//
// The commands `run`, `sweep`, `plan`, `explain` and `validate` and the Python module all evaluate
// plans here. Steps of `evaluate`:
//  (1) resolve_balanced fills the fields that the plan leaves to measured block times (slices.h).
//  (2) program::build creates one device program for each rank class.
//  (3) engine::price and engine::outside_memory assign times and memory of this cluster.
//  (4) engine::run replays the programs.
//  (5) The closed-form estimate, the host memory, the verdict and the throughputs are added.
//
// Invariants
//  (1) `evaluate` accepts only plans that `check` accepted (checked_plan.h).
//  (2) The same plan and the same data files give the same Answer.
#pragma once

#include "sim/allocator/estimator.h"
#include "sim/answer/answer.h"
#include "sim/answer/checked_plan.h"
#include "sim/engine/replay.h"
#include "sim/model/flops.h"

namespace sim::answer {

// Evaluates a plan. `all_ranks`: replay every rank instead of one rank of each class.
Answer evaluate(const CheckedPlan& plan, const engine::Options& options = {},
                bool all_ranks = false);

// Evaluates with one replay and no verdict analysis: `answer.verdict` holds only 0 or 1. Searches
// use it, because they evaluate many plans and show no verdict.
Answer evaluate_once(const CheckedPlan& plan, const engine::Options& options = {});

// Evaluates on GPUs with unlimited memory: how much memory and time would the plan need?
Answer evaluate_unlimited(const CheckedPlan& plan);

// Fills answer.retry_cost with one more replay, if the step has retries. REQUIRES: `answer` is of
// `plan` with these options.
void add_retry_cost(Answer& answer, const CheckedPlan& plan, engine::Options options = {});

// The recomputation mode as the FLOP conventions name it (model/flops.h).
model::Recompute flops_recompute(program::Recompute recompute);

// Input and result of the closed-form memory estimate (allocator/estimator.h).
allocator::EstimatorInput estimator_input(const program::Plan& plan);
Estimate estimate(const program::Plan& plan, const device::Gpu& gpu);

}  // namespace sim::answer
