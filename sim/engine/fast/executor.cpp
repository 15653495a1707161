#include "sim/engine/fast/executor.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "sim/allocator/options.h"
#include "sim/base/interruption.h"

namespace sim::engine {

using program::Instruction;
using program::Op;
using program::Stream;

Executor::Executor(const program::Job& job, const Times& times, const Memory& memory,
                   const Options& options)
    : job_(job), times_(times), options_(options), peers_(job) {
  const auto parsed = allocator::parse_options(memory.options);
  assert(parsed);
  const DriverCosts costs{times.device_malloc, times.device_malloc_per_gib, times.device_free};
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    ranks_.push_back(std::make_unique<RankState>(job.classes[c], times.classes[c],
                                                 capacity(memory, c), costs, *parsed));
  if (options.observer)
    for (std::size_t c = 0; c < ranks_.size(); ++c)
      ranks_[c]->memory.watch(*options.observer, static_cast<int>(c));
  for (auto& r : ranks_)
    r->queues.assign(times.single_queue ? 1 : program::stream_count,
                     HardwareQueue(times.launch_queue));
  for (const program::Program& program : job.classes) {
    std::vector<const MemoryCode*>& blocks = memory_code_.emplace_back();
    for (const program::Block& block : program.blocks)
      blocks.push_back(engine::places_tensors(options.memory) ? memory_codes_.of(block)
                                                              : &no_memory);
  }
  // If each rank is a class, the ranks of one replica of a stage take turns with each other.
  const mesh::Degrees& d = job.mesh.degrees();
  const bool all_ranks = static_cast<int>(job.classes.size()) == job.mesh.world();
  const std::size_t most = all_ranks
                               ? static_cast<std::size_t>(d.tp) * static_cast<std::size_t>(d.cp)
                               : job.classes.size();
  std::map<int, std::vector<std::vector<int>>> of_stage;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    auto& groups = of_stage[job.classes[c].stage];
    if (groups.empty() || groups.back().size() == most) groups.emplace_back();
    groups.back().push_back(static_cast<int>(c));
  }
  for (auto& [stage, groups] : of_stage)
    for (std::vector<int>& group : groups) groups_.push_back(std::move(group));
}

void Executor::note_met(RankState& r, Stream communicator, Time post, const Ends& ends) {
  if (!r.log.recording) return;
  const auto from = [&](Time t) { return Time{t.ps - r.log.origin.ps}; };
  r.log.met.push_back({communicator, from(post), {from(ends.met), from(ends.end), ends.longest}});
}

void Executor::observe(int c, const RankState& r, Stream stream, const Instruction& i, Time start,
                       Time waited, Time end) const {
  options_.observer->operation(c, stream, r.program.labels[i.label],
                               resolve(r.program, position(r)), start, waited, end);
}

void Executor::lift(RankState& r, Stream stream, Time until, Account account) {
  Time& tail = r.clock.tail[at(stream)];
  if (until <= tail) return;
  if (stream == Stream::compute) r.timeline.lift(account, until - tail);
  tail = until;
}

Account Executor::why(const RankState& r, Time start, Account otherwise) const {
  if (start == r.clock.cpu) return Account::host;
  if (times_.single_queue && start == r.queue) return r.queue_account;
  return otherwise;
}

void Executor::admit(RankState& r, Stream stream, std::int64_t entries) const {
  HardwareQueue& queue = r.queue_of(stream);
  assert(queue.knows_room_for(entries));
  r.clock.cpu = std::max(r.clock.cpu, queue.room_for(entries));
  queue.issue(entries);
}

void Executor::launched(RankState& r, Stream stream, std::int64_t entries, Time start) const {
  if (times_.single_queue) r.queue = start;
  r.queue_of(stream).start(entries, start);
}

