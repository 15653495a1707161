#include "sim/replay/dataflow.h"
#include "sim/replay/job_view.h"
#include "sim/replay/reference.h"

namespace sim::replay {

RunReport run(const workload::Job& job, const Times& times, const Memory& memory,
              const Options& options) {
  RunReport report = options.method == Method::reference
                         ? run_reference(job, times, memory, options)
                         : run_dataflow(job, times, memory, options);
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
