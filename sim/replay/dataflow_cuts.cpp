// dataflow_cuts.cpp — what the fast engine does not run: see dataflow.h.
//
// Times and memory repeat at different paces. Times settle within a few microbatches; the layout of
// the allocator may take hundreds, because a pipeline's microbatches are born into the holes that
// others leave. So there are two skips:
//
//   skip   times and memory are as at an earlier cut: the periods that are left are added up.
//   quiet  times are as at an earlier cut and no driver call fell in between. Then times go on
//          repeating until memory makes a driver call, the only way in which it can touch them. One
//          more period is run with a tape of the clocks at every allocation and free; after that
//          memory alone is replayed against the tape, class by class. Should it make a driver call
//          after all, the classes go back to the cut before it and run on in full.
//
// The tape carries clocks because blocks recorded on another stream come back when it has passed.
#include <algorithm>
#include <cassert>
#include <map>

#include "sim/replay/dataflow_engine.h"

namespace sim::replay {

using workload::Op;

bool Dataflow::all_stopped() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& r) { return r->at.pass >= r->stop; });
}

bool Dataflow::ran_out() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& r) { return r->memory.ran_out(); });
}

// What decides the times of a class, relative to `origin`. Times that lie behind the CPU clock
// decide nothing any more: they are all alike.
void Dataflow::save(const RankState& r, Time origin, std::vector<std::int64_t>& out) const {
  const auto put = [&](Time t) { out.push_back(t.ps - origin.ps); };
  const Time cpu = r.clock.cpu;
  put(cpu);
  put(r.clock.tail[0]);
  for (std::size_t s = 1; s < workload::stream_count; ++s) put(std::max(r.clock.tail[s], cpu));
  put(std::max(r.sms, cpu));
  put(std::max(r.queue, cpu));
  out.push_back(r.queue > cpu ? static_cast<std::int64_t>(r.queue_account) : -1);
  // The ring from its oldest launch on.
  for (std::size_t k = 0; k < r.launched.size(); ++k) {
    const Time t = r.launched[(r.launches + k) % r.launched.size()];
    if (t > cpu) {
      out.push_back(static_cast<std::int64_t>(k));
      put(t);
    }
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
  for (const PendingExchange& p : r.pending) {
    out.push_back(p.exchange);
    put(p.post);
  }
}

Dataflow::Snapshot Dataflow::snapshot(bool with_memory) const {
  Snapshot s;
  s.origin = ranks_.front()->clock.cpu;
  for (const auto& r : ranks_) {
    save(*r, s.origin, s.timing);
    s.accounts.push_back(r->timeline.accounts());
    s.driver_calls += r->driver.calls();
    if (!with_memory) continue;
    r->driver.save_state(s.memory, s.origin);
    r->memory.save_state(s.memory, r->live);
  }
  for (const auto& [key, ch] : channels_) {
    const std::int64_t open = std::min(ch.sends_done, ch.receives_done) - ch.base;
    for (const std::vector<Time>* posts : {&ch.sends, &ch.receives}) {
      s.timing.push_back(static_cast<std::int64_t>(posts->size()) - open);
      for (std::size_t i = static_cast<std::size_t>(open); i < posts->size(); ++i)
        s.timing.push_back((*posts)[i].ps - s.origin.ps);
    }
    s.timing.push_back(ch.sends_done - ch.receives_done);
  }
  return s;
}

// Runs all classes to a cut. False when there is no consistent cut: a class needs what another
// issues behind it.
bool Dataflow::stop_at(std::size_t cut) {
  for (auto& r : ranks_) r->stop = r->program.cuts[cut];
  drive();
  return all_stopped();
}

// Times and accounts of a class go on by `times` periods.
void Dataflow::move_on(std::size_t c, const Snapshot& before, const Snapshot& now,
                       std::int64_t times) {
  RankState& r = *ranks_[c];
  const Duration by = times * (now.origin - before.origin);
  r.clock.cpu = r.clock.cpu + by;
  for (Time& t : r.clock.tail) t = t + by;
  r.sms = r.sms + by;
  r.queue = r.queue + by;
  for (Time& t : r.launched) t = t + by;
  for (EventEnd& e : r.events) e.when = e.when + by;
  for (PendingExchange& p : r.pending) p.post = p.post + by;
  Accounts gained = now.accounts[c];
  for (std::size_t i = 0; i < gained.size(); ++i) gained[i] -= before.accounts[c][i];
  r.timeline.skip(gained, times, by);
}

void Dataflow::shift_channels(Duration by) {
  for (auto& [key, ch] : channels_) {
    for (Time& t : ch.sends) t = t + by;
    for (Time& t : ch.receives) t = t + by;
  }
}

// The frames in use after the passes up to `end`, oldest first.
void Dataflow::walk_frames(RankState& r, std::uint32_t end,
                           std::vector<std::uint32_t>& live) const {
  for (std::uint32_t p = r.at.pass; p < end; ++p) {
    const workload::Pass& pass = (*r.at.passes)[p];
    if (pass.acquires) live.push_back(pass.frame);
    if (pass.releases) std::erase(live, pass.frame);
  }
}

// The state at cut `cut` is the one at cut `from`: adds up the whole periods that are left.
// Returns the cut at which the classes then stand.
std::size_t Dataflow::skip(const Snapshot& before, const Snapshot& now, std::size_t from,
                           std::size_t cut) {
  const std::size_t period = cut - from;
  const std::size_t last = ranks_.front()->program.cuts.size() - 1;
  const auto times = static_cast<std::int64_t>((last - cut) / period);
  if (times == 0) return cut;
  const std::size_t target = cut + static_cast<std::size_t>(times) * period;
  const Duration by = times * (now.origin - before.origin);
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    RankState& r = *ranks_[c];
    move_on(c, before, now, times);
    r.driver.shift(by);
    std::vector<std::uint32_t> live = r.live;
    walk_frames(r, r.program.cuts[target], live);
    r.memory.renumber_frames(r.live, live);
    r.live = std::move(live);
    r.at.pass = r.program.cuts[target];
  }
  shift_channels(by);
  return target;
}

