// order_rules.h — checks that the orders of a schedule obey its rules (schedule.h, invariants 1 to
// 3).
//
// answer::check calls it for every plan, before programs are built. The tests of the catalog cover
// small shapes only, and a new schedule may have none. A broken order would give a wrong time.
#pragma once

#include <string>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// "" if the orders obey all rules. Else the first broken rule and its place: "stage 1, step 5 of 16
// (D3): a backward pass needs the forward pass of its microbatch before it". Steps count from 1.
// Labels of steps are those of timeline.h. REQUIRES: schedule.problem(shape) is empty.
std::string broken_rule(const Schedule& schedule, const PipelineShape& shape,
                        const std::vector<Order>& orders);

}  // namespace sim::schedule
