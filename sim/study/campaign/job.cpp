#include "sim/study/campaign/job.h"

#include <algorithm>
#include <cassert>

#include "sim/study/campaign/hazards.h"
#include "sim/study/campaign/job_machine.h"

namespace sim::campaign {

Job::Job(const Spec& spec, std::uint64_t seed, std::vector<Slice>* timeline)
    : spec_(spec),
      timeline_(timeline),
      leap_(spec.leap && timeline == nullptr && spec.tiers.size() == 1),
      nodes_(largest_pool(spec), spec.nodes),
      to_come_{Hazards(spec, largest_pool(spec), seed), {}, 0} {
  progress_.copies.resize(spec.tiers.size());
  out_.causes.resize(spec.kinds.size());
  double rate = 0;  // failure rate, without ageing
  for (const FailureKind& kind : spec.kinds)
    if (kind.life.mean > 0) rate += kind.parts / kind.life.mean;
  if (spec.length.ns > 0) rate += static_cast<double>(spec.trace.size()) / seconds(spec.length);
  to_come_.mean_between = rate > 0 ? 1 / rate : 1e18;
}

int Job::largest_pool(const Spec& spec) {
  int most = spec.nodes;
  for (const PoolChange& pool : spec.pools) most = std::max(most, pool.nodes);
  return most;
}

Outcome Job::run() {
  for (int kind = 0; kind < static_cast<int>(spec_.kinds.size()); ++kind) expect(kind);
  for (int i = 0; i < static_cast<int>(spec_.trace.size()); ++i)
    schedule(spec_.trace[static_cast<std::size_t>(i)].when, JobEvent::traced, i);
  for (int i = 0; i < static_cast<int>(spec_.pools.size()); ++i) {
    const PoolChange& pool = spec_.pools[static_cast<std::size_t>(i)];
    schedule(std::max(Moment{}, Moment{pool.when.ns - pool.notice.ns}), JobEvent::announced, i);
    schedule(pool.when, JobEvent::pool, i);
  }
  schedule(Moment{spec_.length.ns}, JobEvent::end, 0);
  schedule(Moment{2 * spec_.length.ns}, JobEvent::cutoff, 0);
  runs_.shape = wanted();
  out_.spares_least = nodes_.up();
  if (runs_.shape < 0) {
    enter(Activity::waiting, Moment{});
  } else {
    nodes_.assign(shape().nodes, limit());
    out_.spares_least = nodes_.up() - nodes_.used();
    train(Moment{});
  }
  while (ending_ != Ending::done) handle(agenda_.queue.pop());
  return out_;
}

void Job::handle(const Event& event) {
  const Moment now = agenda_.queue.now();
  complete_copies(now);
  switch (event.what) {
    case JobEvent::stored:
      if (is_ending() && event.run == agenda_.epoch) finish(now);
      break;
    case JobEvent::step_end:
      if (event.run == agenda_.run) save(now);
      break;
    case JobEvent::unblocked:
      if (event.run == agenda_.run) saved(now);
      break;
    case JobEvent::repace:
      if (event.run == agenda_.run && doing_.activity == Activity::training) repace(now);
      break;
    case JobEvent::detected:
    case JobEvent::restarted:
      if (event.run == agenda_.run) event.what == JobEvent::detected ? decide(now) : restarted(now);
      break;
    case JobEvent::node_back:
      nodes_.give_back(event.index);
      if (doing_.activity == Activity::waiting) decide(now);
      break;
    case JobEvent::failure:
      strike(now, to_come_.pending[static_cast<std::size_t>(event.index)]);
      break;
    case JobEvent::traced:
      strike_traced(now, spec_.trace[static_cast<std::size_t>(event.index)]);
      break;
    case JobEvent::found:
      found(now, event.index);
      break;
    case JobEvent::announced:
    case JobEvent::pool:
      change_pool(now, event.index, event.what == JobEvent::pool);
      break;
    case JobEvent::end:
      ending_ = Ending::with_next_copy;
      for (const Copy& copy : progress_.copies)
        if (copy.in_flight) schedule(copy.complete, JobEvent::stored, 0, agenda_.epoch);
      break;
    case JobEvent::cutoff:
      cut(now);
      break;
  }
}

// Training.

void Job::train(Moment now) {
  enter(Activity::training, now);
  trained_ = runs_;
  doing_.pace = pace();
  plan_next();
}

// Duration of a step now: the slowest straggler of the job determines it.
Span Job::pace() const {
  const JobShape& how = shape();
  Span slowest = how.step;
  for (const Straggler& straggler : stragglers_) {
    const bool slows = spec_.nodes == 0 || nodes_.is_used(straggler.node);
    if (straggler.active && slows && !how.slowed.empty())
      slowest = std::max(slowest, how.slowed[static_cast<std::size_t>(straggler.kind)]);
  }
  return slowest;
}

void Job::plan_next() {
  if (leap_ && !is_ending()) leap();
  const std::int64_t steps = next_stop() - progress_.current.steps;
  assert(steps > 0);
  schedule(doing_.since + steps * doing_.pace, JobEvent::step_end, 0, ++agenda_.run);
}

// A change of pace takes effect with the next step.
void Job::repace(Moment now) {
  settle(now);
  doing_.pace = pace();
  plan_next();
}

void Job::repace_soon(Moment now) {
  if (doing_.activity != Activity::training) return;
  const std::int64_t begun = ((now - doing_.since).ns + doing_.pace.ns - 1) / doing_.pace.ns;
  schedule(doing_.since + begun * doing_.pace, JobEvent::repace, 0, agenda_.run);
}

void Job::train_steps(std::int64_t steps) {
  progress_.current.steps += steps;
  progress_.current.tokens += steps * shape().tokens;
  progress_.current.wall += steps * doing_.pace;
  progress_.current.ideal += steps * ideal_step();
  doing_.since = doing_.since + steps * doing_.pace;
}

// Books the complete steps. Returns the time spent in the current step.
Span Job::settle(Moment now) {
  train_steps((now - doing_.since).ns / doing_.pace.ns);
  return now - doing_.since;
}

// Time in which the undisturbed job trains as many tokens as a step of this shape.
Span Job::ideal_step() const {
  const JobShape& full = phase().shapes.front().front();
  const JobShape& how = shape();
  if (how.tokens == full.tokens) return full.step;
  return {
      static_cast<std::int64_t>(static_cast<__int128>(full.step.ns) * how.tokens / full.tokens)};
}

// Step after which save `number` of a tier is due, counted from the begin of the phase.
std::int64_t Job::save_step(std::size_t tier, std::int64_t number) const {
  const std::int64_t step = phase().shapes.front().front().step.ns;
  return static_cast<std::int64_t>(
      (static_cast<__int128>(number) * spec_.tiers[tier].interval.ns + step / 2) / step);
}

std::int64_t Job::phase_end() const {
  return phase().steps > 0 ? target_.phase_start + phase().steps
                           : std::numeric_limits<std::int64_t>::max() / 2;
}

std::int64_t Job::next_stop() const {
  std::int64_t stop = phase_end();
  for (std::size_t i = 0; i < progress_.copies.size(); ++i)
    stop = std::min(stop, target_.phase_start + save_step(i, progress_.copies[i].next));
  return stop;
}

// Skips saves: before the next event only steps and saves happen. Moves the clock to the end of the
// last save before that event.
void Job::leap() {
  const Tier& tier = spec_.tiers.front();
  Copy& copy = progress_.copies.front();
  if (tier.background.ns > tier.interval.ns / 2) return;
  if (wants_change()) return;
  const Moment horizon = agenda_.queue.next();
  const std::int64_t done = progress_.current.steps - target_.phase_start;
  const auto end_of = [&](std::int64_t saves) {
    const std::int64_t steps = saves == 0 ? 0 : save_step(0, copy.next + saves - 1) - done;
    return doing_.since + steps * doing_.pace + saves * tier.blocking;
  };
  const std::int64_t last_step = phase_end() - target_.phase_start;
  const auto fits = [&](std::int64_t saves) {
    return save_step(0, copy.next + saves - 1) < last_step && end_of(saves) < horizon;
  };
  const double cycle = seconds(tier.interval) * static_cast<double>(doing_.pace.ns) /
                           static_cast<double>(phase().shapes.front().front().step.ns) +
                       seconds(tier.blocking);
  auto saves = static_cast<std::int64_t>(seconds(horizon - doing_.since) / cycle) + 1;
  while (saves > 0 && !fits(saves)) --saves;
  if (saves <= 0) return;
  // The last save may be incomplete at the end; then the save before it is the valid copy.
  const Moment end = end_of(saves);
  const Moment before = end_of(saves - 1);
  if (saves > 1) {
    train_steps(save_step(0, copy.next + saves - 2) - done);
    store(copy, tier, before);
  }
  train_steps(target_.phase_start + save_step(0, copy.next + saves - 1) - progress_.current.steps);
  out_.saving += saves * tier.blocking;
  out_.saves += saves;
  copy.next += saves;
  doing_.since = doing_.entered = end;
  store(copy, tier, end);
}

// Saves.

void Job::store(Copy& copy, const Tier& tier, Moment now) {
  if (tier.background.ns == 0) {
    copy.kept = progress_.current;
    copy.valid = true;
    copy.in_flight = false;
    return;
  }
  // The previous save is complete, since saves of a tier never overlap.
  if (copy.in_flight) {
    copy.kept = copy.flying;
    copy.valid = true;
  }
  copy.flying = progress_.current;
  copy.in_flight = true;
  copy.complete = now + tier.background;
  if (is_ending()) schedule(copy.complete, JobEvent::stored, 0, agenda_.epoch);
}

void Job::complete_copies(Moment now) {
  for (Copy& copy : progress_.copies) {
    if (!copy.in_flight || copy.complete > now) continue;
    copy.kept = copy.flying;
    copy.valid = true;
    copy.in_flight = false;
  }
}

bool Job::due(std::size_t tier) const {
  return target_.phase_start + save_step(tier, progress_.copies[tier].next) ==
         progress_.current.steps;
}

void Job::save(Moment now) {
  settle(now);
  assert(doing_.since == now);
  progress_.whole = progress_.current.steps == phase_end() || wants_change();
  Moment begin = now;
  Span stands{};
  for (std::size_t i = 0; i < progress_.copies.size(); ++i) {
    if (!progress_.whole && !due(i)) continue;
    if (progress_.copies[i].in_flight) begin = std::max(begin, progress_.copies[i].complete);
    stands += spec_.tiers[i].blocking;
    if (progress_.whole) stands += spec_.tiers[i].background;
  }
  enter(Activity::saving, now);
  schedule(begin + stands, JobEvent::unblocked, 0, ++agenda_.run);
}

void Job::saved(Moment now) {
  bool complete = false;
  for (std::size_t i = 0; i < progress_.copies.size(); ++i) {
    const bool is_due = due(i);
    if (!progress_.whole && !is_due) continue;
    Copy& copy = progress_.copies[i];
    if (is_due) ++copy.next;
    Tier tier = spec_.tiers[i];
    if (progress_.whole) tier.background = {};
    store(copy, tier, now);
    complete = complete || tier.background.ns == 0;
    ++out_.saves;
  }
  const bool phase_over = progress_.current.steps == phase_end();
  if (phase_over && target_.phase + 1 == spec_.phases.size()) {
    out_.finished = 1;
    finish(now);
    return;
  }
  if (phase_over) {
    ++target_.phase;
    target_.phase_start = progress_.current.steps;
    for (Copy& copy : progress_.copies) copy.next = 1;
  }
  const bool goes_on =
      phase_over && phase().seamless && runs_.shape == 0 && target_.pool == 0 && runs_.pool == 0;
  if (goes_on) runs_.phase = target_.phase;
  if (is_ending() && complete) {
    finish(now);
  } else if ((phase_over && !goes_on) || (progress_.whole && wants_change())) {
    down_ = {};
    decide(now);
  } else {
    train(now);
  }
}

void Job::finish(Moment now) {
  // Training since the last copy is part of an interval that ends after the campaign, so it is left
  // out.
  Span after{};
  if (doing_.activity == Activity::training) after += settle(now);
  const std::size_t best = best_copy();
  after += progress_.current.wall - progress_.copies[best].kept.wall;
  enter(doing_.activity, now);
  out_.kept = progress_.copies[best].kept;
  out_.wall = Span{now.ns} - after;
  ending_ = Ending::done;
}

void Job::cut(Moment now) {
  if (doing_.activity == Activity::training) out_.lost += settle(now);
  enter(doing_.activity, now);
  out_.lost += progress_.current.wall - progress_.copies[best_copy()].kept.wall;
  out_.kept = progress_.copies[best_copy()].kept;
  out_.wall = Span{now.ns};
  ending_ = Ending::done;
}

// Books the current activity and begins the next.
void Job::enter(Activity next, Moment now) {
  const Span spent = now - doing_.entered;
  Span* down = nullptr;
  if (doing_.activity == Activity::saving) out_.saving += spent;
  if (doing_.activity == Activity::detecting) down = &out_.detecting;
  if (doing_.activity == Activity::waiting) down = &out_.waiting;
  if (doing_.activity == Activity::restarting) down = &out_.restarting;
  if (down != nullptr) {
    *down += spent;
    if (down_.cause >= 0) out_.causes[static_cast<std::size_t>(down_.cause)].down += spent;
  }
  if (timeline_ != nullptr && spent.ns > 0) {
    timeline_->push_back(
        {doing_.activity, doing_.entered, now,
         doing_.activity == Activity::training || doing_.activity == Activity::saving ? -1
                                                                                      : down_.cause,
         static_cast<int>(target_.phase), target_.pool, std::max(0, runs_.shape)});
  }
  doing_.activity = next;
  doing_.entered = now;
  doing_.since = now;
}

Outcome simulate(const Spec& spec, std::uint64_t seed, std::vector<Slice>* timeline) {
  return Job(spec, seed, timeline).run();
}

}  // namespace sim::campaign