void Executor::kernel(int c, RankState& r, const Instruction& i) {
  const Resource resource = resource_of(i.stream);
  const bool launches = resource != Resource::cpu_cores;
  const std::int64_t entries = i.flags & program::graphed ? 0 : 1;
  if (entries > 0) {
    r.clock.cpu = r.clock.cpu + times_.launch;
    if (launches) admit(r, i.stream, entries);
  }
  Time& tail = r.clock.tail[at(i.stream)];
  Time& free = r.free[static_cast<std::size_t>(resource)];
  const bool beside = i.flags & program::beside;
  Time start = std::max({r.clock.cpu, tail, beside ? tail : free});
  if (times_.single_queue && launches) start = std::max(start, r.queue);
  const auto& durations =
      i.flags & program::overlapped ? r.times.kernel_overlapped : r.times.kernel;
  const Time end = start + durations[i.index];
  const Account idle =
      why(r, start, i.stream == Stream::compute ? Account::other : account_of(i.stream));
  tail = end;
  if (!beside) free = end;
  if (!beside && resource == Resource::sms)
    r.timeline.kernel(start, end, kernel_account(i.flags), idle);
  if (launches) {
    launched(r, i.stream, entries, start);
    r.queue_account = idle;
  }
  if (options_.observer) observe(c, r, i.stream, i, start, start, end);
}

bool Executor::collective(int c, RankState& r, const Instruction& i) {
  const program::Transfer& transfer = r.program.transfers[i.index];
  const Stream q = transfer.communicator;
  Time& tail = r.clock.tail[at(q)];
  const Account account = account_of(q);
  const int group = peers_.meeting_of(c, at(q));
  if (group >= 0 && !times_.single_queue) return meet_later(c, r, i, group);
  const std::int64_t entries = i.flags & program::graphed ? 0 : times_.queue_entries_per_collective;
  if (!r.stall.posted) {
    if (entries > 0) {
      r.clock.cpu = r.clock.cpu + times_.launch_collective;
      admit(r, q, entries);
    }
    r.stall.post = std::max({r.clock.cpu, tail, r.clock.tail[at(i.stream)]});
    if (times_.single_queue) r.stall.post = std::max(r.stall.post, r.queue);
    if (group >= 0 && !r.alone) {
      r.stall.posted = true;
      come(peers_.meetings(group), r.meetings[at(q)], r.stall.post);
    }
  }
  Time start = r.stall.post;
  if (group >= 0) {
    Ends ends;
    if (r.alone) {
      if (!r.alone->next(q, r.stall.post, ends)) return false;
    } else {
      const auto all = leave(peers_.meetings(group), r.meetings[at(q)]);
      if (!all) return false;
      ends.met = *all;
      note_met(r, q, r.stall.post, ends);
    }
    start = ends.met;
    ++r.meetings[at(q)];
    r.stall.posted = false;
  }
  const auto& durations =
      i.flags & program::overlapped ? r.times.transfer_overlapped : r.times.transfer;
  const Time end = start + durations[i.index];
  const Account late = why(r, r.stall.post, account);
  launched(r, q, entries, r.stall.post);
  r.queue_account = late;
  tail = end;
  const Account waiting = waiting_account(q);
  if (i.flags & program::joins) {
    lift(r, i.stream, r.stall.post, late);
    lift(r, i.stream, start, waiting);
    lift(r, i.stream, end, account);
  }
  if (i.event != 0) r.events[i.event] = {end, durations[i.index], account, waiting, r.stall.post};
  if (options_.observer) observe(c, r, q, i, r.stall.post, start, end);
  return true;
}

void Executor::wait(RankState& r, const Instruction& i) {
  const EventEnd& event = r.events[i.event];
  const Time tail = r.clock.tail[at(i.stream)];
  if (event.when <= tail) return;
  const Duration own = std::min(event.transfer, event.when - tail);
  if (event.waiting == Account::rank_wait) lift(r, i.stream, event.post, event.account);
  lift(r, i.stream, Time{event.when.ps - own.ps}, event.waiting);
  lift(r, i.stream, event.when, event.account);
}

void Executor::wait_for_device(RankState& r) {
  lift(r, Stream::compute, r.clock.idle(), Account::other);
  r.clock.cpu = std::max(r.clock.cpu, r.clock.idle()) + times_.synchronize;
}

void Executor::work_on_host(RankState& r, const Instruction& i) {
  if (i.index != static_cast<std::uint32_t>(program::HostWork::data)) {
    r.clock.cpu = r.clock.cpu + i.value * times_.host[i.index];
    return;
  }
  const Duration late = data_waits_(r.clock.cpu - r.timeline.front_of_step());
  r.timeline.lift(Account::data, late);
  r.clock.cpu = r.clock.cpu + late;
}

