// whatif.h — one plan under changed conditions: every variant is an answer of its own, side by
// side.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/config/whatif.h"
#include "sim/core/result.h"
#include "sim/report/whatif_document.h"

namespace sim::search {

struct WhatifSettings {
  std::string plan;                   // path; "": settings only
  std::vector<std::string> settings;  // of the base and of every variant
  double price_per_gpu_hour = 0;      // 0: that of the cluster, if it has one
  bool coupled = false;               // all transfers of the step share one network
  replay::MemoryDetail memory = replay::MemoryDetail::exact;
  int workers = 1;
};

// The base, then the variants in order. A variant that is impossible is a row with the reason; a
// base that cannot be loaded is an error. `go_on` is asked often with the rows that are done.
Result<std::vector<report::WhatifRow>> whatif(const WhatifSettings& settings,
                                              const std::vector<config::Variant>& variants,
                                              const std::function<bool(std::size_t done)>& go_on);

}  // namespace sim::search
