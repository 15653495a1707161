// formula.h — what can be known without a simulation: failures without memory, fixed costs.
//
// tau: work between saves; delta: a save, which stops the work; R: a restart; M: mean time between
// failures of the job, which strike at any time. A failure loses the work since the last save and
// starts the restart anew where it strikes one.
//
// Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974.
// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22,
// 2006: the expected wall time, and the interval.
#pragma once

namespace sim::campaign {

struct Costs {
  double mtbf = 0;     // M
  double write = 0;    // delta
  double restart = 0;  // R
};

// sqrt(2 delta M)
double young_interval(const Costs& costs);
// sqrt(2 delta M) [1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9] - delta, or M where delta >= 2M.
double daly_interval(const Costs& costs);
// The interval of the highest goodput: the root of (1 - tau/M) e^((tau + delta)/M) = 1, which does
// not depend on the restart.
double best_interval(const Costs& costs);

// tau / (M e^(R/M) (e^((tau + delta)/M) - 1)): the work of an interval over the mean time until it
// is saved. Exact: a save, or the end of a restart, begins everything anew.
double renewal_goodput(const Costs& costs, double interval);

}  // namespace sim::campaign
