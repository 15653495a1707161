// whatif.h — evaluates one plan under changed conditions; each variant is a complete answer. The
// command `whatif` calls it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/plan/whatif.h"
#include "sim/output/documents/whatif_document.h"

namespace sim::answer {
class Sites;
}
namespace sim::input {
struct RunResiduals;
}

namespace sim::study {

// The most GPUs of a run on a coupled network. Above it a run takes a minute and over 2 GB.
constexpr int most_coupled_gpus = 1 << 18;

// Draws of the hash of flows per variant by default.
constexpr int draws_of_paths = 8;

struct WhatifSettings {
  std::string plan;                   // path; "": settings only
  std::string launch;                 // path of a launch script of Megatron-LM in place of a plan
  std::vector<std::string> settings;  // of the base and of every variant
  double price_per_gpu_hour = 0;      // 0: the cluster's price, if it has one
  // Prices per GPU and hour by the name of a variant or of its cluster. They come before the two
  // above.
  std::map<std::string, double, std::less<>> prices;
  double tokens = 0;     // of the whole training; 0: unknown
  bool coupled = false;  // all transfers of the step share one network
  engine::MemoryDetail memory = engine::MemoryDetail::exact;
  int workers = 1;
  // Random draws per variant. Draw i adds i to two seeds of the cluster: the ECMP hash of flows
  // (fabric.hash_seed) and the differences of GPU speed (jitter.seed). 0: draws_of_paths where
  // flows are hashed (leaf_spine, more than one leaf), else 1.
  int seeds = 0;
  // Residuals of measured runs, for the 90 % interval of the base; nullptr: it has none.
  const input::RunResiduals* residuals = nullptr;
};

// Replays one variant of settings.plan. An impossible variant has its reason.
output::WhatifRow whatif_row(const input::Variant& variant, const WhatifSettings& settings,
                             answer::Sites& sites);

// The base, then the variants in order. An impossible variant is a row with its reason; a base that
// cannot be loaded is an error. `go_on` is called often with the number of finished rows.
Result<std::vector<output::WhatifRow>> whatif(const WhatifSettings& settings,
                                              const std::vector<input::Variant>& variants,
                                              const std::function<bool(std::size_t done)>& go_on);

}  // namespace sim::study
