// job.h — one campaign of one seed on the event queue.
//
// Invariants
//  (1) The accounts of an Outcome are disjoint and sum to its wall time, to the nanosecond.
//  (2) An Outcome is a pure function of Spec and seed; leaping over undisturbed saves changes none
//      of its bytes.
//  (3) What fails when does not depend on what the job does, so that answers to failures are
//      compared under the same failures. Parts of nodes under repair do not fail.
//
// A save follows the step that ends nearest to each multiple of the interval. The campaign ends
// with the first moment after its length at which the job stands as it did at the beginning: a save
// is complete, or a restart. Both are renewals, so kept work over wall time has no bias from where
// the end cuts (Wald's identity). A job that reaches none ends after twice its length.
#pragma once

#include <vector>

#include "sim/study/campaign/spec.h"

namespace sim::campaign {

// What the job does; the row of a timeline.
enum class Activity : std::uint8_t { training, saving, detecting, waiting, restarting };

struct Slice {
  Activity activity{};
  Moment from{}, to{};
  int cause = -1;  // the kind of failure behind it, -1: none
  int phase = 0, pool = 0, shape = 0;
};

// Training that counts, from the beginning.
struct Ledger {
  std::int64_t steps = 0, tokens = 0;
  Span wall{};   // that it took
  Span ideal{};  // that the undisturbed job would have taken
};

struct CauseOutcome {
  std::int64_t events = 0;         // that happened, also to spares
  std::int64_t interruptions = 0;  // that stopped the job, or struck its restart
  Span lost{};                     // training since the copy that was loaded
  Span down{};                     // detection, waiting and restart
};

struct Outcome {
  Span wall{};
  Ledger kept;
  Span saving{}, lost{}, detecting{}, waiting{}, restarting{};
  std::vector<CauseOutcome> causes;  // one per kind
  std::int64_t interruptions = 0;    // within the length
  std::int64_t saves = 0;
  std::int64_t changes = 0;       // restarts in another shape
  std::int64_t spares_least = 0;  // nodes that stood by, at the worst moment
  std::int64_t finished = 0;      // 1: the last phase came to its end
};

// `timeline`: what seed did when; turns leaps off.
Outcome simulate(const Spec& spec, std::uint64_t seed, std::vector<Slice>* timeline = nullptr);

}  // namespace sim::campaign
