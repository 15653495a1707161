// zero_bubble_search.h — the order of F, B and W with the least idle time that a greedy search
// finds under a cap of live microbatches, for given times of passes.
//
// Microbatch by microbatch, the search puts one F and one B on every stage, and a W wherever one
// fits before the next input arrives, or where memory needs it. Three choices are open: whether a
// forward may be squeezed in that delays the first B, whether a B whose input comes soon goes
// before another forward, and whether a W goes into a gap shorter than itself. All eight are tried;
// the one with the shortest longest stage wins.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241), section 3.1; the
// choices are those of the authors' heuristic (zero-bubble-pipeline-parallelism, zb.py), and so is
// how memory counts: a microbatch whose B is done weighs Times::kept.
#pragma once

#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// REQUIRES: one chunk per stage, at least as many microbatches as stages, cap >= stages.
std::vector<Order> zero_bubble_search(const Shape& shape, int cap);

// What zb-1p and zb-2p ask of a shape.
std::string zero_bubble_rule(const Shape& shape);

}  // namespace sim::schedule
