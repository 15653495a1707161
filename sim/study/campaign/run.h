// run.h — runs a built campaign with its seeds.
#pragma once

#include <optional>

#include "sim/study/campaign/build.h"
#include "sim/study/campaign/summary.h"

namespace sim::campaign {

struct Seeds {
  std::uint64_t first = 1;
  int count = 100;
  int threads = 1;
};

// GPU hours of the nodes in the pool; a pool that changes its size is billed by its size.
double gpu_hours(const Built& built, Span wall);

// Summary of the seeds' outcomes, with the results of the formulas.
Summary summary_of(const Built& built, std::uint64_t first, const std::vector<Outcome>& outcomes);

// Runs the seeds. With `vary` or without a valid formula, it also finds the best interval by
// simulation. std::nullopt: interrupted.
std::optional<Summary> run(const Built& built, const Seeds& seeds, bool vary,
                           const std::function<bool()>& go_on = {});

// Finds the best interval by simulation, if requested or if no formula applies. False: interrupted.
bool add_interval(const Built& built, const Seeds& seeds, bool vary, Summary& summary,
                  const std::function<bool()>& go_on);

// JSON of the complete answer: summary, shapes and checkpoint times.
output::Json to_json(const Summary& summary, const Built& built);
// The answer as text; `strip` is the timeline of the first seed.
std::string text(const Summary& summary, const Built& built, const std::string& strip);

}  // namespace sim::campaign