// Returns false if the instruction needs something that another class has not issued yet.
bool Executor::execute(int c, RankState& r, const Instruction& i, const MemoryCode& memory,
                       std::uint32_t frame_base, std::uint32_t layer_base) {
  const auto slot_of = [&](program::Space space, std::uint32_t index) {
    return slot_number(r.program, space, index, frame_base, layer_base);
  };
  // The end of a stream is unknown while one of its operations has no known end.
  const auto known = [&](Stream stream) {
    return r.clock.open[at(stream)] == 0 || r.stall.posted ||
           complete_all(c, r, program::bit_of(stream));
  };
  switch (i.op) {
    case Op::alloc:
      return allocate(c, r, i, memory, slot_of(i.space, i.index));
    case Op::free:
      return free(c, r, i, memory, slot_of(i.space, i.index));
    case Op::move: {
      const program::Slot to = program::destination(i);
      r.memory.move(slot_of(i.space, i.index), slot_of(to.space, to.index));
      return true;
    }
    case Op::record_stream:
      r.memory.record_stream(slot_of(i.space, i.index), i.stream);
      return true;
    case Op::kernel:
      if (!known(i.stream)) return false;
      kernel(c, r, i);
      return true;
    case Op::collective:
      return known(i.stream) && collective(c, r, i);
    case Op::exchange:
      return known(i.stream) && exchange(c, r, i);
    case Op::wait:
      if (!known(i.stream) || !event_known(c, r, i.event)) return false;
      if (!(i.flags & program::graphed)) r.clock.cpu = r.clock.cpu + times_.event;
      wait(r, i);
      return true;
    case Op::record:
      if (!known(i.stream)) return false;
      if (!(i.flags & program::graphed)) r.clock.cpu = r.clock.cpu + times_.event;
      r.events[i.event] = {
          r.clock.tail[at(i.stream)], {}, account_of(i.stream), account_of(i.stream)};
      return true;
    case Op::sync_event:
      if (!event_known(c, r, i.event)) return false;
      r.clock.cpu = std::max(r.clock.cpu, r.events[i.event].when) + times_.synchronize;
      return true;
    case Op::sync_stream:
      if (!known(i.stream)) return false;
      r.clock.cpu = std::max(r.clock.cpu, r.clock.tail[at(i.stream)]) + times_.synchronize;
      return true;
    case Op::sync_device:
      if (!complete_all(c, r, ~program::Streams{0})) return false;
      wait_for_device(r);
      return true;
    case Op::host:
      work_on_host(r, i);
      return true;
  }
  return true;
}

// Runs a class until it stops or waits. Returns whether it made progress. The function is
// flattened, because calls would otherwise take half of the time.
[[gnu::flatten]] bool Executor::advance(int c) {
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  const bool settled = settle(c, r);
  const std::int64_t before = r.executed;
  const std::vector<program::Pass>& passes = *r.at.passes;
  const std::uint32_t frames = r.program.fixed_slots + r.program.local_slots;
  while (r.at.pass < r.stop) {
    stay_interruptible();
    const program::Pass& pass = passes[r.at.pass];
    const std::vector<program::Call>& calls = r.program.templates[pass.pattern].calls;
    if (r.at.call == 0 && r.at.instruction == 0 && !r.stall.posted && pass.acquires &&
        (r.live.empty() || r.live.back() != pass.frame))
      r.live.push_back(pass.frame);
    const std::uint32_t frame_base = frames + pass.frame * r.program.frame_slots;
    while (r.at.call < calls.size()) {
      const program::Call& call = calls[r.at.call];
      const std::vector<Instruction>& code = r.program.blocks[call.block].code;
      const MemoryCode& memory = *memory_code_[static_cast<std::size_t>(c)][call.block];
      const std::uint32_t layer_base = frame_base + call.layer_base;
      while (r.at.instruction < code.size()) {
        if (!execute(c, r, code[r.at.instruction], memory, frame_base, layer_base))
          return settled || r.executed != before;
        ++r.executed;
        ++r.at.instruction;
      }
      r.at.instruction = 0;
      ++r.at.call;
    }
    if (pass.releases) std::erase(r.live, pass.frame);
    r.at.call = 0;
    ++r.at.pass;
  }
  return settled || r.executed != before;
}

