// run.h — a built campaign under its seeds.
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

// GPU hours of the nodes that are there: what a pool of a size that changes is paid for.
double gpu_hours(const Built& built, Span wall);

// What the outcomes of the seeds say, with what the formulas know.
Summary summary_of(const Built& built, std::uint64_t first, const std::vector<Outcome>& outcomes);

// Runs the seeds. `vary`: also looks for the best interval by simulation, as it does anyway where
// no formula holds. Nothing: interrupted.
std::optional<Summary> run(const Built& built, const Seeds& seeds, bool vary,
                           const std::function<bool()>& go_on = {});

// Looks for the best interval by simulation where it was asked for or no formula holds. False:
// interrupted.
bool add_interval(const Built& built, const Seeds& seeds, bool vary, Summary& summary,
                  const std::function<bool()>& go_on);

// The whole answer: what the seeds say, and the shapes and ways that they follow from.
output::Json to_json(const Summary& summary, const Built& built);
// `strip`: of the first seed.
std::string text(const Summary& summary, const Built& built, const std::string& strip);

}  // namespace sim::campaign
