// laws.h — what holds of every replay, whatever the plan.
#pragma once

#include <string>

#include "sim/workload/plan.h"

namespace sample {

// The law that the replay of a legal plan breaks, with the figures; "": none.
//   engines   the fast engine gives what the reference gives: times, accounts, peaks
//   accounts  the accounts of a class sum to the step
//   least     no step is shorter than the replay without tensors says
//   slower    a part (kernels, collectives, messages, launches) that takes longer makes no step
//             shorter
//   memory    what fits fits with more memory. In expandable segments it then allocates exactly the
//             same bytes; otherwise the allocator hands out a block of up to 1 MiB more than was
//             asked for whole, and which one it finds depends on what it had to give back.
//   bounds    exact peaks lie within the bounds of a replay in part
// `launch_us`: CPU time of a launch. `part`: which part is made slower, any number.
std::string broken_law(const sim::workload::Plan& plan, double launch_us, unsigned part);

}  // namespace sample