// Runs until all classes wait. A waiting class is checked again after its own progress, or after
// another class posts something for it. The classes of one group take turns first: they exchange
// most, and their data is in the CPU's caches.
void Executor::drive() {
  due_.assign(ranks_.size(), true);
  do {
    for (bool any = true; any;) {
      any = false;
      for (const std::vector<int>& group : groups_) {
        for (bool again = true; again;) {
          again = false;
          for (const int c : group) {
            const auto own = static_cast<std::size_t>(c);
            if (!due_[own]) continue;
            stay_interruptible();
            due_[own] = false;
            if (places_tensors_ ? advance(c) : advance_in_time(c)) due_[own] = true;
            again = any = true;
            if (reached_limit(*ranks_[own])) {
              ended_early_ = true;
              return;
            }
          }
        }
      }
    }
  } while (answer());
}

bool Executor::all_stopped() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& r) { return r->at.pass >= r->stop; });
}

bool Executor::ran_out() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& r) { return r->memory.ran_out(); });
}

bool Executor::reached_limit(const RankState& r) const {
  const RankMemory& memory = r.memory;
  return (options_.until_out && memory.ran_out()) ||
         r.driver.capacity().n - memory.peak_reserved() < options_.least_free.n ||
         memory.retries() > options_.most_retries;
}

bool Executor::reached_limit() const {
  return std::ranges::any_of(ranks_, [this](const auto& r) { return reached_limit(*r); });
}

std::int64_t Executor::driver_calls() const {
  std::int64_t calls = 0;
  for (const auto& r : ranks_) calls += r->driver.calls();
  return calls;
}

std::vector<Duration> Executor::driver_delays() const {
  std::vector<Duration> delays;
  for (const auto& r : ranks_) delays.push_back(r->driver.delay());
  return delays;
}

std::vector<std::int64_t> Executor::reserved() const {
  std::vector<std::int64_t> bytes;
  for (const auto& r : ranks_) bytes.push_back(r->memory.reserved());
  return bytes;
}

// Lets each stopped class that others wait for run one more pass. Returns whether there is one.
bool Executor::go_on_where_needed() {
  std::vector<char> needed(ranks_.size(), false);
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    const RankState& r = *ranks_[c];
    if (r.at.pass >= r.stop) continue;
    for (const Pending& pending : r.pending) {
      if (pending.meeting >= 0) {
        const std::size_t s = at(pending.communicator);
        for (const int member : peers_.meetings(pending.meeting).members)
          if (ranks_[static_cast<std::size_t>(member)]->meetings[s] <= pending.turn)
            needed[static_cast<std::size_t>(member)] = true;
        continue;
      }
      const auto& messages = r.program.exchanges[pending.exchange].messages;
      const std::vector<Channel*>& channels =
          peers_.channels_of(static_cast<int>(c), pending.exchange);
      for (std::size_t k = 0; k < messages.size(); ++k)
        if (!channels[k]->met(messages[k].send, pending.numbers[k]))
          needed[peers_.others_of(static_cast<int>(c), pending.exchange)[k]] = true;
    }
    for (std::size_t s = 0; s < program::stream_count; ++s) {
      if (!r.stall.posted || peers_.meeting_of(static_cast<int>(c), s) < 0) continue;
      const Meetings& m = peers_.meetings(peers_.meeting_of(static_cast<int>(c), s));
      if (r.meetings[s] - m.first >= static_cast<std::int64_t>(m.open.size())) continue;
      for (const int member : m.members) needed[static_cast<std::size_t>(member)] = true;
    }
  }
  bool any = false;
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    RankState& r = *ranks_[c];
    if (!needed[c] || r.at.pass < r.stop || r.at.pass >= r.at.passes->size()) continue;
    r.stop = r.at.pass + 1;
    any = true;
  }
  return any;
}

// Runs all classes to a cut, and beyond it those whose messages another class needs (in interleaved
// schedules). False: no consistent cut exists.
bool Executor::run_to(std::size_t cut) {
  for (auto& r : ranks_) r->stop = r->program.cuts[cut];
  drive();
  while (!all_stopped()) {
    if (ended_early_ || !go_on_where_needed()) return false;
    drive();
  }
  for (auto& r : ranks_) r->beyond = r->at.pass - r->program.cuts[cut];
  return true;
}

}  // namespace sim::engine
