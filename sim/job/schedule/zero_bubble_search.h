// zero_bubble_search.h — a greedy search for the order of F, B and W with the least idle time. It
// respects a cap on live microbatches and uses given times of passes.
//
// Microbatch by microbatch, the search puts one F and one B on every stage. It adds a W wherever
// one fits before the next input arrives, or where memory requires it. Three choices are open. A
// forward that delays the first B may be allowed. A B whose input comes soon may precede another
// forward. A W may fill a gap shorter than itself. All eight combinations are tried; the one whose
// longest stage is shortest wins.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241), section 3.1. The
// choices are those of the authors' heuristic (zero-bubble-pipeline-parallelism, zb.py), and so is
// the count of memory: a microbatch whose B is done weighs Times::kept.
#pragma once

#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// REQUIRES: one chunk per stage, at least as many microbatches as stages, cap >= stages.
std::vector<Order> zero_bubble_search(const PipelineShape& shape, int cap);

// The rules of zb-1p and zb-2p for a shape.
std::string zero_bubble_rule(const PipelineShape& shape);

}  // namespace sim::schedule