// Replays the memory of a class up to pass `end` against its tape. False after a driver call.
bool Dataflow::replay_tape(int c, RankState& r, std::uint32_t end, Time origin) {
  const auto& blocks = memory_code_[static_cast<std::size_t>(c)];
  const std::int64_t calls = r.driver.calls();
  const std::uint32_t frames = r.program.fixed_slots + r.program.local_slots;
  std::size_t t = 0;
  for (; r.at.pass < end; ++r.at.pass) {
    const workload::Pass& pass = (*r.at.passes)[r.at.pass];
    if (pass.acquires) r.live.push_back(pass.frame);
    const std::uint32_t frame = frames + pass.frame * r.program.frame_slots;
    const auto& calls_of = r.program.templates[pass.pattern].calls;
    for (r.at.call = 0; r.at.call < calls_of.size(); ++r.at.call) {
      const workload::Call& call = calls_of[r.at.call];
      const std::uint32_t layer = frame + call.layer_base;
      for (const auto& [i, place] : blocks[call.block].code) {
        r.at.instruction = place;
        const std::uint32_t slot = slot_number(r.program, i.space, i.index, frame, layer);
        if (i.op == Op::alloc) {
          r.clock.cpu = Time{origin.ps + r.tape[t++]};
          r.memory.allocate(slot, i, r.at);
        } else if (i.op == Op::free) {
          r.clock.cpu = Time{origin.ps + r.tape[t++]};
          const std::uint32_t recorded = r.memory.recorded(slot);
          for (std::size_t s = 0; recorded >> s; ++s)
            if (recorded >> s & 1u) r.clock.tail[s] = Time{origin.ps + r.tape[t++]};
          r.memory.free(slot, i.flags & workload::maybe);
        } else if (i.op == Op::move) {
          r.memory.move(slot, slot_number(r.program, static_cast<workload::Space>(i.value >> 32),
                                          static_cast<std::uint32_t>(i.value), frame, layer));
        } else {
          r.memory.record_stream(slot, i.stream);
        }
      }
    }
    r.at.call = r.at.instruction = 0;
    if (pass.releases) std::erase(r.live, pass.frame);
  }
  return r.driver.calls() == calls;
}

