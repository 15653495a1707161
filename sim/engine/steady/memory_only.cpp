// memory_only.cpp — replays memory alone, once times repeat but memory does not yet.
//
// Times repeat until memory makes a driver call, because memory affects times in no other way. A
// known cycle (known_cycle.cpp) has a clock log: the clocks at every allocation and free. Memory is
// replayed against it. The clocks are needed because a block that was recorded on another stream is
// reusable only after that stream has passed.
//
// Classes advance by stretches of a few cycles, independently, and in parallel if threads are
// allowed. A class that makes a driver call runs alone until its times are the usual ones again
// (run_alone.cpp). If other classes would notice the call, all classes return to the cycle before
// it, and the executor continues with all of them.
//
// A class whose memory returns to an earlier state rests until the number of cycles is known.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <utility>

#include "sim/engine/steady/allocator_replay.h"
#include "sim/engine/steady/growth.h"
#include "sim/engine/steady/steady_state.h"
#include "sim/engine/steady/sub_pool_replay.h"

namespace sim::engine {

using program::Op;

namespace {

// Cycles within which a class that runs alone must reach its usual times again.
constexpr std::int64_t most_alone = 6;

}  // namespace

// The memory of one class: replayed by the allocator, or in sub-pools while they are on.
struct SteadyState::MemoryOnly {
  MemoryOnly(int number, RankState& state, std::span<const MemoryCode* const> blocks,
             const Stretch& stretch)
      : c(number),
        r(state),
        allocator(state, blocks, stretch),
        cut((state.clock.cpu - stretch.begin).ps) {}

  int c = 0;
  RankState& r;
  AllocatorReplay allocator;
  std::shared_ptr<SubPoolReplay> sub_pools;
  std::int64_t cut = 0;   // when the CPU reaches the begin of a cycle, in ps from that begin
  std::int64_t done = 0;  // cycles replayed, or to be added up at the end
  bool called = false;    // the driver was called in the cycle after those
  bool short_of = false;  // too few cycles are left for a class that runs alone to recover
  bool barred = false;    // sub-pools could not take over

