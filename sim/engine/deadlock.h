// deadlock.h — the exception that ends a replay whose ranks wait for each other, so that no
// operation of any rank can start any more.
//
// Both engines throw it. It is a bug in the program of a rank, since answer::check refuses orders
// of passes that deadlock (job/schedule/order_rules.h). Commands report it as an internal error
// with the places, and a sweep records it for its point.
#pragma once

#include <stdexcept>
#include <vector>

#include "sim/engine/report.h"

namespace sim::engine {

class Deadlock : public std::runtime_error {
 public:
  // A rank class, and the operation at which it waits. `at_end`: the class has issued its whole
  // program and waits until that work ends.
  struct Waiting {
    int rank_class = 0, stage = 0;
    bool at_end = false;
    ProgramLocation place;
  };

  explicit Deadlock(std::vector<Waiting> waiting);
  const std::vector<Waiting>& waiting() const { return waiting_; }

 private:
  std::vector<Waiting> waiting_;
};

}  // namespace sim::engine
