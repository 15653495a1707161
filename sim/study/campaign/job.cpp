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
      hazards_(spec, largest_pool(spec), seed),
      copies_(spec.tiers.size()) {
  out_.causes.resize(spec.kinds.size());
  double rate = 0;  // failure rate, without ageing
  for (const FailureKind& kind : spec.kinds)
    if (kind.life.mean > 0) rate += kind.parts / kind.life.mean;
  if (spec.length.ns > 0) rate += static_cast<double>(spec.trace.size()) / seconds(spec.length);
  mean_between_ = rate > 0 ? 1 / rate : 1e18;
}

int Job::largest_pool(const Spec& spec) {
  int most = spec.nodes;
  for (const PoolChange& pool : spec.pools) most = std::max(most, pool.nodes);
  return most;
}

Outcome Job::run() {
  for (int kind = 0; kind < static_cast<int>(spec_.kinds.size()); ++kind) expect(kind);
  for (int i = 0; i < static_cast<int>(spec_.trace.size()); ++i)
    schedule(spec_.trace[static_cast<std::size_t>(i)].when, What::traced, i);
  for (int i = 0; i < static_cast<int>(spec_.pools.size()); ++i) {
    const PoolChange& pool = spec_.pools[static_cast<std::size_t>(i)];
    schedule(std::max(Moment{}, Moment{pool.when.ns - pool.notice.ns}), What::announced, i);
    schedule(pool.when, What::pool, i);
  }
  schedule(Moment{spec_.length.ns}, What::end, 0);
  schedule(Moment{2 * spec_.length.ns}, What::cutoff, 0);
  shape_ = wanted();
  out_.spares_least = nodes_.up();
  if (shape_ < 0) {
    enter(Activity::waiting, Moment{});
  } else {
    nodes_.assign(shape().nodes, limit());
    out_.spares_least = nodes_.up() - nodes_.used();
    train(Moment{});
  }
  while (!done_) handle(queue_.pop());
  return out_;
}

void Job::handle(const Event& event) {
  const Moment now = queue_.now();
  complete_copies(now);
  switch (event.what) {
    case What::stored:
      if (ending_ && event.run == epoch_) finish(now);
      break;
    case What::step_end:
      if (event.run == run_) save(now);
      break;
    case What::unblocked:
      if (event.run == run_) saved(now);
      break;
    case What::repace:
      if (event.run == run_ && activity_ == Activity::training) repace(now);
      break;
    case What::detected:
    case What::restarted:
      if (event.run == run_) event.what == What::detected ? decide(now) : restarted(now);
      break;
    case What::node_back:
      nodes_.give_back(event.index);
      if (activity_ == Activity::waiting) decide(now);
      break;
    case What::failure:
      strike(now, pending_[static_cast<std::size_t>(event.index)]);
      break;
    case What::traced:
      strike_traced(now, spec_.trace[static_cast<std::size_t>(event.index)]);
      break;
    case What::found:
      found(now, event.index);
      break;
    case What::announced:
    case What::pool:
      change_pool(now, event.index, event.what == What::pool);
      break;
    case What::end:
      ending_ = true;
      for (const Copy& copy : copies_)
        if (copy.in_flight) schedule(copy.complete, What::stored, 0, epoch_);
      break;
    case What::cutoff:
      cut(now);
      break;
  }
}

// Training.

void Job::train(Moment now) {
  enter(Activity::training, now);
  trained_phase_ = shape_phase_;
  trained_pool_ = shape_pool_;
  trained_shape_ = shape_;
  pace_ = pace();
  plan_next();
}

// Duration of a step now: the slowest straggler of the job determines it.
Span Job::pace() const {
  const Shape& how = shape();
  Span slowest = how.step;
  for (const Straggler& straggler : stragglers_) {
    const bool slows = spec_.nodes == 0 || nodes_.is_used(straggler.node);
    if (straggler.active && slows && !how.slowed.empty())
      slowest = std::max(slowest, how.slowed[static_cast<std::size_t>(straggler.kind)]);
  }
  return slowest;
}

