#include "sim/study/plan/search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

#include "sim/study/plan/items.h"
#include "sim/study/sweep/pool.h"

namespace sim::planner {

namespace {

using output::Json;

// Work per wave in units of a second bound. It is fixed, so the order of answers has no effect.
constexpr int wave_cost = 32, cost_of_third_bound = 4, cost_of_replay = 8;
constexpr std::uint32_t cores_between_looks = 64;  // between calls of go_on
constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();
// Waves of further plans to list.
constexpr int most_list_waves = 8;

class Search {
 public:
  Search(const Space& space, answer::Sites& sites, const Wanted& wanted,
         const std::function<bool(const Progress&)>& go_on)
      : space_(space), sites_(sites), wanted_(wanted), go_on_(go_on) {
    out_.counts.plans = space.plans();
    out_.counts.impossible = space.impossible();
  }

  Outcome run() {
    bounds_.first = std::make_unique<FirstBounds>(space_, bounds_.layer_costs);
    find_room();
    if (!seek_conventional()) return stopped();
    if (!find_layer_costs({}) || !bound_all()) return stopped();
    candidates_.restart(std::move(roomy_));
    if (!run_waves() && phase_ != Phase::list) return stopped();
    finish();
    return std::move(out_);
  }

 private:
  enum class Phase : std::uint8_t { seek, prove, list };
  static constexpr std::size_t failed = std::numeric_limits<std::size_t>::max();

  // Computes waves until none is left. False: stopped.
  bool run_waves() {
    study::PoolCalls calls;
    calls.answer = [this](std::size_t item) {
      answer::Site& there = site(space_.cores()[core_of(item)]);
      return answer_item(space_, *bounds_.first, item, there, wanted_);
    };
    calls.answered = [this](std::size_t item, const std::string& text) {
      if (wanted_.sharing != nullptr && wanted_.sharing->kept != nullptr)
        (*wanted_.sharing->kept)[item] = text;
      take(item, text);
      return true;
    };
    // A plan on which the simulator fails is not recommended.
    calls.failed = [this](std::size_t item, const std::string& why) {
      const Entry entry = under_way_.at(item);
      keep_failure(wanted_, space_.words(space_.cores()[entry.core], entry.variant), why);
      if (entry.known == Known::third_bound) found_[{entry.core, entry.variant}] = failed;
      drop(item, Json());
      return true;
    };
    // A pool that is stopped between two waves has no item left to say so.
    bool goes_on = true;
    calls.go_on = [&] { return goes_on = goes_on && go_on_(progress()); };
    calls.more = [this] { return next_wave(); };
    return study::run_pool(next_wave(), wanted_.workers, calls) && goes_on;
  }

  answer::Site& site(const PlanShape& core) const {
    return **sites_.of(space_.bases()[core.base].file.machine);
  }

  // Whether a core belongs to this machine's share.
  bool shared(std::size_t core) const {
    if (wanted_.sharing == nullptr) return true;
    const study::Shard& shard = wanted_.sharing->shard;
    return core % static_cast<std::size_t>(shard.of) == static_cast<std::size_t>(shard.number) - 1;
  }

