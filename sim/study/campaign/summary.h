// summary.h — the results of a campaign over all seeds, as text and as JSON.
//
// Invariants
// (1) The accounts of wall time are means over the seeds. They sum to the mean wall time.
// (2) A goodput always has its standard error.
// (3) A share of wall time is the mean over the seeds of each seed's share. So the shares sum to
//     one, and that of the kept training is the goodput.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/output/json.h"
#include "sim/study/campaign/ensemble.h"
#include "sim/study/campaign/formula.h"

namespace sim::campaign {

// Intervals between saves in seconds, from the formulas and from simulation.
struct Intervals {
  double used = 0;
  double young = 0, daly = 0;
  std::optional<double> exact;  // if the renewal formula applies
  std::optional<Optimum> simulated;

  double best() const;
};

struct Account {
  std::string name;
  double seconds = 0;  // mean over the seeds
  double share = 0;    // of the wall time of a seed, mean over the seeds
};

struct Cause {
  std::string name;
  // Means over the seeds; times in seconds. An event interrupts the job if it hits a node of the
  // job that is not down already.
  double events = 0, interruptions = 0, lost = 0, down = 0;
};

// One seed; times in seconds.
struct SeedResult {
  double goodput = 0, effective = 0, wall = 0, lost = 0, down = 0;
  std::int64_t interruptions = 0;
};

struct Summary {
  std::string name;  // of the campaign or of its plan
  int gpus = 0;      // paid for at the beginning, with spares
  int job_gpus = 0;  // without spares
  double days = 0;
  int seeds = 0;
  std::uint64_t first_seed = 1;
  double step = 0;                   // seconds, undisturbed
  std::int64_t tokens_per_step = 0;  // 0: unknown
  double price_per_gpu_hour = 0;     // 0: unknown
  Costs costs;                       // for the formulas
  Statistic goodput, effective, interruptions, wall;
  double gpu_hours = 0;  // mean, of the nodes in the pool
  double tokens = 0;     // not lost; valid if tokens_per_step is known
  double saves = 0, changes = 0, spares_least = 0, finished = 0;
  std::vector<Account> accounts;
  std::vector<std::string> assumed, options;  // times that are not stated; options for them
  std::vector<std::string> job_kinds;  // failures that are counted per job
  double job_share = 0;                // of the expected failures
  double slowed = 0;  // mean seconds that the kept steps took beyond an undisturbed job's time
  std::vector<Cause> causes;
  std::vector<SeedResult> each;  // one per seed
  Intervals intervals;
  std::optional<double> renewal;  // goodput by the exact formula, if it applies
};

// Summarises the seeds. REQUIRES: outcomes is not empty.
Summary summarise(const Spec& spec, const std::vector<Outcome>& outcomes);

output::Json to_json(const Statistic& s);
output::Json to_json(const Summary& summary);
// The answer in sentences: the headline, the largest losses, the intervals, the spread over seeds.
std::string sentences(const Summary& summary);
// The same with tables.
std::string text(const Summary& summary);
// The times that are not stated, and their options; "" if all are stated.
std::string assumed_text(const Summary& summary);
// "save every 30 min; best 22 min (Young 21 min, Daly 20 min)", a line.
std::string intervals_text(const Summary& summary);
// Failures that do not become fewer on fewer GPUs; "" if there are none.
std::string job_kinds_text(const Summary& summary);

// "83.42 %".
std::string percent(double share);
// "12.3 s", "4.5 min", "3.1 h", "54.0 d".
std::string human_span(double seconds);

}  // namespace sim::campaign
