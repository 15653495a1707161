// resolve.h — turns a plan as written into a plan as it runs: defaults, derived degrees, all broken
// rules.
//
// load_plan, load_grid and the launch reader call `resolve` once for each plan. The framework's
// defaults fill the fields that the plan leaves out. The data-parallel degree follows from the
// number of GPUs. All problems are reported at once, never only the first.
#pragma once

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
  std::vector<Assumption> assumptions;  // of the framework, about fields that the plan leaves out
  bool has_world = false;  // the number of GPUs is known: the rules of the plan can be evaluated
};

// Resolves a plan. `machine` is null if the cluster file has errors; the plan must not be run then.
// The rules of the plan itself are not evaluated here (program/plan/valid_plan.h).
// REQUIRES: `from` has passed the rules of plan.proto.
Resolved resolve(const rehearse::v1::Plan& from, const model::Architecture& architecture,
                 const Machine* machine);

// The cluster settings of the plan's framework, then those of the plan itself.
std::vector<std::string> cluster_settings(const rehearse::v1::Plan& plan);

}  // namespace sim::input
