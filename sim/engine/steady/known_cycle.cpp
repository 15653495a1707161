// known_cycle.cpp — records a cycle whose times repeat: a KnownCycle.
//
// If the times equal those one cycle ago, the next cycle is run with clock logs. A clock log holds
// the clocks at every allocation and free of a class. If a class calls the driver, it is late in
// that cycle and its log is useless. Other classes may not notice: the class posts and learns the
// same times, and ends the cycle with the same times. Then the logs of different classes may come
// from different cycles.
#include <algorithm>

#include "sim/engine/steady/steady_state.h"

namespace sim::engine {

// Whether the clock log of a class also holds for the cycle after cut `cut`: the tensors that the
// cycle frees must be recorded on the same streams. (The first frees are of tensors of earlier
// cycles.)
bool SteadyState::comes_again(int c, std::size_t cut, std::size_t cycle) const {
  const RankState& r = *executor_.ranks()[static_cast<std::size_t>(c)];
  std::vector<program::Streams> recorded;
  for (std::uint32_t s = 0; s < r.memory.slots(); ++s) recorded.push_back(r.memory.recorded(s));
  std::uint64_t shape = 0;
  walk_memory(r.program, *r.at.passes, r.program.cuts[cut] + r.beyond,
              r.program.cuts[cut + cycle] + r.beyond,
              executor_.memory_code()[static_cast<std::size_t>(c)],
              [&](std::uint32_t, std::uint32_t, const MemoryInstruction& step, std::uint32_t slot,
                  std::uint32_t to) {
                const program::Instruction& i = step.instruction;
                if (i.op == program::Op::alloc) {
                  recorded[slot] = 0;
                  shape = shape_with(shape, 0);
                } else if (i.op == program::Op::free) {
                  shape = shape_with(shape, 1 + recorded[slot]);
                } else if (i.op == program::Op::move) {
                  recorded[to] = recorded[slot];
                } else {
                  recorded[slot] |= program::bit_of(i.stream);
                }
              });
  return shape == r.log.shape;
}

// Runs all classes with clock logs to cut `to`, from a cut at time `origin`. False: no consistent
// cut exists.
bool SteadyState::run_with_clock_log(Time origin, std::size_t to) {
  for (auto& r : executor_.ranks()) {
    r->log.recording = true;
    r->log.times.clear();
    r->log.later.clear();
    r->log.shape = 0;
    r->log.met.clear();
    r->log.origin = origin;
    r->log.calls_before = r->driver.calls();
  }
  const bool stopped = executor_.run_to(to);
  for (auto& r : executor_.ranks()) {
    r->log.recording = false;
    std::ranges::stable_sort(r->log.met, {}, &Met::communicator);
  }
  return stopped;
}

// Takes over the clock logs of the cycle from `begin` to `end`, whose times repeat. Returns whether
// every class has a log now.
bool SteadyState::add_logs(ClockLogs& found, const Snapshot& begin, const Snapshot& end,
                           std::size_t cut) {
  std::vector<std::vector<Met>> met;
  for (const auto& r : executor_.ranks()) met.push_back(std::move(r->log.met));
  if (met != found.known.met) {  // other classes noticed a driver call
    found.known.met = std::move(met);
    found.clock_logs.assign(executor_.ranks().size(), {});
  }
  bool all = true;
  for (std::size_t c = 0; c < executor_.ranks().size(); ++c) {
    RankState& r = *executor_.ranks()[c];
    const bool sure = r.log.later.empty() && r.driver.outstanding() == 0;
    if (sure && !found.clock_logs[c] && r.driver.calls() == r.log.calls_before &&
        comes_again(static_cast<int>(c), cut, found.known.cycle)) {
      found.clock_logs[c] = std::move(r.log.times);
      found.known.gained[c] = gained(begin, end, c);
    }
    all &= found.clock_logs[c] && r.driver.outstanding() == 0;
  }
  if (!all) return false;
  found.known.length = end.origin - begin.origin;
  for (std::size_t c = 0; c < executor_.ranks().size(); ++c) {
    executor_.ranks()[c]->log.times = std::move(*found.clock_logs[c]);
    save_times(*executor_.ranks()[c], end.origin, found.known.ends.emplace_back());
  }
  known_ = std::move(found.known);
  return true;
}

// The times at cut `cut` equal those of `before`, at cut `from`. Runs the following cycles with
// clock logs until each class has one without a driver call. `logged`: the cycle from `from` to
// `cut` already has clock logs. Returns the cut that the classes have then reached; known_ holds
// the cycle, if one was found.
std::size_t SteadyState::clock_log_cycles(const Snapshot& before, const Snapshot& now,
                                          std::size_t from, std::size_t cut, bool logged) {
  constexpr int most = 4;
  const std::size_t cycle = cut - from;
  const bool out = executor_.ran_out();
  known_.reset();
  ClockLogs found;
  found.known.timing = now.timing;
  found.known.cut = cut;
  found.known.cycle = cycle;
  found.known.gained.resize(executor_.ranks().size());
  found.known.sub_pools.resize(executor_.ranks().size());
  if (cycles_left(cut, cycle) < 1) return cut;
  if (logged && add_logs(found, before, now, cut)) return cut;
  Snapshot begin = now;
  begin.memory.clear();
  for (int n = 0; n < most && cycles_left(cut, cycle) >= 2; ++n) {
    cut += cycle;
    // A rank may wait before the cut for operations that another rank issues after it.
    if (!run_with_clock_log(begin.origin, cut) || executor_.ran_out() != out) return cut;
    Snapshot end = snapshot(false);
    if (end.timing != begin.timing) return cut;
    if (add_logs(found, begin, end, cut) || !may_run_alone()) return cut;
    begin = std::move(end);
  }
  return cut;
}

// Whether the known cycle repeats at cut `cut`. No event may have an unknown time there: a replay
// of memory alone has no exchanges that would determine that time.
bool SteadyState::known_at(const Snapshot& now, std::size_t cut) const {
  const auto waits = [](const auto& r) { return r->driver.outstanding() > 0; };
  if (std::any_of(executor_.ranks().begin(), executor_.ranks().end(), waits)) return false;
  return known_ && (cut - known_->cut) % known_->cycle == 0 && known_->timing == now.timing;
}

}  // namespace sim::engine
