// dataflow_cuts.cpp — what the fast engine does not run: see dataflow.h.
//
// Times and memory repeat at different paces. Times settle within a few microbatches; the layout of
// the allocator may take hundreds, because a pipeline's microbatches are born into the holes that
// others leave. So there are two skips:
//
//   skip   times and memory are as at an earlier cut: the cycles that are left are added up.
//   memory-only  times are as at an earlier cut and no driver call fell in between: from there on memory
//          alone is replayed (dataflow_memory_only.cpp).
#include <algorithm>
#include <cassert>
#include <map>

#include "sim/engine/fast/dataflow_engine.h"

namespace sim::engine {

using program::Op;

bool Dataflow::all_stopped() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& r) { return r->at.pass >= r->stop; });
}

bool Dataflow::ran_out() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& r) { return r->memory.ran_out(); });
}

// No memory that may still be found would help: what a class needs is known to be more.
bool Dataflow::surely_out() const {
  return options_.memory == MemoryDetail::bounded &&
         std::ranges::any_of(ranks_, [&](const auto& r) {
           const std::int64_t allocated =
               r->memory.allocator().statistics().all.allocated_bytes.peak;
           return r->memory.ran_out() && allocated - r->driver.capacity().n >= memory_.more.n;
         });
}

std::int64_t Dataflow::driver_calls() const {
  std::int64_t calls = 0;
  for (const auto& r : ranks_) calls += r->driver.calls();
  return calls;
}

// What decides the times of a class, relative to `origin`. Times that lie behind the CPU clock
// decide nothing any more: they are all alike.
void Dataflow::save(const RankState& r, Time origin, std::vector<std::int64_t>& out) const {
  const auto put = [&](Time t) { out.push_back(t.ps - origin.ps); };
  out.push_back(r.beyond);
  const Time cpu = r.clock.cpu;
  put(cpu);
  put(r.clock.tail[0]);
  for (std::size_t s = 1; s < program::stream_count; ++s) put(std::max(r.clock.tail[s], cpu));
  for (const Time t : r.free) put(std::max(t, cpu));
  put(std::max(r.queue, cpu));
  out.push_back(r.queue > cpu ? static_cast<std::int64_t>(r.queue_account) : -1);
  for (const HardwareQueue& queue : r.queues) {
    queue.visit_behind(cpu, put);
    out.push_back(queue.waiting());
  }
  const Time past = std::min(cpu, r.clock.tail[0]);
  for (const EventEnd& e : r.events) {
    put(std::max(e.when, past));
    if (e.when <= past) continue;
    out.push_back(e.transfer.ps);
    out.push_back(static_cast<std::int64_t>(e.account) * account_count +
                  static_cast<std::int64_t>(e.waiting));
  }
  put(r.timeline.front());
  for (const Duration d : r.timeline.lifted()) out.push_back(d.ps);
  out.push_back(static_cast<std::int64_t>(r.pending.size()));
  for (const Pending& p : r.pending) {
    out.push_back(p.exchange);
    out.push_back(p.meeting);
    out.push_back(p.posted);
    put(p.post);
  }
}

void Dataflow::save_memory(Snapshot& s) const {
  for (const auto& r : ranks_) r->memory.save_state(s.memory, r->live, s.origin);
}

Dataflow::Snapshot Dataflow::snapshot(bool with_memory) const {
  Snapshot s;
  s.origin = ranks_.front()->clock.cpu;
  s.driver_calls = driver_calls();
  for (const auto& r : ranks_) {
    save(*r, s.origin, s.timing);
    s.accounts.push_back(r->timeline.accounts());
    s.retries.push_back(r->memory.retries());
    r->memory.allocator().save_outline(s.outline);
  }
  if (with_memory) save_memory(s);
  for (const auto& [key, ch] : channels_) {
    const std::int64_t open = std::min(ch.sends_done, ch.receives_done) - ch.base;
    for (const std::vector<Time>* posts : {&ch.sends, &ch.receives}) {
      s.timing.push_back(static_cast<std::int64_t>(posts->size()) - open);
      for (std::size_t i = static_cast<std::size_t>(open); i < posts->size(); ++i)
        s.timing.push_back((*posts)[i].ps - s.origin.ps);
    }
    s.timing.push_back(ch.sends_done - ch.receives_done);
  }
  for (const Meetings& m : meetings_)
    for (const Meetings::Meeting& open : m.open) {
      s.timing.push_back(open.posted);
      s.timing.push_back(open.latest.ps - s.origin.ps);
    }
  return s;
}

