// resolve.h — a plan as written becomes a plan as it runs: defaults, degrees that follow from the
// world, and every rule it breaks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/cluster/cluster.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/schema/plan.pb.h"
#include "sim/program/plan/plan.h"

namespace sim::input {

struct PlanProblem {
  std::string field;  // of plan.proto, where the message belongs
  std::string message;
};

struct Resolved {
  program::Plan plan;
  std::vector<PlanProblem> problems;
};

// REQUIRES: `from` satisfies the rules of plan.proto. Without a machine, where its own file is
// wrong, only the rules that need none are checked, and the plan is not to be run.
Resolved resolve(const rehearse::v1::Plan& from, const model::Architecture& architecture,
                 const Machine* machine);

// A row of a table of measured runs, as settings: its framework says the rest.
struct Stated {
  program::Plan plan;
  Completion completion;
  std::vector<std::string> fields;    // that the row or its framework says
  std::vector<PlanProblem> problems;  // of settings and fields; not yet program::problems
  bool says(std::string_view field) const;
};
// REQUIRES: the settings hold the network's layers, hidden size, heads and the sequence.
Stated state(const Framework& framework, std::span<const Setting> settings, const Columns& columns,
             const Machine& machine);

// Settings of the cluster that the plan's framework makes; none where it has no framework.
std::vector<std::string> cluster_settings(const rehearse::v1::Plan& plan);

}  // namespace sim::input
