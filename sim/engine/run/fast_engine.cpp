#include "sim/engine/run/fast_engine.h"

#include "sim/engine/fast/executor.h"
#include "sim/engine/steady/steady_state.h"

namespace sim::engine {

RunReport run_fast(const program::Job& job, const Times& times, const Memory& memory,
                   const Options& options) {
  Executor executor(job, times, memory, options);
  const bool places = places_tensors(options.memory);
  if (!places) executor.leave_out_tensors();
  // Without tensors, all steps that begin after a barrier are equal.
  return SteadyState(executor, job, memory, options).run(!places && job.ends_together);
}

Duration least_step(const program::Job& job, const Times& times, const Memory& memory) {
  // If a step begins before all ranks have ended the last one, no step can be bounded by itself.
  if (!job.ends_together) return {};
  Options options;
  options.memory = MemoryDetail::none;
  return run_fast(job, times, memory, options).step_time;
}

}  // namespace sim::engine
