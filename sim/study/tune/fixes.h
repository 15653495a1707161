// fixes.h — the smallest changes that make a plan fit. Each is replayed before it is offered. The
// command `explain` calls it.
//
// Invariant: a change keeps the number of GPUs. Its cost is its step time relative to the unchanged
// plan on GPUs with unlimited memory.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/output/document.h"
#include "sim/study/tune/changes.h"

namespace sim::study {

struct Fix {
  std::string change;
  answer::Answer answer;
};

struct Fixes {
  Duration unlimited_step{};  // of the unchanged plan with unlimited memory
  std::vector<Fix> fixes;     // in the order of the changes, with those that do not fit
  bool pairs = false;         // no single change fits; these are pairs that fit
};

// Replays every single change in that order. Recomputation uses the fewest layers that fit. If none
// fits and `pairs` is set: up to three pairs of changes that fit.
Fixes find_fixes(const answer::CheckedPlan& plan, bool pairs);

// The changes as a table; `key` is its name in JSON.
std::vector<output::Block> fixes_blocks(const Fixes& fixes, const std::string& key);

}  // namespace sim::study
