#include "sim/study/plan/search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <queue>

#include "sim/answer/interval.h"
#include "sim/study/sweep/pool.h"

namespace sim::planner {

namespace {

using output::Json;

// Work per wave in units of a second bound. It is fixed, so the order of answers has no effect.
constexpr int wave_cost = 32, cost_of_third_bound = 4, cost_of_replay = 8;
constexpr std::uint32_t cores_between_looks = 64;  // between calls of go_on
constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();

enum class Known : std::uint8_t { sums, order, waiting, second_bound, third_bound, replay };

struct Score {
  double first = 0;
  std::int64_t step_ps = 0;
  friend auto operator<=>(const Score&, const Score&) = default;
};

struct Entry {
  Score score;
  Known known = Known::sums;
  std::uint32_t core = 0;
  std::uint16_t variant = 0;
};

// Order of the priority queue: the best score first; of equals the one with the better bound.
struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    if (a.score != b.score) return a.score > b.score;
    if (a.known != b.known) return a.known < b.known;
    return std::pair(a.core, a.variant) > std::pair(b.core, b.variant);
  }
};

Json to_json(const LayerCosts& p) {
  Json json = Json::array();
  for (const PassTimes& times : {p.first, p.last, p.kept, p.again})
    for (const std::int64_t one : {times.forward, times.backward, times.weight})
      json.push_back(one);
  for (const std::int64_t one : {p.first_bytes, p.last_bytes, p.kept_bytes, p.again_bytes,
                                 p.layer_parameters, p.first_parameters, p.last_parameters})
    json.push_back(one);
  return json;
}

LayerCosts layer_costs_of(const Json& json) {
  LayerCosts p;
  std::size_t at = 0;
  for (PassTimes* times : {&p.first, &p.last, &p.kept, &p.again})
    for (std::int64_t* one : {&times->forward, &times->backward, &times->weight}) *one = json[at++];
  for (std::int64_t* one : {&p.first_bytes, &p.last_bytes, &p.kept_bytes, &p.again_bytes,
                            &p.layer_parameters, &p.first_parameters, &p.last_parameters})
    *one = json[at++];
  return p;
}

class Search {
 public:
  Search(const Space& space, answer::Sites& sites, const Wanted& wanted,
         const std::function<bool(const Progress&)>& go_on)
      : space_(space), sites_(sites), wanted_(wanted), go_on_(go_on) {
    out_.counts.plans = space.plans();
    out_.counts.impossible = space.impossible();
  }

  Outcome run() {
    if (!find_layer_costs() || !bound_all()) return stopped();
    study::PoolCalls calls;
    calls.answer = [this](std::size_t item) { return answer(item); };
    calls.answered = [this](std::size_t item, const std::string& text) {
      if (wanted_.sharing != nullptr && wanted_.sharing->kept != nullptr)
        (*wanted_.sharing->kept)[item] = text;
      take(item, text);
      return true;
    };
    // A plan on which the simulator fails is not recommended.
    calls.failed = [this](std::size_t item, const std::string& why) {
      const Entry& entry = under_way_.at(item);
      keep_failure(wanted_, space_.words(space_.cores()[entry.core], entry.variant), why);
      drop(item, Json());
      return true;
    };
    calls.go_on = [this] { return go_on_(progress()); };
    calls.more = [this] { return next_wave(); };
    if (!study::run_pool(next_wave(), wanted_.workers, calls)) return stopped();
    finish();
    return std::move(out_);
  }

  // The kind of bound that a plan had before an item was computed.
  static Known known_before(std::size_t item) {
    return static_cast<Known>((item & 3) + static_cast<std::size_t>(Known::waiting));
  }

 private:
  answer::Site& site(const PlanShape& core) {
    return **sites_.of(space_.bases()[core.base].file.machine);
  }

  // Whether a core belongs to this machine's share.
  bool shared(std::size_t core) const {
    if (wanted_.sharing == nullptr) return true;
    const study::Shard& shard = wanted_.sharing->shard;
    return core % static_cast<std::size_t>(shard.of) == static_cast<std::size_t>(shard.number) - 1;
  }

