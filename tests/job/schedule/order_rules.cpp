// order_rules.cpp — schedules that are broken on purpose: each is refused with its rule and place.
#include "sim/job/schedule/order_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tests/job/schedule/worlds.h"

namespace sim::schedule {
namespace {

using Break = std::function<void(std::vector<Order>&)>;

// The message after `change` broke the orders of a schedule.
std::string broken(const char* name, const PipelineShape& shape, const Break& change) {
  const Schedule& row = *find(name);
  std::vector<Order> orders = row.orders(shape);
  change(orders);
  return broken_rule(row, shape, orders);
}

// 1f1b on two stages with four microbatches: F0 F1 D0 F2 D1 F3 D2 D3 and F0 D0 F1 D1 F2 D2 F3 D3.
std::string broken_1f1b(const Break& change) {
  return broken("1f1b", {.stages = 2, .microbatches = 4}, change);
}

}  // namespace

TEST_CASE("schedule: the orders of the catalog obey every rule") {
  for_each_world([](const Schedule& schedule, const PipelineShape& shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, shape.slices);
    CHECK(broken_rule(schedule, shape, schedule.orders(shape)) == "");
  });
}

TEST_CASE("schedule: an order with a wrong task is refused with its step") {
  CHECK(broken_1f1b([](auto& orders) { orders.pop_back(); }) ==
        "there are orders for 1 stages of 2");
  CHECK(broken_1f1b([](auto& orders) { orders[1][1] = orders[1][0]; }) ==
        "stage 1, step 2 of 8 (F0): the pass runs twice");
  CHECK(broken_1f1b([](auto& orders) { std::swap(orders[1][0], orders[1][1]); }) ==
        "stage 1, step 1 of 8 (D0): a backward pass needs the forward pass of its microbatch "
        "before it");
  CHECK(broken_1f1b([](auto& orders) { orders[0].pop_back(); }) ==
        "stage 0: the backward pass of microbatch 3, chunk 0, slice 0 is missing");
  CHECK(broken_1f1b([](auto& orders) { orders[0][0].microbatch = 4; }) ==
        "stage 0, step 1 of 8 (F4): the stage has no such task: microbatch 4 of 4, chunk 0 of 1, "
        "slice 0 of 1");
  CHECK(broken_1f1b([](auto& orders) { orders[0][0].chunk = 1; }) ==
        "stage 0, step 1 of 8 (f0): the stage has no such task: microbatch 0 of 4, chunk 1 of 1, "
        "slice 0 of 1");
}

TEST_CASE("schedule: passes that the row of the schedule excludes are refused") {
  CHECK(broken_1f1b([](auto& orders) { orders[1][1].pass = Pass::input; }) ==
        "stage 1, step 2 of 8 (B0): an input pass, but the schedule splits no backward pass");
  CHECK(broken_1f1b([](auto& orders) { orders[1][1].pass = Pass::output; }) ==
        "stage 1, step 2 of 8 (S0): an output pass, but the last part runs the output layer");
  const PipelineShape shape{.stages = 2, .microbatches = 4};
  const auto at = [](Order& order, Pass pass) {
    return std::ranges::find(order, pass, &ScheduledPass::pass);
  };
  CHECK(broken("zb-h1", shape, [&](auto& orders) {
          at(orders[0], Pass::input)->pass = Pass::backward;
        }).ends_with("a combined backward pass, but the schedule splits all of them"));
  CHECK(broken("zb-h1", shape, [&](auto& orders) {
          std::iter_swap(at(orders[1], Pass::input), at(orders[1], Pass::weight));
        }).ends_with("(W0): a weight pass needs its input pass before it"));
  CHECK(broken("zb-h1", shape, [&](auto& orders) { orders[1].pop_back(); }) ==
        "stage 1: the weight pass of microbatch 3, chunk 0, slice 0 is missing");
  CHECK(broken("vocab-1", shape, [&](auto& orders) {
          orders[1].erase(at(orders[1], Pass::output_gradient));
        }) == "stage 1: an output pass of microbatch 0 is missing");
}

TEST_CASE("schedule: stages that wait for each other are refused with all their steps") {
  // Stage 0 wants the gradient of microbatch 0 before it sends F1; stage 1 wants F1 first.
  CHECK(broken_1f1b([](auto& orders) {
          std::swap(orders[0][1], orders[0][2]);  // F0 D0 F1 ...
          std::swap(orders[1][1], orders[1][2]);  // F0 F1 D0 ...
        }) ==
        "stage 0, step 2 of 8 (D0), stage 1, step 2 of 8 (F1): the stages wait for each other");
}

TEST_CASE("schedule: messages that neighbours order in different ways are refused") {
  // gpipe can run its forward passes in any order without a circle, but the n-th send meets the
  // n-th receive.
  CHECK(broken("gpipe", {.stages = 2, .microbatches = 3},
               [](auto& orders) { std::swap(orders[1][0], orders[1][1]); }) ==
        "message 1 of activations from stage 0 to stage 1: microbatch 0 is sent, and microbatch 1 "
        "is received");
  CHECK(broken("gpipe", {.stages = 2, .microbatches = 3}, [](auto& orders) {
          std::swap(orders[0][3], orders[0][4]);
        }).starts_with("message 1 of gradients from stage 1 to stage 0: "));
}

}  // namespace sim::schedule
