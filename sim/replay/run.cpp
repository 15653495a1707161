#include <algorithm>

#include "sim/replay/dataflow.h"
#include "sim/replay/job_view.h"
#include "sim/replay/reference.h"

namespace sim::replay {

namespace {

// Where stages share a vocabulary their CPUs wait behind its passes while messages are posted
// ahead, which end at times that only other ranks' future tells: by then the fast engine cannot say
// which blocks they still hold.
bool waits_amid_messages(const workload::Job& job) {
  return std::ranges::any_of(job.classes, [](const workload::Program& program) {
    return std::ranges::count(program.communicators, workload::Stream::vocabulary) > 0;
  });
}

}  // namespace

RunReport run(const workload::Job& job, const Times& times, const Memory& memory,
              const Options& options) {
  // Without memory the fast engine has nothing to ask.
  const bool asks = places_tensors(options.memory) && waits_amid_messages(job);
  RunReport report = options.method == Method::reference || asks
                         ? run_reference(job, times, memory, options)
                         : run_dataflow(job, times, memory, options);
  report.memory = options.memory;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    ClassReport& own = report.classes[c];
    own.outside = memory.outside[c];
    own.reserved_most = std::max(own.reserved_most, own.peak_reserved);
  }
  describe(job, report);
  return report;
}

}  // namespace sim::replay
