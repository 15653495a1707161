// layer_partition.h — how many layers each part of the model has, where they do not divide evenly
// too.
//
// A part is what one chunk of one stage holds; parts are numbered along the model
// (job/schedule/placement.h). The rules, and what follows them:
//
//     even        as many everywhere; with counts of their own for the first and the last stage, or
//                 the embedding and the head counted as a layer each (Megatron-LM's
//                 --decoder-first-pipeline-num-layers, --account-for-embedding-in-pipeline-split)
//     padded      filled up to a multiple; what was filled up is taken from the last part, then
//                 from the first, the second, ... (zero-bubble-pipeline-parallelism's
//                 --allow-padding-num-layers)
//     weighted    embedding and head count as some layers, the sum is dealt out evenly, what is
//                 left over to the first parts (torchtitan's
//                 pipeline_parallel_first_stage_less_layers)
//     balanced    as the times of the plan's blocks ask for (answer/balance.h); padded until then
//     listed      each part's own number (Megatron-LM's --pipeline-model-parallel-layout)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// Parts that the plan's model is cut into. REQUIRES: the schedule is known.
int count_parts(const Plan& plan);

// REQUIRES: part_problems(plan) is empty.
int part_layers(const Plan& plan, int part);

// Of all parts, in their order. REQUIRES: as part_layers.
std::vector<int> layers_of_parts(const Plan& plan);

// Every rule of how layers are split that the plan breaks.
Diagnostics part_problems(const Plan& plan);

// "1, 2, 4 or 8": the divisors of n, at most twelve of them.
std::string divisors(std::int64_t n);

// Megatron-LM's layouts: stages behind each other, separated by '|', of E (embedding), t (layer),
// m (predicts a further token, with the head) and L (head and loss); x*n and (...)*n repeat, commas
// say nothing: "Et*2|(tt|)*5t|tL" has the parts 2 2 2 2 2 2 1 1.
struct Layout {
  std::vector<int> layers;  // by part
  int predicted = 0;        // how many m
  std::string problem;      // empty: the text is a layout
};
Layout read_layout(std::string_view text);
// The other way round. REQUIRES: there are parts.
std::string layout_text(const std::vector<int>& layers, std::int64_t predicted);

}  // namespace sim::program
