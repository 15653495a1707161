// resolve.h — a plan as written becomes a plan as it runs: defaults, degrees that follow from the
// world, and every rule it breaks.
#pragma once

#include <string>
#include <vector>

#include "sim/config/cluster.h"
#include "sim/config/plan.pb.h"
#include "sim/workload/plan.h"

namespace sim::config {

struct PlanProblem {
  std::string field;  // of plan.proto, where the message belongs
  std::string message;
};

struct Resolved {
  workload::Plan plan;
  std::vector<PlanProblem> problems;
};

// REQUIRES: `from` satisfies the rules of plan.proto. Without a machine, where its own file is
// wrong, only the rules that need none are checked, and the plan is not to be run.
Resolved resolve(const rehearse::v1::Plan& from, const model::Architecture& architecture,
                 const Machine* machine);

// The network that a plan describes itself. REQUIRES: as above.
model::Architecture architecture_of(const rehearse::v1::Architecture& from, std::int64_t sequence);

}  // namespace sim::config
