#include "sim/study/plan/search.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/study/plan/items.h"
#include "sim/study/plan/search_run.h"
#include "sim/study/sweep/pool.h"

namespace sim::planner {

namespace {

// Work per wave in units of a second bound. It is fixed, so the order of answers has no effect.
constexpr int wave_cost = 32, cost_of_third_bound = 4, cost_of_replay = 8;
constexpr std::uint32_t cores_between_looks = 64;  // between calls of go_on
// Plans that are replayed again because they may be faster with less memory free.
constexpr std::size_t most_tight = 4;
// The way to a first plan ends where no candidate can be faster than this share of its step.
constexpr double near_enough = 0.98;

}  // namespace

Outcome Search::run() {
  bounds_.first = std::make_unique<FirstBounds>(space_, sites_, bounds_.layer_costs);
  find_room();
  if (!seek_conventional()) return stopped();
  if (!find_layer_costs({}) || !bound_all()) return stopped();
  start_seek(std::exchange(bounds_.entries, {}), best_.score ? improve_work : seek_work);
  if (!run_waves() && phase_ <= Phase::prove) return stopped();
  finish();
  return std::move(out_);
}

bool Search::run_waves() {
  study::PoolCalls calls;
  calls.answer = [this](std::size_t item) {
    answer::Site& there = site(space_.cores()[core_of(item)]);
    return answer_item(space_, *bounds_.first, item, there, wanted_);
  };
  calls.answered = [this](std::size_t item, const std::string& text) {
    if (wanted_.sharing != nullptr && wanted_.sharing->kept != nullptr)
      (*wanted_.sharing->kept)[item] = text;
    if (known_before(item) < Known::third_bound) {
      ++out_.counts.bounded;
      if (phase_ != Phase::prove) bounds_.answers[item] = text;
    }
    take(item, text);
    return true;
  };
  calls.failed = [this](std::size_t item, const std::string& why) {
    take_failure(item, why);
    return true;
  };
  // A pool that is stopped between two waves has no item left to say so.
  bool goes_on = true;
  calls.go_on = [&] { return goes_on = goes_on && go_on_(progress()); };
  calls.more = [this] { return next_wave(); };
  calls.abandon = true;  // one item may take minutes
  return study::run_pool(next_wave(), wanted_.workers, calls) && goes_on;
}

bool Search::shared(std::size_t core) const {
  if (wanted_.sharing == nullptr) return true;
  const study::Shard& shard = wanted_.sharing->shard;
  return core % static_cast<std::size_t>(shard.of) == static_cast<std::size_t>(shard.number) - 1;
}

bool Search::find_layer_costs(const std::vector<std::uint32_t>& cores) {
  std::set<LayerCostsKey> keys;
  const std::size_t count = cores.empty() ? space_.cores().size() : cores.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = cores.empty() ? i : cores[i];
    if (!shared(c)) continue;
    for (const LayerCostsKey& key : layer_costs_keys(space_, space_.cores()[c]))
      if (!bounds_.layer_costs.contains(key)) keys.insert(key);
  }
  const LayerCostsCalls calls{
      wanted_.workers,
      // Without layer costs the bound is 0, which is below everything.
      [this](const std::string& why) { keep_failure(wanted_, "the times of a layer", why); },
      [this] { return go_on_(progress()); }};
  return planner::find_layer_costs(space_, sites_, {keys.begin(), keys.end()}, calls,
                                   bounds_.layer_costs);
}

void Search::find_room() {
  for (const Base& base : space_.bases()) {
    const answer::Site& there = **sites_.of(base.file.machine);
    const auto& outside = there.profile.device.memory;
    room_.push_back((there.machine.gpu.memory - outside.context - outside.libraries -
                     outside.unexplained - headroom(wanted_, there))
                        .n);
  }
}

