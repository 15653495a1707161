// folder_document.h — pages of folders that `sweep -o` and `plan -o` leave: one of them, or several
// side by side. `report` and `serve` call it.
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"

namespace sim::output {

// The content of one folder. Exactly one of the two lists is filled.
struct ResultFolder {
  std::string name;
  std::vector<Json> records;  // of a sweep: lines of results.jsonl
  std::vector<Json> plans;    // of a search: `plans` of plan.json, the best first
};

// The plans of a search: a table, and throughput against memory. REQUIRES: plans is not empty.
Document search_page(const ResultFolder& search);

// Several sweeps in the same charts. Points with the same settings, or else the same name, are
// compared with the first sweep. REQUIRES: at least two, each with records.
Document sweeps_page(const std::vector<ResultFolder>& sweeps);

// The plans of several searches in the same charts, and how their best plans differ. REQUIRES: at
// least two, each with plans.
Document searches_page(const std::vector<ResultFolder>& searches);

}  // namespace sim::output
