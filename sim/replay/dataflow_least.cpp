// dataflow_least.cpp — a step without its tensors.
#include "sim/replay/dataflow.h"
#include "sim/replay/dataflow_engine.h"

namespace sim::replay {

using workload::Op;

bool Dataflow::touches_memory(RankState& r, const workload::Instruction& i) const {
  if (i.op == Op::alloc) r.clock.cpu = r.clock.cpu + times_.allocation;
  if (i.op == Op::free) r.clock.cpu = r.clock.cpu + times_.release;
  return i.op == Op::alloc || i.op == Op::free || i.op == Op::move || i.op == Op::record_stream;
}

Duration least_step(const workload::Job& job, const Times& times, const Memory& memory) {
  // A step that begins before all ranks have ended the last one is none by itself.
  if (!job.ends_together) return {};
  const Options options;
  Dataflow dataflow(job, times, memory, options);
  dataflow.leave_memory_out();
  return dataflow.run().step_time;
}

}  // namespace sim::replay
