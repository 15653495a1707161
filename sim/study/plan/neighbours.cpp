#include "sim/study/plan/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/text.h"
#include "sim/input/cluster/import_text.h"
#include "sim/study/sweep/pool.h"

namespace sim::planner {

namespace {

using Key = std::tuple<int, int, int, int, int, int, int, int, int, int, Split>;

Key key_of(const PlanShape& c) {
  return {c.base,
          c.tp,
          c.cp,
          c.pp,
          c.micro_batch,
          c.schedule,
          c.chunks,
          c.policy,
          c.recompute_layers,
          c.offload_layers,
          c.split};
}

// Fields that a neighbour changes at most: stages, schedule, chunks, split of layers.
constexpr int most_different = 4;

template <std::size_t... Field>
int different(const Key& a, const Key& b, std::index_sequence<Field...>) {
  return (static_cast<int>(std::get<Field>(a) != std::get<Field>(b)) + ...);
}
int different(const Key& a, const Key& b) {
  return different(a, b, std::make_index_sequence<std::tuple_size_v<Key>>());
}

// A neighbour of the best plan in the space.
struct Step {
  std::string change;
  std::uint32_t core = 0;
  int variant = 0;
};

class Around {
 public:
  Around(const Space& space, const Replayed& best)
      : space_(space), best_(space.cores()[best.core]), best_variant_(best.variant) {
    const Key own = key_of(best_);
    for (std::uint32_t c = 0; c < space.cores().size(); ++c)
      if (const Key other = key_of(space.cores()[c]); different(own, other) <= most_different)
        numbers_.emplace(other, c);
    own_ = space.words(best_, best.variant);
  }

  std::vector<Step> steps() {
    degrees();
    nearest(&PlanShape::micro_batch, {1, 2, 4, 8, 16, 32, 64});
    schedules();
    policies();
    for (std::size_t b = 0; b < space_.bases().size(); ++b) {
      PlanShape other = best_;
      other.base = static_cast<std::uint16_t>(b);
      if (space_.bases()[b].gpus == space_.bases()[best_.base].gpus) offer(other);
    }
    for (int v = 0; v < space_.variants(best_); ++v) {
      const bool order = v / space_.allocators() != best_variant_ / space_.allocators();
      const bool options = v % space_.allocators() != best_variant_ % space_.allocators();
      if (order != options) offer(best_, v);
    }
    return std::move(steps_);
  }

 private:
  void offer(const PlanShape& core, int variant = -1) {
    const auto found = numbers_.find(key_of(core));
    if (found == numbers_.end()) return;
    // The order of ranks matters only with several stages and several replicas.
    if (variant < 0) variant = best_variant_;
    if (variant >= space_.variants(core)) variant %= space_.allocators();
    const std::string change =
        added_words(own_, space_.words(space_.cores()[found->second], variant));
    if (!change.empty()) steps_.push_back({change, found->second, variant});
  }

  // Doubles a degree and halves the replicas, and the reverse.
  void degrees() {
    for (std::int32_t PlanShape::*degree : {&PlanShape::tp, &PlanShape::cp})
      for (const bool up : {false, true}) {
        PlanShape other = best_;
        std::int32_t& one = other.*degree;
        if (up ? other.dp % 2 != 0 : one % 2 != 0) continue;
        one = up ? one * 2 : one / 2;
        other.dp = up ? other.dp / 2 : other.dp * 2;
        offer(other);
      }
    for (const bool up : {false, true}) {
      PlanShape other = best_;
      if (up ? other.dp % 2 != 0 : other.pp % 2 != 0) continue;
      other.pp = up ? other.pp * 2 : other.pp / 2;
      other.dp = up ? other.dp / 2 : other.dp * 2;
      if (other.pp == 1 || best_.pp == 1) {
        other.schedule = one_f_one_b();
        other.chunks = 1;
      }
      offer_split(other);
    }
  }

  // Another number of stages or chunks may need another split of layers.
  void offer_split(PlanShape other) {
    for (const Split split : {best_.split, Split::even, Split::ends, Split::padded}) {
      other.split = split;
      if (!numbers_.contains(key_of(other))) continue;
      offer(other);
      break;
    }
  }

  static std::uint8_t one_f_one_b() {
    return static_cast<std::uint8_t>(&schedule::default_schedule() - schedule::catalog().data());
  }

  // The next smaller and the next larger value of a field.
  void nearest(std::int32_t PlanShape::*field, const std::vector<int>& values) {
    for (const int value : values) {
      const int own = best_.*field;
      if (value != own / 2 && value != own * 2) continue;
      PlanShape other = best_;
      other.*field = value;
      offer(other);
    }
  }

