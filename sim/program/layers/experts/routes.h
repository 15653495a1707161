// routes.h — how many rows each rank of a layer's experts gets from each other one, where a router
// is not balanced.
//
// Each of the n tokens of a source chooses K experts. With `random` all experts are as likely; with
// `skewed` the i-th most popular one of a layer has the share i^-s of Zipf's law, and which experts
// those are is drawn once a layer. Counts are drawn as a multinomial of n K choices, binomial by
// binomial in the normal approximation, rounded; those of two layers, microbatches or steps are
// independent. What is drawn depends on seed, layer, microbatch and step alone, so every rank of a
// job sees the same routes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/ir/program.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// What one rank routes in a layer. In rows.
struct Load {
  std::int64_t sent = 0;      // copies that leave it
  std::int64_t arriving = 0;  // behind the all-to-all
  std::int64_t rows = 0;      // behind the gather over the ranks that share an expert
  std::int64_t busiest = 0;   // what the busiest rank of the group sends or gets
};

// Rows that each rank of an expert group sends to each: of `source` to `destination` at
// rows[source x ranks + destination].
struct Routes {
  std::size_t ranks = 0;
  std::vector<std::int64_t> rows;
};
Routes drawn_routes(const Plan& plan, std::int64_t tokens, const RouteKey& key);

// All as many: REQUIRES: the plan's model has experts.
Load balanced_load(const Plan& plan, std::int64_t tokens);

// Of the ranks `places` in their expert group, the largest of each number. `tokens` of each source.
Load drawn_load(const Plan& plan, std::int64_t tokens, const RouteKey& key,
                const std::vector<int>& places);

// Copies that one expert takes from one source at most; 0: all.
std::int64_t capacity(const Plan& plan, std::int64_t tokens);

}  // namespace sim::program