  bool find_layer_costs() {
    std::vector<LayerCostsKey> keys;
    for (std::size_t c = 0; c < space_.cores().size(); ++c) {
      if (!shared(c)) continue;
      for (const LayerCostsKey& key : layer_costs_keys(space_, space_.cores()[c]))
        if (layer_costs_.try_emplace(key).second) keys.push_back(key);
    }
    std::vector<std::size_t> items(keys.size());
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = i;
    study::PoolCalls calls;
    calls.answer = [&](std::size_t i) {
      const std::size_t base = static_cast<std::size_t>(std::get<0>(keys[i]));
      return to_json(
                 make_layer_costs(space_, keys[i], **sites_.of(space_.bases()[base].file.machine)))
          .dump();
    };
    calls.answered = [&](std::size_t i, const std::string& text) {
      layer_costs_[keys[i]] = layer_costs_of(Json::parse(text));
      return true;
    };
    // Without layer costs the bound is 0, which is below everything.
    calls.failed = [this](std::size_t, const std::string& why) {
      keep_failure(wanted_, "the times of a layer", why);
      return true;
    };
    calls.go_on = [this] { return go_on_(progress()); };
    return study::run_pool(items, wanted_.workers, calls);
  }

  Score score(const PlanShape& core, std::int64_t step_ps) const {
    const double gpus = space_.bases()[core.base].gpus;
    if (wanted_.objective == Objective::gpus) return {gpus, step_ps};
    if (wanted_.objective == Objective::cost) return {gpus * static_cast<double>(step_ps), step_ps};
    return {0, step_ps};
  }

  // Whether the step is slower than the wanted rate.
  bool too_slow(const PlanShape& core, std::int64_t step_ps) const {
    if (wanted_.tokens_s == 0) return false;
    const program::BatchPlan& batch = space_.bases()[core.base].file.plan.batch;
    const double tokens =
        static_cast<double>(batch.global_batch) * static_cast<double>(batch.sequence);
    return static_cast<double>(step_ps) * 1e-12 * wanted_.tokens_s > tokens;
  }

  void note_nearest(std::uint32_t core, std::int64_t lacks) {
    if (out_.nearest_known &&
        std::pair(out_.nearest_lacks, out_.nearest_core) <= std::pair(lacks, core))
      return;
    out_.nearest_known = true;
    out_.nearest_core = core;
    out_.nearest_lacks = lacks;
  }