  void schedules() {
    if (best_.pp == 1) return;
    for (std::size_t s = 0; s < schedule::catalog().size(); ++s)
      for (const int chunks : {1, 2, 4}) {
        if (s == best_.schedule && chunks == best_.chunks) continue;
        PlanShape other = best_;
        other.schedule = static_cast<std::uint8_t>(s);
        other.chunks = chunks;
        offer_split(other);
      }
  }

  // Other recomputation policies, with the nearest numbers of layers.
  void policies() {
    for (std::size_t p = 0; p < space_.policies().size(); ++p) {
      int below = 0, above = 0;
      for (int layers = 1; layers <= 512; ++layers) {
        PlanShape other = best_;
        other.policy = static_cast<std::uint32_t>(p);
        other.recompute_layers = layers;
        if (!numbers_.contains(key_of(other)) ||
            (p == best_.policy && layers == best_.recompute_layers))
          continue;
        if (layers < best_.recompute_layers || p != best_.policy) below = layers;
        if (layers > best_.recompute_layers && p == best_.policy && above == 0) above = layers;
        if (p != best_.policy) break;
      }
      for (const int layers : {below, above}) {
        if (layers == 0) continue;
        PlanShape other = best_;
        other.policy = static_cast<std::uint32_t>(p);
        other.recompute_layers = layers;
        offer(other);
      }
    }
  }

  const Space& space_;
  PlanShape best_;
  int best_variant_;
  std::map<Key, std::uint32_t> numbers_;
  std::string own_;  // the settings of the best plan
  std::vector<Step> steps_;
};

std::string why(const Replayed& best, const Replayed& other) {
  if (other.stopped)
    return "out of memory but for allocator retries, more than it has microbatches";
  if (!other.reason.empty() && other.accounts.empty())
    return fmt::format("out of memory: its tensors need {} or more", human(Bytes{other.needs}));
  if (!other.fits) return "leaves less memory free than is wanted";
  std::size_t most = 0;
  double grown = 0;
  for (std::size_t a = 0; a < other.accounts.size(); ++a) {
    const double more = other.accounts[a] - best.accounts[a];
    if (more > grown) {
      grown = more;
      most = a;
    }
  }
  if (other.step_ps == best.step_ps) return "takes as long";
  if (grown <= 0) return "";
  return fmt::format("{} takes {:.3g} s more", answer::words(static_cast<engine::Account>(most)),
                     grown);
}

}  // namespace

std::vector<Neighbour> neighbours(const Space& space, answer::Sites& sites, const Wanted& wanted,
                                  const Replayed& best, const std::function<bool()>& go_on) {
  const std::vector<Step> steps = Around(space, best).steps();
  std::vector<Neighbour> all(steps.size());
  std::vector<bool> known(steps.size());
  std::vector<std::size_t> items(steps.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = i;
  study::PoolCalls calls;
  calls.answer = [&](std::size_t i) {
    const PlanShape& core = space.cores()[steps[i].core];
    answer::Site& site = **sites.of(space.bases()[core.base].file.machine);
    if (!answer::check(space.plan(core, steps[i].variant), site)) return std::string();
    return to_text(
        replay_plan(space, steps[i].core, steps[i].variant, site, wanted, Extent::few_retries));
  };
  calls.answered = [&](std::size_t i, const std::string& text) {
    if (text.empty()) return true;  // the neighbour is impossible
    all[i] = {steps[i].change, replayed_of(text), ""};
    all[i].why = why(best, all[i].replayed);
    known[i] = true;
    return true;
  };
  calls.failed = [&](std::size_t i, const std::string& why) {
    keep_failure(wanted, space.words(space.cores()[steps[i].core], steps[i].variant), why);
    return true;
  };
  calls.go_on = go_on;
  calls.abandon = true;
  study::run_pool(items, wanted.workers, calls);
  std::vector<Neighbour> found;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (known[i]) found.push_back(std::move(all[i]));
  return found;
}

std::string added_words(const std::string& plain, const std::string& all) {
  const std::vector<std::string_view> before = input::words_of(plain);
  std::string added;
  for (const std::string_view one : input::words_of(all))
    if (std::ranges::find(before, one) == before.end())
      added += fmt::format("{}{}", added.empty() ? "" : " ", one);
  return added;
}

std::vector<Replayed> front(const std::vector<Replayed>& replayed) {
  std::vector<Replayed> sorted;
  for (const Replayed& one : replayed)
    if (one.fits) sorted.push_back(one);
  std::ranges::stable_sort(sorted, {}, [](const Replayed& one) {
    return std::tuple(one.step_ps, one.reserved, one.core, one.variant);
  });
  std::vector<Replayed> best;
  for (const Replayed& one : sorted)
    if (best.empty() || one.reserved < best.back().reserved) best.push_back(one);
  return best;
}

}  // namespace sim::planner
