// routes.h — numbers of rows that expert-parallel ranks exchange, with balanced or drawn routes.
//
// Rank::load calls it while blocks are written; the engine draws the same routes again for the
// times of transfers. Routing modes:
//
//     balanced   all experts get the same number of tokens
//     random     all experts are equally likely
//     skewed     shares given by the plan, or Zipf's law: the i-th most popular expert of a layer
//                has a share proportional to i^-s; the order of experts is drawn once per layer
//
// Each of the n tokens of a source chooses K experts. The counts are a multinomial draw of n K
// choices: one binomial per expert, in the normal approximation, rounded. Draws of different
// layers, microbatches and steps are independent. A draw depends only on seed, layer, microbatch
// and first or later step, so every rank of a job sees the same routes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/ir/program.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// Rows that one rank routes in a layer.
struct Load {
  std::int64_t sent = 0;      // token copies that leave the rank
  std::int64_t arriving = 0;  // rows after the all-to-all
  std::int64_t rows = 0;      // rows after the all-gather over etp
  std::int64_t busiest = 0;   // rows that the busiest rank of the group sends or receives
};

// Rows that each rank of an expert group sends to each: of `source` to `destination` at
// rows[source x ranks + destination].
struct Routes {
  std::size_t ranks = 0;
  std::vector<std::int64_t> rows;
};
Routes drawn_routes(const Plan& plan, std::int64_t tokens, const RouteKey& key);

// All experts get the same number of rows. `tokens`: tokens of one rank at the router.
// REQUIRES: the plan's model has experts.
Load balanced_load(const Plan& plan, std::int64_t tokens);

// The maximum of each number over the ranks with index `places` in their expert-parallel group.
Load drawn_load(const Plan& plan, std::int64_t tokens, const RouteKey& key,
                const std::vector<int>& places);

// Maximum number of token copies that one expert takes from one source rank; 0: no limit.
std::int64_t capacity(const Plan& plan, std::int64_t tokens);

}  // namespace sim::program
