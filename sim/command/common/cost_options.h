// cost_options.h — the options --price and --tokens of `run`, `plan`, `sweep` and `whatif`.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "sim/answer/run_cost.h"
#include "sim/command/common/command.h"

namespace sim::command {

void declare_price(Options& options);
// --price with names of clusters.
void declare_prices(Options& options);

// "2.5", or "dgx-h100=2.5,gb200-nvl72=4" for clusters or variants.
struct Prices {
  double each = 0;  // of names that are not listed; 0: unknown
  std::map<std::string, double, std::less<>> named;
  double of(const std::string& name) const;
};
// The prices of --price; empty if it is not given. Stops at another text.
Prices prices_of(const Options& options);

void declare_tokens(Options& options);

// The number of an option, above 0 and at most `most`; 0 if it is not given. Stops at another text.
double positive(const Options& options, const char* name, double most);

// A count of an option with K, M, B or T, above 0 and at most `most`; 0 if it is not given.
double count(const Options& options, const char* name, double most);
// --tokens; 0 if it is not given.
double tokens_of(const Options& options);

// The basis of a cost: --price in place of the cluster's, --tokens, and the cluster's power limit.
answer::CostBasis cost_basis(const Options& options, double cluster_price, double power_w);

}  // namespace sim::command
