// place.cpp — the search for an order of nodes: against brute force, and by replay.
#include "sim/study/tune/place.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "sim/base/random.h"
#include "sim/input/plan/plan.h"
#include "sim/study/tune/place_model.h"
#include "sim/study/tune/whatif.h"

using namespace sim;
using namespace sim::answer;
using namespace sim::study;

namespace {

// Nodes 1 and 3, and nodes 0 and 4, reach each other at a tenth of the other rates.
topology::NodeRates slow_pairs(int nodes) {
  topology::NodeRates rates;
  for (int node = 0; node < nodes; ++node) rates.names.push_back("n" + std::to_string(node));
  for (int a = 0; a < nodes; ++a) {
    for (int b = 0; b < nodes; ++b) {
      const std::pair<int, int> pair = std::minmax(a, b);
      const bool slow = pair == std::pair{1, 3} || pair == std::pair{0, 4};
      rates.bytes_per_second.push_back(a == b ? 0 : slow ? 4e9 : 40e9 + 1e8 * (a + b));
    }
  }
  return rates;
}

input::PlanFile plan_on(std::vector<std::string> settings, int nodes, bool measured) {
  std::vector<std::string> all = {
      "model=llama-3.1-8b", "cluster=dgx-h100", "sequence=2048", "micro_batch=1", "tp=8",
      "global_batch=16"};
  all.insert(all.end(), settings.begin(), settings.end());
  const auto file = input::load_plan("", all);
  INFO((file ? std::string() : file.errors()[0].message));
  REQUIRE(file);
  input::PlanFile made = *file;
  made.machine.cluster.nodes = nodes;
  if (measured) made.machine.cluster.rates = slow_pairs(nodes);
  return made;
}

double step_on(const input::PlanFile& file, const std::vector<int>& order) {
  input::Machine machine = file.machine;
  machine.cluster.hosts = order;
  for (int node = 0; node < machine.cluster.nodes; ++node)
    if (std::ranges::count(order, node) == 0) machine.cluster.hosts.push_back(node);
  Sites sites;
  const answer::Answer answer = evaluate(answer::checked(file.plan, **sites.of(machine)));
  REQUIRE(answer.run.fits());
  return answer::step_seconds(answer);
}

}  // namespace

TEST_CASE("study: the order of nodes found is that of brute force") {
  // Pipelines, replicas and both on five nodes, of which the job uses two or four.
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"pp=4", "gpus=32"}, {"pp=2", "gpus=32"}, {"gpus=32"}, {"pp=2", "gpus=16"}}) {
    const input::PlanFile file = plan_on(settings, 5, true);
    Sites sites;
    Site& site = **sites.of(file.machine);
    std::vector<int> order = {0, 1, 2, 3, 4};
    double best = placement_seconds(answer::checked(file.plan, site), order);
    do {
      best = std::min(best, placement_seconds(answer::checked(file.plan, site), order));
    } while (std::ranges::next_permutation(order).found);
    const Placement found = place(answer::checked(file.plan, site), {.seed = 7, .moves = 2000});
    CHECK(found.seconds_after == Approx(best).epsilon(1e-12));
    CHECK(found.seconds_before >= found.seconds_after);
  }
}

TEST_CASE("study: a job is placed around slow links, which the replay confirms") {
  // A pipeline over four of five nodes. The default order uses no slow pair, so the initial order
  // has the slow pairs as neighbours.
  input::PlanFile file = plan_on({"pp=4", "gpus=32"}, 5, true);
  file.machine.cluster.hosts = {1, 3, 0, 4, 2};
  Sites sites;
  const Placement found =
      place(answer::checked(file.plan, **sites.of(file.machine)), {.seed = 1, .moves = 2000});
  CHECK(found.before == std::vector{1, 3, 0, 4});
  for (std::size_t i = 1; i < found.after.size(); ++i) {
    const std::pair<int, int> pair = std::minmax(found.after[i - 1], found.after[i]);
    CHECK_FALSE(pair == std::pair{1, 3});
    CHECK_FALSE(pair == std::pair{0, 4});
  }
  const double before = step_on(file, found.before), after = step_on(file, found.after);
  CHECK(after < before);
  // No order of nodes is faster by more than 0.1 %.
  std::vector<int> order = {0, 1, 2, 3, 4};
  double best = after;
  do {
    best = std::min(best, step_on(file, {order.begin(), order.begin() + 4}));
  } while (std::ranges::next_permutation(order).found);
  CHECK(after <= 1.001 * best);
}

