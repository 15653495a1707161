// microbatch_balance.cpp — microbatches dealt to replicas on unlike GPUs: the result against all
// other counts, and on clusters.
#include "sim/answer/microbatch_balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>

#include "sim/answer/resolve_balanced.h"
#include "sim/answer/slices.h"
#include "sim/base/random.h"
#include "sim/input/plan/plan.h"
#include "tests/answer/reasons.h"

using namespace sim;
using namespace sim::answer;

namespace {

double longest(const std::vector<ReplicaTime>& replicas, const std::vector<int>& counts) {
  double most = 0;
  for (std::size_t r = 0; r < replicas.size(); ++r)
    most = std::max(most, replicas[r].with(counts[r]));
  return most;
}

double least_of_all(const std::vector<ReplicaTime>& replicas, int total, Grain grain) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> counts(replicas.size());
  const std::function<void(std::size_t, int)> place = [&](std::size_t r, int left) {
    if (r == replicas.size()) {
      if (left == 0) least = std::min(least, longest(replicas, counts));
      return;
    }
    for (int n = grain.least; n <= left; n += grain.step) {
      counts[r] = n;
      place(r + 1, left - n);
    }
  };
  place(0, total);
  return least;
}

input::PlanFile file_of(std::vector<std::string> more) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  std::vector<std::string> settings = {"model=llama-3.1-8b", "cluster=dgx-h100", "gpus=16",
                                       "sequence=8192",      "attention=flash",  "recompute=full"};
  settings.insert(settings.end(), more.begin(), more.end());
  auto plan = input::load_plan("", settings);
  REQUIRE(plan);
  return *plan;
}

const std::string a100 = "other_gpu={first_node: 1 nodes: 1 cluster: \"dgx-a100\"}";

struct Dealt {
  std::vector<int> counts;
  Duration step;
};

Dealt dealt_on(const std::vector<std::string>& settings) {
  const input::PlanFile file = file_of(settings);
  Sites sites;
  Site& site = **sites.of(file.machine);
  REQUIRE(support::reasons(file.plan, site).empty());
  const CheckedPlan plan = resolve_balanced(answer::checked(file.plan, site));
  return {plan->batch.replica_microbatches, evaluate_once(plan).run.step_time};
}

}  // namespace

TEST_CASE("answer: no division of microbatches ends earlier than the one that is found") {
  Random random(5);
  const auto below = [&](int n) {
    return static_cast<int>(random.next() % static_cast<std::uint64_t>(n));
  };
  for (int i = 0; i < 500; ++i) {
    std::vector<ReplicaTime> replicas;
    for (int r = 1 + below(4); r > 0; --r)
      replicas.push_back({static_cast<double>(below(9)), static_cast<double>(1 + below(9)),
                          static_cast<double>(below(3))});
    const Grain grain{1 + below(3), 1 + below(3)};
    const int total = grain.least * static_cast<int>(std::ssize(replicas)) + grain.step * below(9);
    const std::vector<int> counts = microbatch_balance(replicas, total, grain);
    CAPTURE(i);
    CHECK(std::accumulate(counts.begin(), counts.end(), 0) == total);
    CHECK(longest(replicas, counts) == least_of_all(replicas, total, grain));
  }
}

TEST_CASE("answer: replicas whose speeds are 2 to 1 get microbatches 2 to 1") {
  CHECK(microbatch_balance({{0, 1, 0}, {0, 2, 0}}, 12) == std::vector{8, 4});
  CHECK(microbatch_balance({{0, 1, 0}, {0, 1, 0}, {0, 2, 0}}, 10) == std::vector{4, 4, 2});
}

TEST_CASE(
    "answer: a balanced division is never slower than the even one, nor than its neighbours") {
  for (const std::vector<std::string>& shape : std::vector<std::vector<std::string>>{
           {"tp=8", "global_batch=24"},
           {"tp=4", "global_batch=40"},
           {"tp=4", "pp=2", "rank_order=tp-pp-dp", "global_batch=32"},
           {"tp=4", "pp=2", "rank_order=tp-pp-dp", "schedule=interleaved-1f1b", "virtual_stages=2",
            "global_batch=32"},
           {"tp=2", "pp=4", "rank_order=tp-pp-dp", "schedule=zb-h1", "global_batch=24"}}) {
    CAPTURE(shape);
    const auto with = [&](const std::string& counts) {
      std::vector<std::string> settings = shape;
      settings.push_back(a100);
      if (!counts.empty()) settings.push_back("replica_microbatches=" + counts);
      return settings;
    };
    const Dealt found = dealt_on(with("balanced")), even = dealt_on(with(""));
    CHECK(even.counts.empty());
    CHECK(found.step < even.step);
    // Replicas of node 1 have the slower GPUs.
    const std::size_t half = found.counts.size() / 2;
    REQUIRE(half > 0);
    CHECK(found.counts.front() > found.counts.back());
    if (half > 1) continue;
    for (const int more : {-1, 1}) {
      const std::vector<int> other = {found.counts[0] + more, found.counts[1] - more};
      if (shape.size() > 4) continue;  // only whole rounds
      CHECK(dealt_on(with(fmt::format("{},{}", other[0], other[1]))).step >= found.step);
    }
  }
}

TEST_CASE("answer: where all GPUs are alike a balanced division is as even as possible") {
  CHECK(dealt_on({"tp=8", "global_batch=24", "replica_microbatches=balanced"}).counts ==
        std::vector{12, 12});
  CHECK(dealt_on({"tp=8", "global_batch=25", "replica_microbatches=balanced"}).counts ==
        std::vector{13, 12});
  // Three replicas, the last one on slower GPUs. Three does not divide the batch.
  const Dealt three =
      dealt_on({"tp=8", "gpus=24", "global_batch=25", "replica_microbatches=balanced",
                "other_gpu={first_node: 2 nodes: 1 cluster: \"dgx-a100\"}"});
  REQUIRE(three.counts.size() == 3);
  CHECK(std::abs(three.counts[0] - three.counts[1]) <= 1);
  CHECK(three.counts[2] < three.counts[1]);
  // One GPU slowed by a `condition` suffices.
  const Dealt slow = dealt_on({"tp=8", "global_batch=24", "replica_microbatches=balanced",
                               "condition={node: 1 gpu: 3 speed: 0.5}"});
  CHECK(slow.counts[0] > slow.counts[1]);
}
