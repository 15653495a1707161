// rules.h — the rules of a plan, by topic. `rule_groups` (table.cpp) lists them in the order in
// which they are evaluated, each with the source of its rules.
//
// `validate` (plan/valid_plan.h) evaluates the table once for each plan. A rule adds a diagnostic:
// `where` is the setting at fault, and the message names values that would satisfy the rule. To add
// a rule, write it into the function of its topic; a new topic is a new row of the table.
#pragma once

#include <span>
#include <string_view>

#include "sim/base/result.h"
#include "sim/program/plan/plan.h"

namespace sim::program::rules {

// What must hold before a group is evaluated. Each level includes the levels before it.
enum class Holds : std::uint8_t {
  nothing,
  ranges,  // every number is within its range: sums and products do not overflow
  mesh,    // experts and the tensor-parallel grid divide the ranks
  layers,  // the layers can be split over the parts of the pipeline
};

struct RuleGroup {
  std::string_view topic;
  std::string_view source;  // of the rules
  Holds needs;
  Holds gives;  // the level that holds if the group finds nothing; `nothing`: none
  void (*find)(const Plan& plan, Diagnostics& problems);
};
std::span<const RuleGroup> rule_groups();

void ranges(const Plan& plan, Diagnostics& problems);
void sizes(const Plan& plan, Diagnostics& problems);
void experts(const Plan& plan, Diagnostics& problems);
void tensor_grid(const Plan& plan, Diagnostics& problems);
void tensor_parallel(const Plan& plan, Diagnostics& problems);
void joined_halves(const Plan& plan, Diagnostics& problems);
void sequence_split(const Plan& plan, Diagnostics& problems);
void context_parallel(const Plan& plan, Diagnostics& problems);
void batch(const Plan& plan, Diagnostics& problems);
void layer_partition(const Plan& plan, Diagnostics& problems);
void pipeline_schedule(const Plan& plan, Diagnostics& problems);
void recompute(const Plan& plan, Diagnostics& problems);
void offload(const Plan& plan, Diagnostics& problems);
void choices(const Plan& plan, Diagnostics& problems);
void module_offload(const Plan& plan, Diagnostics& problems);
void data_parallel(const Plan& plan, Diagnostics& problems);
void deepspeed_zero1(const Plan& plan, Diagnostics& problems);
void deepspeed_zero3(const Plan& plan, Diagnostics& problems);
void optimizer(const Plan& plan, Diagnostics& problems);
void precision(const Plan& plan, Diagnostics& problems);
void fake_quantization(const Plan& plan, Diagnostics& problems);
void adapters(const Plan& plan, Diagnostics& problems);
void cuda_graphs(const Plan& plan, Diagnostics& problems);

}  // namespace sim::program::rules
