// hazards.h — draws the failures of one seed, for each kind in order of time.
//
// Invariant: the n-th failure of a kind does not depend on the job. Every failure draws the same
// random numbers in the same order, even if they are not needed.
//
// Equal parts are not simulated one by one. Parts that never failed share one age and one next
// failure; each replaced part is new and has its own.
#pragma once

#include <queue>
#include <vector>

#include "sim/base/random.h"
#include "sim/study/campaign/spec.h"

namespace sim::campaign {

struct Failure {
  Moment when{};
  int kind = 0;
  int node = 0;  // the node; of a group its first
  Span repair{};
  Span found{};  // time until a straggler is found
};

class Hazards {
 public:
  // `nodes` is the size of the largest pool.
  Hazards(const Spec& spec, int nodes, std::uint64_t seed);

  // Draws the next failure of a kind. False: none happens within the range of the clock.
  bool next(int kind, Failure& failure);

 private:
  struct Fleet {
    Random random{0};
    double original = 0;  // parts that never failed
    double age = 0;       // their age
    double first = 0;     // time of their next failure
    std::priority_queue<double, std::vector<double>, std::greater<>> replaced;
  };

  const Spec& spec_;
  int nodes_;
  std::vector<Fleet> fleets_;
};

}  // namespace sim::campaign