  // Layer costs of these cores; of all cores if there are none. False: stopped.
  bool find_layer_costs(const std::vector<std::uint32_t>& cores) {
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

  Score score(const PlanShape& core, std::int64_t step_ps) const {
    return planner::score(space_, wanted_, core, step_ps);
  }
  bool too_slow(const PlanShape& core, std::int64_t step_ps) const {
    return planner::too_slow(space_, wanted_, core, step_ps);
  }

  void note_nearest(std::uint32_t core, std::int64_t lacks) {
    if (out_.nearest_known &&
        std::pair(out_.nearest_lacks, out_.nearest_core) <= std::pair(lacks, core))
      return;
    out_.nearest_known = true;
    out_.nearest_core = core;
    out_.nearest_lacks = lacks;
  }

  // Memory for tensors, by base.
  void find_room() {
    for (const Base& base : space_.bases()) {
      const answer::Site& there = **sites_.of(base.file.machine);
      const auto& outside = there.profile.device.memory;
      room_.push_back((there.machine.gpu.memory - outside.context - outside.libraries -
                       outside.unaccounted - headroom(wanted_, there))
                          .n);
    }
  }

  // Seeks a first plan among conventional ones. False: stopped.
  bool seek_conventional() {
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
    candidates_.restart(std::move(entries));
    return run_waves();
  }

  std::int64_t room(std::uint32_t core) const { return room_[space_.cores()[core].base]; }

  Entry entry_of(std::uint32_t c, const Bound& bound) const {
    const double full = static_cast<double>(bound.bytes) / static_cast<double>(room(c));
    return {score(space_.cores()[c], bound.step_ps), Known::sums, c, 0, static_cast<float>(full)};
  }

  // Computes the first bound of all plans. False: stopped.
  bool bound_all() {
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
    bounds_.all_known = true;
    for (const Entry& entry : entries)
      if (entry.full < Candidates::most_full) roomy_.push_back(entry);
    queue_ = Queue(Later(), std::move(entries));
    for (const auto& [plan, at] : found_) offer_replay(at);
    return true;
  }

  // Number of plans among `count` variants that were not replayed.
  std::int64_t plans_left(std::uint32_t core, int from, int count) const {
    std::int64_t left = count;
    for (auto at = found_.lower_bound({core, static_cast<std::uint16_t>(from)});
         at != found_.end() && at->first.first == core && at->first.second < from + count; ++at)
      --left;
    return left;
  }
  std::int64_t plans_left(const Entry& entry) const {
    const PlanShape& core = space_.cores()[entry.core];
    if (entry.known <= Known::order) return plans_left(entry.core, 0, space_.variants(core));
    if (entry.known == Known::third_bound) return 1;
    return plans_left(entry.core, entry.variant, space_.allocators());
  }

  // Puts a replayed plan that fits into the queue.
  void offer_replay(std::size_t at) {
    if (at == failed || !bounds_.all_known) return;
    const Replayed& one = out_.replayed[at];
    const PlanShape& core = space_.cores()[one.core];
    if (!one.fits || too_slow(core, one.step_ps)) return;
    queue_.push({score(core, one.step_ps), Known::replay, one.core, one.variant});
  }

  std::vector<std::size_t> items_of(const std::vector<Entry>& entries) {
    std::vector<std::size_t> items;
    for (const Entry& entry : entries) {
      if (found_.contains({entry.core, entry.variant})) continue;
      items.push_back(item_of(entry));
      under_way_[items.back()] = entry;
    }
    return items;
  }

  std::vector<std::size_t> seek_wave() {
    for (;;) {
      const std::vector<Entry> entries = candidates_.seek(best_.score);
      std::vector<std::size_t> items = items_of(entries);
      if (entries.empty() || !items.empty()) return items;
    }
  }

  std::vector<std::size_t> list_wave() {
    while (candidates_.waves() < most_list_waves &&
           static_cast<int>(lines(space_, wanted_, out_.replayed).size()) < wanted_.list) {
      const std::vector<Entry> entries =
          candidates_.take(Candidates::replays_per_wave, Candidates::most_full, {});
      std::vector<std::size_t> items = items_of(entries);
      if (entries.empty() || !items.empty()) return items;
    }
    return {};
  }

  // Candidates for the rest of the list: plans in the queue that are likely to fit.
  void start_list() {
    phase_ = Phase::list;
    std::vector<Entry> likely;
    if (wanted_.list > wanted_.best && !out_.best.empty())
      for (Queue rest = queue_; !rest.empty(); rest.pop())
        if (rest.top().known < Known::third_bound && rest.top().full < Candidates::most_full)
          likely.push_back(rest.top());
    candidates_.restart(std::move(likely));
  }

  // The score that a plan must be below to become one of the wanted best; nothing: any.
  std::optional<Score> limit() const {
    if (wanted_.best == 1) return best_.score;
    const std::vector<Replayed> known = lines(space_, wanted_, out_.replayed);
    if (known.size() < static_cast<std::size_t>(wanted_.best)) return {};
    const Replayed& last = known[static_cast<std::size_t>(wanted_.best) - 1];
    return score(space_.cores()[last.core], last.step_ps);
  }

  // The next items to compute; answers of other searches are used directly.
  std::vector<std::size_t> next_wave() {
    std::vector<std::size_t> items = wave();
    if (wanted_.sharing == nullptr) return items;
    const Answers& known = wanted_.sharing->known;
    while (!items.empty()) {
      std::erase_if(items, [&](std::size_t item) {
        const auto at = known.find(item);
        if (at == known.end()) return false;
        take(item, at->second);
        return true;
      });
      if (!items.empty()) break;
      items = wave();
    }
    return items;
  }

  std::vector<std::size_t> wave() {
    std::vector<std::size_t> items;
    if (phase_ == Phase::seek) {
      items = seek_wave();
      if (!items.empty() || !bounds_.all_known) return items;
      phase_ = Phase::prove;
    }
    if (phase_ == Phase::prove) {
      items = prove_wave();
      if (!items.empty()) return items;
      start_list();
    }
    return list_wave();
  }

  // Takes entries from the queue until one with a replayed time is first, or the wave is full.
  std::vector<std::size_t> prove_wave() {
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
        const bool again = wanted_.list > 0 &&
                           std::ranges::any_of(
                               out_.best, [&](const Replayed& b) { return alike(space_, b, one); });
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
        for (int order = 0; order < space_.orders(core); ++order)
          queue_.push({entry.score, Known::waiting, entry.core,
                       static_cast<std::uint16_t>(order * space_.allocators()), entry.full});
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

  // Discards a plan; `json` null means that it is impossible.
  void drop(std::size_t item, const Json& json) {
    const Entry entry = under_way_.at(item);
    under_way_.erase(item);
    const std::int64_t plans = plans_left(entry);
    if (json.is_null()) {
      out_.counts.impossible += plans;
    } else {
      out_.counts.cut_by_memory += plans;
      note_nearest(entry.core, headroom_of(entry) - json["room"].get<std::int64_t>());
    }
  }

  std::int64_t headroom_of(const Entry& entry) const {
    return headroom(wanted_, site(space_.cores()[entry.core])).n;
  }

  void take(std::size_t item, const std::string& text) {
    const Json json = Json::parse(text);
    const Entry entry = under_way_.at(item);
    if (entry.known < Known::third_bound) ++out_.counts.bounded;
    if (json.is_null()) {
      if (entry.known == Known::third_bound) found_[{entry.core, entry.variant}] = failed;
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
    if (!out_.replayed.back().fits || too_slow(core, step_ps)) return;
    offer_replay(out_.replayed.size() - 1);
    const Score reached = score(core, step_ps);
    if (best_.score && *best_.score <= reached) return;
    best_.score = reached;
    best_.step_ps = step_ps;
  }

  void take_bound(std::size_t item, const Entry& entry, const Json& json) {
    if (json["room"].get<std::int64_t>() < headroom_of(entry)) return drop(item, json);
    under_way_.erase(item);
    const PlanShape& core = space_.cores()[entry.core];
    const std::int64_t step_ps = std::max(json["step_ps"].get<std::int64_t>(), entry.score.step_ps);
    if (too_slow(core, step_ps)) {
      out_.counts.cut_by_time += plans_left(entry);
    } else if (entry.known == Known::waiting) {
      queue_.push(
          {score(core, step_ps), Known::second_bound, entry.core, entry.variant, entry.full});
    } else {
      for (int a = 0; a < space_.allocators(); ++a) {
        const auto variant = static_cast<std::uint16_t>(entry.variant + a);
        if (found_.contains({entry.core, variant})) continue;  // replayed while seeking
        queue_.push({score(core, step_ps), Known::third_bound, entry.core, variant, entry.full});
      }
    }
  }

  Progress progress() const {
    const Counts& c = out_.counts;
    Progress now;
    now.decided = c.impossible + c.cut_by_memory + c.cut_by_time + c.replayed;
    now.bounded = c.bounded;
    now.replayed = c.replayed;
    now.best_s = static_cast<double>(best_.step_ps) * 1e-12;
    if (phase_ == Phase::prove) now.least_s = least_left();
    now.seeking = phase_ == Phase::seek && !best_.score;
    return now;
  }

  // Lower bound on the plans that are not decided, seconds; 0: not known.
  double least_left() const {
    if (!bounds_.all_known) return 0;
    std::int64_t least = no_bound;
    for (const auto& [item, entry] : under_way_) least = std::min(least, entry.score.step_ps);
    if (!queue_.empty()) least = std::min(least, queue_.top().score.step_ps);
    return least == no_bound ? 0 : static_cast<double>(least) * 1e-12;
  }

  // Counts the plans that remain: cut by time if no better than the last proven plan, else left.
  void count_rest() {
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

  void finish() {
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
          bounds_.all_known && (!least || score(space_.cores()[one.core], one.step_ps) <= *least);
    for (const Replayed& one : out_.replayed) {
      if (one.fits || one.accounts.empty() || out_.best.empty()) continue;
      const std::int64_t beaten = (out_.tight ? *out_.tight : out_.best.front()).step_ps;
      if (one.step_ps < beaten) out_.tight = one;
    }
    std::ranges::sort(out_.replayed, {},
                      [](const Replayed& one) { return std::pair(one.core, one.variant); });
    count_rest();
  }

  Outcome stopped() {
    out_.complete = false;
    out_.least_left_s = least_left();
    finish();
    // Plans whose first bound was not computed.
    Counts& c = out_.counts;
    if (wanted_.sharing == nullptr)
      c.left = c.plans - c.impossible - c.cut_by_time - c.cut_by_memory - c.replayed;
    return std::move(out_);
  }

  using Queue = std::priority_queue<Entry, std::vector<Entry>, Later>;

  const Space& space_;
  answer::Sites& sites_;
  const Wanted& wanted_;
  const std::function<bool(const Progress&)>& go_on_;
  struct {
    std::map<LayerCostsKey, LayerCosts> layer_costs;
    std::unique_ptr<FirstBounds> first;
    bool all_known = false;
  } bounds_;  // the bounds of all cores and what they are made of
  Queue queue_;
  Phase phase_ = Phase::seek;
  std::vector<std::int64_t> room_;  // by base
  std::map<std::size_t, Entry> under_way_;
  // indices in out_.replayed, or `failed`
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::size_t> found_;
  Candidates candidates_{space_};
  std::vector<Entry> roomy_;  // entries whose first bound of memory leaves a tenth of the room
  struct {
    std::optional<Score> score;
    std::int64_t step_ps = 0;
  } best_;  // the best replayed plan that fits
  Outcome out_;
};

}  // namespace

Outcome find_best(const Space& space, answer::Sites& sites, const Wanted& wanted,
                  const std::function<bool(const Progress&)>& go_on) {
  return Search(space, sites, wanted, go_on).run();
}

}  // namespace sim::planner
