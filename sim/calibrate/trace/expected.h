// expected.h — what a rank of a plan is expected to do on its GPU in one step: its operations by
// queue in order of issue, with the times of the replay.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/calibrate/readers/kernel_family.h"
#include "sim/engine/replay.h"

namespace sim::calibrate {

struct ExpectedOperation {
  program::Stream queue{};
  program::Op op = program::Op::kernel;  // kernel, collective or exchange
  std::uint32_t index = 0;               // operation, transfer or exchange of the program
  bool overlapped = false;               // priced as beside other work
  KernelFamily family = KernelFamily::other;
  std::string label;  // "qkv"
  program::PassKind pass{};
  int microbatch = -1, layer = -1;
  Time start{}, met{}, end{};  // since the begin of the step; `met`: when its partners were there

  // Without waiting for partners.
  Duration own() const { return end - met; }
};

struct ExpectedStep {
  program::Job job;
  engine::Times times;
  engine::Memory memory;  // of GPUs without a limit: what is compared did run
  int rank_class = 0;
  std::vector<ExpectedOperation> operations;  // of each queue in order of issue
  Duration step_time{};
  std::map<std::string, double> accounts;  // seconds of the class's step

  const program::Program& program() const {
    return job.classes[static_cast<std::size_t>(rank_class)];
  }
  const model::Operation& kernel(const ExpectedOperation& o) const {
    return program().operations[o.index];
  }
};

KernelFamily family_of(const model::Operation& operation);
KernelFamily family_of(collective::Kind kind);

// The whole steps of `plan` on `site`; of the rank `rank` of the job.
// REQUIRES: rank is one of the plan's.
ExpectedStep expected_step(const answer::CheckedPlan& plan, int rank);

// The same replay with other times, which have the shape of `step.times`: how long a step is.
Duration step_time_with(const ExpectedStep& step, const engine::Times& times);

}  // namespace sim::calibrate
