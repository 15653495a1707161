#include "sim/answer/step_operations.h"

#include <cassert>
#include <optional>

namespace sim::answer {

namespace {

using program::Op;

// The operation that an instruction puts on a queue.
std::optional<StepOperation> operation_of(const program::Program& program,
                                          const program::Instruction& i) {
  StepOperation o;
  if (i.op == Op::kernel)
    o.queue = i.stream;
  else if (i.op == Op::collective)
    o.queue = program.transfers[i.index].communicator;
  else if (i.op == Op::exchange)
    o.queue = program.exchanges[i.index].communicator;
  else
    return std::nullopt;
  o.op = i.op;
  o.index = i.index;
  o.overlapped = i.flags & program::overlapped;
  o.label = program.labels[i.label];
  return o;
}

}  // namespace

StepRecorder::StepRecorder(const std::vector<int>& rank_classes) {
  for (const int rank_class : rank_classes) classes_[rank_class];
}

void StepRecorder::operation(int rank_class, program::Stream stream, std::string_view,
                             const engine::ProgramLocation& place, Time start, Time waited_until,
                             Time end) {
  const auto found = classes_.find(rank_class);
  if (found == classes_.end() || place.step < found->second.step) return;
  Recorded& recorded = found->second;
  if (place.step > recorded.step) {
    recorded.step = place.step;
    for (auto& queue : recorded.queues) queue.clear();
  }
  recorded.queues[static_cast<std::size_t>(stream)].push_back(
      {start, waited_until, end, place.pass, place.microbatch, place.layer});
}

std::vector<StepOperation> StepRecorder::operations(int rank_class,
                                                    const program::Program& program) const {
  const Recorded& recorded = classes_.at(rank_class);
  std::array<std::size_t, program::stream_count> next{};
  std::vector<StepOperation> all;
  for (const program::Pass& pass : program.step)
    for (const program::Call& call : program.templates[pass.pattern].calls)
      for (const program::Instruction& i : program.blocks[call.block].code) {
        std::optional<StepOperation> o = operation_of(program, i);
        if (!o) continue;
        const auto queue = static_cast<std::size_t>(o->queue);
        assert(next[queue] < recorded.queues[queue].size());
        const Seen& seen = recorded.queues[queue][next[queue]++];
        o->pass = seen.pass;
        o->microbatch = seen.microbatch;
        o->layer = seen.layer;
        o->start = seen.start;
        o->met = seen.met;
        o->end = seen.end;
        all.push_back(*std::move(o));
      }
  return all;
}

}  // namespace sim::answer