// Replays up to `times` periods of memory of a class that stands at `cut`; how many stayed without
// a driver call. A memory state that comes back ends the search: the rest is added up.
std::int64_t Dataflow::replay_memory(int c, std::size_t cut, std::size_t period, std::int64_t times,
                                     Duration length) {
  constexpr std::int64_t stride = 8;  // a state is kept every so many periods
  constexpr std::size_t kept_states = 32;
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> seen;
  const auto pass_at = [&](std::int64_t k) {
    return r.program.cuts[cut + static_cast<std::size_t>(k) * period];
  };
  const Time begin = r.tape_origin + length;
  for (std::int64_t k = 0; k < times; ++k) {
    if (k % stride == 0 && seen.size() < kept_states && times - k > 2 * stride) {
      std::vector<std::int64_t> state;
      r.driver.save_state(state, begin + k * length);
      r.memory.save_state(state, r.live);
      const auto same =
          std::find_if(seen.begin(), seen.end(), [&](const auto& s) { return s.second == state; });
      if (same != seen.end()) {
        const std::int64_t cycle = k - same->first;
        const std::int64_t whole = (times - k) / cycle * cycle;
        std::vector<std::uint32_t> live = r.live;
        walk_frames(r, pass_at(k + whole), live);
        r.memory.renumber_frames(r.live, live);
        r.live = std::move(live);
        r.at.pass = pass_at(k + whole);
        r.driver.shift(whole * length);
        k += whole;
        seen.resize(kept_states);  // no further search
        if (k == times) break;
      } else {
        seen.emplace_back(k, std::move(state));
      }
    }
    if (!replay_tape(c, r, pass_at(k + 1), begin + k * length)) return k;
  }
  return times;
}

// Times at cut `cut` are those at cut `from`, without a driver call in between. Returns the cut at
// which the classes then stand; the state there is whole.
std::size_t Dataflow::quiet(const Snapshot& now, std::size_t from, std::size_t cut) {
  const std::size_t period = cut - from;
  const std::size_t last = ranks_.front()->program.cuts.size() - 1;
  if (cut + 2 * period > last) return cut;
  const std::size_t base = cut + period;
  for (auto& r : ranks_) {
    r->taping = true;
    r->tape.clear();
    r->tape_origin = now.origin;
  }
  const bool consistent = stop_at(base);
  assert(consistent);
  for (auto& r : ranks_) r->taping = false;
  const Snapshot after = snapshot(false);
  if (after.timing != now.timing || after.driver_calls != now.driver_calls) return base;

  const Duration length = after.origin - now.origin;
  auto times = static_cast<std::int64_t>((last - base) / period);
  struct Kept {
    RankMemory::Kept memory;
    ClockDriver::Events events;
    Clock clock;
    Position at;
    std::vector<std::uint32_t> live;
  };
  std::vector<Kept> kept;
  for (auto& r : ranks_)
    kept.push_back({r->memory.keep(), r->driver.keep(), r->clock, r->at, r->live});
  const auto put_back = [&](std::size_t c) {
    RankState& r = *ranks_[c];
    r.memory.restore(kept[c].memory);
    r.driver.restore(kept[c].events);
    r.clock = kept[c].clock;
    r.at = kept[c].at;
    r.live = kept[c].live;
  };
  std::vector<std::int64_t> done(ranks_.size(), 0);
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    done[c] = replay_memory(static_cast<int>(c), base, period, times, length);
    times = std::min(times, done[c]);
  }
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    if (done[c] != times ||
        ranks_[c]->at.pass !=
            ranks_[c]->program.cuts[base + static_cast<std::size_t>(times) * period]) {
      put_back(c);
      [[maybe_unused]] const std::int64_t again =
          replay_memory(static_cast<int>(c), base, period, times, length);
      assert(again == times);
    }
    ranks_[c]->clock = kept[c].clock;
    move_on(c, now, after, times);
  }
  shift_channels(times * length);
  return base + static_cast<std::size_t>(times) * period;
}

