// resolve_balanced.h — fills four fields of a plan that may be left open. Their values follow from
// the priced times of the plan's own blocks.
//
// `evaluate` calls it for each plan; commands call it to print the filled plan. The searches of the
// four fields (balance.h, microbatch_balance.h, slices.h, layer_choices.h) replay their candidates
// through `Fastest`.
#pragma once

#include <optional>
#include <utility>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// In this order: layers of parts, microbatches of replicas, slice lengths, layer choices. A plan
// that leaves none of them open is returned unchanged.
CheckedPlan resolve_balanced(const CheckedPlan& plan);

// The fastest candidate whose replay fits. `plan` is the first candidate until one fits.
class Fastest {
 public:
  explicit Fastest(CheckedPlan first) : plan_(std::move(first)) {}

  const CheckedPlan& plan() const { return plan_; }
  Answer replay(const CheckedPlan& candidate) {
    Answer answer = evaluate_once(candidate);
    if (answer.run.fits() && (!least_ || answer.run.step_time < *least_)) {
      least_ = answer.run.step_time;
      plan_ = candidate;
    }
    return answer;
  }

 private:
  CheckedPlan plan_;
  std::optional<Duration> least_;
};

}  // namespace sim::answer
