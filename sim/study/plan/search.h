// search.h — the best plans of a space, exactly: best first, by bounds that lie below the replay.
//
// Every plan stands in a queue by what it takes at least. The first is looked at more closely: by
// the second bound, then by its replay, and goes back into the queue with what it then takes. A
// plan that comes out with its replayed time is better than all that are left, because each of them
// takes at least as long as its bound says. What is still in the queue at the end was cut by time.
//
// Invariants
//  (1) The plans found are the best of the whole space, in order, unless the search was stopped.
//  (2) Plans, order and counts do not depend on the number of workers.
//  (3) plans = impossible + cut by time + cut by memory + replayed.
//  (4) A search that is given the answers of searches of shares of its space finds the same, and
//      asks for what they did not need to know alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/input/profile/residuals.h"
#include "sim/output/json.h"
#include "sim/study/plan/bounds.h"
#include "sim/study/plan/space.h"
#include "sim/study/sweep/shard.h"

namespace sim::planner {

enum class Objective : std::uint8_t {
  time,  // the shortest step
  cost,  // the most tokens for the money: the least GPU time for a step
  gpus,  // the fewest GPUs that reach a rate; of those the shortest step
};

// What was found out about plans of a space, by what was asked.
using Answers = std::map<std::size_t, std::string>;

// A space that several machines search.
struct Sharing {
  study::Shard shard;       // of the cores: others are not looked at, and not counted
  Answers known;            // of other searches; REQUIRES: sound()
  Answers* kept = nullptr;  // where those of this one go
};

// Whether a search understands them.
bool sound(const Answers& answers);

struct Wanted {
  Objective objective = Objective::time;
  int best = 10;
  Bytes headroom{};     // that stay free of what the allocator may have
  double tokens_s = 0;  // at least, of the job; 0: any
  int workers = 1;
  const input::RunResiduals* residuals = nullptr;  // for intervals
  const Sharing* sharing = nullptr;
  std::vector<std::string>* failures = nullptr;  // where plans go on which our program fails
};

// What a pool does with an item on which our program fails: `what` it was is kept with the reason.
void keep_failure(const Wanted& wanted, const std::string& what, const std::string& why);

// What a replay says of a plan.
struct Replayed {
  std::uint32_t core = 0;
  std::uint16_t variant = 0;
  bool fits = false;  // with its headroom
  std::int64_t step_ps = 0;
  double tokens_s_gpu = 0, tflops_gpu = 0, mfu = 0, bubble = 0;
  double low_s = 0, high_s = 0;  // 90 % interval of the step; 0: not known
  std::int64_t reserved = 0, capacity = 0;
  std::vector<double> accounts;  // seconds of a step, by engine::Account
  std::string reason;            // why it runs out of memory
};

struct Counts {
  std::int64_t plans = 0, impossible = 0, cut_by_time = 0, cut_by_memory = 0, replayed = 0;
  std::int64_t bounded = 0;  // programs written for a second bound
};

struct Outcome {
  bool complete = true;            // else stopped: the best so far
  std::vector<Replayed> best;      // in order
  std::vector<Replayed> replayed;  // all, as they were replayed
  Counts counts;
  double least_left_s = 0;  // stopped: no plan that is left takes less
  // No plan fits: the one that lacks least memory by its bound.
  bool nearest_known = false;
  std::uint32_t nearest_core = 0;
  std::int64_t nearest_lacks = 0;
};

struct Progress {
  std::int64_t decided = 0;  // plans that are out, or replayed
  std::int64_t bounded = 0, replayed = 0;
  double best_s = 0, least_s = 0;  // 0: none yet; no plan takes less
};

// `sites` have the machines of all bases. `go_on`: false stops the search.
Outcome find_best(const Space& space, answer::Sites& sites, const Wanted& wanted,
                  const std::function<bool(const Progress&)>& go_on);

// From a worker to its parent.
std::string to_text(const Replayed& one);
Replayed replayed_of(const std::string& text);

// A plan, replayed, with the files of a base of the space; `core` and `variant` stay 0.
Replayed replayed(const Space& space, const answer::CheckedPlan& plan, std::size_t base,
                  const Wanted& wanted);
// One plan of the space, replayed.
Replayed replay_plan(const Space& space, std::uint32_t core, int variant, answer::Site& site,
                     const Wanted& wanted);

}  // namespace sim::planner
