// run_alone.cpp — runs a class alone through a cycle in which it calls the driver, while times
// repeat.
//
// A known cycle contains the messages of the other classes and their times. If this class posts
// everything at the usual times, the others do not notice that its CPU was late. So the executor
// runs the class in full, with the others' answers from the known cycle. If the class ends a cycle
// in its usual state, the driver calls changed only its memory. If it does not within a few cycles,
// or lacks an answer, everything is undone. The executor then runs all classes in full.
#include "sim/engine/steady/steady_state.h"

namespace sim::engine {

// `bounded` memory excludes this: its bounds assume cycles without driver calls. It is also
// excluded after a class ran out of memory, because each cut then decides whether to go on.
bool SteadyState::may_run_alone() const {
  return options_.memory == MemoryDetail::exact && !executor_.ran_out();
}

// Runs class `c` alone from cycle `from` of the stretch on, for at most `most` cycles. Returns the
// first cycle that the class begins in its usual state; nullopt, with nothing changed, if there is
// none. REQUIRES: memory is at the begin of `from`.
std::optional<std::int64_t> SteadyState::run_alone(int c, const Stretch& stretch, std::int64_t from,
                                                   std::int64_t most) {
  const auto own = static_cast<std::size_t>(c);
  RankState& r = *executor_.ranks()[own];
  const RankTimes memory_only = r;
  const RankMemory::Retained memory = r.memory.keep();
  const Position at = r.at;
  const std::vector<std::uint32_t> live = r.live;
  const std::int64_t executed = r.executed;

  static_cast<RankTimes&>(r) = before_memory_only_[own];
  move_on(r, known_->gained[own], from * known_->length, from);
  const Accounts before = r.timeline.accounts();
  r.stall.sure_until = {};
  r.driver.set_outstanding(r.memory.events_from(ClockDriver::later));
  std::int64_t end = from;
  for (Alone now = Alone::late; end < from + most;) {
    now = cycle_alone(c, stretch, end++);
    if (now == Alone::other) break;
    if (now == Alone::late || !gained_as_known(c, before, end - from)) continue;
    static_cast<RankTimes&>(r) = memory_only;
    return end;
  }
  static_cast<RankTimes&>(r) = memory_only;
  r.memory.restore(memory);
  r.driver.set_outstanding(r.memory.events_from(ClockDriver::later));
  r.at = at;
  r.live = live;
  r.executed = executed;
  r.stall.posted = r.stall.idles = r.stall.asks = false;
  return {};
}

// One cycle of run_alone().
SteadyState::Alone SteadyState::cycle_alone(int c, const Stretch& stretch, std::int64_t cycle) {
  const auto own = static_cast<std::size_t>(c);
  RankState& r = *executor_.ranks()[own];
  KnownAnswers answers(known_->met[own], stretch.at(cycle));
  r.alone = &answers;
  r.stop = pass_at(r, stretch, cycle + 1);
  while (executor_.advance(c)) {
  }
  r.alone = nullptr;
  if (r.at.pass != r.stop || !answers.over() || r.memory.ran_out()) return Alone::other;
  std::vector<std::int64_t> end;
  save_times(r, stretch.at(cycle + 1), end);
  return r.driver.outstanding() == 0 && end == known_->ends[own] ? Alone::as_known : Alone::late;
}

bool SteadyState::gained_as_known(int c, const Accounts& before, std::int64_t cycles) const {
  const auto own = static_cast<std::size_t>(c);
  const Accounts& now = executor_.ranks()[own]->timeline.accounts();
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i] - before[i] != cycles * known_->gained[own][i]) return false;
  return true;
}

}  // namespace sim::engine
