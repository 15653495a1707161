// spec.h — a campaign as it is planned: what fails, what is saved, how the job runs on what is
// left.
//
// A Spec is immutable and says everything in times; where they come from (a replay, a table of
// failures, a command line) is not its business.
//
//     failure ──> detection ──> wait for nodes ──> restart ──> training ──> save ──> training ...
//                               (no spare left)    (again, where it is struck)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/study/campaign/clock.h"
#include "sim/study/campaign/lifetime.h"

namespace sim::campaign {

// What a failure takes away until it is repaired.
enum class Takes : std::uint8_t {
  nothing,  // the job stops and starts again on the same nodes: software
  node,
  group,  // neighbours that hang on one part: the nodes of a leaf, of a rack
};

struct FailureKind {
  std::string name;
  Lifetime life;     // of one part
  double parts = 1;  // in the whole pool; all are new at the beginning
  Takes takes = Takes::nothing;
  int group = 1;      // nodes that are taken together
  Span detection{};   // from the stop to the decision what to do
  Lifetime repair{};  // of the nodes it takes; a law of none: they are back at once
  // A straggler does not stop the job: every step waits for it until it is found. Its node is taken
  // then, or with the next save, so that no training is lost.
  bool straggler = false;
  bool at_save = false;
  Lifetime found{};
};

// A failure that is known beforehand, from a recorded trace.
struct TracedFailure {
  Moment when{};
  int kind = 0;
  int node = 0;     // the first that it takes
  Span repair{-1};  // negative: as the kind says
};

// A copy of the state. Tiers stand in order of what they survive; the last survives everything.
struct Tier {
  std::string name;
  Span interval{};    // between saves, at the speed of the undisturbed job
  Span blocking{};    // the job stands still
  Span background{};  // then it goes on, and the copy is complete after this
  Span load{};        // at a restart from it
  int survives = 0;   // nodes that may be lost at once
};
constexpr int survives_everything = 1 << 30;

// The job on what is left of its nodes.
struct Shape {
  std::string plan;          // in words
  int nodes = 0;             // that it uses
  Span step{};               // 0: it cannot run
  std::int64_t tokens = 1;   // of a step
  std::vector<Span> slowed;  // step beside a straggler of each kind; empty: none are
  Span restart{};  // nodes to training, without the load: scheduling, start, first slow steps
  Span change{};   // more, when the job ran in another shape before: search, state on the move
};

// Nodes join or leave at a time that is known.
struct PoolChange {
  Moment when{};
  Span notice{};  // before it: the job may save and change its shape
  int nodes = 0;  // of the pool from then on
};

struct Phase {
  std::string name;
  std::int64_t steps = 0;  // 0: to the end
  // [pool][nodes that are missing of those that the job wants]. Never empty; the first shape of a
  // pool runs.
  std::vector<std::vector<Shape>> shapes;
  // The whole job goes on from the phase before it without a restart: only its batch is another.
  bool seamless = false;
};

struct Spec {
  std::vector<FailureKind> kinds;
  std::vector<TracedFailure> trace;  // by time
  std::vector<Tier> tiers;
  std::vector<Phase> phases;
  int nodes = 0;  // of the pool: those of the job and its spares; 0: none are counted
  std::vector<PoolChange> pools;  // the second pool and on; shapes have one entry more
  Span length{};
  bool leap = true;  // over saves that nothing disturbs; the outcome is the same
};

}  // namespace sim::campaign