// Classes that have stopped and that others wait for go on by a pass; whether there are any.
bool Dataflow::go_on_where_needed() {
  std::vector<char> needed(ranks_.size(), false);
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    const RankState& r = *ranks_[c];
    if (r.at.pass >= r.stop) continue;
    for (const Pending& pending : r.pending) {
      if (pending.meeting >= 0) {
        const std::size_t s = at(pending.communicator);
        for (const int member : meetings_[static_cast<std::size_t>(pending.meeting)].members)
          if (ranks_[static_cast<std::size_t>(member)]->meetings[s] <= pending.turn)
            needed[static_cast<std::size_t>(member)] = true;
        continue;
      }
      const auto& messages = r.program.exchanges[pending.exchange].messages;
      const std::vector<Channel*>& channels = channels_of(static_cast<int>(c), pending.exchange);
      for (std::size_t k = 0; k < messages.size(); ++k)
        if (!channels[k]->met(messages[k].send, pending.numbers[k]))
          needed[others_of_[c][pending.exchange][k]] = true;
    }
    for (std::size_t s = 0; s < program::stream_count; ++s) {
      if (!r.posted || meeting_of_[c][s] < 0) continue;
      const Meetings& m = meetings_[static_cast<std::size_t>(meeting_of_[c][s])];
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

// Runs all classes to a cut, and beyond it those of which another needs what they issue there (in
// interleaved schedules, which go round). False when there is no consistent cut.
bool Dataflow::stop_at(std::size_t cut) {
  for (auto& r : ranks_) r->stop = r->program.cuts[cut];
  drive();
  while (!all_stopped()) {
    if (ended_early_ || !go_on_where_needed()) return false;
    drive();
  }
  for (auto& r : ranks_) r->beyond = r->at.pass - r->program.cuts[cut];
  return true;
}

// Whole cycles behind cut `cut` for which it is known that classes run the same in each.
std::int64_t Dataflow::cycles_left(std::size_t cut, std::size_t cycle) const {
  std::size_t last = ranks_.front()->program.cuts.size() - 1;
  const auto behind = [&](const auto& r) {
    return r->program.cuts[last] + r->beyond > r->program.cuts.back();
  };
  while (last > cut && std::ranges::any_of(ranks_, behind)) --last;
  return static_cast<std::int64_t>((last - cut) / cycle);
}

Accounts Dataflow::gained(const Snapshot& before, const Snapshot& now, std::size_t c) {
  Accounts all = now.accounts[c];
  for (std::size_t i = 0; i < all.size(); ++i) all[i] -= before.accounts[c][i];
  return all;
}

// Times and accounts of a class go on by `times` cycles, `by` in all; `gained` in each.
void Dataflow::move_on(std::size_t c, const Accounts& gained, Duration by, std::int64_t times) {
  RankState& r = *ranks_[c];
  r.clock.cpu = r.clock.cpu + by;
  for (Time& t : r.clock.tail) t = t + by;
  for (Time& t : r.free) t = t + by;
  r.queue = r.queue + by;
  for (HardwareQueue& queue : r.queues) queue.move_on(by);
  for (EventEnd& e : r.events) e.when = e.when + by;
  for (Pending& p : r.pending) p.post = p.post + by;
  r.timeline.skip(gained, times, by);
}

void Dataflow::shift_channels(Duration by) {
  for (Meetings& m : meetings_)
    for (Meetings::Meeting& open : m.open) open.latest = open.latest + by;
  for (auto& [key, ch] : channels_) {
    for (Time& t : ch.sends) t = t + by;
    for (Time& t : ch.receives) t = t + by;
  }
}

// The frames in use after the passes up to `end`, oldest first.
void Dataflow::walk_frames(const RankState& r, std::uint32_t end,
                           std::vector<std::uint32_t>& live) {
  for (std::uint32_t p = r.at.pass; p < end; ++p) {
    const program::Pass& pass = (*r.at.passes)[p];
    if (pass.acquires) live.push_back(pass.frame);
    if (pass.releases) std::erase(live, pass.frame);
  }
}

// Whether every class holds as many frames behind a cycle as before it. Where it does not (the
// forward passes of gpipe), what is held grows or shrinks as long as the cycle comes again.
bool Dataflow::steady(const Stretch& stretch) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& r) {
    std::int64_t gained = 0;
    for (std::uint32_t p = pass_at(*r, stretch, 0); p < pass_at(*r, stretch, 1); ++p)
      gained += (*r->at.passes)[p].acquires - (*r->at.passes)[p].releases;
    return gained == 0;
  });
}

