// slices.h — how long each slice of a sequence is where a schedule sends slices through its stages:
// a dynamic programme over lengths with the times of the plan's own passes.
//
// A slice of l tokens behind c others takes t(l, c), forward and back, with its messages; on K
// stages with m microbatches
//
//     T = (K - 1) max t + m sum of t
//
// For each bound on max t the least sum is
//
//     least(to) = min over l of least(to - l) + t(l, to - l),   t(l, to - l) <= bound
//
// and the best bound is tried out among all times that there are.
//
// Li et al., "TeraPipe", ICML 2021 (arXiv:2102.07988), section 3.3, algorithm 1; its times are a
// regression over measured ones, here passes of a few even lengths are priced and read in between.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Seconds of `length` units behind `before` others. REQUIRES: grows with length.
using SliceTime = std::function<double(int length, int before)>;

struct SlicePipeline {
  int units = 1;         // of a sequence
  int stages = 1;        // K
  int microbatches = 1;  // m
};

// T of these lengths, which sum to the units.
double slices_time(const SlicePipeline& pipeline, const SliceTime& time,
                   const std::vector<int>& lengths);
// The lengths with least T.
std::vector<int> balance_slices(const SlicePipeline& pipeline, const SliceTime& time);

// The plan with slice lengths where it asks for balanced slices, else as it is: of the dynamic
// programme's answers in units of several sizes, and of even slices, those that the replay says are
// the fastest of those that fit. REQUIRES: problems(plan, site) is empty.
program::Plan sliced(const program::Plan& plan, Site& site);

// The plan with everything settled that it leaves to the times of its own blocks: layers of its
// parts, microbatches of replicas, slices, choices of layers. REQUIRES: as above.
program::Plan resolve_balanced(const program::Plan& plan, Site& site);

}  // namespace sim::answer
