// fixes.h — the smallest changes of a plan that would make it fit. Each is replayed before it is
// offered.
//
// Invariant: the world stays as large as it is; what a change costs is its step time against that
// of the plan as it is on GPUs of unlimited memory.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/output/document.h"

namespace sim::study {

// Plans that differ from `plan` in one setting, smallest change first: what costs nothing before
// what costs time, the same parallelism before another one. Only possible plans. `text` is what to
// write on the command line: "micro_batch=1".
struct Change {
  std::string text;
  answer::CheckedPlan plan;
};
std::vector<Change> single_changes(const answer::CheckedPlan& plan);

struct Fix {
  std::string change;
  answer::Answer answer;
};

struct Fixes {
  Duration unlimited_step{};  // of the plan as it is, given the memory
  std::vector<Fix> fixes;     // in the order of the changes; also those that do not fit
  bool pairs = false;         // no single change fits: these are two together, and they fit
};

// Every single change, replayed, in that order; with the fewest recomputed layers that fit. When
// none fits and `pairs` is set: up to three pairs of changes that do.
Fixes find_fixes(const answer::CheckedPlan& plan, bool pairs);

// The changes as a table, under that key in JSON.
std::vector<output::Block> fixes_blocks(const Fixes& fixes, const std::string& key);

}  // namespace sim::study
