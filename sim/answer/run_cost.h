// run_cost.h — the time, price and energy of a training run, from its throughput. The commands
// `run`, `plan` and `whatif` print them where a price, a power or a number of tokens is known.
//
// Energy is that of the GPU boards at their power limit. CPUs, switches and cooling (PUE) are not
// included.
#pragma once

#include <string>

namespace sim::answer {

// What is known; 0: unknown.
struct CostBasis {
  double price_per_gpu_hour = 0;  // in the currency of the user
  double power_w = 0;             // of a board at its limit
  double tokens = 0;              // of the whole run
};

// 0: unknown.
struct RunCost {
  double per_million_tokens = 0;
  double kwh_per_million_tokens = 0;
  double days = 0, cost = 0, mwh = 0;  // of the whole run
};

// REQUIRES: tokens_s_gpu > 0.
RunCost run_cost(const CostBasis& basis, double tokens_s_gpu, int gpus);

// A 90 % interval of tokens per second and GPU; 0: unknown.
struct RateRange {
  double low = 0, high = 0;
};
// The range of a rate whose step of `step` seconds lies between `low` and `high` seconds.
RateRange rate_range(double tokens_s_gpu, double step, double low, double high);

// One line for each known value, with its unit; "" if the basis is empty. With `range`, values of
// the whole run have intervals.
std::string cost_text(const CostBasis& basis, double tokens_s_gpu, int gpus, RateRange range = {});

}  // namespace sim::answer
