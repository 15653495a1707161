// executor_memory.cpp — allocations and frees, and the case that all classes wait for memory.
#include <algorithm>
#include <bit>

#include "sim/engine/fast/executor.h"

namespace sim::engine {

using program::Instruction;

// Whether the current allocation belongs to a group of transients that is left out.
bool Executor::left_out(RankState& r, const MemoryCode& memory) const {
  const MemoryCode::Mark mark = memory.marks[r.at.instruction];
  if (mark.group >= 0) {
    const MemoryCode::Group& group = memory.groups[static_cast<std::size_t>(mark.group)];
    r.leave_out = !options_.observer && r.memory.allocator().takes_what_fits() &&
                  r.memory.room_for(group.rooms, group.tensors);
  }
  return mark.transient && r.leave_out;
}

// Whether the allocation can run now. It must know which memory is free. If it may need an idle
// device, it must know when the device is idle.
bool Executor::may_allocate(int c, RankState& r, const Instruction& i) {
  if (!r.stall.posted) {
    r.clock.cpu = r.clock.cpu + allocation_time(i);
    r.stall.asks =
        r.driver.outstanding() > 0 && !r.pending.empty() && r.clock.cpu >= r.stall.sure_until;
    r.stall.posted = r.stall.asks;
  }
  if (r.stall.asks) {
    settle(c, r);
    r.stall.asks = r.clock.cpu >= r.stall.sure_until && r.driver.outstanding() > 0;
    if (r.stall.asks) return false;
    r.stall.posted = false;
  }
  if (!r.stall.posted) r.stall.idles = !r.pending.empty() && r.memory.may_wait(i.value, i.stream);
  r.stall.posted = r.stall.idles && !complete_all(c, r, ~0u);
  if (r.stall.posted) return false;
  r.stall.idles = false;
  return true;
}

bool Executor::allocate(int c, RankState& r, const Instruction& i, const MemoryCode& memory,
                        std::uint32_t slot) {
  if (r.stall.posted || !r.pending.empty()) {
    if (!may_allocate(c, r, i)) return false;
  } else {
    r.clock.cpu = r.clock.cpu + allocation_time(i);
  }
  if (r.log.recording) {
    r.log.times.push_back((r.clock.cpu - r.log.origin).ps);
    r.log.shape = shape_with(r.log.shape, 0);
  }
  if (!left_out(r, memory)) r.memory.allocate(slot, i, r.at);
  return true;
}

// All classes wait. Among the classes that ask whether memory is free, the one with the earliest
// clock gets the answer no. The answer holds until the next clock. False: no class can get an
// answer.
bool Executor::answer() {
  RankState* first = nullptr;
  std::size_t who = 0;
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    RankState& r = *ranks_[c];
    if (!r.stall.asks || (first && r.clock.cpu >= first->clock.cpu)) continue;
    first = &r;
    who = c;
  }
  if (!first) return false;
  Time next = Time{ClockDriver::later};
  for (const auto& r : ranks_) {
    const bool stopped = r->at.pass >= r->stop && r->stop < r->at.passes->size();
    if (r.get() != first && (r->stall.asks || stopped)) next = std::min(next, r->clock.cpu);
  }
  if (next < first->clock.cpu) return false;
  due_[who] = true;
  first->stall.sure_until = std::max(next, Time{first->clock.cpu.ps + 1});
  return true;
}

// All classes wait, and none asks. One class that waits for an idle device continues without the
// wait, as in the reference engine.
bool Executor::let_one_allocate() {
  RankState* first = nullptr;
  for (const auto& r : ranks_)
    if (r->stall.idles && (!first || r->clock.cpu < first->clock.cpu)) first = r.get();
  if (!first) return false;
  first->stall.idles = false;
  return true;
}

bool Executor::free(int c, RankState& r, const Instruction& i, const MemoryCode& memory,
                    std::uint32_t slot) {
  const bool left_out = r.leave_out && memory.marks[r.at.instruction].transient;
  const program::Streams recorded = left_out ? 0 : r.memory.recorded(slot);
  if (!r.pending.empty() && recorded != 0 && !complete_all(c, r, recorded) && times_.single_queue)
    return false;
  if (!(i.flags & program::graphed)) r.clock.cpu = r.clock.cpu + times_.release;
  if (r.log.recording) {
    r.log.times.push_back((r.clock.cpu - r.log.origin).ps);
    r.log.shape = shape_with(r.log.shape, 1 + recorded);
    for (program::Streams left = recorded; left != 0; left &= left - 1) {
      const auto s = static_cast<std::size_t>(std::countr_zero(left));
      if (r.clock.open[s] != 0) r.log.later.emplace_back(r.log.times.size(), r.clock.open[s]);
      r.log.times.push_back((r.clock.tail[s] - r.log.origin).ps);
    }
  }
  if (!left_out) r.memory.free(slot, i.flags & program::maybe, &r.at);
  return true;
}

}  // namespace sim::engine