  // Computes the first bound of all plans. False: stopped.
  bool bound_all() {
    bounds_ = std::make_unique<FirstBounds>(space_, layer_costs_);
    std::vector<std::int64_t> room;  // by base
    for (const Base& base : space_.bases()) {
      const answer::Site& there = **sites_.of(base.file.machine);
      const auto& outside = there.profile.device.memory;
      room.push_back((there.machine.gpu.memory - outside.context - outside.libraries -
                      outside.unaccounted - wanted_.headroom)
                         .n);
    }
    std::vector<Entry> entries;
    for (std::uint32_t c = 0; c < space_.cores().size(); ++c) {
      if (!shared(c)) continue;
      if (c % cores_between_looks == 0 && !go_on_(progress())) return false;
      const PlanShape& core = space_.cores()[c];
      const Bound bound = bounds_->of(core);
      if (bound.bytes > room[core.base]) {
        out_.counts.cut_by_memory += space_.variants(core);
        note_nearest(c, bound.bytes - room[core.base]);
      } else if (too_slow(core, bound.step_ps)) {
        out_.counts.cut_by_time += space_.variants(core);
      } else {
        entries.push_back({score(core, bound.step_ps), Known::sums, c, 0});
      }
    }
    queue_ = Queue(Later(), std::move(entries));
    return true;
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

  // Takes entries from the queue until one with a replayed time is first, or the wave is full.
  std::vector<std::size_t> wave() {
    std::vector<std::size_t> items;
    int cost = 0;
    while (!queue_.empty() && cost < wave_cost &&
           out_.best.size() < static_cast<std::size_t>(wanted_.best)) {
      const Entry entry = queue_.top();
      if (entry.known == Known::replay) {
        if (!items.empty()) break;
        queue_.pop();
        out_.best.push_back(out_.replayed[found_[{entry.core, entry.variant}]]);
        continue;
      }
      queue_.pop();
      const PlanShape& core = space_.cores()[entry.core];
      if (entry.known == Known::sums) {
        const std::int64_t step_ps = std::max(entry.score.step_ps, bounds_->step_of_order(core));
        queue_.push({score(core, step_ps), Known::order, entry.core, 0});
        continue;
      }
      if (entry.known == Known::order) {
        for (int order = 0; order < space_.orders(core); ++order)
          queue_.push({entry.score, Known::waiting, entry.core,
                       static_cast<std::uint16_t>(order * space_.allocators())});
        continue;
      }
      cost += entry.known == Known::waiting        ? 1
              : entry.known == Known::second_bound ? cost_of_third_bound
                                                   : cost_of_replay;
      items.push_back(item(entry));
      under_way_[items.back()] = entry;
    }
    return items;
  }

  // Encodes an entry and its next computation as an item.
  static constexpr int variant_bits = 16, step_bits = 2;
  static std::size_t item(const Entry& entry) {
    const auto step = static_cast<std::size_t>(entry.known) - static_cast<int>(Known::waiting);
    return ((std::size_t{entry.core} << variant_bits | entry.variant) << step_bits) | step;
  }

  // Computes an item, in a worker.
  std::string answer(std::size_t item) {
    const auto core = static_cast<std::uint32_t>(item >> (variant_bits + step_bits));
    const int variant = static_cast<int>(item >> step_bits & 0xffff);
    const PlanShape& of = space_.cores()[core];
    const Known known = known_before(item);
    if (known == Known::third_bound)
      return to_text(replay_plan(space_, core, variant, site(of), wanted_));
    const program::Plan plan = space_.plan(of, variant);
    const Result<answer::CheckedPlan> checked = answer::check(plan, site(of));
    if (!checked) return "null";
    if (known == Known::second_bound) return to_text(third_bound(*checked));
    return to_text(second_bound(*bounds_, of, plan, site(of)));
  }

  static std::string to_text(const SecondBound& bound) {
    const bool bounded = bound.capacity > 0;
    return Json({{"step_ps", bound.step_ps}, {"room", bounded ? bound.room() : no_bound}}).dump();
  }
  static std::string to_text(const Replayed& one) { return planner::to_text(one); }

  // Discards a plan; `json` null means that it is impossible.
  void drop(std::size_t item, const Json& json) {
    const Entry entry = under_way_.at(item);
    under_way_.erase(item);
    const std::int64_t plans = entry.known == Known::third_bound ? 1 : space_.allocators();
    if (json.is_null()) {
      out_.counts.impossible += plans;
    } else {
      out_.counts.cut_by_memory += plans;
      note_nearest(entry.core, -json["room"].get<std::int64_t>() + wanted_.headroom.n);
    }
  }

  void take(std::size_t item, const std::string& text) {
    const Json json = Json::parse(text);
    const Entry entry = under_way_.at(item);
    if (entry.known < Known::third_bound) ++out_.counts.bounded;
    if (json.is_null()) return drop(item, json);
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
    queue_.push({score(core, step_ps), Known::replay, entry.core, entry.variant});
    if (best_ps_ == 0 || step_ps < best_ps_) best_ps_ = step_ps;
  }

  void take_bound(std::size_t item, const Entry& entry, const Json& json) {
    if (json["room"].get<std::int64_t>() < wanted_.headroom.n) return drop(item, json);
    under_way_.erase(item);
    const PlanShape& core = space_.cores()[entry.core];
    const std::int64_t step_ps = std::max(json["step_ps"].get<std::int64_t>(), entry.score.step_ps);
    if (too_slow(core, step_ps)) {
      out_.counts.cut_by_time += space_.allocators();
    } else if (entry.known == Known::waiting) {
      queue_.push({score(core, step_ps), Known::second_bound, entry.core, entry.variant});
    } else {
      for (int a = 0; a < space_.allocators(); ++a)
        queue_.push({score(core, step_ps), Known::third_bound, entry.core,
                     static_cast<std::uint16_t>(entry.variant + a)});
    }
  }

  Progress progress() const {
    const Counts& c = out_.counts;
    Progress now{c.impossible + c.cut_by_memory + c.cut_by_time + c.replayed, c.bounded, c.replayed,
                 static_cast<double>(best_ps_) * 1e-12, 0};
    if (!queue_.empty()) now.least_s = static_cast<double>(queue_.top().score.step_ps) * 1e-12;
    return now;
  }

  // Counts the entries that remain in the queue.
  void finish() {
    std::ranges::sort(out_.replayed, {},
                      [](const Replayed& one) { return std::pair(one.core, one.variant); });
    for (const auto& [item, entry] : under_way_) queue_.push(entry);
    for (; !queue_.empty(); queue_.pop()) {
      const Entry& entry = queue_.top();
      const PlanShape& core = space_.cores()[entry.core];
      if (entry.known == Known::replay) continue;  // slower than the best plans and already counted
      out_.counts.cut_by_time += entry.known <= Known::order          ? space_.variants(core)
                                 : entry.known <= Known::second_bound ? space_.allocators()
                                                                      : 1;
    }
  }

  // After an early stop without a replayed plan, finds one that fits. Neighbours in the queue are
  // similar and the fastest plans rarely fit, so each try moves 1.5 times as far down.
  void settle_for_one() {
    std::size_t next = 0;
    Queue rest = queue_;
    for (const auto& [item, entry] : under_way_) rest.push(entry);
    for (std::size_t i = 0; !rest.empty(); ++i, rest.pop()) {
      if (i < next) continue;
      next = i + i / 2 + 1;
      const Entry& entry = rest.top();
      const PlanShape& core = space_.cores()[entry.core];
      const program::Plan plan = space_.plan(core, entry.variant);
      if (!answer::check(plan, site(core))) continue;
      const SecondBound bound = second_bound(*bounds_, core, plan, site(core));
      if (bound.capacity > 0 && bound.room() < wanted_.headroom.n) continue;
      // The entry is still in the queue, which finish() counts as cut by time.
      ++out_.counts.replayed;
      --out_.counts.cut_by_time;
      out_.replayed.push_back(replay_plan(space_, entry.core, entry.variant, site(core), wanted_));
      if (!out_.replayed.back().fits) continue;
      out_.best.push_back(out_.replayed.back());
      return;
    }
  }

  Outcome stopped() {
    out_.complete = false;
    std::int64_t least = no_bound;
    for (const auto& [item, entry] : under_way_) least = std::min(least, entry.score.step_ps);
    if (!queue_.empty()) least = std::min(least, queue_.top().score.step_ps);
    if (least != no_bound) out_.least_left_s = static_cast<double>(least) * 1e-12;
    std::vector<Entry> known;
    Queue rest = queue_;
    for (; !rest.empty(); rest.pop())
      if (rest.top().known == Known::replay) known.push_back(rest.top());
    for (const Entry& entry : known)
      if (out_.best.size() < static_cast<std::size_t>(wanted_.best))
        out_.best.push_back(out_.replayed[found_[{entry.core, entry.variant}]]);
    // A share of a search has no use for a best plan.
    if (out_.best.empty() && bounds_ != nullptr && wanted_.sharing == nullptr) settle_for_one();
    finish();
    return std::move(out_);
  }

  using Queue = std::priority_queue<Entry, std::vector<Entry>, Later>;

  const Space& space_;
  answer::Sites& sites_;
  const Wanted& wanted_;
  const std::function<bool(const Progress&)>& go_on_;
  std::map<LayerCostsKey, LayerCosts> layer_costs_;
  std::unique_ptr<FirstBounds> bounds_;
  Queue queue_;
  std::map<std::size_t, Entry> under_way_;
  // indices in out_.replayed
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::size_t> found_;
  std::int64_t best_ps_ = 0;
  Outcome out_;
};

}  // namespace