void Job::plan_next() {
  if (leap_ && !ending_) leap();
  const std::int64_t steps = next_stop() - current_.steps;
  assert(steps > 0);
  schedule(since_ + steps * pace_, What::step_end, 0, ++run_);
}

// A change of pace takes effect with the next step.
void Job::repace(Moment now) {
  settle(now);
  pace_ = pace();
  plan_next();
}

void Job::repace_soon(Moment now) {
  if (activity_ != Activity::training) return;
  const std::int64_t begun = ((now - since_).ns + pace_.ns - 1) / pace_.ns;
  schedule(since_ + begun * pace_, What::repace, 0, run_);
}

void Job::train_steps(std::int64_t steps) {
  current_.steps += steps;
  current_.tokens += steps * shape().tokens;
  current_.wall += steps * pace_;
  current_.ideal += steps * ideal_step();
  since_ = since_ + steps * pace_;
}

// Books the complete steps. Returns the time spent in the current step.
Span Job::settle(Moment now) {
  train_steps((now - since_).ns / pace_.ns);
  return now - since_;
}

// Time in which the undisturbed job trains as many tokens as a step of this shape.
Span Job::ideal_step() const {
  const Shape& full = phase().shapes.front().front();
  const Shape& how = shape();
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
  return phase().steps > 0 ? phase_start_ + phase().steps
                           : std::numeric_limits<std::int64_t>::max() / 2;
}

std::int64_t Job::next_stop() const {
  std::int64_t stop = phase_end();
  for (std::size_t i = 0; i < copies_.size(); ++i)
    stop = std::min(stop, phase_start_ + save_step(i, copies_[i].next));
  return stop;
}

// Skips saves: before the next event only steps and saves happen. Moves the clock to the end of the
// last save before that event.
void Job::leap() {
  const Tier& tier = spec_.tiers.front();
  Copy& copy = copies_.front();
  if (tier.background.ns > tier.interval.ns / 2) return;
  if (wants_change()) return;
  const Moment horizon = queue_.next();
  const std::int64_t done = current_.steps - phase_start_;
  const auto end_of = [&](std::int64_t saves) {
    const std::int64_t steps = saves == 0 ? 0 : save_step(0, copy.next + saves - 1) - done;
    return since_ + steps * pace_ + saves * tier.blocking;
  };
  const std::int64_t last_step = phase_end() - phase_start_;
  const auto fits = [&](std::int64_t saves) {
    return save_step(0, copy.next + saves - 1) < last_step && end_of(saves) < horizon;
  };
  const double cycle = seconds(tier.interval) * static_cast<double>(pace_.ns) /
                           static_cast<double>(phase().shapes.front().front().step.ns) +
                       seconds(tier.blocking);
  auto saves = static_cast<std::int64_t>(seconds(horizon - since_) / cycle) + 1;
  while (saves > 0 && !fits(saves)) --saves;
  if (saves <= 0) return;
  // The last save may be incomplete at the end; then the save before it is the valid copy.
  const Moment end = end_of(saves);
  const Moment before = end_of(saves - 1);
  if (saves > 1) {
    train_steps(save_step(0, copy.next + saves - 2) - done);
    store(copy, tier, before);
  }
  train_steps(phase_start_ + save_step(0, copy.next + saves - 1) - current_.steps);
  out_.saving += saves * tier.blocking;
  out_.saves += saves;
  copy.next += saves;
  since_ = entered_ = end;
  store(copy, tier, end);
}

// Saves.

void Job::store(Copy& copy, const Tier& tier, Moment now) {
  if (tier.background.ns == 0) {
    copy.kept = current_;
    copy.valid = true;
    copy.in_flight = false;
    return;
  }
  // The previous save is complete, since saves of a tier never overlap.
  if (copy.in_flight) {
    copy.kept = copy.flying;
    copy.valid = true;
  }
  copy.flying = current_;
  copy.in_flight = true;
  copy.complete = now + tier.background;
  if (ending_) schedule(copy.complete, What::stored, 0, epoch_);
}

