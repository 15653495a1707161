// timeline.h — the accounts of one rank's time: the compute timeline, divided by cause.
//
// Both engines call it for every kernel and every wait of the compute stream. The timeline is the
// union of the compute streams. A kernel fills a part of it. The gap before a kernel goes to the
// accounts of the waits that delayed it: lift() notes a wait, kernel() and settle() distribute it.
//
// Invariant: the accounts are disjoint and sum to the time that passed.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>

#include "sim/base/units.h"
#include "sim/engine/report.h"

namespace sim::engine {

class Timeline {
 public:
  // Notes that the main stream waits longer by `by`, because of `account`.
  void lift(Account account, Duration by) {
    if (by.ps <= 0) return;
    lifted_[static_cast<std::size_t>(account)] += by;
    waits_ = true;
  }

  // A kernel runs from `start` to `end`. The part of the gap without a noted wait goes to `rest`.
  void kernel(Time start, Time end, Account account, Account rest) {
    settle(start, rest);
    accounts_[static_cast<std::size_t>(account)] += end - start;
    front_ = end;
  }

  // Distributes the time up to `until`, as if a kernel of length 0 started there.
  // REQUIRES: until >= front().
  void settle(Time until, Account rest) {
    assert(until >= front_);
    Duration gap = until - front_;
    for (std::size_t i = 0; waits_ && i < lifted_.size(); ++i) {
      if (lifted_[i].ps == 0) continue;
      const Duration share = std::min(gap, lifted_[i]);
      accounts_[i] += share;
      gap -= share;
      lifted_[i] = {};
    }
    waits_ = false;
    accounts_[static_cast<std::size_t>(rest)] += gap;
    front_ = until;
  }

  // Distributes the time up to the end of a step, and returns the accounts of that step.
  Accounts end_step(Time end) {
    settle(end, Account::other);
    Accounts of_step = accounts_;
    for (std::size_t i = 0; i < of_step.size(); ++i) of_step[i] -= before_[i];
    before_ = accounts_;
    begin_ = end;
    return of_step;
  }

  Time front() const { return front_; }
  Time front_of_step() const { return begin_; }
  const Accounts& accounts() const { return accounts_; }
  const Accounts& lifted() const { return lifted_; }

  // Adds the accounts `by` of one cycle `times` times, and moves the front by `shift`.
  void skip(const Accounts& by, std::int64_t times, Duration shift) {
    for (std::size_t i = 0; i < accounts_.size(); ++i) accounts_[i] += times * by[i];
    front_ = front_ + shift;
  }

 private:
  Time front_{};
  Time begin_{};  // start of the step
  Accounts accounts_{}, before_{};
  Accounts lifted_{};
  bool waits_ = false;  // whether any lifted_ is not 0
};

}  // namespace sim::engine
