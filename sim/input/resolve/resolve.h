// resolve.h — turns a plan as written into a plan as it runs: defaults, derived degrees, all broken
// rules.
//
// load_plan, load_grid and the launch reader call `resolve` once for each plan. The framework's
// defaults fill the fields that the plan leaves out. The data-parallel degree follows from the
// number of GPUs. All problems are reported at once, never only the first.
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
  std::string field;  // field of plan.proto, to place the message
  std::string message;
};

struct Resolved {
  program::Plan plan;
  std::vector<PlanProblem> problems;
};

// Resolves a plan. `machine` is null if the cluster file has errors. Only the rules that need no
// machine are checked then, and the plan must not be run. REQUIRES: `from` has passed the rules of
// plan.proto.
Resolved resolve(const rehearse::v1::Plan& from, const model::Architecture& architecture,
                 const Machine* machine);

// A row of a table of measured runs as a plan; its framework supplies the fields without a column.
struct Stated {
  program::Plan plan;
  Completion completion;
  std::vector<std::string> fields;    // set by the row or its framework
  std::vector<PlanProblem> problems;  // without those of program::problems
  bool says(std::string_view field) const;
};
// REQUIRES: the settings contain the network's layers, hidden size, heads and the sequence.
Stated state(const Framework& framework, std::span<const Setting> settings, const Columns& columns,
             const Machine& machine);

// The cluster settings of the plan's framework; empty without a framework.
std::vector<std::string> cluster_settings(const rehearse::v1::Plan& plan);

}  // namespace sim::input