std::string to_text(const Replayed& one) {
  const Json json = {
      {"core", one.core},         {"variant", one.variant},     {"fits", one.fits},
      {"step_ps", one.step_ps},   {"tokens", one.tokens_s_gpu}, {"tflops", one.tflops_gpu},
      {"mfu", one.mfu},           {"bubble", one.bubble},       {"low", one.low_s},
      {"high", one.high_s},       {"reserved", one.reserved},   {"capacity", one.capacity},
      {"accounts", one.accounts}, {"reason", one.reason}};
  return json.dump();
}

Replayed replayed_of(const std::string& text) {
  const Json json = Json::parse(text);
  return {json["core"],     json["variant"],  json["fits"],     json["step_ps"], json["tokens"],
          json["tflops"],   json["mfu"],      json["bubble"],   json["low"],     json["high"],
          json["reserved"], json["capacity"], json["accounts"], json["reason"]};
}

Replayed replay_plan(const Space& space, std::uint32_t core, int variant, answer::Site& site,
                     const Wanted& wanted) {
  const PlanShape& of = space.cores()[core];
  Replayed out = replayed(space, answer::checked(space.plan(of, variant), site), of.base, wanted);
  out.core = core;
  out.variant = static_cast<std::uint16_t>(variant);
  return out;
}

