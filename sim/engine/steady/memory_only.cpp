// dataflow_memory_only.cpp — times repeat, memory does not yet: memory alone is replayed.
//
// Times that repeat go on repeating until memory makes a driver call, the only way in which it can
// touch them. Of a cycle that is known (dataflow_known.cpp) there is a clock log of the clocks at every
// allocation and free; memory alone is replayed against it. The clock log carries clocks because blocks
// that were recorded on another stream come back when it has passed.
//
// Classes advance by stretches of a few cycles, each by itself, on several threads where they are
// allowed. One that makes a driver call runs alone until it is where it always was
// (dataflow_alone.cpp). Where others would notice the call, those that are beyond the cycle before
// it go back to the begin of the stretch, and all run on in full from there.
//
// Memory that comes back to an earlier state is periodic; such a class rests until the number of
// cycles is known.
//
// Where the allocator's options allow it, sub-pools are replayed in its place (sub_pool_replay.h): the same
// blocks, several times faster, each sub-pool resting on its own.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <utility>

#include "sim/engine/fast/dataflow_engine.h"
#include "sim/engine/steady/sub_pool_replay.h"

namespace sim::engine {

using program::Op;

namespace {

// Cycles of the first stretch: many a class needs the driver at once.
constexpr std::int64_t first_stretch = 2;
// Cycles in which a class that runs alone has to be as it always was.
constexpr std::int64_t most_alone = 6;

}  // namespace

// A class in such a replay.
struct Dataflow::MemoryOnly {
  std::int64_t cut = 0;    // when the CPU reaches the begin of a cycle, in ps from there
  std::int64_t done = 0;   // cycles replayed, or found to be added up
  bool called = false;     // the driver, in the cycle behind those
  bool short_of = false;   // cycles: to be where it always was may take more than are left
  std::int64_t recurrence = 0;  // above 0: the state after `done` cycles comes back that much later
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> seen;
  std::shared_ptr<SubPoolReplay> sub_pools;
  bool barred = false;  // they could not take over

  // At the begin of the stretch.
  struct Retained {
    RankMemory::Retained memory;
    Clock clock;
    Position at;
    std::vector<std::uint32_t> live;
    std::int64_t done = 0;
  };
  std::optional<Retained> kept;

