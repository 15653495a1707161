#include "sim/engine/steady/allocator_replay.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sim::engine {

using program::Op;

void AllocatorReplay::keep() {
  kept_.emplace(Retained{r_.memory.keep(), r_.clock, r_.at, r_.live, done_});
}

void AllocatorReplay::put_back() {
  r_.memory.restore(kept_->memory);
  r_.driver.set_outstanding(r_.memory.events_from(ClockDriver::later));
  r_.clock = kept_->clock;
  r_.at = kept_->at;
  r_.live = kept_->live;
  done_ = kept_->done;
  recurrence_ = 0;
}

// Replays one cycle, up to pass `end`, with the times of the clock log. False after a driver call.
bool AllocatorReplay::replay_cycle(std::uint32_t end, Time origin) {
  RankState& r = r_;
  const std::int64_t calls = r.driver.calls();
  const std::int64_t* clock_log = r.log.times.data();
  const std::uint32_t begin = r.at.pass;
  walk_memory(r.program, *r.at.passes, begin, end, blocks_,
              [&](std::uint32_t pass, std::uint32_t call, const MemoryInstruction& step,
                  std::uint32_t slot, std::uint32_t to) {
                const program::Instruction& i = step.instruction;
                if (i.op == Op::alloc) {
                  r.clock.cpu = Time{origin.ps + *clock_log++};
                  r.at.pass = pass;
                  r.at.call = call;
                  r.at.instruction = step.place;
                  r.memory.allocate(slot, i, r.at);
                } else if (i.op == Op::free) {
                  r.clock.cpu = Time{origin.ps + *clock_log++};
                  const program::Streams recorded = r.memory.recorded(slot);
                  for (std::size_t s = 0; recorded >> s; ++s)
                    if (recorded >> s & 1) r.clock.tail[s] = Time{origin.ps + *clock_log++};
                  r.memory.free(slot, i.flags & program::maybe);
                } else if (i.op == Op::move) {
                  r.memory.move(slot, to);
                } else {
                  r.memory.record_stream(slot, i.stream);
                }
              });
  assert(r.log.times.empty() || clock_log <= r.log.times.data() + r.log.times.size());
  r.at.pass = begin;
  walk_frames(r, end, r.live);
  r.at.pass = end;
  r.at.call = r.at.instruction = 0;
  return r.driver.calls() == calls;
}

// The class rests if its state of memory has occurred before. `begin`: the begin of its cycle.
void AllocatorReplay::look_for_recurrence(Time begin) {
  constexpr std::int64_t stride = 8;  // in cycles: how often a state is saved
  constexpr std::size_t kept_states = 12;
  if (done_ < first_stretch || !searches_) return;
  if ((done_ - first_stretch) % stride != 0 || seen_.size() >= kept_states) return;
  std::vector<std::int64_t> state;
  r_.memory.save_state(state, r_.live, begin);
  const auto same = std::ranges::find_if(seen_, [&](const auto& s) { return s.second == state; });
  if (same != seen_.end()) {
    recurrence_ = done_ - same->first;
  } else {
    seen_.emplace_back(done_, std::move(state));
  }
}

MemoryReplay::Reached AllocatorReplay::advance(std::int64_t end) {
  while (done_ < end) {
    const Time now = stretch_.at(done_);
    look_for_recurrence(now);
    if (rests()) break;
    if (!replay_cycle(pass_at(r_, stretch_, done_ + 1), now)) return {done_, Stop::driver};
    ++done_;
  }
  return {done_, Stop::no};
}

void AllocatorReplay::finish(std::int64_t end) {
  const std::int64_t whole = (end - done_) / recurrence_ * recurrence_;
  const std::uint32_t to = pass_at(r_, stretch_, done_ + whole);
  std::vector<std::uint32_t> live = r_.live;
  walk_frames(r_, to, live);
  r_.memory.renumber_frames(r_.live, live);
  r_.live = std::move(live);
  r_.at.pass = to;
  r_.memory.shift_events(whole * stretch_.length, ClockDriver::later);
  done_ += whole;
  recurrence_ = 0;
  searches_ = false;
  [[maybe_unused]] const Reached last = advance(end);
  assert(last.stop == Stop::no);
}

}  // namespace sim::engine