bool Search::seek_conventional() {
  std::vector<std::uint32_t> cores;
  for (std::uint32_t c = 0; c < space_.cores().size(); ++c)
    if (shared(c) && is_conventional(space_, space_.cores()[c])) cores.push_back(c);
  if (cores.empty() || cores.size() == space_.cores().size()) return true;
  if (!find_layer_costs(cores)) return false;
  std::vector<Entry> entries;
  for (const std::uint32_t c : cores) {
    const Bound bound = bounds_.first->of(space_.cores()[c], room(c));
    if (bound.bytes <= room(c)) entries.push_back(entry_of(c, bound));
  }
  start_seek(std::move(entries), seek_work);
  return run_waves();
}

Entry Search::entry_of(std::uint32_t c, const Bound& bound) const {
  const double full = static_cast<double>(bound.bytes) / static_cast<double>(room(c));
  return {score(space_.cores()[c], bound.step_ps), Known::sums, c, 0, static_cast<float>(full)};
}

bool Search::bound_all() {
  std::vector<Entry> entries;
  for (std::uint32_t c = 0; c < space_.cores().size(); ++c) {
    if (!shared(c)) continue;
    if (c % cores_between_looks == 0 && !go_on_(progress())) {
      queue_ = Queue(Later(), std::move(entries));
      return false;
    }
    const PlanShape& core = space_.cores()[c];
    const Bound bound = bounds_.first->of(core, room(c));
    if (bound.bytes > room(c)) {
      out_.counts.cut_by_memory += plans_left(c, 0, space_.variants(core));
      note_nearest(c, bound.bytes - room(c));
    } else if (too_slow(core, bound.step_ps)) {
      out_.counts.cut_by_time += plans_left(c, 0, space_.variants(core));
    } else {
      entries.push_back(entry_of(c, bound));
    }
  }
  bounds_.of_all_plans = true;
  bounds_.entries = entries;
  queue_ = Queue(Later(), std::move(entries));
  for (const auto& [plan, at] : found_) offer_replay(at);
  return true;
}

std::vector<std::size_t> Search::candidates_wave(const std::optional<Score>& limit) {
  for (;;) {
    const bool hurry = phase_ == Phase::seek && !best_.score && wanted_.hurry && wanted_.hurry();
    const std::vector<Entry> entries = candidates_.next(limit, hurry);
    std::vector<std::size_t> items;
    for (const Entry& entry : entries) {
      const bool replay = entry.known == Known::third_bound;
      if (replay && found_.contains({entry.core, entry.variant})) continue;
      items.push_back(item_of(entry));
      under_way_[items.back()] = entry;
    }
    if (entries.empty() || !items.empty()) return items;
  }
}

std::optional<Score> Search::near_best() const {
  if (!best_.score) return {};
  return score(space_.cores()[best_.core],
               static_cast<std::int64_t>(near_enough * static_cast<double>(best_.step_ps)));
}

std::vector<std::size_t> Search::list_wave() {
  if (std::ssize(lines(space_, wanted_, out_.replayed)) >= wanted_.list) return {};
  return candidates_wave({});
}

Score Search::score_of(const Replayed& one) const {
  return score(space_.cores()[one.core], one.step_ps);
}

std::vector<std::size_t> Search::tight_wave() {
  std::vector<std::size_t> plans;
  if (out_.best.empty()) return {};
  for (std::size_t i = 0; i < out_.replayed.size(); ++i)
    if (out_.replayed[i].stopped && score_of(out_.replayed[i]) < score_of(out_.best.front()))
      plans.push_back(i);
  std::ranges::sort(plans, {}, [this](std::size_t i) {
    const Replayed& one = out_.replayed[i];
    return std::tuple(one.step_ps, one.core, one.variant);
  });
  std::vector<std::size_t> items;
  std::set<std::uint32_t> cores;
  for (const std::size_t i : plans) {
    const Replayed& one = out_.replayed[i];
    if (cores.size() == most_tight || !cores.insert(one.core).second) continue;
    const Entry entry{score(space_.cores()[one.core], one.step_ps),
                      Known::replay,
                      one.core,
                      one.variant,
                      1,
                      true};
    items.push_back(item_of(entry));
    under_way_[items.back()] = entry;
  }
  return items;
}

