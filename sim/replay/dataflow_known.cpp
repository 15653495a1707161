// dataflow_known.cpp — finding a period that comes again: its times, and what memory sees of them.
//
// Where times are as they were a period ago, the next period is run with a tape of the clocks at
// every allocation and free. A class that calls the driver in it is late there, and its tape is of
// no use; where the others did not notice, because it posted what it posts and learnt what it
// learns, and where times are the same again behind it, the classes' tapes may be of different
// periods.
#include <algorithm>
#include <cassert>

#include "sim/replay/dataflow_engine.h"

namespace sim::replay {

// Runs all classes to cut `to` with tapes. False when there is no consistent cut.
bool Dataflow::run_with_tape(Time origin, std::size_t to) {
  for (auto& r : ranks_) {
    r->taping = true;
    r->tape.clear();
    r->tape_later.clear();
    r->met.clear();
    r->tape_origin = origin;
  }
  const bool stopped = stop_at(to);
  for (auto& r : ranks_) {
    r->taping = false;
    std::ranges::stable_sort(r->met, {}, &Met::communicator);
  }
  return stopped;
}

// Times at cut `cut` are those at cut `from`: runs the periods that follow with a tape until each
// class has had one without a driver call. Returns the cut at which the classes then stand; known_
// holds the period if there is one.
std::size_t Dataflow::tape_periods(const Snapshot& now, std::size_t from, std::size_t cut) {
  constexpr int most = 4;
  const std::size_t period = cut - from;
  known_.reset();
  KnownPeriod found{now.timing, {}, cut, period, {}, {}, {}, {}};
  found.gained.resize(ranks_.size());
  found.lanes.resize(ranks_.size());
  std::vector<std::optional<std::vector<std::int64_t>>> tapes(ranks_.size());
  const bool out = ran_out();
  Snapshot begin = now;
  begin.memory.clear();
  for (int n = 0; n < most && periods_left(cut, period) >= 2; ++n) {
    std::vector<std::int64_t> calls;
    for (const auto& r : ranks_) calls.push_back(r->driver.calls());
    cut += period;
    // A rank may wait there for what another issues behind the cut.
    if (!run_with_tape(begin.origin, cut) || ran_out() != out) return cut;
    Snapshot end = snapshot(false);
    if (end.timing != begin.timing) return cut;
    const auto others_notice = [&](const auto& r) {
      return r->met != found.met[static_cast<std::size_t>(&r - ranks_.data())];
    };
    if (found.met.empty() || std::ranges::any_of(ranks_, others_notice)) {
      found.met.clear();
      for (const auto& r : ranks_) found.met.push_back(r->met);
      std::ranges::fill(tapes, std::nullopt);
    }
    bool all = true;
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      RankState& r = *ranks_[c];
      const bool known = r.tape_later.empty() && r.driver.outstanding() == 0;
      if (known && !tapes[c] && r.driver.calls() == calls[c]) {
        tapes[c] = std::move(r.tape);
        found.gained[c] = gained(begin, end, c);
      }
      all &= tapes[c] && r.driver.outstanding() == 0;
    }
    if (all) {
      found.length = end.origin - begin.origin;
      for (std::size_t c = 0; c < ranks_.size(); ++c) {
        ranks_[c]->tape = std::move(*tapes[c]);
        save(*ranks_[c], end.origin, found.ends.emplace_back());
      }
      known_ = std::move(found);
      return cut;
    }
    if (!may_run_alone()) return cut;
    begin = std::move(end);
  }
  return cut;
}

// Whether the known period comes again at cut `cut`. Events whose time is not known there would
// never be reached: memory alone is replayed, without the exchanges that decide it.
bool Dataflow::known_at(const Snapshot& now, std::size_t cut) const {
  const auto waits = [](const auto& r) { return r->driver.outstanding() > 0; };
  if (std::any_of(ranks_.begin(), ranks_.end(), waits)) return false;
  return known_ && (cut - known_->cut) % known_->period == 0 && known_->timing == now.timing;
}

}  // namespace sim::replay
