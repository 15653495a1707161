#include <algorithm>

#include "sim/replay/dataflow.h"
#include "sim/replay/job_view.h"
#include "sim/replay/reference.h"

namespace sim::replay {

namespace {

bool waits_for_a_stream(const workload::Program& program) {
  const auto waits = [&](const workload::Call& call) {
    return std::ranges::any_of(program.blocks[call.block].code, [](const auto& instruction) {
      return instruction.op == workload::Op::sync_stream;
    });
  };
  return std::ranges::any_of(program.templates, [&](const workload::Template& pattern) {
    return pattern.kind != workload::PassKind::step && std::ranges::any_of(pattern.calls, waits);
  });
}

// While the CPU waits for a stream, messages that were posted ahead end at times that only other
// ranks' future tells: by then the fast engine cannot say which blocks they still hold.
bool waits_amid_messages(const workload::Job& job) {
  return !job.single_queue &&
         std::ranges::any_of(job.classes, [](const workload::Program& program) {
           return !program.exchanges.empty() && waits_for_a_stream(program);
         });
}

}  // namespace

RunReport run(const workload::Job& job, const Times& times, const Memory& memory,
              const Options& options) {
  RunReport report = options.method == Method::reference || waits_amid_messages(job)
                         ? run_reference(job, times, memory, options)
                         : run_dataflow(job, times, memory, options);
  for (std::size_t c = 0; c < report.classes.size(); ++c)
    report.classes[c].outside = memory.outside[c];
  describe(job, report);
  return report;
}

}  // namespace sim::replay
