// fixes.h — the smallest changes that make a plan fit. Each is replayed before it is offered. The
// commands `explain` and `run --fixes` call it.
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
  std::vector<Fix> fixes;     // those that fit, the fastest first; then those that do not
  bool pairs = false;         // pairs are among them
};

// Replays every single change. Recomputation uses the fewest layers that fit. If none fits and
// `pairs` is set: up to three pairs of changes that fit. If those that fit are tight: also up to
// three pairs with more room.
Fixes find_fixes(const answer::CheckedPlan& plan, bool pairs);

// The changes as a table; `key` is its name in JSON.
std::vector<output::Block> fixes_blocks(const Fixes& fixes, const std::string& key);

}  // namespace sim::study