  bool in_sub_pools() const { return sub_pools && sub_pools->on(); }
  void keep() {
    allocator.forget_kept();
    if (in_sub_pools()) return sub_pools->keep();
    allocator.start_at(done);
    allocator.keep();
  }
  void put_back() {
    MemoryReplay& kept = allocator.has_kept() ? static_cast<MemoryReplay&>(allocator) : *sub_pools;
    if (allocator.has_kept() && sub_pools) sub_pools->drop();
    kept.put_back();
    done = kept.done();
  }
  // Replays by the allocator. False after a driver call; `done` then counts the cycles before it.
  bool advance_allocator(std::int64_t end) {
    allocator.search(!sub_pools || barred);  // sub-pools look for recurrences themselves
    allocator.start_at(done);
    const MemoryReplay::Reached reached = allocator.advance(end);
    done = reached.done;
    return reached.stop == MemoryReplay::Stop::no;
  }
};

// Hands the memory of a class to its sub-pools, if they can take over.
void SteadyState::enter_sub_pools(MemoryOnly& memory_only, const Stretch& stretch) {
  if (!memory_only.sub_pools || memory_only.sub_pools->on() ||
      memory_only.done < memory_only.sub_pools->first())
    return;
  RankState& r = memory_only.r;
  memory_only.barred =
      !memory_only.sub_pools->enter(r, memory_only.done, stretch.at(memory_only.done));
}

// Writes the state of active sub-pools back into the allocator, at the begin of cycle `done`.
void SteadyState::leave_sub_pools(MemoryOnly& memory_only, const Stretch& stretch) {
  if (!memory_only.in_sub_pools()) return;
  RankState& r = memory_only.r;
  const std::uint32_t pass = pass_at(r, stretch, memory_only.done);
  std::vector<std::uint32_t> live = r.live;
  walk_frames(r, pass, live);
  memory_only.sub_pools->leave(r, stretch.at(memory_only.done), live);
  r.live = std::move(live);
  r.at.pass = pass;
}

// Replays the memory of a class up to cycle `end`, in sub-pools if they can take over. The
// allocator replays a cycle that may reach a new peak. A class runs a cycle with a driver call
// alone if no other class notices, and then returns to sub-pools. False after any other driver
// call.
bool SteadyState::advance_memory(MemoryOnly& memory_only, const Stretch& stretch,
                                 std::int64_t end) {
  std::int64_t call = end;  // the cycle that needs the driver, once it is known
  for (;;) {
    if (!memory_only.in_sub_pools() && !memory_only.barred && memory_only.done < end) {
      enter_sub_pools(memory_only, stretch);
      if (memory_only.in_sub_pools()) memory_only.sub_pools->keep();
    }
    if (!memory_only.in_sub_pools()) return memory_only.advance_allocator(end);
    const MemoryReplay::Reached reached = memory_only.sub_pools->advance(call);
    memory_only.done = reached.done;
    if (reached.stop == MemoryReplay::Stop::no) {
      if (call == end) return true;
      leave_sub_pools(memory_only, stretch);
      const std::int64_t left = end - call;
      const auto alone = run_alone(memory_only.c, stretch, call, std::min(left, most_alone));
      memory_only.short_of = !alone && left < most_alone;
      if (!alone) return false;
      memory_only.done = *alone;
      call = end;
      continue;
    }
    const bool peak = reached.stop == MemoryReplay::Stop::peak;
    if (!peak && !stretch.alone) return false;
    if (!peak) call = reached.done;
    memory_only.sub_pools->put_back();
    memory_only.done = memory_only.sub_pools->done();
    if (!memory_only.allocator.has_kept()) {
      leave_sub_pools(memory_only, stretch);
      memory_only.keep();
      if (peak && reached.done > memory_only.done) enter_sub_pools(memory_only, stretch);
    }
    if (!peak) continue;
    if (memory_only.in_sub_pools()) {
      memory_only.done = memory_only.sub_pools->advance(reached.done).done;
      leave_sub_pools(memory_only, stretch);
    }
    if (!memory_only.advance_allocator(memory_only.done + 1)) return false;
  }
}

// Sets up the sub-pools of a class, if enough cycles are left.
void SteadyState::trace_sub_pools(MemoryOnly& memory_only, const Stretch& stretch,
                                  std::int64_t most) {
  constexpr std::int64_t worth = 10, longest = 256;  // cycles
  if (most - memory_only.done < worth || memory_only.allocator.rests()) return;
  std::shared_ptr<SubPoolReplay>& known =
      known_->sub_pools[static_cast<std::size_t>(memory_only.c)];
  if (known) {
    known->start_from(memory_only.done);
    memory_only.sub_pools = known;
    return;
  }
  const RankState& r = memory_only.r;
  std::vector<std::uint32_t> bounds;
  for (std::int64_t n = memory_only.done; n <= std::min(most, memory_only.done + longest); ++n)
    bounds.push_back(pass_at(r, stretch, n));
  auto trace =
      trace_cycle(r, executor_.memory_code()[static_cast<std::size_t>(memory_only.c)], bounds);
  if (!trace) return;
  known = std::make_shared<SubPoolReplay>(std::move(*trace), memory_only.done, stretch.length.ps,
                                          memory_only.cut);
  memory_only.sub_pools = known;
}

namespace {

// The largest segment that a step may request (the set-up of the job is over).
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

// With `bounded` memory: whether no class can run out of memory any more, after the cycles of
// `stop` without a driver call. If so, saves the bounds on the reserved memory of each class. From
// then on memory is not replayed exactly, so its driver calls take no time.
bool SteadyState::decided(const GrowthStop& stop) {
  if (options_.memory != MemoryDetail::bounded || executor_.ran_out()) return false;
  if (!bounds_.most.empty()) return true;
  std::vector<std::int64_t> least, most;
  for (const auto& r : executor_.ranks()) {
    const std::int64_t reserved = r->memory.peak_reserved();
    least.push_back(reserved);
    most.push_back(reserved_at_most(reserved, largest_segment(r->program), stop));
    if (most.back() > r->driver.capacity().n - memory_.less.n) return false;
  }
  for (const auto& r : executor_.ranks()) r->driver.charge_nothing();
  bounds_ = {std::move(least), std::move(most)};
  return true;
}

// The end of the stretch that begins at `done`. Stretches grow with `done`. A stretch also ends at
// the cycles of growth_stops, and where sub-pools can take over.
std::int64_t SteadyState::end_of_stretch(std::span<const MemoryOnly> all, std::int64_t done,
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

// Whether the memory of all classes is decided at a growth stop (growth.h). If so, they rest.
bool SteadyState::rest_when_decided(std::span<MemoryOnly> all, const Stretch& stretch,
                                    std::int64_t done) {
  const auto stop = std::ranges::find(growth_stops, done, &GrowthStop::cycles);
  if (stop == std::end(growth_stops) || !steady(stretch) || !decided(*stop)) return false;
  for (MemoryOnly& own : all) {
    leave_sub_pools(own, stretch);
    if (!own.allocator.rests()) own.allocator.rest();
  }
  return true;
}

// Advances all classes to cycle `end`, or to the first cycle with a driver call that other classes
// would notice. A class that needs the driver shortens the stretch of the classes after it.
SteadyState::Advanced SteadyState::advance_all(std::span<MemoryOnly> all, const Stretch& stretch,
                                               std::int64_t end, std::int64_t most) {
  const auto each = [&](const auto& work) { team_.in_parallel(all.size(), work); };
  std::atomic<std::int64_t> goal = end;
  const auto advance_to = [&](std::size_t c, std::int64_t to) {
    MemoryOnly& memory_only = all[c];
    memory_only.short_of = false;
    memory_only.called = !advance_memory(memory_only, stretch, to);
    if (!memory_only.called) return;
    for (std::int64_t g = goal;
         memory_only.done < g && !goal.compare_exchange_weak(g, memory_only.done);) {
    }
  };
  each([&](std::size_t c) {
    if (all[c].allocator.rests()) return;
    enter_sub_pools(all[c], stretch);
    all[c].keep();
    advance_to(c, goal);
  });
  const bool more =
      end < most ? std::ranges::none_of(
                       all, [](const MemoryOnly& one) { return one.called && !one.short_of; })
                 : goal == most;
  // Classes that called the driver, or ran or rested beyond the call.
  const auto beyond = [&](const MemoryOnly& one) { return one.called || one.done > goal; };
  while (std::ranges::any_of(all, beyond)) {
    const std::int64_t back_to = goal;
    each([&](std::size_t c) {
      if (!all[c].called && all[c].done <= back_to) return;
      all[c].put_back();
      advance_to(c, back_to);
    });
  }
  return {goal, more};
}

// Replays the memory of every class for up to `most` cycles. Returns the number of cycles before
// the first driver call that other classes would notice.
std::int64_t SteadyState::replay_memory_only(const Stretch& stretch, std::int64_t most) {
  std::vector<MemoryOnly> all;
  for (std::size_t c = 0; c < executor_.ranks().size(); ++c)
    all.emplace_back(static_cast<int>(c), *executor_.ranks()[c], executor_.memory_code()[c],
                     stretch);
  const auto each = [&](const auto& work) { team_.in_parallel(all.size(), work); };
  std::int64_t done = 0, room = 0;  // room: minimum length of a stretch, in cycles
  for (bool more = true, traced = false; more && done < most;) {
    if (rest_when_decided(all, stretch, done)) {
      done = most;
      break;
    }
    if (!std::exchange(traced, true))
      each([&](std::size_t c) { trace_sub_pools(all[c], stretch, most); });
    const std::int64_t whole =
        std::min(most, std::max(end_of_stretch(all, done, most), done + room));
    const Advanced advanced = advance_all(all, stretch, whole, most);
    const std::int64_t end = advanced.end;
    room = end == whole ? 0 : end > done ? most_alone : std::max(most_alone, 2 * room);
    done = end;
    more = advanced.more;
    const bool all_rest =
        std::ranges::all_of(all, [](const MemoryOnly& one) { return one.allocator.rests(); });
    if (more && end != most && all_rest) done = most;
  }
  each([&](std::size_t c) {
    leave_sub_pools(all[c], stretch);
    if (!all[c].allocator.rests()) return;
    all[c].allocator.start_at(all[c].done);
    all[c].allocator.finish(done);
  });
  return done;
}

// The known cycle repeats from cut `cut` on, at time `origin`. Returns the cut that the classes
// have then reached, with complete times and memory.
std::size_t SteadyState::memory_only(Time origin, std::size_t cut) {
  const Stretch stretch{cut, known_->cycle, origin, known_->length, may_run_alone()};
  before_memory_only_.clear();
  for (const auto& r : executor_.ranks()) {
    before_memory_only_.push_back(*r);
    r->clock.open = {};  // a known cycle has the times of all its events
  }
  const std::int64_t times = replay_memory_only(stretch, cycles_left(cut, stretch.cycle));
  for (std::size_t c = 0; c < executor_.ranks().size(); ++c) {
    executor_.ranks()[c]->clock = before_memory_only_[c].clock;
    executor_.ranks()[c]->driver.set_outstanding(
        executor_.ranks()[c]->memory.events_from(ClockDriver::later));
    move_on(*executor_.ranks()[c], known_->gained[c], times * known_->length, times);
  }
  executor_.peers().shift(times * stretch.length);
  return cut + static_cast<std::size_t>(times) * stretch.cycle;
}

}  // namespace sim::engine
