// valid_plan.h — a plan that breaks no rule.
//
// Only `validate` makes a ValidPlan. Functions that build programs take one, so the rules are
// evaluated once for each plan and never asked again. To change a plan, copy it, change the copy
// and validate that.
#pragma once

#include <memory>

#include "sim/base/result.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

class ValidPlan {
 public:
  const Plan& operator*() const { return *plan_; }
  const Plan* operator->() const { return plan_.get(); }
  operator const Plan&() const { return *plan_; }

 private:
  friend Result<ValidPlan> validate(Plan plan);
  explicit ValidPlan(Plan plan) : plan_(std::make_shared<const Plan>(std::move(plan))) {}

  std::shared_ptr<const Plan> plan_;  // copies share it
};

// Errors: every rule that the plan breaks; `where` is the setting ("tp", "fsdp", "model").
Result<ValidPlan> validate(Plan plan);

// REQUIRES: the plan breaks no rule.
ValidPlan valid(Plan plan);

}  // namespace sim::program