// The state at cut `cut` is the one at cut `from`: adds up the whole cycles that are left.
// Returns the cut at which the classes then stand.
std::size_t Dataflow::skip(const Snapshot& before, const Snapshot& now, std::size_t from,
                           std::size_t cut) {
  const std::size_t cycle = cut - from;
  const std::int64_t times = cycles_left(cut, cycle);
  if (times == 0) return cut;
  const std::size_t target = cut + static_cast<std::size_t>(times) * cycle;
  const Duration by = times * (now.origin - before.origin);
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    RankState& r = *ranks_[c];
    move_on(c, gained(before, now, c), by, times);
    if (memory_matters_) {
      r.memory.shift_events(by, ClockDriver::later);
      std::vector<std::uint32_t> live = r.live;
      walk_frames(r, r.program.cuts[target] + r.beyond, live);
      r.memory.renumber_frames(r.live, live);
      r.live = std::move(live);
    }
    r.at.pass = r.program.cuts[target] + r.beyond;
  }
  repeat_retries(before, now, times);
  shift_channels(by);
  return target;
}

// What lies between the two comes again so many times.
void Dataflow::repeat_retries(const Snapshot& before, const Snapshot& now, std::int64_t times) {
  for (std::size_t c = 0; c < ranks_.size(); ++c)
    ranks_[c]->memory.add_retries(times * (now.retries[c] - before.retries[c]));
}

namespace {

// Which cycles of a step are logged as they come: the first, and some behind each look at clock logs.
// Where the driver is called all the time clock logs are of no use, so they come ever later. Numbers
// are of cuts.
class CyclesLogged {
 public:
  bool wants(std::size_t next) const { return due(next) && next - from_ < together; }
  void skip(std::size_t next) { whole_from_ = next + 1; }
  // Whether the cycle that ends at `next` is on clock log, where the one before it was run in one.
  bool has(std::size_t next) const { return next >= whole_from_; }
  bool due(std::size_t next) const { return next >= from_; }
  void looked(std::size_t next) {
    from_ = next + pause_;
    pause_ *= 2;
  }

 private:
  static constexpr std::size_t together = 8;
  std::size_t from_ = 0, whole_from_ = 0, pause_ = 8;
};

}  // namespace

