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

#include "sim/base/result.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/schema/plan.pb.h"
#include "sim/program/plan/plan.h"

namespace sim::input {

struct Resolved {
  program::Plan plan;
  Diagnostics problems;    // `where` is a field of plan.proto
  bool has_world = false;  // the number of GPUs is known: the rules of the plan can be evaluated
};

// Resolves a plan. `machine` is null if the cluster file has errors; the plan must not be run then.
// The rules of the plan itself are not evaluated here (program/plan/valid_plan.h).
// REQUIRES: `from` has passed the rules of plan.proto.
Resolved resolve(const rehearse::v1::Plan& from, const model::Architecture& architecture,
                 const Machine* machine);

// A row of a table of measured runs as a plan; its framework supplies the fields without a column.
struct Stated {
  program::Plan plan;
  Completion completion;
  std::vector<std::string> fields;  // set by the row or its framework
  Diagnostics problems;             // without those of program::problems
  bool says(std::string_view field) const;
};
// REQUIRES: the settings contain the network's layers, hidden size, heads and the sequence.
Stated state(const Framework& framework, std::span<const Setting> settings, const Columns& columns,
             const Machine& machine);

// The cluster settings of the plan's framework; empty without a framework.
std::vector<std::string> cluster_settings(const rehearse::v1::Plan& plan);

}  // namespace sim::input
