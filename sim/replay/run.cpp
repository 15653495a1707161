#include <cassert>
#include <optional>

#include "sim/replay/dataflow.h"
#include "sim/replay/job_view.h"
#include "sim/replay/reference.h"

namespace sim::replay {

namespace {

RunReport replayed(const workload::Job& job, const Times& times, const Memory& memory,
                   const Options& options) {
  if (options.method == Method::reference) return run_reference(job, times, memory, options);
  if (options.observer && !job.single_queue) {
    // An observer must not see a replay that does not come to its end.
    Options unseen = options;
    unseen.observer = nullptr;
    unseen.shortcuts = false;
    if (!run_dataflow(job, times, memory, unseen))
      return run_reference(job, times, memory, options);
  }
  if (std::optional<RunReport> fast = run_dataflow(job, times, memory, options)) return *fast;
  assert(!options.observer);
  return run_reference(job, times, memory, options);
}

}  // namespace

RunReport run(const workload::Job& job, const Times& times, const Memory& memory,
              const Options& options) {
  RunReport report = replayed(job, times, memory, options);
  for (std::size_t c = 0; c < report.classes.size(); ++c)
    report.classes[c].outside = memory.outside[c];
  // Behind the engines: late data delays every class alike and changes no order.
  const Duration late = wait_for_data(times.loader, report.step_time);
  report.step_time += late;
  for (ClassReport& c : report.classes) c.accounts[static_cast<std::size_t>(Account::data)] += late;
  describe(job, report);
  return report;
}

}  // namespace sim::replay
