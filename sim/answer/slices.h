// slices.h — chooses the lengths of sequence slices for pipelines that send slices through their
// stages.
//
// `evaluate` calls resolve_balanced, which calls `sliced` for plans with slices: balanced. The
// lengths come from a dynamic program over the times of the plan's own passes. A slice of l tokens
// after c earlier tokens takes t(l, c): forward, backward and its messages. On K stages with m
// microbatches
//
//     T = (K - 1) max t + m sum of t
//
// For each bound on max t, the least sum is
//
//     least(to) = min over l of least(to - l) + t(l, to - l),   t(l, to - l) <= bound
//
// Every possible t is tried as the bound. The replay decides between the resulting lengths.
//
// Source: Li et al., "TeraPipe", ICML 2021 (arXiv:2102.07988), section 3.3, algorithm 1. TeraPipe
// fits t to measurements. Here t is priced for a few even lengths and interpolated between them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Seconds of a slice of `length` units after `before` earlier units. REQUIRES: grows with `length`.
using SliceTime = std::function<double(int length, int before)>;

struct SlicePipeline {
  int units = 1;         // units of length in a sequence
  int stages = 1;        // K
  int microbatches = 1;  // m
};

// T in seconds. REQUIRES: the lengths sum to `units`.
double slices_time(const SlicePipeline& pipeline, const SliceTime& time,
                   const std::vector<int>& lengths);
// The lengths with the least T, in units.
std::vector<int> balance_slices(const SlicePipeline& pipeline, const SliceTime& time);

// Fills `slice_lengths` of a plan with slices: balanced. Other plans are returned unchanged.
// Candidates are even slices, one slice, and the dynamic program's lengths for 4, 8, 16 and 32
// units. The replay chooses the fastest one that fits.
CheckedPlan sliced(const CheckedPlan& plan);

}  // namespace sim::answer
