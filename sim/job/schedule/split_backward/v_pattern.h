// v_pattern.h — schedules that repeat a building block: two parts per stage in a V. In every six
// slots each stage runs F, f, b, B of one microbatch and two weight passes. The distances of the
// four decide the number of live activations. The block is repeated, and weight passes fill free
// slots. Passes before the first and after the last full block move ahead as far as inputs and
// memory allow.
//
//     V-half on 2 stages, slots of the first block:  stage 0: F 0, f 4, b 8, B 13
//                                                    stage 1: F 2, f 3, b 10, B 12
//
// Qi et al., "Pipeline Parallelism with Controllable Memory" (arXiv:2405.15362), sections 4 and 5;
// the order of moves is that of the authors' repository (zbv_greedy.py).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// The slots of F, f, b and B of a stage in the first block.
using Block = std::array<int, 4>;

// REQUIRES: one block per stage; no two passes of a stage meet in a slot modulo 6.
std::vector<Order> repeated(const std::vector<Block>& blocks, int microbatches);

// The rule of these schedules for a shape.
std::string v_pattern_rule(const PipelineShape& shape);

}  // namespace sim::schedule
