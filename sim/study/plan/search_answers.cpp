// search_answers.cpp — takes the bounds and replays that a search has asked for, and counts plans.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/study/plan/items.h"
#include "sim/study/plan/search_run.h"

namespace sim::planner {

using output::Json;

void Search::take_failed_replay(const Entry& entry) {
  found_[{entry.core, entry.variant}] = failed;
  if (!entry.sought) push_next_allocator(entry);
}

void Search::take_failure(std::size_t item, const std::string& why) {
  const Entry entry = under_way_.at(item);
  if (entry.sought && entry.known < Known::third_bound) {
    under_way_.erase(item);  // the proof computes it again
    return;
  }
  keep_failure(wanted_, space_.words(space_.cores()[entry.core], entry.variant), why);
  if (entry.known == Known::replay) {
    under_way_.erase(item);
    return;
  }
  if (entry.known == Known::third_bound) take_failed_replay(entry);
  release_orders(entry, {});
  drop(item, Json());
}

void Search::note_nearest(std::uint32_t core, std::int64_t lacks) {
  if (out_.nearest_known &&
      std::pair(out_.nearest_lacks, out_.nearest_core) <= std::pair(lacks, core))
    return;
  out_.nearest_known = true;
  out_.nearest_core = core;
  out_.nearest_lacks = lacks;
}

std::int64_t Search::plans_left(std::uint32_t core, int from, int count) const {
  std::int64_t left = count;
  for (auto at = found_.lower_bound({core, static_cast<std::uint16_t>(from)});
       at != found_.end() && at->first.first == core && at->first.second < from + count; ++at)
    --left;
  return left;
}

std::int64_t Search::plans_left(const Entry& entry) const {
  const PlanShape& core = space_.cores()[entry.core];
  if (holds_orders(entry)) return plans_left(entry.core, 0, space_.variants(core));
  return plans_of_order(entry);
}

std::int64_t Search::plans_of_order(const Entry& entry) const {
  if (entry.sought || (entry.known == Known::third_bound && wanted_.best > 1)) return 1;
  // Further allocator options wait for the first ones.
  const int allocators = space_.allocators();
  return plans_left(entry.core, entry.variant, allocators - entry.variant % allocators);
}

void Search::offer_replay(std::size_t at) {
  if (at == failed || !bounds_.of_all_plans) return;
  const Replayed& one = out_.replayed[at];
  const PlanShape& core = space_.cores()[one.core];
  if (!one.fits || too_slow(core, one.step_ps)) return;
  queue_.push({score(core, one.step_ps), Known::replay, one.core, one.variant});
}

void Search::drop(std::size_t item, const Json& json) {
  const Entry entry = under_way_.at(item);
  under_way_.erase(item);
  const std::int64_t plans = entry.known == Known::third_bound ? 1 : plans_of_order(entry);
  if (json.is_null()) {
    out_.counts.impossible += plans;
  } else {
    out_.counts.cut_by_memory += plans;
    note_nearest(entry.core, headroom_of(entry) - json["room"].get<std::int64_t>());
  }
}

void Search::take(std::size_t item, const std::string& text) {
  const Json json = Json::parse(text);
  const Entry entry = under_way_.at(item);
  if (entry.sought && entry.known < Known::third_bound) return take_candidate(item, entry, json);
  if (entry.known == Known::replay) return take_tight(item, entry, text);
  const auto bytes =
      json.is_null() ? std::nullopt : std::optional(json.value("bytes", std::int64_t{0}));
  if (!release_orders(entry, bytes)) {
    under_way_.erase(item);
    return;
  }
  if (json.is_null()) {
    if (entry.known == Known::third_bound) take_failed_replay(entry);
    return drop(item, json);
  }
  if (entry.known < Known::third_bound) return take_bound(item, entry, json);
  under_way_.erase(item);
  ++out_.counts.replayed;
  const PlanShape& core = space_.cores()[entry.core];
  const std::int64_t step_ps = json["step_ps"];
  found_[{entry.core, entry.variant}] = out_.replayed.size();
  out_.replayed.push_back(replayed_of(text));
  out_.replayed.back().core = entry.core;
  out_.replayed.back().variant = entry.variant;
  if (!entry.sought) push_next_allocator(entry);
  if (out_.replayed.back().stopped) out_.replayed.back().step_ps = entry.score.step_ps;
  if (out_.replayed.back().fits)
    candidates_.note_fit(core);
  else if (entry.sought)
    candidates_.note_failure();
  if (!out_.replayed.back().fits || too_slow(core, step_ps)) return;
  offer_replay(out_.replayed.size() - 1);
  const Score reached = score(core, step_ps);
  if (best_.score && *best_.score <= reached) return;
  best_.score = reached;
  best_.step_ps = step_ps;
  best_.core = entry.core;
}

bool Search::holds_orders(const Entry& entry) const {
  return entry.variant == 0 &&
         entry.known <= (goes_by_times(entry.core) ? Known::second_bound : Known::waiting);
}

bool Search::release_orders(const Entry& entry, std::optional<std::int64_t> bytes) {
  const int orders = space_.orders(space_.cores()[entry.core]);
  if (!holds_orders(entry) || orders == 1) return true;
  if (bytes && *bytes > room(entry.core)) {
    out_.counts.cut_by_memory += plans_left(entry);
    note_nearest(entry.core, *bytes - room(entry.core));
    return false;
  }
  if (bytes && entry.known == Known::waiting && goes_by_times(entry.core)) return true;
  for (int order = 1; order < orders; ++order)
    queue_.push({entry.score, Known::waiting, entry.core,
                 static_cast<std::uint16_t>(order * space_.allocators()), entry.full});
  return true;
}

void Search::take_candidate(std::size_t item, Entry entry, const Json& json) {
  under_way_.erase(item);
  if (json.is_null()) return;
  const PlanShape& core = space_.cores()[entry.core];
  const std::int64_t step_ps = json["step_ps"];
  if (entry.known == Known::waiting) candidates_.note_bounds(core, entry.score.step_ps, step_ps);
  entry.score = score(core, std::max(step_ps, entry.score.step_ps));
  const std::int64_t room = json["room"];
  if (room < no_bound) {
    const auto left = static_cast<double>(room - headroom_of(entry));
    entry.full = static_cast<float>(1 - left / static_cast<double>(this->room(entry.core)));
  }
  // A third bound takes a small part of a replay's time.
  entry.known = entry.known == Known::second_bound ? Known::third_bound : Known::second_bound;
  if (!too_slow(core, entry.score.step_ps)) candidates_.put_back(entry);
}

void Search::take_tight(std::size_t item, const Entry& entry, const std::string& text) {
  under_way_.erase(item);
  Replayed one = replayed_of(text);
  if (one.accounts.empty()) return;  // out of memory, or it lives on retries
  one.core = entry.core;
  one.variant = entry.variant;
  out_.replayed[found_.at({entry.core, entry.variant})] = std::move(one);
}

void Search::take_bound(std::size_t item, const Entry& entry, const Json& json) {
  if (json["room"].get<std::int64_t>() < headroom_of(entry)) return drop(item, json);
  under_way_.erase(item);
  const PlanShape& core = space_.cores()[entry.core];
  const std::int64_t step_ps = std::max(json["step_ps"].get<std::int64_t>(), entry.score.step_ps);
  if (too_slow(core, step_ps)) {
    const bool all = entry.known == Known::waiting && goes_by_times(entry.core);
    out_.counts.cut_by_time += all ? plans_left(entry) : plans_of_order(entry);
  } else if (entry.known == Known::waiting) {
    queue_.push({score(core, step_ps), Known::second_bound, entry.core, entry.variant, entry.full});
  } else {
    Entry next = entry;
    next.score = score(core, step_ps);
    next.known = Known::third_bound;
    push_allocators(next);
  }
}

void Search::push_next_allocator(Entry entry) {
  if (wanted_.best > 1 || (entry.variant + 1) % space_.allocators() == 0) return;
  ++entry.variant;
  push_allocators(entry);
}

bool Search::reaches(const Entry& entry, int variant) const {
  const auto at = found_.find({entry.core, static_cast<std::uint16_t>(variant)});
  if (at == found_.end() || at->second == failed) return false;
  const Replayed& one = out_.replayed[at->second];
  return one.fits && one.step_ps == entry.score.step_ps;
}

void Search::push_allocators(Entry entry) {
  const int allocators = space_.allocators();
  const int first = entry.variant / allocators * allocators;
  for (int a = 0; a < allocators && wanted_.best == 1; ++a) {
    if (!reaches(entry, first + a)) continue;
    out_.counts.cut_by_time += plans_of_order(entry);
    return;
  }
  for (; entry.variant < first + allocators; ++entry.variant) {
    if (found_.contains({entry.core, entry.variant})) continue;  // replayed while seeking
    queue_.push(entry);
    if (wanted_.best == 1) return;
  }
}

Progress Search::progress() const {
  const Counts& c = out_.counts;
  Progress now;
  now.decided = c.impossible + c.cut_by_memory + c.cut_by_time + c.replayed;
  now.bounded = c.bounded;
  now.replayed = c.replayed;
  now.best_s = static_cast<double>(best_.step_ps) * 1e-12;
  if (phase_ == Phase::prove) now.least_s = least_left();
  now.seeking = phase_ == Phase::seek && !best_.score;
  now.found = &out_.replayed;
  return now;
}

double Search::least_left() const {
  if (!bounds_.of_all_plans) return 0;
  std::int64_t least = no_bound;
  for (const auto& [item, entry] : under_way_) least = std::min(least, entry.score.step_ps);
  if (!queue_.empty()) least = std::min(least, queue_.top().score.step_ps);
  return least == no_bound ? 0 : static_cast<double>(least) * 1e-12;
}

void Search::count_rest() {
  const std::optional<Score> limit = out_.complete ? std::nullopt : this->limit();
  for (const auto& [item, entry] : under_way_)
    if (!entry.sought) queue_.push(entry);
  for (; !queue_.empty(); queue_.pop()) {
    const Entry& entry = queue_.top();
    if (entry.known == Known::replay) continue;  // counted already
    const bool cut = out_.complete || (limit && entry.score >= *limit);
    (cut ? out_.counts.cut_by_time : out_.counts.left) += plans_left(entry);
  }
}

void Search::finish() {
  std::optional<Score> least;  // of the plans that are not replayed
  for (Queue rest = queue_; !rest.empty() && !least; rest.pop())
    if (rest.top().known != Known::replay) least = rest.top().score;
  for (const auto& [item, entry] : under_way_)
    if (!entry.sought && (!least || entry.score < *least)) least = entry.score;
  if (wanted_.list > 0 || !out_.complete) {
    out_.best = lines(space_, wanted_, out_.replayed);
    const auto most = static_cast<std::size_t>(std::max(wanted_.list, wanted_.best));
    if (out_.best.size() > most) out_.best.resize(most);
  }
  for (Replayed& one : out_.best)
    one.proven =
        bounds_.of_all_plans && (!least || score(space_.cores()[one.core], one.step_ps) <= *least);
  for (const Replayed& one : out_.replayed) {
    if (one.fits || one.accounts.empty() || out_.best.empty()) continue;
    const Replayed& beaten = out_.tight ? *out_.tight : out_.best.front();
    if (score_of(one) < score_of(beaten)) out_.tight = one;
  }
  std::ranges::sort(out_.replayed, {},
                    [](const Replayed& one) { return std::pair(one.core, one.variant); });
  count_rest();
}

Outcome Search::stopped() {
  out_.complete = false;
  out_.least_left_s = least_left();
  finish();
  // Plans whose first bound was not computed.
  Counts& c = out_.counts;
  if (wanted_.sharing == nullptr)
    c.left = c.plans - c.impossible - c.cut_by_time - c.cut_by_memory - c.replayed;
  return std::move(out_);
}

}  // namespace sim::planner
