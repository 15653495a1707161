// checked_plan.h — a plan that can run on a site: the one door to an Answer.
//
// `check` applies every rule once: those of the plan (program/plan/rules), then those of the plan
// on this site. Only `check` makes a CheckedPlan, and `evaluate` takes nothing else. A changed plan
// is another plan and is checked again.
//
// Rules of a plan on a site: precisions that the GPUs have, the number of GPUs, the length of a
// step, the order of passes (job/schedule/order_rules.h), launch queues, host memory, and how many
// kinds of replicas there are.
#pragma once

#include <memory>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/answer/site.h"
#include "sim/program/build/build.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::answer {

class CheckedPlan {
 public:
  const program::ValidPlan& plan() const;
  const program::Plan* operator->() const { return &*plan(); }
  Site& site() const;
  // The device programs, one for each rank class; built at the first call. A schedule that is
  // ordered by pass times has its default times here; see timed_job (pass_times.h).
  const program::Job& job() const { return *shared_job(); }
  std::shared_ptr<const program::Job> shared_job() const;

 private:
  friend Result<CheckedPlan> check(const program::ValidPlan& plan, Site& site);
  struct State;
  explicit CheckedPlan(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;  // copies share it
};

// Errors: the reasons why the plan cannot run on the site; `where` is the setting, or empty.
Result<CheckedPlan> check(const program::ValidPlan& plan, Site& site);
// The same for a plan whose own rules were not checked yet.
Result<CheckedPlan> check(program::Plan plan, Site& site);

// REQUIRES: the plan can run on the site.
CheckedPlan checked(program::Plan plan, Site& site);

// The class number of each data-parallel replica. Replicas differ when they use GPUs or NVLinks of
// different speed. Empty if all replicas are equal.
std::vector<int> replica_classes(const program::Plan& plan, const topology::Cluster& cluster);

// Host memory of the node whose ranks use most.
HostMemory host_memory(const program::Plan& plan, const program::Job& job,
                       const topology::Cluster& cluster);

// The device programs of a plan on a site, one for each rank class.
program::Job job_of(const program::ValidPlan& plan, const Site& site, bool all_ranks = false);

}  // namespace sim::answer
