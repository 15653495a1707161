// reference.cpp — the reference engine's CPU: instructions, queues, steps and report.
#include "sim/engine/reference/reference.h"

#include <algorithm>
#include <cassert>

#include "sim/allocator/options.h"
#include "sim/engine/rank/steadiness.h"
#include "sim/engine/reference/reference_engine.h"

namespace sim::engine {
namespace reference {

Reference::Reference(const program::Job& job, const Times& times, const Memory& memory,
                     const Options& options)
    : job_(job), times_(times), options_(options) {
  const auto parsed = allocator::parse_options(memory.options);
  assert(parsed);
  const DriverCosts costs{times.device_malloc, times.device_malloc_per_gib, times.device_free};
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    ranks_.push_back(std::make_unique<Rank>(job.classes[c], times.classes[c], capacity(memory, c),
                                            costs, *parsed));
  if (options.coupling) links_ = std::make_unique<network::SharedLinks>(options.coupling->kinds);
  if (!options.observer) return;
  for (std::size_t c = 0; c < ranks_.size(); ++c)
    ranks_[c]->memory.watch(*options.observer, static_cast<int>(c));
}

std::uint32_t Reference::slot(const Rank& r, program::Space space, std::uint32_t index) const {
  const program::Pass& pass = (*r.at.passes)[r.at.pass];
  const program::Call& call = r.program.templates[pass.pattern].calls[r.at.call];
  const std::uint32_t frame =
      r.program.fixed_slots + r.program.local_slots + pass.frame * r.program.frame_slots;
  switch (space) {
    case program::Space::fixed:
      return index;
    case program::Space::local:
      return r.program.fixed_slots + index;
    case program::Space::microbatch:
      return frame + index;
    case program::Space::layer:
      break;
  }
  return frame + call.layer_base + index;
}

Duration Reference::cost(Rank& r, const Instruction& i) const {
  if (i.flags & program::graphed) return {};
  switch (i.op) {
    case Op::alloc:
      return times_.allocation;
    case Op::free:
      return times_.release;
    case Op::kernel:
      return times_.launch;
    case Op::collective:
      return times_.launch_collective;
    case Op::exchange:
      return static_cast<std::int64_t>(r.program.exchanges[i.index].messages.size()) *
             times_.launch_exchange;
    case Op::wait:
    case Op::record:
      return times_.event;
    case Op::host:
      if (i.index == static_cast<std::uint32_t>(program::HostWork::data)) {
        const Duration late = wait_for_data(times_.loader, r.cpu - r.timeline.front_of_step());
        r.timeline.lift(Account::data, late);
        return late;
      }
      return i.value * times_.host[i.index];
    case Op::move:
    case Op::record_stream:
    case Op::sync_event:
    case Op::sync_stream:
    case Op::sync_device:
      break;
  }
  return {};
}

const Instruction& instruction_of(const Rank& r) {
  const program::Pass& pass = (*r.at.passes)[r.at.pass];
  const program::Call& call = r.program.templates[pass.pattern].calls[r.at.call];
  return r.program.blocks[call.block].code[r.at.instruction];
}

// The stream that runs a launch.
Stream stream_of(const Rank& r, const Instruction& i) {
  return i.op == Op::exchange     ? r.program.exchanges[i.index].communicator
         : i.op == Op::collective ? r.program.transfers[i.index].communicator
                                  : i.stream;
}

// Skips empty blocks; sets at_end after the last pass.
void normalise(Rank& r) {
  while (r.at.pass < r.at.passes->size()) {
    const auto& calls = r.program.templates[(*r.at.passes)[r.at.pass].pattern].calls;
    if (r.at.call >= calls.size()) {
      ++r.at.pass;
      r.at.call = r.at.instruction = 0;
    } else if (r.at.instruction >= r.program.blocks[calls[r.at.call].block].code.size()) {
      ++r.at.call;
      r.at.instruction = 0;
    } else {
      return;
    }
  }
  r.at_end = true;
}

void Reference::schedule_cpu(int c) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  if (r.at_end && !job_.ends_together && r.at.step > 0) {
    end_step(r, r.end_of_work());
    if (r.at.step < steps_to_play(job_, options_)) begin_step(r, r.at.step + 1);
  }
  if (r.at_end) return;
  r.cpu = std::max(r.cpu + cost(r, instruction_of(r)), agenda_.now());
  agenda_.schedule(r.cpu, Event::cpu, {Event::cpu, c, 0, 0});
}

void Reference::next_instruction(Rank& r) {
  ++r.executed;
  ++r.at.instruction;
  normalise(r);
}

// The CPU time of the present instruction has passed: execute the instruction.
void Reference::cpu_step(int c) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  const Instruction& i = instruction_of(r);
  if (i.op == Op::alloc && !r.wait.for_memory && r.memory.may_wait(i.value, i.stream) &&
      r.driver.would_wait(r.memory.allocator(), i.value, static_cast<int>(i.stream))) {
    for (std::size_t s = 0; s < streams; ++s) r.wait.until.push_back({s, r.stream[s].issued});
    r.wait.on = r.wait.for_memory = true;
    try_start(c);
    return;
  }
  const bool launch = (i.op == Op::kernel && resource_of(i.stream) != Resource::cpu_cores) ||
                      i.op == Op::collective || i.op == Op::exchange;
  if (launch && !(i.flags & program::graphed) && times_.launch_queue > 0) {
    Rank::Places& places = places_of(r, stream_of(r, i));
    const std::int64_t own = i.op == Op::kernel ? 1 : times_.queue_entries_per_collective;
    const std::int64_t wanted = places.issued + own - times_.launch_queue;
    if (places.started < wanted) {
      places.wanted = wanted;
      return;
    }
    places.issued += own;
    places.of.push_back(own);
  } else if (launch && times_.launch_queue > 0) {
    places_of(r, stream_of(r, i)).of.push_back(0);
  }
  handle(c, r, i);
  if (!r.wait.on) {
    next_instruction(r);
    schedule_cpu(c);
  } else {
    try_start(c);
  }
}

