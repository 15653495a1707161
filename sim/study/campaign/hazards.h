// hazards.h — the failures of one seed: what breaks when, for each kind in order of time.
//
// Invariant: the n-th failure of a kind is the same whatever the job does. Every failure draws the
// same numbers in the same order, needed or not.
//
// A fleet of like parts is not held part by part. Those that never failed share one age and have
// one next failure; each that was replaced is new from then on and has its own.
#pragma once

#include <queue>
#include <vector>

#include "sim/base/random.h"
#include "sim/study/campaign/spec.h"

namespace sim::campaign {

struct Failure {
  Moment when{};
  int kind = 0;
  int node = 0;  // where; the first of its group
  Span repair{};
  Span found{};  // of a straggler
};

class Hazards {
 public:
  // `nodes`: of the largest pool.
  Hazards(const Spec& spec, int nodes, std::uint64_t seed);

  // The next failure of a kind; false: it never fails again within reach of the clock.
  bool next(int kind, Failure& failure);

 private:
  struct Fleet {
    Random random{0};
    double original = 0;  // parts that never failed
    double age = 0;       // theirs
    double first = 0;     // when the next of them fails
    std::priority_queue<double, std::vector<double>, std::greater<>> replaced;
  };

  const Spec& spec_;
  int nodes_;
  std::vector<Fleet> fleets_;
};

}  // namespace sim::campaign