  bool in_sub_pools() const { return sub_pools && sub_pools->on(); }
  void keep(const RankState& r) {
    kept.reset();
    if (in_sub_pools()) return sub_pools->keep();
    kept.emplace(Retained{r.memory.keep(), r.clock, r.at, r.live, done});
  }
  void put_back(RankState& r) {
    if (!kept) {
      sub_pools->put_back();
      done = sub_pools->done();
      return;
    }
    if (sub_pools) sub_pools->drop();
    r.memory.restore(kept->memory);
    r.driver.set_outstanding(r.memory.events_from(ClockDriver::later));
    r.clock = kept->clock;
    r.at = kept->at;
    r.live = kept->live;
    done = kept->done;
    recurrence = 0;
  }
};

// Replays the memory of a class up to pass `end` against its clock log. False after a driver call.
bool Dataflow::replay_clock_log(int c, RankState& r, std::uint32_t end, Time origin) {
  const std::int64_t calls = r.driver.calls();
  const bool may_leave_out = r.memory.allocator().takes_what_fits();
  const std::int64_t* clock_log = r.clock_log.data();
  bool leave_out = false;  // the group of transients at hand
  const std::uint32_t begin = r.at.pass;
  walk_memory(r.program, *r.at.passes, begin, end, memory_code_[static_cast<std::size_t>(c)],
              [&](std::uint32_t pass, std::uint32_t call, const MemoryCode& block,
                  const MemoryInstruction& step, std::uint32_t slot, std::uint32_t to) {
                const program::Instruction& i = step.instruction;
                if (i.op == Op::alloc) {
                  r.clock.cpu = Time{origin.ps + *clock_log++};
                  if (step.group >= 0) {
                    const MemoryCode::Group& group =
                        block.groups[static_cast<std::size_t>(step.group)];
                    leave_out = may_leave_out && r.memory.room_for(group.rooms, group.tensors);
                  }
                  if (step.transient && leave_out) return;
                  r.at.pass = pass;
                  r.at.call = call;
                  r.at.instruction = step.place;
                  r.memory.allocate(slot, i, r.at);
                } else if (i.op == Op::free) {
                  r.clock.cpu = Time{origin.ps + *clock_log++};
                  if (step.transient && leave_out) return;
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
  assert(r.clock_log.empty() || clock_log <= r.clock_log.data() + r.clock_log.size());
  r.at.pass = begin;
  walk_frames(r, end, r.live);
  r.at.pass = end;
  r.at.call = r.at.instruction = 0;
  return r.driver.calls() == calls;
}

// A state of memory that was there before: the class rests. `begin` is when its cycle begins.
// Sub-pools look for themselves.
void Dataflow::look_for_recurrence(const RankState& r, MemoryOnly& memory_only, Time begin) const {
  constexpr std::int64_t stride = 8;  // a state is kept every so many cycles
  constexpr std::size_t kept_states = 12;
  if (memory_only.done < first_stretch || (memory_only.sub_pools && !memory_only.barred)) return;
  if ((memory_only.done - first_stretch) % stride != 0 || memory_only.seen.size() >= kept_states)
    return;
  std::vector<std::int64_t> state;
  r.memory.save_state(state, r.live, begin);
  const auto same = std::find_if(memory_only.seen.begin(), memory_only.seen.end(),
                                 [&](const auto& s) { return s.second == state; });
  if (same != memory_only.seen.end()) {
    memory_only.recurrence = memory_only.done - same->first;
  } else {
    memory_only.seen.emplace_back(memory_only.done, std::move(state));
  }
}

// Replays memory of a class until `end` cycles are done, counted from cut `base`. False after a
// driver call; `done` then counts the cycles before it.
bool Dataflow::replay_memory(int c, MemoryOnly& memory_only, const Stretch& stretch,
                             std::int64_t end) {
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  while (memory_only.done < end) {
    const Time now = stretch.at(memory_only.done);
    look_for_recurrence(r, memory_only, now);
    if (memory_only.recurrence > 0) return true;
    if (!replay_clock_log(c, r, pass_at(r, stretch, memory_only.done + 1), now)) return false;
    ++memory_only.done;
  }
  return true;
}

// Lets sub-pools take over a class, where they can.
void Dataflow::enter_sub_pools(int c, MemoryOnly& memory_only, const Stretch& stretch) {
  if (!memory_only.sub_pools || memory_only.sub_pools->on() ||
      memory_only.done < memory_only.sub_pools->first())
    return;
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  memory_only.barred =
      !memory_only.sub_pools->enter(r, memory_only.done, stretch.at(memory_only.done));
}

// Puts what the sub-pools did, if they are on, into memory, at the begin of cycle `done`.
void Dataflow::leave_sub_pools(int c, MemoryOnly& memory_only, const Stretch& stretch) {
  if (!memory_only.in_sub_pools()) return;
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  const std::uint32_t pass = pass_at(r, stretch, memory_only.done);
  std::vector<std::uint32_t> live = r.live;
  walk_frames(r, pass, live);
  memory_only.sub_pools->leave(r, stretch.at(memory_only.done), live);
  r.live = std::move(live);
  r.at.pass = pass;
}

// Replays memory as replay_memory() does, in sub-pools where they can take over. A cycle that may
// reach a new peak is the allocator's, one that needs the driver is run alone, where that concerns
// no one else; behind it sub-pools go on.
bool Dataflow::advance_memory(int c, MemoryOnly& memory_only, const Stretch& stretch,
                              std::int64_t end) {
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  std::int64_t call = end;  // the cycle that needs the driver, once it is known
  for (;;) {
    if (!memory_only.in_sub_pools() && !memory_only.barred && memory_only.done < end) {
      enter_sub_pools(c, memory_only, stretch);
      if (memory_only.in_sub_pools()) memory_only.sub_pools->keep();
    }
    if (!memory_only.in_sub_pools()) return replay_memory(c, memory_only, stretch, end);
    const SubPoolReplay::Reached reached = memory_only.sub_pools->advance(call);
    memory_only.done = reached.done;
    if (reached.stop == SubPoolReplay::Stop::no) {
      if (call == end) return true;
      leave_sub_pools(c, memory_only, stretch);
      const std::int64_t left = end - call;
      const auto alone = run_alone(c, stretch, call, std::min(left, most_alone));
      memory_only.short_of = !alone && left < most_alone;
      if (!alone) return false;
      memory_only.done = *alone;
      call = end;
      continue;
    }
    const bool peak = reached.stop == SubPoolReplay::Stop::peak;
    if (!peak && !stretch.alone) return false;
    if (!peak) call = reached.done;
    memory_only.sub_pools->put_back();
    memory_only.done = memory_only.sub_pools->done();
    if (!memory_only.kept) {
      leave_sub_pools(c, memory_only, stretch);
      memory_only.keep(r);
      if (peak && reached.done > memory_only.done) enter_sub_pools(c, memory_only, stretch);
    }
    if (!peak) continue;
    if (memory_only.in_sub_pools()) {
      memory_only.done = memory_only.sub_pools->advance(reached.done).done;
      leave_sub_pools(c, memory_only, stretch);
    }
    if (!replay_memory(c, memory_only, stretch, memory_only.done + 1)) return false;
  }
}

// Sets up the sub-pools of a class, where the cycles to come are worth it.
void Dataflow::trace_sub_pools(int c, MemoryOnly& memory_only, const Stretch& stretch,
                               std::int64_t most) {
  constexpr std::int64_t worth = 10, longest = 256;  // cycles
  if (most - memory_only.done < worth || memory_only.recurrence > 0) return;
  std::shared_ptr<SubPoolReplay>& known = known_->sub_pools[static_cast<std::size_t>(c)];
  if (known) {
    known->start_from(memory_only.done);
    memory_only.sub_pools = known;
    return;
  }
  const RankState& r = *ranks_[static_cast<std::size_t>(c)];
  std::vector<std::uint32_t> bounds;
  for (std::int64_t n = memory_only.done; n <= std::min(most, memory_only.done + longest); ++n)
    bounds.push_back(pass_at(r, stretch, n));
  auto trace = trace_cycle(r, memory_code_[static_cast<std::size_t>(c)], bounds);
  if (!trace) return;
  known = std::make_shared<SubPoolReplay>(std::move(*trace), memory_only.done, stretch.length.ps,
                                          memory_only.cut);
  memory_only.sub_pools = known;
}

// The state of a periodic class after `end` cycles.
void Dataflow::end_recurrence(int c, MemoryOnly& memory_only, const Stretch& stretch, std::int64_t end) {
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  const std::int64_t whole = (end - memory_only.done) / memory_only.recurrence * memory_only.recurrence;
  const std::uint32_t to = pass_at(r, stretch, memory_only.done + whole);
  std::vector<std::uint32_t> live = r.live;
  walk_frames(r, to, live);
  r.memory.renumber_frames(r.live, live);
  r.live = std::move(live);
  r.at.pass = to;
  r.memory.shift_events(whole * stretch.length, ClockDriver::later);
  memory_only.done += whole;
  memory_only.recurrence = 0;
  memory_only.seen.resize(1000);  // no further search
  [[maybe_unused]] const bool still = replay_memory(c, memory_only, stretch, end);
  assert(still);
}

namespace {

// Of what a step asks for: set-up is over.
std::int64_t largest_segment(const program::Program& program) {
  std::int64_t largest = allocator::Options().large_segment;
  std::vector<char> seen(program.templates.size()), looked(program.blocks.size());
  for (const program::Pass& pass : program.step) {
    if (std::exchange(seen[pass.pattern], true)) continue;
    for (const program::Call& call : program.templates[pass.pattern].calls) {
      if (std::exchange(looked[call.block], true)) continue;
      for (const program::Instruction& i : program.blocks[call.block].code)
        if (i.op == Op::alloc) largest = std::max(largest, i.value);
    }
  }
  return largest;
}

}  // namespace

// Whether it is sure that no class will run out of memory, as far as it was asked to be; then the
// bounds of what they reserve are written down. The cycles of `stop` went by without a driver
// call. Behind that memory is no more as it would be: driver calls there say nothing about time.
bool Dataflow::decided(const GrowthStop& stop) {
  if (options_.memory != MemoryDetail::bounded || ran_out()) return false;
  if (!reserved_most_.empty()) return true;
  std::vector<std::int64_t> least, most;
  for (const auto& r : ranks_) {
    const std::int64_t reserved = r->memory.peak_reserved();
    least.push_back(reserved);
    most.push_back(reserved_at_most(reserved, largest_segment(r->program), stop));
    if (most.back() > r->driver.capacity().n - memory_.less.n) return false;
  }
  for (const auto& r : ranks_) r->driver.charge_nothing();
  reserved_least_ = std::move(least);
  reserved_most_ = std::move(most);
  return true;
}

// Where the stretch ends that begins at `done`: stretches grow, and end where it is asked whether
// memory is decided, and where sub-pools can take over.
std::int64_t Dataflow::end_of_stretch(std::span<const MemoryOnly> all, std::int64_t done,
                                      std::int64_t most) {
  constexpr std::int64_t shortest = 8, longest = 256;
  std::int64_t end = done == 0 ? first_stretch : done + std::clamp(done / 2, shortest, longest);
  end = std::min(end, most);
  for (const GrowthStop& stop : growth_stops)
    if (stop.cycles > done) end = std::min(end, stop.cycles);
  for (const MemoryOnly& memory_only : all)
    if (memory_only.sub_pools && memory_only.sub_pools->first() > done)
      end = std::min(end, memory_only.sub_pools->first());
  return end;
}

// Replays memory of every class up to `most` cycles; how many stayed without a driver call.
std::int64_t Dataflow::replay_memory_only(const Stretch& stretch, std::int64_t most) {
  std::vector<MemoryOnly> all(ranks_.size());
  for (std::size_t c = 0; c < ranks_.size(); ++c)
    all[c].cut = (ranks_[c]->clock.cpu - stretch.begin).ps;
  const auto each = [&](const auto& work) { team_.in_parallel(all.size(), work); };
  std::int64_t done = 0, room = 0;  // room: cycles that a stretch needs at least
  for (bool still = true, traced = false; still && done < most;) {
    const auto stop = std::ranges::find(growth_stops, done, &GrowthStop::cycles);
    if (stop != std::end(growth_stops) && steady(stretch) && decided(*stop)) {
      for (std::size_t c = 0; c < ranks_.size(); ++c) {
        leave_sub_pools(static_cast<int>(c), all[c], stretch);
        if (all[c].recurrence == 0) all[c].recurrence = 1;
      }
      done = most;
      break;
    }
    if (!std::exchange(traced, true))
      each([&](std::size_t c) { trace_sub_pools(static_cast<int>(c), all[c], stretch, most); });
    const std::int64_t whole =
        std::min(most, std::max(end_of_stretch(all, done, most), done + room));
    // One that needs the driver leaves no more to do for those that come later.
    std::atomic<std::int64_t> goal = whole;
    const auto advance_to = [&](std::size_t c, std::int64_t to) {
      MemoryOnly& memory_only = all[c];
      memory_only.short_of = false;
      memory_only.called = !advance_memory(static_cast<int>(c), memory_only, stretch, to);
      if (!memory_only.called) return;
      for (std::int64_t g = goal;
           memory_only.done < g && !goal.compare_exchange_weak(g, memory_only.done);) {
      }
    };
    each([&](std::size_t c) {
      if (all[c].recurrence > 0) return;
      enter_sub_pools(static_cast<int>(c), all[c], stretch);
      all[c].keep(*ranks_[c]);
      advance_to(c, goal);
    });
    still = whole < most
                ? std::ranges::none_of(all,
                                       [&](const MemoryOnly& memory_only) {
                                         return memory_only.called && !memory_only.short_of;
                                       })
                : goal == most;
    // Those that called, were ahead of the call, or came to rest behind it.
    const auto beyond = [&](const MemoryOnly& memory_only) {
      return memory_only.called || memory_only.done > goal;
    };
    while (std::ranges::any_of(all, beyond)) {
      const std::int64_t end = goal;
      each([&](std::size_t c) {
        if (!all[c].called && all[c].done <= end) return;
        all[c].put_back(*ranks_[c]);
        advance_to(c, end);
      });
    }
    const std::int64_t end = goal;
    const bool last = end == most;
    room = end == whole ? 0 : end > done ? most_alone : std::max(most_alone, 2 * room);
    done = end;
    const bool all_rest =
        std::all_of(all.begin(), all.end(), [](const MemoryOnly& q) { return q.recurrence > 0; });
    if (still && !last && all_rest) done = most;
  }
  each([&](std::size_t c) {
    leave_sub_pools(static_cast<int>(c), all[c], stretch);
    if (all[c].recurrence > 0) end_recurrence(static_cast<int>(c), all[c], stretch, done);
  });
  return done;
}

// The known cycle comes again from cut `cut` on, whose times begin at `origin`. Returns the cut at
// which the classes then stand; the state there is whole.
std::size_t Dataflow::memory_only(Time origin, std::size_t cut) {
  const Stretch stretch{cut, known_->cycle, origin, known_->length, may_run_alone()};
  before_memory_only_.clear();
  for (const auto& r : ranks_) {
    before_memory_only_.push_back(*r);
    r->clock.open = {};  // a known cycle has the times of all its events
  }
  const std::int64_t times = replay_memory_only(stretch, cycles_left(cut, stretch.cycle));
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    ranks_[c]->clock = before_memory_only_[c].clock;
    ranks_[c]->driver.set_outstanding(ranks_[c]->memory.events_from(ClockDriver::later));
    move_on(c, known_->gained[c], times * known_->length, times);
  }
  shift_channels(times * stretch.length);
  return cut + static_cast<std::size_t>(times) * stretch.cycle;
}

}  // namespace sim::engine
