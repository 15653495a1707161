// laws.h — what holds of every replay, whatever the plan.
#pragma once

#include <string>

#include "sim/program/plan/plan.h"

namespace sample {

// The law that the replay of a legal plan breaks, with the figures; "": none.
//   engines   the fast engine gives what the reference gives: times, accounts, peaks. Not yet a
//             law where a rank has to wait for its device to give memory back: at 95 % of the peak
//             one plan in ten has other step times there, one in hundreds another outcome.
//   accounts  the accounts of a class sum to the step
//   least     no step is shorter than the replay without tensors says
//   slower    a part (kernels, collectives, messages, launches) that takes longer makes no step
//             shorter
//   memory    in expandable segments what fits in more than its peak allocates the same bytes with
//             less, where that fits too. Whether less fits knows no order: where memory is tight
//             the allocator gives back what it had cached and may come to lie better (one plan in
//             two thousand fits in 80 % of its peak and not in 95 %; the reference says the same).
//             Without expandable segments bytes differ too: it hands out other blocks then, up to
//             1 MiB larger than was asked for.
//   bounds    exact peaks lie within the bounds of a replay in part
// `launch_us`: CPU time of a launch. `part`: which part is made slower, any number.
std::string broken_law(const sim::program::Plan& plan, double launch_us, unsigned part);

}  // namespace sample