Replayed replayed(const Space& space, const answer::CheckedPlan& plan, std::size_t base,
                  const Wanted& wanted) {
  const answer::Answer answer = answer::evaluate_once(plan);
  const answer::Site& site = plan.site();
  Replayed out;
  out.step_ps = answer.run.step_time.ps;
  const engine::ClassReport& who = answer::fullest(answer.run);
  out.reserved = who.peak_reserved.n;
  out.capacity = who.capacity.n;
  if (!answer.run.fits()) {
    out.reason = answer::oom_reason(answer.run);
    return out;
  }
  out.fits = who.capacity - who.peak_reserved >= wanted.headroom;
  if (!out.fits) out.reason = "less room than is wanted";
  out.tokens_s_gpu = answer::tokens_per_second_gpu(answer);
  out.tflops_gpu = answer::rate(answer, "megatron").tflops_gpu;
  out.mfu = answer.mfu;
  out.bubble = answer.run.bubble;
  out.accounts = answer::mean_accounts(answer.run);
  if (wanted.residuals != nullptr) {
    const input::DraftPlan& file = space.bases()[base].file;
    const answer::Basis basis =
        answer::basis_of(site.profile.device, site.machine.gpu.name, file.framework);
    const answer::Intervals intervals =
        answer::intervals(answer, *wanted.residuals, basis, "megatron");
    if (intervals.step_seconds) {
      out.low_s = intervals.step_seconds->low;
      out.high_s = intervals.step_seconds->high;
    }
  }
  return out;
}

bool sound(const Answers& answers) {
  return std::ranges::all_of(answers, [](const auto& answer) {
    try {
      const Json json = Json::parse(answer.second);
      if (Search::known_before(answer.first) == Known::third_bound) {
        const Replayed one = replayed_of(answer.second);
        return one.step_ps > 0 || !one.fits;
      }
      return json.is_null() ||
             (json.at("step_ps").is_number_integer() && json.at("room").is_number_integer());
    } catch (const Json::exception&) {
      return false;
    }
  });
}

Outcome find_best(const Space& space, answer::Sites& sites, const Wanted& wanted,
                  const std::function<bool(const Progress&)>& go_on) {
  return Search(space, sites, wanted, go_on).run();
}

}  // namespace sim::planner
