// laws.h — laws that hold for every replay, whatever the plan.
#pragma once

#include <string>

#include "sim/program/plan/plan.h"

namespace sample {

// Returns the law that the replay of a legal plan breaks, with the figures; "": none.
//   engines   the fast engine equals the reference: times, accounts, peaks. Not yet a law if a rank
//             must wait for its device to free memory: at 95 % of the peak, one plan in ten has
//             different step times, and one in hundreds a different outcome.
//   accounts  the accounts of a class sum to the step
//   least     no step is shorter than the replay without tensors
//   slower    if a part (kernels, collectives, messages, launches) takes longer, no step gets
//             shorter
//   memory    with expandable segments, a plan that fits in more than its peak allocates the same
//             bytes with less memory, if it fits there too. Fitting is not monotone: with little
//             memory the allocator frees its cache and may place blocks better (one plan in two
//             thousand fits in 80 % of its peak and not in 95 %; the reference agrees). Without
//             expandable segments the bytes differ as well: the allocator then returns other
//             blocks, up to 1 MiB larger than requested.
//   bounds    exact peaks lie within the bounds of a bounded replay
// `launch_us`: CPU time of a launch. `part`: the part that is made slower, any number.
std::string broken_law(const sim::program::Plan& plan, double launch_us, unsigned part);

}  // namespace sample
