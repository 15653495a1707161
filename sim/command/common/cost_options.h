// cost_options.h — the options --price and --tokens of `run`, `plan` and `whatif`.
#pragma once

#include "sim/answer/run_cost.h"
#include "sim/command/common/command.h"

namespace sim::command {

void declare_price(Options& options);
void declare_tokens(Options& options);

// The number of an option, above 0 and at most `most`; 0 if it is not given. Stops at another text.
double positive(const Options& options, const char* name, double most);

// The basis of a cost: --price in place of the cluster's, --tokens, and the cluster's power limit.
answer::CostBasis cost_basis(const Options& options, double cluster_price, double power_w);

}  // namespace sim::command
