// steps.h — what a step takes: each plan on each condition of its cluster is replayed once.
//
// Not for two threads at the same time: the network has one helper.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/base/result.h"
#include "sim/input/plan/plan.h"

namespace sim::campaign {

// A plan's numbers that a campaign reads; the rest of the plan stays a matter of settings.
struct Degrees {
  int tp = 1, cp = 1, pp = 1, dp = 1;
  int micro_batch = 1, global_batch = 1;
  std::int64_t sequence = 0, layers = 0;
  std::string rank_order;  // "": tp-cp-dp-pp
  int gpus() const { return tp * cp * pp * dp; }
};
Degrees degrees_of(const program::Plan& plan);

// A plan with its settings, and what its replay says.
struct Step {
  std::string problem;  // why it is impossible, or runs out of memory; "": it runs
  bool fits = false;
  Degrees degrees;
  double seconds = 0;
  std::int64_t tokens = 0;
  double per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

class Steps {
 public:
  // `path`: of the plan, "" for settings only; `base`: settings of every step.
  Steps(std::string path, std::vector<std::string> base)
      : path_(std::move(path)), base_(std::move(base)) {}

  // The plan as it is loaded with the settings beyond the base; and where it runs.
  Result<input::PlanFile> load(const std::vector<std::string>& settings) const;
  Result<answer::Site*> site(const input::PlanFile& file) { return sites_.of(file.machine); }

  const Step& of(const std::vector<std::string>& settings);
  int replays() const { return replays_; }

 private:
  std::string path_;
  std::vector<std::string> base_;
  answer::Sites sites_;
  std::map<std::string, Step> known_;  // by settings
  int replays_ = 0;
};

// The plan with fewer data-parallel replicas, on at most `gpus`: their batches grow to keep the
// global batch, as near as whole microbatches come. Settings; empty: not even one replica is left.
std::vector<std::string> shrunk(const Degrees& full, int gpus);

// The best plan that is found near this one for at most `gpus`: the place where a search over plans
// belongs. Settings; empty: none runs. `tried` counts the plans.
std::vector<std::string> replanned(Steps& steps, const std::vector<std::string>& settings,
                                   const Degrees& full, int gpus, int gpus_per_node, int* tried);

}  // namespace sim::campaign