TEST_CASE("study: a job leaves out the node with the degraded NIC") {
  input::PlanFile file = plan_on({"gpus=32"}, 5, false);
  file.machine.cluster.conditions.push_back({.node = 2, .nic = 3, .bandwidth = 0.1});
  Sites sites;
  const Placement found =
      place(answer::checked(file.plan, **sites.of(file.machine)), {.moves = 2000});
  CHECK(std::ranges::count(found.before, 2) == 1);
  CHECK(std::ranges::count(found.after, 2) == 0);
  CHECK(step_on(file, found.after) < step_on(file, found.before));
}

TEST_CASE("study: replicas of a stage share a leaf where the spine is narrow") {
  // Two stages of two nodes each, and leaves of two nodes. The initial order puts the nodes of a
  // stage on different leaves.
  input::PlanFile file = plan_on({"pp=2", "gpus=32", "fabric.kind=fat_tree",
                                  "fabric.nodes_per_leaf=2", "fabric.oversubscription=16"},
                                 4, false);
  file.machine.cluster.hosts = {0, 2, 1, 3};
  Sites sites;
  const Placement found =
      place(answer::checked(file.plan, **sites.of(file.machine)), {.moves = 2000});
  CHECK(found.seconds_after < found.seconds_before);
  CHECK(found.after[0] / 2 == found.after[1] / 2);
  CHECK(found.after[2] / 2 == found.after[3] / 2);
}

TEST_CASE("study: placement repeats itself and leaves alone what nothing improves") {
  const input::PlanFile even = plan_on({"pp=4", "gpus=32"}, 4, false);
  Sites sites;
  const Placement same =
      place(answer::checked(even.plan, **sites.of(even.machine)), {.moves = 500});
  CHECK(same.after == same.before);
  CHECK(same.after == std::vector{0, 1, 2, 3});
  const input::PlanFile file = plan_on({"pp=2", "gpus=32"}, 5, true);
  Site& site = **sites.of(file.machine);
  const Placement one = place(answer::checked(file.plan, site), {.seed = 3, .moves = 1000});
  const Placement two = place(answer::checked(file.plan, site), {.seed = 3, .moves = 1000});
  CHECK(one.after == two.after);
  CHECK(one.seconds_after == two.seconds_after);
}

TEST_CASE("study: a look at an order by leaves is one at every link that is crossed") {
  // All kinds of fabrics: nodes that share a leaf, separate rails, a slow NIC, a slow spine.
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"cluster=dgx-h100"},
           {"cluster=meta-24k-h100"},
           {"cluster=abci-a"},
           {"cluster=tsubame4"},
           {"cluster=perlmutter"},
           {"cluster=dgx-a100", "condition={node: 2 nic: 1 bandwidth: 0.5}"},
           {"cluster=dgx-h100", "fabric.kind=rail_optimised", "fabric.nodes_per_leaf=2"},
           {"cluster=dgx-h100", "fabric.kind=rail_only"},
           {"cluster=dgx-h100", "fabric.kind=leaf_spine", "fabric.spines=4"}}) {
    std::vector<std::string> all = {
        "model=llama-3.1-8b", "sequence=2048", "micro_batch=1", "tp=4", "pp=2", "gpus=64",
        "global_batch=64"};
    all.insert(all.end(), settings.begin(), settings.end());
    const auto file = input::load_plan("", all);
    INFO(settings.back() << (file ? std::string() : file.errors()[0].message));
    REQUIRE(file);
    Sites sites;
    PlaceModel model(answer::checked(file->plan, **sites.of(file->machine)));
    std::vector<int> order(static_cast<std::size_t>(file->machine.cluster.nodes));
    std::iota(order.begin(), order.end(), 0);
    Random random(5);
    for (int look = 0; look < 20; ++look) {
      double sum = 0;
      for (const PlaceTerm& term : model.terms()) sum += model.longest(term, order).seconds;
      CHECK(model.seconds(order) == Approx(sum).epsilon(1e-12));
      CHECK(sum > 0);
      for (std::size_t i = order.size(); i-- > 1;)
        std::swap(order[i], order[random.next() % (i + 1)]);
    }
  }
}
