// fixes.h — the smallest changes of a plan that would make it fit. Each is replayed before it is
// offered.
#pragma once

#include <string>
#include <vector>

#include "sim/report/json.h"
#include "sim/search/evaluate.h"

namespace sim::search {

struct Fix {
  std::string change;  // "micro_batch=1"
  report::Answer answer;
};

// Plans that differ from `plan` in one setting, smallest change first: what costs nothing before
// what costs time, the same parallelism before another one. Only possible plans.
struct Change {
  std::string text;
  workload::Plan plan;
};
std::vector<Change> single_changes(const workload::Plan& plan, const Site& site);

// Every single change, replayed, in that order.
std::vector<Fix> try_changes(const workload::Plan& plan, Site& site);

std::string fixes_text(const std::vector<Fix>& fixes);
report::Json fixes_json(const std::vector<Fix>& fixes);

}  // namespace sim::search
