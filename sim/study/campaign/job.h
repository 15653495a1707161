// job.h — simulates one campaign with one seed on the event queue.
//
// Invariants
// (1) The accounts of an Outcome are disjoint and sum to its wall time, to the nanosecond.
// (2) An Outcome is a pure function of Spec and seed. Skipping undisturbed saves does not change
//     it.
// (3) Failures do not depend on the job, so two variants see the same failures. Parts of nodes
//     under repair do not fail.
//
// A save follows the step that ends nearest to each multiple of the interval. The campaign ends
// after its length, at the first complete save or end of a restart. Both are renewals, so goodput
// has no bias from the end (Wald's identity). A job that reaches neither ends after twice its
// length.
#pragma once

#include <vector>

#include "sim/study/campaign/spec.h"

namespace sim::campaign {

// Activity of the job; a row of the timeline.
enum class Activity : std::uint8_t { training, saving, detecting, waiting, restarting };

struct Slice {
  Activity activity{};
  Moment from{}, to{};
  int cause = -1;  // kind of failure that caused it; -1: none
  int phase = 0, pool = 0, shape = 0;
};

// Training progress since the beginning.
struct Ledger {
  std::int64_t steps = 0, tokens = 0;
  Span wall{};   // time that it took
  Span ideal{};  // time that the undisturbed job would have taken
};

struct CauseOutcome {
  std::int64_t events = 0;         // failures, also of spares
  std::int64_t interruptions = 0;  // failures that stopped the job or its restart
  Span lost{};                     // training time since the copy that the restart loads
  Span down{};                     // detection, waiting and restart
};

struct Outcome {
  Span wall{};
  Ledger kept;
  Span saving{}, lost{}, detecting{}, waiting{}, restarting{};
  std::vector<CauseOutcome> causes;  // one per kind
  std::int64_t interruptions = 0;    // within the length of the campaign
  std::int64_t saves = 0;
  std::int64_t changes = 0;       // restarts in another shape
  std::int64_t spares_least = 0;  // smallest number of spare nodes at any time
  std::int64_t finished = 0;      // 1: the last phase ended
};

// Runs the campaign. `timeline` receives the activities of this seed, and turns skipping off.
Outcome simulate(const Spec& spec, std::uint64_t seed, std::vector<Slice>* timeline = nullptr);

}  // namespace sim::campaign
