// run.cpp — chooses the engine, and fills the fields of a report that do not depend on it.
#include <algorithm>

#include "sim/engine/rank/job_view.h"
#include "sim/engine/reference/reference.h"
#include "sim/engine/run/fast_engine.h"

namespace sim::engine {

RunReport run(const program::Job& job, const Times& times, const Memory& memory,
              const Options& options) {
  RunReport report = options.method == Method::reference
                         ? run_reference(job, times, memory, options)
                         : run_fast(job, times, memory, options);
  report.memory = options.memory;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    ClassReport& own = report.classes[c];
    own.outside = memory.outside[c];
    own.reserved_most = std::max(own.reserved_most, own.peak_reserved);
  }
  describe(job, report);
  return report;
}

}  // namespace sim::engine
