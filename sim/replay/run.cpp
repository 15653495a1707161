#include <algorithm>

#include "sim/replay/dataflow.h"
#include "sim/replay/job_view.h"
#include "sim/replay/queues.h"
#include "sim/replay/reference.h"

namespace sim::replay {

namespace {

// Where unlike ranks meet in collectives while messages are posted ahead (stages that share a
// vocabulary, replicas that do not do the same), with a queue for each stream: the fast engine
// learns when a collective ends only once all have come, and its CPU waits for that where the real
// one goes on and posts. By then it cannot say which blocks the messages of others still hold.
bool meets_amid_messages(const workload::Job& job, const Times& times) {
  if (times.single_queue) return false;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    if (job.classes[c].exchanges.empty()) continue;
    for (const workload::Transfer& transfer : job.classes[c].transfers) {
      const workload::Stream s = transfer.communicator;
      const bool between_steps = s == workload::Stream::world || s == workload::Stream::embedding;
      if (!between_steps && job.mesh.members(communicator_of(s), static_cast<int>(c)).size() > 1)
        return true;
    }
  }
  return false;
}

}  // namespace

RunReport run(const workload::Job& job, const Times& times, const Memory& memory,
              const Options& options) {
  // Without memory the fast engine has nothing to ask.
  const bool asks = places_tensors(options.memory) && meets_amid_messages(job, times);
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
