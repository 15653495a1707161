// job_failure.cpp — failures of a job and its recovery.
#include <algorithm>
#include <cassert>

#include "sim/study/campaign/job_machine.h"

namespace sim::campaign {

// Failures.

void Job::expect(int kind) {
  to_come_.pending.resize(spec_.kinds.size());
  Failure& failure = to_come_.pending[static_cast<std::size_t>(kind)];
  if (to_come_.hazards.next(kind, failure))
    schedule(std::max(failure.when, agenda_.queue.now()), JobEvent::failure, kind);
}

void Job::strike(Moment now, Failure failure) {
  expect(failure.kind);
  hit(now, failure);
}

void Job::strike_traced(Moment now, const TracedFailure& traced) {
  const FailureKind& kind = spec_.kinds[static_cast<std::size_t>(traced.kind)];
  Failure failure;
  failure.when = now;
  failure.kind = traced.kind;
  failure.node = kind.takes == Takes::group ? traced.node - traced.node % kind.group : traced.node;
  // A trace is the same for every seed; missing values are the means of their kinds.
  failure.repair = traced.repair.ns >= 0 ? traced.repair : span(kind.repair.mean);
  failure.found = span(kind.found.mean);
  hit(now, failure);
}

void Job::hit(Moment now, const Failure& failure) {
  const FailureKind& kind = spec_.kinds[static_cast<std::size_t>(failure.kind)];
  ++out_.causes[static_cast<std::size_t>(failure.kind)].events;
  if (kind.straggler) {
    if (spec_.nodes > 0 && !nodes_.is_used(failure.node)) return;
    stragglers_.push_back({failure.kind, failure.node, failure.repair, true, false});
    schedule(now + failure.found, JobEvent::found, static_cast<int>(stragglers_.size()) - 1);
    repace_soon(now);
    return;
  }
  bool struck = false;
  const int lost = take_nodes(now, failure, struck);
  if (struck) stop(now, failure.kind, lost, kind.detection);
}

// Removes the nodes of a failure until their repair. Returns how many of them the job used.
int Job::take_nodes(Moment now, const Failure& failure, bool& struck) {
  const FailureKind& kind = spec_.kinds[static_cast<std::size_t>(failure.kind)];
  if (kind.takes == Takes::nothing || spec_.nodes == 0) {
    struck = true;
    return kind.takes == Takes::nothing ? 0 : kind.takes == Takes::node ? 1 : kind.group;
  }
  const int count = kind.takes == Takes::group ? kind.group : 1;
  const int end = std::min(failure.node + count, largest_pool(spec_));
  int lost = 0;
  for (int node = failure.node; node < end; ++node) {
    if (!nodes_.is_up(node)) continue;
    lost += nodes_.is_used(node) ? 1 : 0;
    for (Straggler& straggler : stragglers_)
      straggler.active = straggler.active && straggler.node != node;
    if (failure.repair.ns == 0) continue;
    nodes_.take(node);
    schedule(now + failure.repair, JobEvent::node_back, node);
  }
  struck = lost > 0;
  if (runs_.shape >= 0)
    out_.spares_least =
        std::min<std::int64_t>(out_.spares_least, std::max(0, nodes_.up() - shape().nodes));
  return lost;
}

void Job::found(Moment now, int index) {
  Straggler& straggler = stragglers_[static_cast<std::size_t>(index)];
  if (!straggler.active) return;
  const FailureKind& kind = spec_.kinds[static_cast<std::size_t>(straggler.kind)];
  if (kind.at_save && kind.takes != Takes::nothing) {
    straggler.leaves = true;
    return;
  }
  straggler.active = false;
  if (kind.takes == Takes::nothing) {
    repace_soon(now);  // the straggler recovered by itself
    return;
  }
  bool struck = false;
  const Failure failure = {now, straggler.kind, straggler.node, straggler.repair, {}};
  const int lost = take_nodes(now, failure, struck);
  if (struck) stop(now, failure.kind, lost, kind.detection);
}

// Whether a straggler was found and still works for the job. If its node is no longer used, it
// slows nothing.
bool Job::leaves(const Straggler& straggler) const {
  return straggler.active && straggler.leaves &&
         (spec_.nodes == 0 || nodes_.is_used(straggler.node));
}

// Called while the job is saved or down: sends found stragglers to repair.
void Job::take_found(Moment now) {
  for (Straggler& straggler : stragglers_) {
    if (!leaves(straggler)) continue;
    straggler.active = false;
    if (doing_.activity == Activity::saving) down_.cause = straggler.kind;
    bool struck = false;
    take_nodes(now, {now, straggler.kind, straggler.node, straggler.repair, {}}, struck);
  }
}

// Stops the job, or adds a failure to the current stop.
void Job::stop(Moment now, int kind, int lost_nodes, Span detection) {
  if (doing_.activity == Activity::detecting || doing_.activity == Activity::waiting) {
    down_.lost_nodes += lost_nodes;
    lose(kind);
    return;
  }
  if (!is_ending()) {
    ++out_.interruptions;
    if (kind >= 0) ++out_.causes[static_cast<std::size_t>(kind)].interruptions;
  }
  if (doing_.activity == Activity::training) {
    const Span begun = settle(now);
    out_.lost += begun;
    if (kind >= 0) out_.causes[static_cast<std::size_t>(kind)].lost += begun;
  }
  down_.lost_nodes = lost_nodes + (doing_.activity == Activity::restarting ? down_.lost_nodes : 0);
  ++agenda_.epoch;
  for (Copy& copy : progress_.copies) copy.in_flight = false;
  lose(kind);
  enter(Activity::detecting, now);
  down_.cause = kind;
  ++agenda_.run;
  if (detection.ns == 0) {
    decide(now);
  } else {
    schedule(now + detection, JobEvent::detected, 0, agenda_.run);
  }
}

// Returns to the newest copy that survives the lost nodes.
void Job::lose(int kind) {
  for (std::size_t i = 0; i < progress_.copies.size(); ++i)
    if (spec_.tiers[i].survives < down_.lost_nodes) progress_.copies[i].valid = false;
  down_.from = best_copy();
  const Ledger& kept = progress_.copies[down_.from].kept;
  const Span lost = progress_.current.wall - kept.wall;
  out_.lost += lost;
  if (kind >= 0) out_.causes[static_cast<std::size_t>(kind)].lost += lost;
  progress_.current = kept;
  for (std::size_t i = 0; i < progress_.copies.size(); ++i) {
    std::int64_t& next = progress_.copies[i].next;
    while (next > 1 && target_.phase_start + save_step(i, next - 1) > progress_.current.steps)
      --next;
  }
}

std::size_t Job::best_copy() const {
  std::size_t best = progress_.copies.size() - 1;
  for (std::size_t i = progress_.copies.size(); i-- > 0;)
    if (progress_.copies[i].valid &&
        progress_.copies[i].kept.steps >= progress_.copies[best].kept.steps)
      best = i;
  return best;
}

// Recovery.

int Job::limit() const {
  return target_.pool == 0 ? spec_.nodes
                           : spec_.pools[static_cast<std::size_t>(target_.pool) - 1].nodes;
}

// The first shape that runs on the available nodes; -1 if none does.
int Job::wanted() const {
  const std::vector<JobShape>& all = shapes();
  const int missing = std::max(0, all.front().nodes - nodes_.up_below(limit()));
  for (std::size_t i = static_cast<std::size_t>(missing); i < all.size(); ++i)
    if (all[i].step.ns > 0) return static_cast<int>(i);
  return -1;
}

// A change of shape without a failure must gain more than its restart costs before the next
// failure.
bool Job::wants_change() const {
  if (std::ranges::any_of(stragglers_, [&](const Straggler& one) { return leaves(one); }))
    return true;
  const int best = wanted();
  if (best < 0) return false;
  if (target_.pool != runs_.pool) return true;
  if (best == runs_.shape) return false;
  const JobShape& then = shapes()[static_cast<std::size_t>(best)];
  const JobShape& how = shape();
  const double faster = static_cast<double>(then.tokens) / static_cast<double>(then.step.ns) *
                        static_cast<double>(how.step.ns) / static_cast<double>(how.tokens);
  const double costs = seconds(then.restart + then.change + spec_.tiers.front().load);
  return (faster - 1) * to_come_.mean_between > costs;
}

void Job::decide(Moment now) {
  take_found(now);
  const int best = wanted();
  if (best < 0) {
    if (doing_.activity != Activity::waiting) enter(Activity::waiting, now);
    return;
  }
  runs_ = {target_.phase, target_.pool, best};
  nodes_.assign(shape().nodes, limit());
  enter(Activity::restarting, now);
  Span takes = shape().restart + spec_.tiers[down_.from].load;
  if (runs_ != trained_) takes += shape().change;
  schedule(now + takes, JobEvent::restarted, 0, ++agenda_.run);
}

void Job::restarted(Moment now) {
  if (runs_ != trained_) ++out_.changes;
  down_.lost_nodes = 0;
  if (is_ending()) {
    finish(now);
  } else {
    train(now);
  }
}

void Job::change_pool(Moment now, int index, bool happens) {
  const int nodes = spec_.pools[static_cast<std::size_t>(index)].nodes;
  if (!happens) {
    if (nodes < limit()) target_.pool = index + 1;  // the job leaves before its nodes do
    return;
  }
  const int before = nodes_.used();
  nodes_.resize(nodes);
  target_.pool = index + 1;
  const int lost = before - nodes_.used();
  if (lost > 0) stop(now, -1, lost, {});
  if (doing_.activity == Activity::waiting) decide(now);
}

}  // namespace sim::campaign
