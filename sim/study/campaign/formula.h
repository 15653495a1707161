// formula.h — closed forms for campaigns with memoryless failures and fixed costs.
//
// Symbols: tau is the work between saves, delta a save that stops the work, R a restart, M the
// job's mean time between failures. Failures happen at any time. A failure loses the work since the
// last save. A failure during a restart begins the restart again.
//
// Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974. Daly,
// "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006:
// the expected wall time, and the interval.
#pragma once

namespace sim::campaign {

struct Costs {
  double mtbf = 0;     // M
  double write = 0;    // delta
  double restart = 0;  // R
};

// sqrt(2 delta M)
double young_interval(const Costs& costs);
// sqrt(2 delta M) [1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9] - delta; M if delta >= 2M.
double daly_interval(const Costs& costs);
// The interval with the highest goodput: the root of (1 - tau/M) e^((tau + delta)/M) = 1. It does
// not depend on R.
double best_interval(const Costs& costs);

// tau / (M e^(R/M) (e^((tau + delta)/M) - 1)): the work of an interval over the mean time until it
// is saved. Exact, because each save and each end of a restart is a renewal.
double renewal_goodput(const Costs& costs, double interval);

}  // namespace sim::campaign
