// spec.h — the input of a simulated campaign: failures, checkpoints, and shapes of the job on its
// remaining nodes.
//
// A Spec is immutable and contains only times. It does not know where they come from: a replay, a
// table of failures or the command line.
//
//    failure ──> detection ──> wait for nodes ──> restart ──> training ──> save ──> training ...
//                              (no spare left)    (again after a failure)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/study/campaign/clock.h"
#include "sim/study/campaign/lifetime.h"

namespace sim::campaign {

// The nodes that a failure removes until their repair.
enum class Takes : std::uint8_t {
  nothing,  // a software failure: the job restarts on the same nodes
  node,
  group,  // nodes that share a part: those of a leaf switch or a rack
};

struct FailureKind {
  std::string name;
  Lifetime life;     // of one part
  double parts = 1;  // number in the whole pool; all are new at the begin
  Takes takes = Takes::nothing;
  int group = 1;      // nodes that fail together
  Span detection{};   // from the stop to the decision how to continue
  Lifetime repair{};  // repair time of its nodes; without a law they return at once
  // A straggler does not stop the job: every step waits for it until it is found. Then its node
  // leaves at once, or with the next save, which loses no training.
  bool straggler = false;
  bool at_save = false;
  Lifetime found{};  // time until the straggler is found
};

// A failure with a known time, from a recorded trace.
struct TracedFailure {
  Moment when{};
  int kind = 0;
  int node = 0;     // the first node
  Span repair{-1};  // negative: the kind's repair time
};

// A tier of checkpoints: a kind of copy of the training state. Tiers are ordered by the number of
// lost nodes that they survive; the last tier survives every loss.
struct Tier {
  std::string name;
  Span interval{};    // between saves, at the speed of the undisturbed job
  Span blocking{};    // time that the job is blocked
  Span background{};  // time from then until the copy is complete
  Span load{};        // time to load it in a restart
  int survives = 0;   // nodes that may be lost together
};
constexpr int survives_everything = 1 << 30;

// The job on its remaining nodes.
struct JobShape {
  std::string plan;          // as text
  int nodes = 0;             // used nodes
  Span step{};               // 0: it cannot run
  std::int64_t tokens = 1;   // per step
  std::vector<Span> slowed;  // step with a straggler of each kind; empty: no stragglers
  Span restart{};  // from nodes to training, without loading: scheduling, start, first slow steps
  Span change{};   // added if the job ran in another shape before: search, resharding
};

// Nodes join or leave the pool at a known time.
struct PoolChange {
  Moment when{};
  Span notice{};  // time before it in which the job may save and change its shape
  int nodes = 0;  // size of the pool from then on
};

struct Phase {
  std::string name;
  std::int64_t steps = 0;  // 0: until the end
  // Index [pool][number of missing nodes]. Never empty; the first shape of each pool runs.
  std::vector<std::vector<JobShape>> shapes;
  // The complete job continues from the previous phase without a restart: only its batch changes.
  bool seamless = false;
};

struct Spec {
  std::vector<FailureKind> kinds;
  std::vector<TracedFailure> trace;  // in order of time
  std::vector<Tier> tiers;
  std::vector<Phase> phases;
  int nodes = 0;                  // size of the pool, with spares; 0: nodes are not counted
  std::vector<PoolChange> pools;  // from the second pool on; `shapes` has one more entry
  Span length{};
  bool leap = true;  // skip undisturbed saves; the outcome is the same
};

}  // namespace sim::campaign
