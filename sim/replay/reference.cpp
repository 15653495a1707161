#include "sim/replay/reference.h"

#include <algorithm>
#include <cassert>

#include "sim/memory/options.h"
#include "sim/replay/reference_engine.h"

namespace sim::replay {
namespace reference {

Reference::Reference(const workload::Job& job, const Times& times, const Memory& memory,
                     const Options& options)
    : job_(job), times_(times), options_(options) {
  const auto parsed = memory::parse_options(memory.options);
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

std::uint32_t Reference::slot(const Rank& r, workload::Space space, std::uint32_t index) const {
  const workload::Pass& pass = (*r.at.passes)[r.at.pass];
  const workload::Call& call = r.program.templates[pass.pattern].calls[r.at.call];
  const std::uint32_t frame =
      r.program.fixed_slots + r.program.local_slots + pass.frame * r.program.frame_slots;
  switch (space) {
    case workload::Space::fixed:
      return index;
    case workload::Space::local:
      return r.program.fixed_slots + index;
    case workload::Space::microbatch:
      return frame + index;
    case workload::Space::layer:
      break;
  }
  return frame + call.layer_base + index;
}

Duration Reference::cost(const Rank& r, const Instruction& i) const {
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
  const workload::Pass& pass = (*r.at.passes)[r.at.pass];
  const workload::Call& call = r.program.templates[pass.pattern].calls[r.at.call];
  return r.program.blocks[call.block].code[r.at.instruction];
}

// Skips empty blocks; sets at_end behind the last pass.
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
  if (r.at_end) return;
  r.cpu = std::max(r.cpu + cost(r, instruction_of(r)), agenda_.now());
  agenda_.schedule(r.cpu, Event::cpu, {Event::cpu, c, 0, 0});
}

void Reference::next_instruction(Rank& r) {
  ++r.executed;
  ++r.at.instruction;
  normalise(r);
}

// The CPU has reached the effect of its instruction.
void Reference::cpu_step(int c) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  const Instruction& i = instruction_of(r);
  if (i.op == Op::alloc && !r.idle_for_memory && r.memory.may_wait(i.value, i.stream)) {
    for (std::size_t s = 0; s < streams; ++s) r.until.push_back({s, r.issued[s]});
    r.waits = r.idle_for_memory = true;
    try_start(c);
    return;
  }
  const bool launch = i.op == Op::kernel || i.op == Op::collective || i.op == Op::exchange;
  if (launch && times_.single_queue && times_.launch_queue > 0) {
    const std::int64_t own = i.op == Op::kernel ? 1 : times_.queue_entries_per_collective;
    const std::int64_t wanted = r.entries + own - times_.launch_queue;
    if (r.entries_started < wanted) {
      r.entries_wanted = wanted;
      r.queue_full = true;
      return;
    }
    r.entries += own;
    r.entries_of.push_back(own);
  }
  handle(c, r, i);
  if (!r.waits) {
    next_instruction(r);
    schedule_cpu(c);
  } else {
    try_start(c);
  }
}

void Reference::handle(int c, Rank& r, const Instruction& i) {
  const auto mark = [&r](Stream s) { return Mark{at(s), r.issued[at(s)]}; };
  Entry e;
  e.flags = i.flags;
  e.index = i.index;
  e.label = i.label;
  if (options_.observer) e.place = resolve(r.program, r.at);
  const workload::Pass& pass = (*r.at.passes)[r.at.pass];
  switch (i.op) {
    case Op::alloc:
      r.memory.allocate(slot(r, i.space, i.index), i, r.at);
      r.idle_for_memory = false;
      return;
    case Op::free:
      r.memory.free(slot(r, i.space, i.index), i.flags & workload::maybe, &r.at);
      return;
    case Op::move: {
      const auto to = static_cast<workload::Space>(i.value >> 32);
      r.memory.move(slot(r, i.space, i.index),
                    slot(r, to, static_cast<std::uint32_t>(i.value & 0xffffffff)));
      return;
    }
    case Op::record_stream:
      r.memory.record_stream(slot(r, i.space, i.index), i.stream);
      return;
    case Op::kernel:
      e.kind = EntryKind::kernel;
      if (!(i.flags & workload::beside)) e.kernel = r.kernels++;
      e.after = {at(i.stream), 0};
      e.launch = r.launches++;
      issue(c, r, i.stream, std::move(e));
      return;
    case Op::collective:
    case Op::exchange: {
      const bool exchange = i.op == Op::exchange;
      const Stream q = exchange ? r.program.exchanges[i.index].communicator
                                : r.program.transfers[i.index].communicator;
      e.kind = exchange ? EntryKind::exchange : EntryKind::collective;
      e.after = mark(i.stream);
      e.launch = r.launches++;
      const bool stages = q == Stream::world || q == Stream::embedding;
      e.waiting = exchange ? waiting_account(pass)
                  : stages ? Account::pp_fill_drain
                           : account_of(q);
      issue(c, r, q, std::move(e));
      if (i.event != 0) r.events[i.event] = mark(q);
      if (i.flags & workload::joins) {
        Entry join;
        join.kind = EntryKind::wait;
        join.flags = workload::joins;
        join.after = mark(q);
        issue(c, r, i.stream, std::move(join));
      }
      return;
    }
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
      r.until.push_back(r.events[i.event]);
      r.waits = true;
      return;
    case Op::sync_stream:
      r.until.push_back(mark(i.stream));
      r.waits = true;
      return;
    case Op::sync_device:
      for (std::size_t s = 0; s < streams; ++s) r.until.push_back({s, r.issued[s]});
      r.waits = true;
      return;
    case Op::host:
      return;
  }
}

void Reference::issue(int c, Rank& r, Stream stream, Entry entry) {
  entry.issued = agenda_.now();
  ++r.issued[at(stream)];
  r.finished[at(stream)].emplace_back();
  r.queue[at(stream)].push_back(std::move(entry));
  try_start(c);
}

bool Reference::ready(const Rank& r, std::size_t s, const Entry& e) const {
  if (e.kind == EntryKind::wait) return r.reached(e.after);
  if (times_.single_queue && e.launch != r.launches_started) return false;
  if (e.kind == EntryKind::kernel) return e.kernel < 0 || e.kernel == r.kernels_done;
  (void)s;
  return r.reached(e.after);
}

Account Reference::why(const Rank& r, const Entry& e, Account otherwise) const {
  if (agenda_.now() == e.issued) return Account::host;
  if (times_.single_queue && agenda_.now() == r.last_start) return r.last_start_account;
  return otherwise;
}

// When a stream has got as far as `mark`, as those see it who wait for a recorded event.
Time end_of(const Rank& r, const Mark& mark) {
  if (mark.count == 0) return {};
  return r.finished[mark.stream][static_cast<std::size_t>(mark.count) - 1].end;
}

// The stream's next entry, a kernel or a wait, ends.
void note_end(Rank& r, std::size_t s, Time end) {
  Finished& f = r.finished[s][static_cast<std::size_t>(r.done[s])];
  f.end = f.met = end;
  f.account = f.waiting = account_of(static_cast<Stream>(s));
}

// Starts every head that may start, and lets the CPU go on if it may.
void Reference::try_start(int c) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < streams; ++s) {
      if (r.queue[s].empty()) continue;
      Entry& e = r.queue[s].front();
      if (e.running || !ready(r, s, e)) continue;
      moved = true;
      if (e.kind == EntryKind::wait) {
        settle_wait(r, s, e);
        note_end(r, s, std::max(end_of(r, {s, r.done[s]}), end_of(r, e.after)));
        r.queue[s].pop_front();
        ++r.done[s];
      } else {
        start(c, r, s, e);
      }
    }
  }
  if (!r.waits) return;
  if (!std::all_of(r.until.begin(), r.until.end(), [&](const Mark& m) { return r.reached(m); }))
    return;
  r.waits = false;
  r.until.clear();
  if (r.idle_for_memory) {  // the allocation happens as of the CPU's own time
    agenda_.schedule(agenda_.now(), Event::cpu, {Event::cpu, c, 0, 0});
    return;
  }
  const Instruction& i = instruction_of(r);
  if (i.op == Op::sync_device && agenda_.now() > r.main_tail) {
    r.timeline.lift(Account::other, r.driver.idle() - std::min(r.driver.idle(), r.main_tail));
    r.main_tail = std::max(r.main_tail, r.driver.idle());
  }
  r.cpu = std::max(r.cpu, agenda_.now()) + times_.synchronize;
  next_instruction(r);
  schedule_cpu(c);
}