void Dataflow::play(int step) {
  constexpr std::size_t remembered = 48, timing_window = 6;
  const std::size_t cuts =
      step > 0 && options_.shortcuts && !options_.observer ? ranks_[0]->program.cuts.size() : 0;
  std::size_t next = cuts > 2 ? 0 : cuts;
  std::size_t patience = 2 * static_cast<std::size_t>(job_.pp) + 2;  // cuts after running out
  Seen seen;
  for (auto& r : ranks_) {
    const workload::Program& p = r->program;
    r->at = {step, step == 0 ? &p.setup : step == 1 ? &p.first_step : &p.step, 0, 0, 0};
    r->live.clear();
  }
  while (next < cuts && stop_at(next)) {
    if (ran_out() && patience-- == 0) {
      ended_early_ = true;
      return;
    }
    Snapshot now = snapshot(true);
    std::size_t at = next;
    for (const auto& [cut, before] : seen)
      if (before.timing == now.timing && before.memory == now.memory) {
        skip(before, now, cut, next);
        at = cuts;
        break;
      }
    if (at == cuts) break;
    for (auto it = seen.rbegin();
         it != seen.rend() && it - seen.rbegin() < static_cast<std::ptrdiff_t>(timing_window);
         ++it) {
      if (it->second.timing != now.timing || it->second.driver_calls != now.driver_calls) continue;
      at = quiet(now, it->first, next);
      break;
    }
    if (at != next) {
      seen.clear();
      next = at + 1;
      continue;
    }
    if (seen.size() == remembered) seen.pop_front();
    seen.emplace_back(next, std::move(now));
    ++next;
  }
  for (auto& r : ranks_) r->stop = static_cast<std::uint32_t>(r->at.passes->size());
  drive();
  assert(all_stopped());
}

RunReport Dataflow::run() {
  RunReport report;
  Time begin{};
  std::vector<Accounts> before(ranks_.size());
  Snapshot previous;
  for (int step = 0; step <= options_.steps; ++step) {
    Snapshot start;
    if (step >= 2 && options_.shortcuts && !options_.observer) {
      start = snapshot(true);
      // The step before, once more.
      if (step >= 3 && start.timing == previous.timing && start.memory == previous.memory) break;
    }
    play(step);
    Time end{};
    for (auto& r : ranks_) end = std::max(end, std::max(r->clock.cpu, r->timeline.front()));
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      RankState& r = *ranks_[c];
      r.timeline.settle(end, Account::other);
      Accounts now = r.timeline.accounts();
      for (std::size_t i = 0; i < now.size(); ++i) now[i] -= before[c][i];
      r.accounts_at_step = now;
      before[c] = r.timeline.accounts();
      if (step == 1) r.memory.mark_static();
    }
    if (step == 1) report.first_step_time = end - begin;
    if (step >= 1) report.step_time = end - begin;
    begin = end;
    previous = std::move(start);
    if (ended_early_) break;
  }
  for (auto& r : ranks_) {
    ClassReport c;
    c.accounts = r->accounts_at_step;
    r->memory.report(c);
    report.classes.push_back(std::move(c));
    report.replayed += r->executed;
  }
  return report;
}

}  // namespace sim::replay