void Reference::communicate(int c, Rank& r, const Instruction& i, Entry e) {
  const bool exchange = i.op == Op::exchange;
  const Stream q = stream_of(r, i);
  e.kind = exchange ? EntryKind::exchange : EntryKind::collective;
  e.after = {at(i.stream), r.stream[at(i.stream)].issued};
  e.launch = r.launches.issued++;
  e.waiting = exchange ? waiting_account((*r.at.passes)[r.at.pass]) : waiting_account(q);
  issue(c, r, q, std::move(e));
  const Mark end{at(q), r.stream[at(q)].issued};
  if (i.event != 0) r.events[i.event] = end;
  if (!(i.flags & program::joins)) return;
  Entry join;
  join.kind = EntryKind::wait;
  join.flags = program::joins;
  join.after = end;
  issue(c, r, i.stream, std::move(join));
}

void Reference::handle(int c, Rank& r, const Instruction& i) {
  const auto mark = [&r](Stream s) { return Mark{at(s), r.stream[at(s)].issued}; };
  Entry e;
  e.flags = i.flags;
  e.index = i.index;
  e.label = i.label;
  if (options_.observer) e.place = resolve(r.program, r.at);
  switch (i.op) {
    case Op::alloc:
      r.memory.allocate(slot(r, i.space, i.index), i, r.at);
      r.wait.for_memory = false;
      return;
    case Op::free:
      r.memory.free(slot(r, i.space, i.index), i.flags & program::maybe, &r.at);
      return;
    case Op::move: {
      const program::Slot to = program::destination(i);
      r.memory.move(slot(r, i.space, i.index), slot(r, to.space, to.index));
      return;
    }
    case Op::record_stream:
      r.memory.record_stream(slot(r, i.space, i.index), i.stream);
      return;
    case Op::kernel:
      e.kind = EntryKind::kernel;
      if (!(i.flags & program::beside)) e.kernel = r.launches.kernels[resource(i.stream)].issued++;
      e.after = {at(i.stream), 0};
      if (resource_of(i.stream) != Resource::cpu_cores) e.launch = r.launches.issued++;
      issue(c, r, i.stream, std::move(e));
      return;
    case Op::collective:
    case Op::exchange:
      communicate(c, r, i, std::move(e));
      return;
    case Op::wait:
      e.kind = EntryKind::wait;
      e.flags = 0;
      e.after = r.events[i.event];
      issue(c, r, i.stream, std::move(e));
      return;
    case Op::record:
      r.events[i.event] = mark(i.stream);
      return;
    case Op::sync_event:
      r.wait.until.push_back(r.events[i.event]);
      r.wait.on = true;
      return;
    case Op::sync_stream:
      r.wait.until.push_back(mark(i.stream));
      r.wait.on = true;
      return;
    case Op::sync_device:
      for (std::size_t s = 0; s < streams; ++s) r.wait.until.push_back({s, r.stream[s].issued});
      r.wait.on = true;
      return;
    case Op::host:
      return;
  }
}