void Reference::start(int c, Rank& r, std::size_t s, Entry& e) {
  const Time now = agenda_.now();
  e.running = true;
  if (e.kind == EntryKind::kernel) {
    const auto& durations =
        e.flags & workload::overlapped ? r.times.kernel_overlapped : r.times.kernel;
    const Time end = now + durations[e.index];
    const bool main = s == at(Stream::compute);
    const Account idle = why(r, e, main ? Account::other : account_of(static_cast<Stream>(s)));
    if (e.kernel >= 0) r.timeline.kernel(now, end, kernel_account(e.flags), idle);
    if (main) r.main_tail = end;
    r.last_start_account = idle;
    agenda_.schedule(end, Event::finish, {Event::finish, c, static_cast<std::uint32_t>(s), 0});
    if (options_.observer)
      options_.observer->operation(c, static_cast<Stream>(s), r.program.labels[e.label], e.place,
                                   now, now, end);
  } else {
    const auto number = static_cast<std::size_t>(r.done[s]);
    Finished& f = r.finished[s][number];
    f.post = now;
    f.account = account_of(static_cast<Stream>(s));
    f.waiting = e.waiting;
    f.late = why(r, e, f.account);
    r.last_start_account = f.late;
    if (e.kind == EntryKind::collective) {
      const std::vector<int>& who = job_.mesh.members(communicator_of(static_cast<Stream>(s)), c);
      auto& group = meetings_[{s, who.front()}];
      Meeting& meeting = group[r.meetings[s]];
      meeting.arrived.emplace_back(c, &e);
      if (meeting.arrived.size() == who.size()) {
        network::SharedLinks::Handle leader = 0;
        for (const auto& [member, entry] : meeting.arrived) {
          Rank& m = *ranks_[static_cast<std::size_t>(member)];
          const auto& durations =
              entry->flags & workload::overlapped ? m.times.transfer_overlapped : m.times.transfer;
          m.finished[s][static_cast<std::size_t>(m.done[s])].met = now;
          const std::size_t kind =
              links_ ? options_.coupling->transfer[static_cast<std::size_t>(member)][entry->index]
                     : 0;
          put_on_wire({Event::finish, member, static_cast<std::uint32_t>(s), 0},
                      durations[entry->index], kind, leader);
        }
        group.erase(r.meetings[s]);
      }
      ++r.meetings[s];
    } else {
      const workload::Exchange& x = r.program.exchanges[e.index];
      exchanging_[{c, s}] = {static_cast<int>(x.messages.size()), now, now, {}};
      for (std::size_t k = 0; k < x.messages.size(); ++k) {
        const workload::Message& m = x.messages[k];
        const int other = job_.mesh.peer(c, m.peer_offset);
        const int from = m.send ? c : other, to = m.send ? other : c;
        Channel& ch = channels_[{from * static_cast<int>(ranks_.size()) + to, m.channel}];
        (m.send ? ch.sends : ch.receives)
            .push_back(
                {c, static_cast<Stream>(s), r.times.message[e.index][k],
                 links_ ? options_.coupling->message[static_cast<std::size_t>(c)][e.index][k] : 0});
        while (!ch.sends.empty() && !ch.receives.empty()) {
          // Each side is done after its own duration of the message.
          network::SharedLinks::Handle leader = 0;
          for (const Post& p : {ch.sends.front(), ch.receives.front()}) {
            Exchanging& open = exchanging_[{p.rank, at(p.stream)}];
            open.met = std::max(open.met, now);
            open.longest = std::max(open.longest, p.duration);
            in_flight_[transfers_] = {p, p};
            put_on_wire({Event::message, p.rank, 0, transfers_++}, p.duration, p.kind, leader);
          }
          ch.sends.pop_front();
          ch.receives.pop_front();
        }
      }
    }
  }
  r.last_start = now;
  ++r.launches_started;
  if (r.entries_of.empty()) return;
  r.entries_started += r.entries_of.front();
  r.entries_of.pop_front();
  if (!r.queue_full || r.entries_started < r.entries_wanted) return;
  r.queue_full = false;
  r.cpu = now;
  agenda_.schedule(now, Event::cpu, {Event::cpu, c, 0, 0});
}

