// improve.h — changes that make a plan faster or leave more memory free, each replayed. The
// commands `explain` and `run --fixes` offer them; `explain --fix` applies a combination.
//
// Invariants
// (1) Every change offered was replayed and fits. Its gain and its price in memory are those of the
//     replay.
// (2) A change keeps the number of GPUs, the model and the global batch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/output/document.h"
#include "sim/study/tune/changes.h"
#include "sim/study/tune/losses.h"

namespace sim::study {

struct Improvement {
  Change change;
  std::vector<Cause> against;
  Duration step{};
  Bytes reserved{}, capacity{};
  int retries = 0;     // in the step
  bool roomy = false;  // the outcome is not tight
};

struct Improvements {
  std::vector<Loss> losses;        // empty: no loss is worth a change
  std::vector<Improvement> found;  // the fastest first
  int replayed = 0;                // number of changes
};

// Changes against the losses of a plan that fits, with those that gain time or leave enough memory
// free. `answer` is of `plan`.
Improvements improvements(const answer::CheckedPlan& plan, const answer::Answer& answer);

// Several changes, one after another.
struct Combination {
  std::vector<std::string> changes;
  answer::CheckedPlan plan;
  answer::Answer answer;
};

// Applies changes while the losses of a plan have one that helps: first those that make the plan
// fit, then those that leave enough memory free, then those that are faster by 1 %. Nothing: no
// change helps.
std::optional<Combination> combine(const answer::CheckedPlan& plan, const answer::Answer& answer);

// The losses, and the changes as a table against `answer`.
std::vector<output::Block> improvement_blocks(const Improvements& all,
                                              const answer::Answer& answer);

}  // namespace sim::study