void Search::start_list() {
  phase_ = Phase::list;
  std::vector<Entry> likely;
  if (wanted_.list > wanted_.best && !out_.best.empty())
    for (Queue rest = queue_; !rest.empty(); rest.pop())
      if (rest.top().known < Known::third_bound) likely.push_back(rest.top());
  candidates_.restart(std::move(likely), list_work, true);
}

std::optional<Score> Search::limit() const {
  if (wanted_.best == 1) return best_.score;
  const std::vector<Replayed> known = lines(space_, wanted_, out_.replayed);
  if (known.size() < static_cast<std::size_t>(wanted_.best)) return {};
  const Replayed& last = known[static_cast<std::size_t>(wanted_.best) - 1];
  return score(space_.cores()[last.core], last.step_ps);
}

std::vector<std::size_t> Search::next_wave() {
  for (;;) {
    std::vector<std::size_t> items = wave();
    if (items.empty()) return items;
    std::erase_if(items, [this](std::size_t item) { return take_known(item); });
    if (!items.empty()) return items;
  }
}

bool Search::take_known(std::size_t item) {
  const auto use = [&](const Answers& answers) {
    const auto at = answers.find(item);
    if (at == answers.end()) return false;
    take(item, at->second);
    return true;
  };
  return use(bounds_.answers) || (wanted_.sharing != nullptr && use(wanted_.sharing->known));
}

std::vector<std::size_t> Search::wave() {
  std::vector<std::size_t> items;
  if (phase_ == Phase::seek) {
    // A stopped search has an answer if there is one, so the first plan may take more work.
    do {
      items = candidates_wave(near_best());
    } while (items.empty() && bounds_.of_all_plans && !best_.score &&
             candidates_.extend(seek_work));
    if (!items.empty() || !bounds_.of_all_plans) return items;
    phase_ = Phase::prove;
  }
  if (phase_ == Phase::prove) {
    items = prove_wave();
    if (!items.empty()) return items;
    phase_ = Phase::tight;
    items = tight_wave();
  } else if (phase_ == Phase::tight) {
    start_list();
  }
  if (items.empty() && phase_ == Phase::tight) start_list();
  return phase_ == Phase::list ? list_wave() : items;
}

std::vector<std::size_t> Search::prove_wave() {
  std::vector<std::size_t> items;
  const std::optional<Score> limit = this->limit();
  int cost = 0;
  while (!queue_.empty() && cost < wave_cost &&
         out_.best.size() < static_cast<std::size_t>(wanted_.best)) {
    const Entry entry = queue_.top();
    if (entry.known == Known::replay) {
      if (!items.empty()) break;
      queue_.pop();
      const Replayed& one = out_.replayed[found_[{entry.core, entry.variant}]];
      const bool again = wanted_.list > 0 && std::ranges::any_of(out_.best, [&](const Replayed& b) {
                           return alike(space_, b, one);
                         });
      if (!again) out_.best.push_back(one);
      continue;
    }
    // A replay with this score comes first, so all that is left is no better.
    if (limit && entry.score >= *limit) break;
    queue_.pop();
    const PlanShape& core = space_.cores()[entry.core];
    if (entry.known == Known::sums) {
      const std::int64_t step_ps =
          std::max(entry.score.step_ps, bounds_.first->step_of_order(core));
      queue_.push({score(core, step_ps), Known::order, entry.core, 0, entry.full});
      continue;
    }
    if (entry.known == Known::order) {
      queue_.push({entry.score, Known::waiting, entry.core, 0, entry.full});
      continue;
    }
    cost += entry.known == Known::waiting        ? 1
            : entry.known == Known::second_bound ? cost_of_third_bound
                                                 : cost_of_replay;
    items.push_back(item_of(entry));
    under_way_[items.back()] = entry;
  }
  return items;
}

Outcome find_best(const Space& space, answer::Sites& sites, const Wanted& wanted,
                  const std::function<bool(const Progress&)>& go_on) {
  return Search(space, sites, wanted, go_on).run();
}

}  // namespace sim::planner
