// request.h — a campaign as people ask for it, in times that they state; what a plan, a table of
// failures or a file say instead is filled in before.
#pragma once

#include "sim/campaign/summary.h"
#include "sim/core/result.h"

namespace sim::campaign {

struct Request {
  std::string name;
  int gpus = 0;
  double step = 0;  // seconds, as all below
  std::int64_t tokens_per_step = 0;
  double mtbf = 0;        // of the whole job
  double interval = 0;    // 0: the best that the formulas know
  double write = 0;       // the job stands still
  double background = 0;  // asynchronous: complete so long after
  double restart = 0;
  double days = 0;
  double price_per_gpu_hour = 0;
};

// Every rule that a request breaks, `where` it was given.
Diagnostics problems(const Request& request, const std::string& where);

// REQUIRES: no problems.
Spec spec_of(const Request& request);

struct Seeds {
  std::uint64_t first = 1;
  int count = 100;
  int threads = 1;
};

// Runs the seeds. `vary`: also looks for the best interval by simulation. Nothing: interrupted.
std::optional<Summary> run(const Request& request, Spec spec, const Seeds& seeds, bool vary,
                           const std::function<bool()>& go_on = {});

}  // namespace sim::campaign