void Reference::issue(int c, Rank& r, Stream stream, Entry entry) {
  entry.issued = agenda_.now();
  ++r.stream[at(stream)].issued;
  r.stream[at(stream)].finished.emplace_back();
  r.stream[at(stream)].queue.push_back(std::move(entry));
  try_start(c);
}

bool Reference::ready(const Rank& r, std::size_t s, const Entry& e) const {
  if (e.kind == EntryKind::wait) return r.reached(e.after);
  const bool launched = e.launch >= 0;
  if (times_.single_queue && launched && e.launch != r.launches.started) return false;
  if (e.kind == EntryKind::kernel)
    return e.kernel < 0 || e.kernel == r.launches.kernels[resource(static_cast<Stream>(s))].done;
  return r.reached(e.after);
}

// Notes the end of the oldest entry of a stream, a kernel or a wait.
void note_end(Rank& r, std::size_t s, Time end) {
  Finished& f = r.stream[s].finished[static_cast<std::size_t>(r.stream[s].done)];
  f.end = f.met = end;
  f.account = f.waiting = account_of(static_cast<Stream>(s));
}

// Starts every queue head whose dependencies are met, and lets the CPU continue if it can.
void Reference::try_start(int c) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < streams; ++s) {
      if (r.stream[s].queue.empty()) continue;
      Entry& e = r.stream[s].queue.front();
      if (e.running || !ready(r, s, e)) continue;
      moved = true;
      if (e.kind == EntryKind::wait) {
        settle_wait(r, s, e);
        note_end(r, s, std::max(r.end_of({s, r.stream[s].done}), r.end_of(e.after)));
        r.stream[s].queue.pop_front();
        ++r.stream[s].done;
      } else {
        start(c, r, s, e);
      }
    }
  }
  if (!r.wait.on) return;
  if (!std::all_of(r.wait.until.begin(), r.wait.until.end(),
                   [&](const Mark& m) { return r.reached(m); }))
    return;
  r.wait.on = false;
  r.wait.until.clear();
  if (r.wait.for_memory) {  // the allocation uses the CPU's own clock
    agenda_.schedule(agenda_.now(), Event::cpu, {Event::cpu, c, 0, 0});
    return;
  }
  const Instruction& i = instruction_of(r);
  if (i.op == Op::sync_device) {
    r.timeline.lift(Account::other, r.driver.idle() - std::min(r.driver.idle(), r.main_tail));
    r.main_tail = std::max(r.main_tail, r.driver.idle());
  }
  r.cpu = std::max(r.cpu, agenda_.now()) + times_.synchronize;
  next_instruction(r);
  schedule_cpu(c);
}

void Reference::finish(int c, std::size_t s) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  const Time now = agenda_.now();
  Entry& e = r.stream[s].queue.front();
  assert(e.running);
  r.stream[s].last_end = now;
  if (e.kind == EntryKind::kernel) {
    if (e.kernel >= 0) ++r.launches.kernels[resource(static_cast<Stream>(s))].done;
    note_end(r, s, now);
  } else {
    Finished& f = r.stream[s].finished[static_cast<std::size_t>(r.stream[s].done)];
    f.end = now;
    if (e.kind == EntryKind::exchange) {
      // The transfer is the last part of an exchange; the wait for peers comes before it.
      const auto it = exchanging_.find({c, s});
      const Duration wire = std::min(it->second.longest, now - f.post);
      f.met = Time{now.ps - wire.ps};
      f.account = Account::pp_transfer;
      if (options_.observer) {
        options_.observer->messages(c, it->second.ends);
        options_.observer->operation(c, static_cast<Stream>(s), e.place.label, e.place, f.post,
                                     it->second.met, now);
      }
      exchanging_.erase(it);
    } else if (options_.observer) {
      options_.observer->operation(c, static_cast<Stream>(s), r.program.labels[e.label], e.place,
                                   f.post, f.met, now);
    }
  }
  r.stream[s].queue.pop_front();
  ++r.stream[s].done;
  try_start(c);
}