void Dataflow::play(int step) {
  constexpr std::size_t remembered = 48, timing_window = 6;  // cuts
  const std::size_t cuts =
      step > 1 && options_.shortcuts && !options_.observer ? ranks_[0]->program.cuts.size() : 0;
  std::size_t next = cuts > 2 ? 0 : cuts;
  CyclesLogged cycles;
  std::size_t patience =
      2 * static_cast<std::size_t>(job_.mesh.degrees().pp) + 2;  // cuts after running out
  Seen seen;
  std::int64_t calls = driver_calls();
  known_.reset();
  for (auto& r : ranks_) {
    const program::Program& p = r->program;
    r->at = {step, step == 0 ? &p.setup : step == 1 ? &p.first_step : &p.step, 0, 0, 0};
    r->live.clear();
  }
  const auto stop_at_next = [&] {
    const bool logged = places_tensors(options_.memory) && !ran_out() && !known_ && !seen.empty() &&
                        seen.back().first + 1 == next && cycles.wants(next);
    if (logged) return run_with_clock_log(seen.back().second.origin, next);
    cycles.skip(next);
    return stop_at(next);
  };
  while (next < cuts && !ended_early_ && stop_at_next()) {
    // Where classes go beyond the cut, the most may be held after the last one.
    const bool straight = std::ranges::all_of(ranks_, [](const auto& r) { return r->beyond == 0; });
    if (ran_out() && ((straight && patience-- == 0) || surely_out())) {
      ended_early_ = true;
      return;
    }
    // Without a driver call times settle before memory does, so memory is of no use here.
    const bool called = calls != driver_calls() || !memory_matters_;
    calls = driver_calls();
    Snapshot now = snapshot(false);
    // Memory is worth a look where times have been as now, and it in outline: so it is seen the
    // second time, and known to repeat the third.
    if (called && memory_matters_ && std::ranges::any_of(seen, [&](const auto& s) {
          return s.second.outline == now.outline && s.second.timing == now.timing;
        }))
      save_memory(now);
    if (known_at(now, next)) {
      seen.clear();
      next = memory_only(now.origin, next) + 1;
      continue;
    }
    std::size_t at = next, again = next;
    const bool comparable = called && memory_matters_ == !now.memory.empty();
    for (const auto& [cut, before] : seen)
      if (comparable && before.timing == now.timing && before.memory == now.memory) {
        skip(before, now, cut, next);
        at = cuts;
        break;
      }
    if (at == cuts) break;
    for (auto it = seen.rbegin();
         it != seen.rend() && it - seen.rbegin() < static_cast<std::ptrdiff_t>(timing_window);
         ++it) {
      if (it->second.timing != now.timing) continue;
      const bool early = it->second.driver_calls != now.driver_calls;
      if (early && (!may_run_alone() || !cycles.due(next))) continue;
      const bool logged = cycles.has(next) && it->first + 1 == next;
      at = clock_log_cycles(it->second, now, it->first, next, logged);
      cycles.looked(at);
      again = at + (early && !known_ ? 0 : 1);
      if (known_) again = memory_only(ranks_.front()->clock.cpu, at) + 1;
      break;
    }
    if (again != next) {
      seen.clear();
      next = again;
      continue;
    }
    if (seen.size() == remembered) seen.pop_front();
    seen.emplace_back(next, std::move(now));
    ++next;
  }
  if (ended_early_) return;
  for (auto& r : ranks_) r->stop = static_cast<std::uint32_t>(r->at.passes->size());
  do drive();
  while (!ended_early_ && let_one_allocate());
  assert(ended_early_ || all_stopped());
}

// Behind a step; ranks that meet at its end are done with it when the last one is.
void Dataflow::end_step(int step, RunReport& report) {
  Time last{};
  for (auto& r : ranks_) last = std::max(last, r->end_of_work());
  Duration longest{};
  for (auto& r : ranks_) {
    const Time end = job_.ends_together || step == 0 ? last : r->end_of_work();
    longest = std::max(longest, end - r->timeline.front_of_step());
    r->accounts_at_step = r->timeline.end_step(end);
    if (step == 1) r->memory.mark_static();
  }
  for (auto& r : ranks_) fill_up(r->accounts_at_step, longest);
  if (step == 1) report.warm_up_time = longest;
  if (step >= 1) report.step_time = longest;
}

RunReport Dataflow::run() {
  RunReport report;
  Snapshot previous;
  const int most = steps_to_play(job_, options_);
  for (int step = memory_matters_ || all_steps_ ? 0 : most; step <= most; ++step) {
    Snapshot start;
    if (step >= 2 && memory_matters_ && options_.shortcuts && !options_.observer) {
      start = snapshot(true);
      // The step before, once more.
      if (step >= 3 && start.timing == previous.timing && start.memory == previous.memory) {
        repeat_retries(previous, start, most - step + 1);
        break;
      }
    }
    play(step);
    end_step(step, report);
    previous = std::move(start);
    if (ended_early_ || surely_out()) break;
  }
  // What nobody waited for.
  for (std::size_t c = 0; c < ranks_.size(); ++c)
    complete_all(static_cast<int>(c), *ranks_[c], ~0u);
  for (auto& r : ranks_) {
    ClassReport c;
    c.accounts = r->accounts_at_step;
    r->memory.report(c);
    if (!reserved_most_.empty()) {
      const std::size_t own = report.classes.size();
      // What was replayed behind the decision began with another layout and proves no more.
      c.reserved_most = std::max(c.peak_reserved, Bytes{reserved_most_[own]});
      c.peak_reserved = std::max(c.peak_allocated, Bytes{reserved_least_[own]});
      report.bounded = true;
    }
    report.classes.push_back(std::move(c));
    report.replayed += r->executed;
  }
  return report;
}

}  // namespace sim::engine
