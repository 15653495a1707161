// whatif_document.h — the document of `rehearse whatif`: variants side by side, and why each
// differs from the base.
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"

namespace sim::output {

// The `bound` of a variant that sets the values of the base.
inline constexpr const char* same_as_base = "the same as the base";

// One variant; the first row is the base.
struct WhatifRow {
  std::string name;
  std::vector<std::string> settings;
  std::string problem;  // why it is impossible; "": it ran
  engine::MemoryDetail memory = engine::MemoryDetail::exact;
  bool fits = false;                                            // also true without a memory replay
  std::string reason;                                           // why it ran out of memory
  double step = 0, tokens_gpu = 0, tflops_gpu = 0, bubble = 0;  // seconds; per second
  int gpus = 0;                                                 // of the job; 0: it did not run
  double cost_per_million_tokens = 0;                           // 0: no price
  double days = 0, cost = 0, energy_mwh = 0;                    // of the whole training; 0: unknown
  std::vector<double> accounts;                                 // seconds, mean over ranks
  // [stage][account], seconds: the accounts of the stage's rank that waits least for other stages.
  std::vector<std::vector<double>> stages;
  double outside_gib = 0;  // of the fullest ranks, outside of PyTorch: NCCL, context, libraries
  double reserved_gib = 0, capacity_gib = 0;
  double reserved_most_gib = 0;  // upper bound, with reserved_gib as the lower bound; 0: exact
  struct Link {
    std::string kind, busiest, traffic;
    double busy = 0, mean = 0;
    bool fabric = false;
  };
  std::vector<Link> links;  // the busiest link of each kind
  // Number of random draws (ECMP hashes of flows, differences of GPU speed). `step` is their mean,
  // step_low and step_high are the 5 % and 95 % quantiles. 1: one draw, no quantiles.
  int draws = 1;
  double step_low = 0, step_high = 0;
  // Why a changed setting may change nothing, or `same_as_base`; "": no rule applies.
  std::string bound;
  // What a reader must know about the variant's cluster (answer/cluster_notes.h).
  std::vector<std::string> notes;
  // The base has its 90 % interval here, or why there is none. Other variants have "".
  std::string interval;
};

Json to_json(const WhatifRow& row);
WhatifRow whatif_row(const Json& json);

// The variants as a table, and the reasons of their differences. REQUIRES: rows is not empty.
Document whatif_document(const std::vector<WhatifRow>& rows);
// The same with charts, for a page (page.h).
Document whatif_page(const std::vector<WhatifRow>& rows);

}  // namespace sim::output