void Reference::begin_step(Rank& r, int step) {
  const program::Program& p = r.program;
  r.at = {step, step == 0 ? &p.setup : step == 1 ? &p.first_step : &p.step, 0, 0, 0};
  r.at_end = false;
  normalise(r);
}

void Reference::end_step(Rank& r, Time end) {
  const auto step = static_cast<std::size_t>(r.at.step);
  longest_[step] = std::max(longest_[step], end - r.timeline.front_of_step());
  const auto c = static_cast<std::size_t>(&r.program - job_.classes.data());
  delays_[step].resize(ranks_.size());
  delays_[step][c] = r.driver.delay();
  reserved_[step].resize(ranks_.size());
  reserved_[step][c] = r.memory.reserved();
  r.accounts = r.timeline.end_step(end);
  r.memory.end_step(r.at.step);
}

void Reference::play(int step) {
  for (int c = 0; c < static_cast<int>(ranks_.size()); ++c) {
    begin_step(*ranks_[static_cast<std::size_t>(c)], step);
    schedule_cpu(c);
  }
  do {
    work();
  } while (let_one_allocate());
  std::vector<Position> positions;
  std::vector<bool> done;
  for (const auto& r : ranks_) {
    positions.push_back(r->at);
    const bool idle =
        std::ranges::all_of(r->stream, [](const auto& stream) { return stream.queue.empty(); });
    done.push_back(r->at_end && idle);
  }
  if (std::ranges::find(done, false) != done.end()) end_in_deadlock(job_, positions, done);
}

RunReport Reference::run() {
  const int least = steps_to_play(job_, options_), most = most_steps_to_play(job_, options_);
  longest_.resize(static_cast<std::size_t>(most) + 1);
  delays_.resize(longest_.size());
  reserved_.resize(longest_.size());
  Steadiness steadiness(stages_of(job_));
  const auto ended = [&](int step) {
    const auto s = static_cast<std::size_t>(step);
    steadiness.end_step(step, longest_[s], delays_[s], reserved_[s]);
  };
  const auto ran_out = [&] {
    return std::ranges::any_of(ranks_, [](const auto& r) { return r->memory.ran_out(); });
  };
  int last = 0;
  for (bool more = true; more; ++last) {
    play(last);
    Time end{};
    for (const auto& r : ranks_) end = std::max(end, r->end_of_work());
    for (const auto& r : ranks_)
      if (job_.ends_together || last == 0) end_step(*r, end);
    // Ranks that do not synchronize at the end of a step start the next step on their own.
    if (!job_.ends_together && last == 1)
      for (; last < least; ++last) ended(last);
    ended(last);
    more = last < least || (last < most && !steadiness.steady() && !ran_out());
  }
  --last;
  RunReport report;
  report.warm_up_time = longest_[1];
  report.step = last;
  report.steady = steadiness.steady();
  report.first_step_time = longest_[2];
  report.step_time = longest_[static_cast<std::size_t>(last)];
  for (const auto& r : ranks_) fill_up(r->accounts, report.step_time);
  for (const auto& r : ranks_) {
    ClassReport c;
    c.accounts = r->accounts;
    r->memory.report(c);
    report.classes.push_back(std::move(c));
    report.replayed += r->executed;
  }
  return report;
}

}  // namespace reference

RunReport run_reference(const program::Job& job, const Times& times, const Memory& memory,
                        const Options& options) {
  if (job.ends_together) return reference::Reference(job, times, memory, options).run();
  // Ranks run on from step to step, so the number of steps must be known before the run.
  for (Options fixed = options;; ++fixed.steps) {
    fixed.most_steps = fixed.steps;
    fixed.observer = nullptr;
    RunReport report = reference::Reference(job, times, memory, fixed).run();
    const bool more = fixed.steps < options.most_steps && !report.steady &&
                      std::ranges::none_of(report.classes, [](const ClassReport& c) {
                        return c.out_of_memory.has_value();
                      });
    if (more) continue;
    if (options.observer == nullptr) return report;
    fixed.observer = options.observer;
    return reference::Reference(job, times, memory, fixed).run();
  }
}

}  // namespace sim::engine
