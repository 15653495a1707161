// search.h — finds the best plans of a space exactly: best-first search with lower bounds below the
// replay. The command `plan` calls it.
//
// A queue holds every plan with its lower bound. The search takes the first plan, computes its next
// better bound or its replay, and puts it back with that time. A plan at the front with a replayed
// time is better than all others, since no other bound is lower. Plans that remain in the queue
// count as cut by time.
//
// A search is anytime. It has four phases:
//
//     seek    replays the fastest plans that are likely to fit by their bounds, at first among
//             conventional plans only, then among all, until no candidate is much faster than the
//             best
//     prove   best first, as above. A plan whose bound is above the best replays is not computed
//     tight   replays plans in full that leave less memory free than is wanted and may be better
//     list    replays further plans that are likely to fit, until `list` distinct plans are known
//
// Invariants
// (1) The proven plans are the best of the whole space, in order.
// (2) Plans, order and counts do not depend on the number of workers, unless the search is stopped.
// (3) plans = impossible + cut by time + cut by memory + replayed + left. `left` is 0 unless the
//     search is stopped.
// (4) A search can reuse the answers of searches over shards of its space (Sharing). It finds the
//     same plans, and computes only the answers that no shard has.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/input/profile/residuals.h"
#include "sim/output/json.h"
#include "sim/study/plan/bounds.h"
#include "sim/study/plan/space.h"
#include "sim/study/sweep/shard.h"

namespace sim::planner {

enum class Objective : std::uint8_t {
  time,    // the shortest step
  cost,    // the most tokens per price: the least GPU time per step
  gpus,    // the fewest GPUs that reach a rate, then the shortest step
  energy,  // the most tokens per joule of the boards, which draw the limit of the cluster's site
};

// Computed answers about plans of a space, by item.
using Answers = std::map<std::size_t, std::string>;

// One machine's share of a search.
struct Sharing {
  study::Shard shard;       // share of the cores; others are neither searched nor counted
  Answers known;            // answers of other searches; REQUIRES: sound()
  Answers* kept = nullptr;  // receives the answers of this search
};

// Whether a search can use these answers.
bool sound(const Answers& answers);

struct Wanted {
  Objective objective = Objective::time;
  int best = 1;  // plans to prove
  // Distinct plans to list, the proven ones included; 0: the proven plans alone, and none of them
  // is left out because another plan is alike.
  int list = 0;
  // Part of the allocator's capacity that must stay free. Default: the least with which a plan fits
  // with a probability of 95 % and a verdict that is not tight (answer/verdict.h).
  std::optional<Bytes> headroom;
  double tokens_s = 0;  // least tokens per second of the job; 0: any
  int workers = 1;
  const input::RunResiduals* residuals = nullptr;  // for intervals
  const Sharing* sharing = nullptr;
  // Whether the time for a first plan runs out: then plans are replayed before all candidates have
  // their bounds. nullptr: never.
  std::function<bool()> hurry = nullptr;
  std::vector<std::string>* failures = nullptr;  // receives plans on which the simulator fails
};

// Adds a failure of the simulator to wanted.failures: `what` failed and why.
inline void keep_failure(const Wanted& wanted, const std::string& what, const std::string& why) {
  if (wanted.failures != nullptr) wanted.failures->push_back(what + ": " + why);
}

// Results of a plan's replay.
struct Replayed {
  std::uint32_t core = 0;
  std::uint16_t variant = 0;
  bool fits = false;  // with the wanted headroom
  std::int64_t step_ps = 0;
  double tokens_s_gpu = 0, tflops_gpu = 0, mfu = 0, bubble = 0;
  double low_s = 0, high_s = 0;  // 90 % interval of the step; 0: unknown
  std::int64_t reserved = 0, capacity = 0;
  std::vector<double> accounts;  // seconds per step, by engine::Account
  std::string reason;            // why it runs out of memory
  double likely = -1;            // probability that it fits, 0 to 1; -1: unknown
  bool stopped = false;    // too little memory was free: step_ps is a bound, the rest is not known
  bool proven = false;     // all better plans of the space are listed before it
  std::int64_t needs = 0;  // out of memory with few_retries: lower bound on the bytes it needs
};

// The part of the capacity that must stay free on a site.
Bytes headroom(const Wanted& wanted, const answer::Site& site);
// The probability that a plan fits if it leaves `left` of the capacity free; -1: unknown. The
// memory outside the allocator is taken as uniform in its range.
double fits_likely(const answer::Site& site, Bytes left);

// Whether two plans differ only in fields that change neither time nor memory by 0.5 %: the same
// GPUs, degrees and microbatch.
bool alike(const Space& space, const Replayed& a, const Replayed& b);

struct Counts {
  std::int64_t plans = 0, impossible = 0, cut_by_time = 0, cut_by_memory = 0, replayed = 0;
  std::int64_t left = 0;     // not looked at, because the search was stopped
  std::int64_t bounded = 0;  // number of second and third bounds computed
};

struct Outcome {
  bool complete = true;            // false: stopped before the wanted plans were proven
  std::vector<Replayed> best;      // in order
  std::vector<Replayed> replayed;  // all replayed plans
  Counts counts;
  double least_left_s = 0;  // stopped: lower bound on all remaining plans; 0: not known
  // The fastest replayed plan that fits without the wanted headroom, if it is faster than the best.
  std::optional<Replayed> tight;
  // If no plan fits: the plan that lacks the least memory by its bound.
  bool nearest_known = false;
  std::uint32_t nearest_core = 0;
  std::int64_t nearest_lacks = 0;
};

struct Progress {
  std::int64_t decided = 0;  // plans that are discarded or replayed
  std::int64_t bounded = 0, replayed = 0;
  double best_s = 0, least_s = 0;  // best_s 0: none yet; least_s: lower bound on all plans, or 0
  // The search is on its way to a first plan. It takes a limited number of replays.
  bool seeking = false;
  const std::vector<Replayed>* found = nullptr;  // all plans replayed so far
};

// REQUIRES: `sites` has the machines of all bases. The search stops when `go_on` returns false.
Outcome find_best(const Space& space, answer::Sites& sites, const Wanted& wanted,
                  const std::function<bool(const Progress&)>& go_on);

// Serialisation, from a worker to its parent.
std::string to_text(const Replayed& one);
Replayed replayed_of(const std::string& text);

// How far a replay goes.
enum class Extent : std::uint8_t {
  whole,
  while_it_fits,  // until memory runs out, or leaves less free than is wanted
  few_retries,    // until memory runs out, or the allocator retries once per microbatch
};
// Replays any plan; `core` and `variant` stay 0. `framework`: its family in the residuals.
Replayed replayed(const answer::CheckedPlan& plan, const std::string& framework,
                  const Wanted& wanted, Extent extent = Extent::whole);
// Replays one plan of the space.
Replayed replay_plan(const Space& space, std::uint32_t core, int variant, answer::Site& site,
                     const Wanted& wanted, Extent extent = Extent::whole);

}  // namespace sim::planner