void Job::complete_copies(Moment now) {
  for (Copy& copy : copies_) {
    if (!copy.in_flight || copy.complete > now) continue;
    copy.kept = copy.flying;
    copy.valid = true;
    copy.in_flight = false;
  }
}

bool Job::due(std::size_t tier) const {
  return phase_start_ + save_step(tier, copies_[tier].next) == current_.steps;
}

void Job::save(Moment now) {
  settle(now);
  assert(since_ == now);
  whole_ = current_.steps == phase_end() || wants_change();
  Moment begin = now;
  Span stands{};
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (!whole_ && !due(i)) continue;
    if (copies_[i].in_flight) begin = std::max(begin, copies_[i].complete);
    stands += spec_.tiers[i].blocking;
    if (whole_) stands += spec_.tiers[i].background;
  }
  enter(Activity::saving, now);
  schedule(begin + stands, What::unblocked, 0, ++run_);
}

void Job::saved(Moment now) {
  bool complete = false;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const bool is_due = due(i);
    if (!whole_ && !is_due) continue;
    Copy& copy = copies_[i];
    if (is_due) ++copy.next;
    Tier tier = spec_.tiers[i];
    if (whole_) tier.background = {};
    store(copy, tier, now);
    complete = complete || tier.background.ns == 0;
    ++out_.saves;
  }
  const bool phase_over = current_.steps == phase_end();
  if (phase_over && phase_ + 1 == spec_.phases.size()) {
    out_.finished = 1;
    finish(now);
    return;
  }
  if (phase_over) {
    ++phase_;
    phase_start_ = current_.steps;
    for (Copy& copy : copies_) copy.next = 1;
  }
  const bool goes_on =
      phase_over && phase().seamless && shape_ == 0 && pool_ == 0 && shape_pool_ == 0;
  if (goes_on) shape_phase_ = phase_;
  if (ending_ && complete) {
    finish(now);
  } else if ((phase_over && !goes_on) || (whole_ && wants_change())) {
    cause_ = -1;
    lost_nodes_ = 0;
    from_ = 0;
    decide(now);
  } else {
    train(now);
  }
}

void Job::finish(Moment now) {
  // Training since the last copy is part of an interval that ends after the campaign, so it is left
  // out.
  Span after{};
  if (activity_ == Activity::training) after += settle(now);
  const std::size_t best = best_copy();
  after += current_.wall - copies_[best].kept.wall;
  enter(activity_, now);
  out_.kept = copies_[best].kept;
  out_.wall = Span{now.ns} - after;
  done_ = true;
}

void Job::cut(Moment now) {
  if (activity_ == Activity::training) out_.lost += settle(now);
  enter(activity_, now);
  out_.lost += current_.wall - copies_[best_copy()].kept.wall;
  out_.kept = copies_[best_copy()].kept;
  out_.wall = Span{now.ns};
  done_ = true;
}

// Books the current activity and begins the next.
void Job::enter(Activity next, Moment now) {
  const Span spent = now - entered_;
  Span* down = nullptr;
  if (activity_ == Activity::saving) out_.saving += spent;
  if (activity_ == Activity::detecting) down = &out_.detecting;
  if (activity_ == Activity::waiting) down = &out_.waiting;
  if (activity_ == Activity::restarting) down = &out_.restarting;
  if (down != nullptr) {
    *down += spent;
    if (cause_ >= 0) out_.causes[static_cast<std::size_t>(cause_)].down += spent;
  }
  if (timeline_ != nullptr && spent.ns > 0) {
    timeline_->push_back(
        {activity_, entered_, now,
         activity_ == Activity::training || activity_ == Activity::saving ? -1 : cause_,
         static_cast<int>(phase_), pool_, std::max(0, shape_)});
  }
  activity_ = next;
  entered_ = now;
  since_ = now;
}

Outcome simulate(const Spec& spec, std::uint64_t seed, std::vector<Slice>* timeline) {
  return Job(spec, seed, timeline).run();
}

}  // namespace sim::campaign
