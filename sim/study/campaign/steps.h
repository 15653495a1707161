// steps.h — step times of plans. Each plan in each condition of its cluster is replayed once and
// cached.
//
// Not thread-safe: the network model has one helper process.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/base/result.h"
#include "sim/input/plan/plan.h"

namespace sim::campaign {

// The numbers of a plan that a campaign needs; the rest stays in its settings.
struct Degrees {
  int tp = 1, cp = 1, pp = 1, dp = 1;
  int micro_batch = 1, global_batch = 1;
  std::int64_t sequence = 0, layers = 0;
  std::string rank_order;  // "": tp-cp-dp-pp
  int gpus() const { return tp * cp * pp * dp; }
};
Degrees degrees_of(const program::Plan& plan);

// The replayed step of a plan.
struct Step {
  std::string problem;  // why it is impossible or runs out of memory; "": it runs
  bool fits = false;
  Degrees degrees;
  double seconds = 0;
  std::int64_t tokens = 0;
  double per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

class Steps {
 public:
  // `path` of the plan ("": settings only); `base` are settings of every step.
  Steps(std::string path, std::vector<std::string> base)
      : path_(std::move(path)), base_(std::move(base)) {}

  // Loads the plan with settings added to the base; and the site of a loaded plan.
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

// Settings of the plan with fewer data-parallel replicas on at most `gpus`. Larger batches per
// replica keep the global batch as far as whole microbatches allow. Empty: not even one replica
// fits.
std::vector<std::string> shrunk(const Degrees& full, int gpus);

// Settings of the fastest plan found near this one for at most `gpus`; empty if none runs. `tried`
// counts the plans. A full search over plans would replace this function.
std::vector<std::string> replanned(Steps& steps, const std::vector<std::string>& settings,
                                   const Degrees& full, int gpus, int gpus_per_node, int* tried);

}  // namespace sim::campaign
