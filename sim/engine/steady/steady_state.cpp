#include "sim/engine/steady/steady_state.h"

#include <algorithm>
#include <cassert>

#include "sim/engine/rank/tensor_peak.h"

namespace sim::engine {

// Whether a class ran out of memory, and would even with the least memory outside the allocator.
// With `bounded` memory, tensors allocated so far prove it; without Options::peaks_if_out, the sum
// of all tensors of the class that ran out first.
bool SteadyState::surely_out() {
  if (!executor_.ran_out()) return false;
  if (options_.memory == MemoryDetail::bounded)
    return std::ranges::any_of(executor_.ranks(), [&](const auto& r) {
      const std::int64_t allocated = r->memory.allocator().statistics().all.allocated_bytes.peak;
      return r->memory.ran_out() && allocated - r->driver.capacity().n >= memory_.more.n;
    });
  if (options_.peaks_if_out || options_.observer || hopeless_) return hopeless_;
  if (const auto first = first_event()) {
    if (!exceeded_) exceeded_ = tensors_exceed_memory(*first);
    hopeless_ = *exceeded_;
  }
  return hopeless_;
}

// The class that ran out of memory first in simulated time; nullopt: another class may still do so
// earlier. REQUIRES: a class ran out.
std::optional<std::size_t> SteadyState::first_event() const {
  const auto& ranks = executor_.ranks();
  std::optional<std::size_t> first;
  const auto when = [&](std::size_t c) { return ranks[c]->memory.out_of_memory_at(); };
  for (std::size_t c = 0; c < ranks.size(); ++c)
    if (ranks[c]->memory.ran_out() && (!first || when(c) < when(*first))) first = c;
  const bool known = std::ranges::all_of(
      ranks, [&](const auto& r) { return r->memory.ran_out() || r->clock.cpu >= when(*first); });
  return known ? first : std::nullopt;
}

bool SteadyState::tensors_exceed_memory(std::size_t c) const {
  return peak_of_tensors(job_.classes[c]) >
         executor_.ranks()[c]->driver.capacity().n + memory_.more.n;
}

// The replay ended early: the peaks of a class are at least those of its tensors.
void SteadyState::say_tensors(std::size_t c, ClassReport& report) const {
  const Bytes tensors{peak_of_tensors(job_.classes[c])};
  report.peak_allocated = std::max(report.peak_allocated, tensors);
  report.peak_reserved = std::max(report.peak_reserved, tensors);
  report.needed = report.peak_allocated;
  if (report.out_of_memory)
    report.out_of_memory->fragmentation_alone =
        report.out_of_memory->request_fits_contiguous && report.needed <= report.capacity;
}

void SteadyState::save_memory(Snapshot& s) const {
  for (const auto& r : executor_.ranks()) r->memory.save_state(s.memory, r->live, s.origin);
}

SteadyState::Snapshot SteadyState::snapshot(bool with_memory) const {
  Snapshot s;
  s.origin = executor_.ranks().front()->clock.cpu;
  s.driver_calls = executor_.driver_calls();
  for (const auto& r : executor_.ranks()) {
    save_times(*r, s.origin, s.timing);
    s.accounts.push_back(r->timeline.accounts());
    s.retries.push_back(r->memory.retries());
    s.delays.push_back(r->driver.delay());
    r->memory.allocator().save_outline(s.outline);
  }
  if (with_memory) save_memory(s);
  executor_.peers().save(s.origin, s.timing);
  return s;
}

// The number of whole cycles after cut `cut` in which all classes run the same passes.
std::int64_t SteadyState::cycles_left(std::size_t cut, std::size_t cycle) const {
  std::size_t last = executor_.ranks().front()->program.cuts.size() - 1;
  const auto behind = [&](const auto& r) {
    return r->program.cuts[last] + r->beyond > r->program.cuts.back();
  };
  while (last > cut && std::ranges::any_of(executor_.ranks(), behind)) --last;
  return static_cast<std::int64_t>((last - cut) / cycle);
}

Accounts SteadyState::gained(const Snapshot& before, const Snapshot& now, std::size_t c) {
  Accounts all = now.accounts[c];
  for (std::size_t i = 0; i < all.size(); ++i) all[i] -= before.accounts[c][i];
  return all;
}

// Whether every class holds the same number of frames after a cycle as before it. If not (the
// forward passes of gpipe), memory grows or shrinks with every cycle.
bool SteadyState::steady(const Stretch& stretch) const {
  return std::all_of(executor_.ranks().begin(), executor_.ranks().end(), [&](const auto& r) {
    std::int64_t gained = 0;
    for (std::uint32_t p = pass_at(*r, stretch, 0); p < pass_at(*r, stretch, 1); ++p)
      gained += (*r->at.passes)[p].acquires - (*r->at.passes)[p].releases;
    return gained == 0;
  });
}

// The state at cut `cut` equals the state at cut `from`: adds up the remaining whole cycles.
// Returns the cut that the classes have then reached.
std::size_t SteadyState::skip(const Snapshot& before, const Snapshot& now, std::size_t from,
                              std::size_t cut) {
  const std::size_t cycle = cut - from;
  const std::int64_t times = cycles_left(cut, cycle);
  if (times == 0) return cut;
  const std::size_t target = cut + static_cast<std::size_t>(times) * cycle;
  const Duration by = times * (now.origin - before.origin);
  for (std::size_t c = 0; c < executor_.ranks().size(); ++c) {
    RankState& r = *executor_.ranks()[c];
    move_on(r, gained(before, now, c), by, times);
    if (executor_.places_tensors()) {
      r.memory.shift_events(by, ClockDriver::later);
      std::vector<std::uint32_t> live = r.live;
      walk_frames(r, r.program.cuts[target] + r.beyond, live);
      r.memory.renumber_frames(r.live, live);
      r.live = std::move(live);
    }
    r.at.pass = r.program.cuts[target] + r.beyond;
  }
  repeat_counts(before, now, times);
  executor_.peers().shift(by);
  return target;
}

// Counts the allocator retries and the delays by driver calls between the two states `times` more
// times.
void SteadyState::repeat_counts(const Snapshot& before, const Snapshot& now, std::int64_t times) {
  for (std::size_t c = 0; c < executor_.ranks().size(); ++c) {
    RankState& r = *executor_.ranks()[c];
    r.memory.add_retries(times * (now.retries[c] - before.retries[c]));
    r.driver.add_delay(times * (now.delays[c] - before.delays[c]));
  }
}

// Decides which cycles of a step record a clock log: the first ones, and some after each inspection
// of clock logs. If cycles call the driver, clock logs are useless, so the pauses between
// inspections double. Numbers are cuts.
class SteadyState::CyclesLogged {
 public:
  bool wants(std::size_t next) const { return due(next) && next - from_ < together; }
  void skip(std::size_t next) { whole_from_ = next + 1; }
  // Whether the cycle that ends at `next` has a clock log, if the one before it was run with one.
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

// The progress of a step through its cuts.
struct SteadyState::Cuts {
  std::size_t count = 0;     // cuts in the step; 0: it runs without stops
  std::size_t next = 0;      // the cut to stop at
  std::size_t patience = 0;  // cuts that are still inspected after some class ran out of memory
  CyclesLogged logged;
  Seen seen;
  std::int64_t calls = 0;  // driver calls up to the cut before
};

void SteadyState::begin_step(int step) {
  known_.reset();
  for (auto& r : executor_.ranks()) {
    const program::Program& p = r->program;
    r->at = {step, step == 0 ? &p.setup : step == 1 ? &p.first_step : &p.step, 0, 0, 0};
    r->live.clear();
  }
}

// Runs all classes to the next cut, with a clock log if one may be useful.
bool SteadyState::stop_at_next(Cuts& cuts) {
  const bool logged = executor_.places_tensors() && !executor_.ran_out() && !known_ &&
                      !cuts.seen.empty() && cuts.seen.back().first + 1 == cuts.next &&
                      cuts.logged.wants(cuts.next);
  if (logged) return run_with_clock_log(cuts.seen.back().second.origin, cuts.next);
  cuts.logged.skip(cuts.next);
  return executor_.run_to(cuts.next);
}

// The times equal those at one of the last cuts: looks for a cycle that repeats. Returns the next
// cut to stop at, or the current cut if none was found.
std::size_t SteadyState::replay_known(Cuts& cuts, const Snapshot& now) {
  constexpr std::size_t timing_window = 6;  // cuts
  const std::size_t cut = cuts.next;
  const std::size_t from = cuts.seen.size() - std::min(timing_window, cuts.seen.size());
  for (std::size_t i = cuts.seen.size(); i-- > from;) {
    const auto& [before_cut, before] = cuts.seen[i];
    if (before.timing != now.timing) continue;
    const bool early = before.driver_calls != now.driver_calls;
    if (early && (!may_run_alone() || !cuts.logged.due(cut))) continue;
    const bool logged = cuts.logged.has(cut) && before_cut + 1 == cut;
    const std::size_t at = clock_log_cycles(before, now, before_cut, cut, logged);
    cuts.logged.looked(at);
    if (known_) return memory_only(executor_.ranks().front()->clock.cpu, at) + 1;
    return at + (early ? 0 : 1);
  }
  return cut;
}

// Compares the state at a cut, which all classes have reached, with earlier states. False: the step
// has no further stops.
bool SteadyState::look(Cuts& cuts) {
  constexpr std::size_t remembered = 48;  // cuts
  const bool places = executor_.places_tensors();
  // Without driver calls, times settle before memory does, so memory is not compared here.
  const bool called = cuts.calls != executor_.driver_calls() || !places;
  cuts.calls = executor_.driver_calls();
  Snapshot now = snapshot(false);
  // Memory is saved only if times and the outline of memory have been the same before. So the
  // second occurrence saves it, and the third proves that it repeats.
  if (called && places && std::ranges::any_of(cuts.seen, [&](const auto& s) {
        return s.second.outline == now.outline && s.second.timing == now.timing;
      }))
    save_memory(now);
  std::size_t next = cuts.next;
  if (known_at(now, cuts.next)) {
    next = memory_only(now.origin, cuts.next) + 1;
  } else {
    for (const auto& [cut, before] : cuts.seen)
      if (called && places == !now.memory.empty() && before.timing == now.timing &&
          before.memory == now.memory) {
        skip(before, now, cut, cuts.next);
        return false;
      }
    next = replay_known(cuts, now);
  }
  if (next != cuts.next) {
    cuts.seen.clear();
    cuts.next = next;
    return true;
  }
  if (cuts.seen.size() == remembered) cuts.seen.pop_front();
  cuts.seen.emplace_back(cuts.next, std::move(now));
  ++cuts.next;
  return true;
}

void SteadyState::play(int step) {
  const auto& ranks = executor_.ranks();
  Cuts cuts;
  if (step > 1 && options_.shortcuts && !options_.observer && ranks[0]->program.cuts.size() > 2)
    cuts.count = ranks[0]->program.cuts.size();
  cuts.patience = 2 * static_cast<std::size_t>(job_.mesh.degrees().pp) + 2;
  cuts.calls = executor_.driver_calls();
  begin_step(step);
  while (cuts.next < cuts.count && !executor_.ended_early() && stop_at_next(cuts)) {
    // If classes run beyond the cut, memory may peak after the last cut.
    const bool straight = std::ranges::all_of(ranks, [](const auto& r) { return r->beyond == 0; });
    if (executor_.reached_limit()) executor_.end_early();
    if (executor_.ended_early()) return;
    if (executor_.ran_out() && ((straight && cuts.patience-- == 0) || surely_out())) {
      executor_.end_early();
      return;
    }
    if (!look(cuts)) break;
  }
  if (executor_.ended_early()) return;
  for (const auto& r : ranks) r->stop = static_cast<std::uint32_t>(r->at.passes->size());
  do executor_.drive();
  while (!executor_.ended_early() && executor_.let_one_allocate());
  if (!executor_.ended_early() && !executor_.all_stopped()) end_waiting();
}

// Ends the replay: no class can go on.
void SteadyState::end_waiting() const {
  std::vector<Position> positions;
  std::vector<bool> done;
  for (const auto& r : executor_.ranks()) {
    positions.push_back(executor_.position(*r));
    done.push_back(r->at.pass >= r->at.passes->size() && r->pending.empty());
  }
  end_in_deadlock(job_, positions, done);
}

// Completes exchanges that no class waited for.
void SteadyState::complete_rest() {
  for (bool any = true; any;) {
    any = false;
    for (std::size_t c = 0; c < executor_.ranks().size(); ++c) {
      RankState& r = *executor_.ranks()[c];
      const std::size_t before = r.pending.size();
      executor_.complete_all(static_cast<int>(c), r, ~0u);
      any |= r.pending.size() < before;
    }
  }
  const bool open =
      std::ranges::any_of(executor_.ranks(), [](const auto& r) { return !r->pending.empty(); });
  if (open && !executor_.ended_early()) end_waiting();
}

// Ends a step. If ranks synchronise at the end of a step, all end with the last one.
void SteadyState::end_step(int step, RunReport& report) {
  Time last{};
  for (auto& r : executor_.ranks()) last = std::max(last, r->end_of_work());
  Duration longest{};
  for (auto& r : executor_.ranks()) {
    const Time end = job_.ends_together || step == 0 ? last : r->end_of_work();
    longest = std::max(longest, end - r->timeline.front_of_step());
    r->accounts_at_step = r->timeline.end_step(end);
    r->memory.end_step(step);
  }
  for (auto& r : executor_.ranks()) fill_up(r->accounts_at_step, longest);
  steadiness_.end_step(step, longest, executor_.driver_delays(), executor_.reserved());
  report.step = step;
  report.steady = steadiness_.steady();
  if (step == 1) report.warm_up_time = longest;
  if (step == 2) report.first_step_time = longest;
  if (step >= 1) report.step_time = longest;
}

// Whether another step follows. After the event of out of memory there is nothing to wait for, and
// driver calls after the decision of `bounded` take no time.
bool SteadyState::goes_on(int step) const {
  if (step < steps_to_play(job_, options_)) return true;
  return step < most_steps_to_play(job_, options_) && !steadiness_.steady() && !executor_.ran_out();
}

RunReport SteadyState::run(bool last_alone) {
  RunReport report;
  Snapshot previous;
  const int least = steps_to_play(job_, options_);
  for (int step = last_alone ? least : 0;; ++step) {
    Snapshot start;
    if (step >= 2 && executor_.places_tensors() && options_.shortcuts && !options_.observer) {
      start = snapshot(true);
      // The step starts as the step before it did, so it repeats that step.
      if (step >= 3 && start.timing == previous.timing && start.memory == previous.memory) {
        report.steady = true;
        repeat_counts(previous, start, std::max(1, least - step + 1));
        report.step = std::max(step, least);
        break;
      }
    }
    play(step);
    end_step(step, report);
    previous = std::move(start);
    if (executor_.ended_early() || surely_out() || !goes_on(step)) break;
  }
  complete_rest();
  for (auto& r : executor_.ranks()) {
    ClassReport c;
    c.accounts = r->accounts_at_step;
    r->memory.report(c);
    if (hopeless_) say_tensors(report.classes.size(), c);
    if (!bounds_.most.empty()) {
      const std::size_t own = report.classes.size();
      // After that decision the layout is no longer exact, so its peaks prove nothing.
      c.reserved_most = std::max(c.peak_reserved, Bytes{bounds_.most[own]});
      c.peak_reserved = std::max(c.peak_allocated, Bytes{bounds_.least[own]});
      report.bounded = true;
    }
    report.classes.push_back(std::move(c));
    report.replayed += r->executed;
  }
  report.ended_early = executor_.reached_limit() || hopeless_;
  return report;
}

}  // namespace sim::engine
