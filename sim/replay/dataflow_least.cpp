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
  const Options options;
  Dataflow dataflow(job, times, memory, options);
  dataflow.leave_memory_out();
  const Duration step = dataflow.run().step_time;
  return step + wait_for_data(times.loader, step);
}

}  // namespace sim::replay
