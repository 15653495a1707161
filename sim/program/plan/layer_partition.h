// layer_partition.h — how many layers each part of the model has, even or uneven.
//
// A part is the content of one chunk of one stage. Parts are numbered along the model
// (job/schedule/placement.h). The rules:
//
//     even        the same number everywhere; or separate numbers for the first and the last stage;
//                 or the embedding and the head count as a layer each (Megatron-LM's
//                 --decoder-first-pipeline-num-layers, --account-for-embedding-in-pipeline-split)
//     padded      the number is rounded up to a multiple of the parts; the last part loses one
//                 layer, then the first, the second, ... until the sum is right
//                 (zero-bubble-pipeline-parallelism's --allow-padding-num-layers)
//     weighted    embedding and head count as some layers; the sum is split evenly, and the first
//                 parts get one more (torchtitan's pipeline_parallel_first_stage_less_layers)
//     balanced    chosen from the times of the plan's blocks (answer/balance.h); padded until then
//     listed      each part's own number (Megatron-LM's --pipeline-model-parallel-layout)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// The number of parts of the plan's model. REQUIRES: the schedule is known.
int count_parts(const Plan& plan);

// REQUIRES: the plan breaks no rule of rules/layer_partition.cpp.
int part_layers(const Plan& plan, int part);

// The layers of each part, in the order of the model. REQUIRES: the plan breaks no rule of
// rules/layer_partition.cpp.
std::vector<int> layers_of_parts(const Plan& plan);

// Whether the first or the last stage has a number of layers of its own.
bool has_sized_ends(const Plan& plan);
// Whether the embedding or the head counts as a layer.
bool counts_ends(const Plan& plan);

// The divisors of n, at most twelve of them: "1, 2, 4 or 8".
std::string divisors(std::int64_t n);

// A Megatron-LM layout as text. `|` separates parts. The letters are E (embedding), t (layer), m
// (multi-token prediction) and L (head and loss). The text x*n or (...)*n repeats x or the group;
// commas are ignored. "Et*2|(tt|)*5t|tL" has the parts 2 2 2 2 2 2 1 1.
struct Layout {
  std::vector<int> layers;  // by part
  int predicted = 0;        // number of m
  std::string problem;      // empty: the text is a layout
};
Layout read_layout(std::string_view text);
// Writes a layout; the inverse of read_layout. REQUIRES: there are parts.
std::string layout_text(const std::vector<int>& layers, std::int64_t predicted);

}  // namespace sim::program
