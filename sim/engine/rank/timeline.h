// timeline.h — where the time of one rank goes: the GPU's compute timeline, cut into accounts.
//
// The timeline is the union of the compute streams. A kernel fills it; what lies between two
// kernels is attributed to what the second one waited for. Waits are noted as they lift the main
// stream (`lift`) and settled at the next kernel (`kernel`), so that the accounts are disjoint and
// sum to the time that passed.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>

#include "sim/base/units.h"
#include "sim/engine/report.h"

namespace sim::engine {

class Timeline {
 public:
  // The main stream now waits `by` longer, for `account`.
  void lift(Account account, Duration by) {
    if (by.ps <= 0) return;
    lifted_[static_cast<std::size_t>(account)] += by;
    waits_ = true;
  }

  // A kernel runs from `start` to `end`. What nothing noted is `rest`'s fault.
  void kernel(Time start, Time end, Account account, Account rest) {
    settle(start, rest);
    accounts_[static_cast<std::size_t>(account)] += end - start;
    front_ = end;
  }

  // Attributes everything up to `until`, as if a kernel of no length started there.
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

  // Attributes everything up to the end of a step; its accounts.
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

  // Repeats `by` (accounts of a cycle) and moves on in time.
  void skip(const Accounts& by, std::int64_t times, Duration shift) {
    for (std::size_t i = 0; i < accounts_.size(); ++i) accounts_[i] += times * by[i];
    front_ = front_ + shift;
  }

 private:
  Time front_{};
  Time begin_{};  // of the step
  Accounts accounts_{}, before_{};
  Accounts lifted_{};
  bool waits_ = false;  // any of them
};

}  // namespace sim::engine