void Reference::finish(int c, std::size_t s) {
  Rank& r = *ranks_[static_cast<std::size_t>(c)];
  const Time now = agenda_.now();
  Entry& e = r.queue[s].front();
  assert(e.running);
  r.last_end[s] = now;
  if (e.kind == EntryKind::kernel) {
    if (e.kernel >= 0) ++r.kernels_done;
    note_end(r, s, now);
  } else {
    Finished& f = r.finished[s][static_cast<std::size_t>(r.done[s])];
    f.end = now;
    if (e.kind == EntryKind::exchange) {
      // The wire's part of an exchange comes last.
      const auto it = exchanging_.find({c, s});
      const Duration wire = std::min(it->second.longest, now - f.post);
      f.met = Time{now.ps - wire.ps};
      f.account = Account::pp_transfer;
      if (options_.observer)
        options_.observer->operation(c, static_cast<Stream>(s), e.place.label, e.place, f.post,
                                     it->second.met, now);
      exchanging_.erase(it);
    } else if (options_.observer) {
      options_.observer->operation(c, static_cast<Stream>(s), r.program.labels[e.label], e.place,
                                   f.post, f.met, now);
    }
  }
  r.queue[s].pop_front();
  ++r.done[s];
  try_start(c);
}

void Reference::play(int step) {
  for (int c = 0; c < static_cast<int>(ranks_.size()); ++c) {
    Rank& r = *ranks_[static_cast<std::size_t>(c)];
    const workload::Program& p = r.program;
    r.at = {step, step == 0 ? &p.setup : step == 1 ? &p.first_step : &p.step, 0, 0, 0};
    r.at_end = false;
    normalise(r);
    schedule_cpu(c);
  }
  do {
    work();
  } while (let_one_allocate());
  for ([[maybe_unused]] const auto& r : ranks_) assert(r->at_end);
}

RunReport Reference::run() {
  RunReport report;
  Time begin{};
  for (int step = 0; step <= options_.steps; ++step) {
    play(step);
    Time end{};
    for (const auto& r : ranks_) end = std::max(end, r->cpu);
    for (const auto& r : ranks_) {
      r->timeline.settle(std::max(end, r->timeline.front()), Account::other);
      r->accounts = r->timeline.accounts();
      for (std::size_t i = 0; i < r->accounts.size(); ++i) r->accounts[i] -= r->accounts_before[i];
      r->accounts_before = r->timeline.accounts();
      if (step == 1) r->memory.mark_static();
    }
    if (step == 1) report.warm_up_time = end - begin;
    if (step >= 1) report.step_time = end - begin;
    begin = end;
  }
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

RunReport run_reference(const workload::Job& job, const Times& times, const Memory& memory,
                        const Options& options) {
  return reference::Reference(job, times, memory, options).run();
}

}  // namespace sim::replay
