// expected.h — the expected step of one rank of a plan: the operations of each GPU queue in order
// of issue, with times from the replay.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/answer/step_operations.h"
#include "sim/calibrate/readers/kernel_family.h"
#include "sim/engine/replay.h"

namespace sim::calibrate {

// Times are since the begin of the step.
struct ExpectedOperation : answer::StepOperation {
  KernelFamily family = KernelFamily::other;
};

struct ExpectedStep {
  program::Job job;
  engine::Times times;
  engine::Memory memory;  // memory of unlimited GPUs, since the compared run fitted
  int rank_class = 0;
  std::vector<ExpectedOperation> operations;  // for each queue in order of issue
  Duration step_time{};
  std::map<std::string, double> accounts;  // seconds of the rank class's step

  const program::Program& program() const {
    return job.classes[static_cast<std::size_t>(rank_class)];
  }
  const model::Operation& kernel(const ExpectedOperation& o) const {
    return program().operations[o.index];
  }
};

KernelFamily family_of(const model::Operation& operation);
KernelFamily family_of(collective::Kind kind);

// The expected step of rank `rank` of a plan. REQUIRES: the plan has this rank.
ExpectedStep expected_step(const answer::CheckedPlan& plan, int rank);

// Step time of the same replay with other times. REQUIRES: `times` has the shape of `step.times`.
Duration step_time_with(const ExpectedStep& step, const engine::Times& times);

}  // namespace sim::calibrate
