// schedule_test.cpp — every schedule of the catalog over all small shapes.
#include "sim/job/schedule/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "sim/job/schedule/placement.h"
#include "sim/job/schedule/timeline.h"
#include "tests/job/schedule/worlds.h"

namespace sim::schedule {
namespace {

using Unit = std::tuple<int, int, int>;  // microbatch, chunk, slice

Unit unit_of(const ScheduledPass& step) {
  return {step.microbatch, step.chunk, step.slice};
}

// The units of each kind of pass that a stage runs.
std::map<Pass, std::set<Unit>> tasks(const Order& order) {
  std::map<Pass, std::set<Unit>> tasks;
  for (const ScheduledPass& step : order) {
    INFO(name(step));
    CHECK(tasks[step.pass].insert(unit_of(step)).second);
  }
  return tasks;
}

}  // namespace

TEST_CASE("schedule: every stage runs each of its tasks once, a backward pass behind its forward") {
  for_each_world([](const Schedule& schedule, const PipelineShape& shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, shape.slices);
    std::set<Unit> expected;
    for (int m = 0; m < shape.microbatches; ++m)
      for (int c = 0; c < shape.chunks; ++c)
        for (int s = 0; s < shape.slices; ++s)
          if (visits(schedule.placement, shape, m, c)) expected.insert({m, c, s});
    const std::vector<Order> orders = schedule.orders(shape);
    REQUIRE(orders.size() == static_cast<std::size_t>(shape.stages));
    for (const Order& order : orders) {
      std::map<Pass, std::set<Unit>> all = tasks(order);
      CHECK(all[Pass::forward] == expected);
      CHECK(all[Pass::input] == all[Pass::weight]);
      CHECK(all[Pass::backward].size() + all[Pass::input].size() == expected.size());
      all[Pass::backward].merge(all[Pass::input]);
      CHECK(all[Pass::backward] == expected);
      std::set<Unit> forward, input;
      for (const ScheduledPass& step : order) {
        if (step.pass == Pass::forward) forward.insert(unit_of(step));
        if (step.pass == Pass::backward || step.pass == Pass::input)
          CHECK(forward.count(unit_of(step)) == 1);
        if (step.pass == Pass::input) input.insert(unit_of(step));
        if (step.pass == Pass::weight) CHECK(input.count(unit_of(step)) == 1);
      }
    }
  });
}

TEST_CASE("schedule: a row says which passes it splits and where the output layer runs") {
  for_each_world([](const Schedule& schedule, const PipelineShape& shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks);
    for (const Order& order : schedule.orders(shape)) {
      std::map<Pass, std::set<Unit>> all = tasks(order);
      if (schedule.splits == Splits::none) CHECK(all[Pass::input].empty());
      if (schedule.splits == Splits::all) CHECK(all[Pass::backward].empty());
      const std::size_t everywhere =
          schedule.output == Output::last_part ? 0 : static_cast<std::size_t>(shape.microbatches);
      CHECK(all[Pass::output].size() == everywhere);
      CHECK(all[Pass::output_gradient].size() ==
            (schedule.output == Output::together ? 0 : everywhere));
    }
  });
}

TEST_CASE("schedule: no schedule deadlocks") {
  for_each_world([](const Schedule& schedule, const PipelineShape& shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, shape.slices);
    CHECK_FALSE(run(schedule, shape).deadlock);
  });
}

// The messages between stages, in the order in which both ends run the passes.
TEST_CASE("schedule: two stages agree on the order of the messages between them") {
  for_each_world([](const Schedule& schedule, const PipelineShape& shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, shape.slices);
    // By (gradients or not, from, to): (microbatch, part that sends, slice).
    using Wire = std::tuple<bool, int, int>;
    std::map<Wire, std::vector<Unit>> sent, received;
    const std::vector<Order> orders = schedule.orders(shape);
    for (int stage = 0; stage < shape.stages; ++stage)
      for (const ScheduledPass& step : orders[static_cast<std::size_t>(stage)]) {
        const StageChunk own{stage, step.chunk};
        const int part = part_of(schedule.placement, shape, own);
        const bool forward = step.pass == Pass::forward;
        if (!forward && (step.pass == Pass::weight || !schedule.gradients_travel)) continue;
        if (step.pass == Pass::output || step.pass == Pass::output_gradient) continue;
        const bool first = is_first(schedule.placement, shape, own);
        const bool last = is_last(schedule.placement, shape, own);
        const auto one = [&](int from) { return Unit{step.microbatch, from, step.slice}; };
        if (!first) {
          const StageChunk other = before(schedule.placement, shape, own);
          if (forward) received[{false, other.stage, stage}].push_back(one(part - 1));
          if (!forward) sent[{true, stage, other.stage}].push_back(one(part));
        }
        if (!last) {
          const StageChunk other = behind(schedule.placement, shape, own);
          if (forward) sent[{false, stage, other.stage}].push_back(one(part));
          if (!forward) received[{true, other.stage, stage}].push_back(one(part + 1));
        }
      }
    // A stage needs no wire for messages to itself.
    for (int stage = 0; stage < shape.stages; ++stage)
      for (const bool gradients : {false, true}) {
        sent.erase({gradients, stage, stage});
        received.erase({gradients, stage, stage});
      }
    CHECK(sent == received);
  });
}

TEST_CASE("schedule: makespan and live activations equal the closed forms of the row") {
  for (const Schedule& schedule : catalog()) {
    int held = 0, lives = 0;
    for_each_shape(schedule, [&](const PipelineShape& shape) {
      CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, shape.slices);
      const Timeline timeline = run(schedule, shape);
      if (const auto expected = schedule.makespan(shape)) {
        CHECK(timeline.makespan == static_cast<double>(*expected));
        ++held;
      }
      for (int stage = 0; stage < shape.stages; ++stage)
        if (const auto expected = schedule.live(shape, stage)) {
          CHECK(timeline.live[static_cast<std::size_t>(stage)] == *expected);
          ++lives;
        }
    });
    CAPTURE(schedule.name);
    CHECK(held > 0);
    CHECK(lives > 0);
  }
}

TEST_CASE("schedule: closed forms hold for large shapes too") {
  for (const Schedule& schedule : catalog())
    for (PipelineShape shape :
         {PipelineShape{8, 64}, PipelineShape{16, 32}, PipelineShape{12, 48}}) {
      shape.chunks = schedule.chunks;
      CAPTURE(schedule.name, shape.stages, shape.microbatches);
      REQUIRE(schedule.problem(shape) == "");
      const Timeline timeline = run(schedule, shape);
      if (const auto expected = schedule.makespan(shape))
        CHECK(timeline.makespan == static_cast<double>(*expected));
      for (int stage = 0; stage < shape.stages; ++stage)
        if (const auto expected = schedule.live(shape, stage))
          CHECK(timeline.live[static_cast<std::size_t>(stage)] == *expected);
    }
}

TEST_CASE("schedule: every stage is busy for its share of the work") {
  for_each_world([](const Schedule& schedule, const PipelineShape& shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks);
    const Timeline timeline = run(schedule, shape);
    const double work = 3.0 * shape.microbatches * shape.slices *
                        (schedule.placement == Placement::two_way ? 1 : shape.chunks);
    for (const double busy : timeline.busy) CHECK(busy == work);
  });
}

TEST_CASE("schedule: zb-h1 keeps at most p - s microbatches between F and B like 1f1b") {
  const Schedule& zb = *find("zb-h1");
  for_each_shape(zb, [&](const PipelineShape& shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      int live = 0;
      int most = 0;
      for (const ScheduledPass& step : zb.order(shape, stage)) {
        if (step.pass == Pass::forward) most = std::max(most, ++live);
        if (step.pass == Pass::input) --live;
      }
      CAPTURE(shape.stages, shape.microbatches, stage);
      CHECK(most == std::min(shape.microbatches, shape.stages - stage));
    }
  });
}

TEST_CASE("schedule: interleaving shrinks the bubble of 1f1b by the number of chunks") {
  // In units of a whole stage: bubble = makespan / v - 3m.
  for (int v = 2; v <= 4; ++v) {
    const double interleaved = run(*find("interleaved-1f1b"), {4, 8, v}).makespan - 3 * 8 * v;
    const double plain = run(*find("1f1b"), {4, 8, 1}).makespan - 3 * 8;
    CHECK(interleaved == plain);  // passes are v times shorter
  }
}

TEST_CASE("schedule: with m = p interleaved-1f1b runs all forwards first before core 0.10 alone") {
  const Schedule& schedule = *find("interleaved-1f1b");
  PipelineShape shape{4, 4, 2};
  CHECK(run(schedule, shape).live == std::vector<int>{8, 8, 7, 5});
  shape.interleaving = Interleaving::all_forwards_first;
  CHECK(run(schedule, shape).live == std::vector<int>{8, 8, 8, 8});
  CHECK(run(schedule, shape).makespan == *schedule.makespan(shape));
}

TEST_CASE("schedule: microbatches of interleaved-1f1b go round in groups of the size asked for") {
  // The example of Megatron-LM's get_schedule_table: p = 2, G = 3, m = 5, v = 2.
  const Schedule& schedule = *find("interleaved-1f1b");
  const PipelineShape shape{.stages = 2, .microbatches = 5, .chunks = 2, .group = 3};
  REQUIRE(schedule.problem(shape) == "");
  std::string microbatches, chunks;
  for (const ScheduledPass& step : schedule.order(shape, 0)) {
    if (step.pass != Pass::forward) continue;
    microbatches += static_cast<char>('0' + step.microbatch);
    chunks += static_cast<char>('0' + step.chunk);
  }
  CHECK(microbatches == "0120123434");
  CHECK(chunks == "0001110011");
  // Warm-up 2(p - s - 1) + (v - 1)G forwards, one more before the first backward pass.
  CHECK(run(schedule, shape).live == std::vector<int>{6, 4});
  for (int p = 2; p <= 5; ++p)
    for (int m = p; m <= 11; ++m)
      for (int group = 1; group <= m + 1; ++group) {
        const PipelineShape other{.stages = p, .microbatches = m, .chunks = 2, .group = group};
        CAPTURE(p, m, group);
        const bool allowed = group >= p && group <= m && (m % group == 0 || m % group >= p);
        CHECK(schedule.problem(other).empty() == allowed);
        if (allowed) CHECK_FALSE(run(schedule, other).deadlock);
      }
}

TEST_CASE("schedule: PyTorch's interleaved-1f1b takes microbatches that make whole rounds") {
  const Schedule& schedule = *find("interleaved-1f1b");
  for (int p = 2; p <= 5; ++p)
    for (int m = 1; m <= 16; ++m) {
      const PipelineShape shape{
          .stages = p, .microbatches = m, .chunks = 2, .interleaving = Interleaving::whole_rounds};
      CAPTURE(p, m);
      const int rounds = std::max(1, m / p);
      CHECK(schedule.problem(shape).empty() == (m % rounds == 0));
      if (m % rounds == 0) CHECK_FALSE(run(schedule, shape).deadlock);
    }
}

TEST_CASE("schedule: zb-1p and zb-2p follow the times they are given") {
  // Never slower than the fixed order, in the memory that the search may use; twice the memory
  // helps.
  for (const char* name : {"zb-1p", "zb-2p"}) {
    PipelineShape shape{8, 32};
    shape.times = {.forward = 18.5, .backward = 18.1, .weight = 9.3, .transfer = 0.6};
    const Timeline timeline = run(*find(name), shape);
    CHECK_FALSE(timeline.deadlock);
    CHECK(timeline.span <= run(*find("zb-h1"), shape).span);
    const int cap = (name[3] - '0') * shape.stages;
    for (const int live : timeline.live) CHECK(live <= cap);
    if (cap > shape.stages) CHECK(timeline.span < run(*find("zb-1p"), shape).span);
  }
}

TEST_CASE("schedule: a message that takes time delays who waits for it") {
  // One microbatch on two stages: F, message, F D, message, D.
  PipelineShape shape{2, 1};
  shape.times.transfer = 0.5;
  CHECK(run(*find("1f1b"), shape).makespan == 1 + 0.5 + 1 + 2 + 0.5 + 2);
  // Down the V and up again, eight passes and the last W; the turns need no message. Stage 1 runs a
  // W of its own between the two gradients that it sends.
  shape.chunks = 2;
  CHECK(run(*find("zb-v"), shape).makespan == 8 + 1 + 1 + 4 * 0.5);
}

TEST_CASE("schedule: impossible shapes name the rule and what would do") {
  const auto says = [](const char* name, const PipelineShape& shape) {
    return find(name)->problem(shape);
  };
  CHECK(says("1f1b", {4, 6, 2}) ==
        "the schedule runs one model chunk per stage, not 2 virtual stages; write 1, or use "
        "interleaved-1f1b");
  CHECK(says("zb-v", {4, 6, 1}) ==
        "the schedule runs two parts of the model per stage, not 1 virtual stages; write 2");
  CHECK(says("interleaved-1f1b", {4, 8, 2}) == "");
  CHECK(says("interleaved-1f1b", {1, 8, 2}) ==
        "interleaving needs at least 2 pipeline stages, not 1; use 1f1b for one stage");
  CHECK(says("interleaved-1f1b", {4, 8, 1}) ==
        "interleaving needs at least 2 virtual stages, not 1; use 1f1b for one");
  CHECK(says("interleaved-1f1b", {4, 10, 2}) ==
        "interleaving needs a number of microbatches that is a multiple of the 4 stages, not 10; "
        "write 8 or 12");
  CHECK(says("interleaved-1f1b", {4, 3, 2}) ==
        "interleaving needs a number of microbatches that is a multiple of the 4 stages, not 3; "
        "write 4");
  CHECK(says("interleaved-zb", {4, 9, 2}) ==
        "PyTorch's interleaving runs m / p = 2 rounds of as many microbatches each; it needs a "
        "number of microbatches that is a multiple of the rounds, not 9; write 8 or 10");
  CHECK(says("dualpipe", {3, 8, 2}) ==
        "the schedule needs an even number of stages, not 3; write 4");
  CHECK(says("dualpipe", {4, 6, 2}) ==
        "the schedule needs at least 8 microbatches (two per stage), not 6; write 8");
  CHECK(says("dualpipe", {4, 9, 2}) ==
        "the schedule needs a number of microbatches that is a multiple of the 2 directions, not "
        "9; write 8 or 10");
  CHECK(says("zb-1p", {4, 3, 1}) ==
        "the schedule needs at least 4 microbatches (one per stage), not 3; write 4");
}

TEST_CASE("schedule: hostile shapes are refused by every schedule before anything is allocated") {
  constexpr int huge = 2147483647;
  for (const Schedule& schedule : catalog())
    for (const PipelineShape& shape :
         {PipelineShape{0, 4, 1}, PipelineShape{-1, 4, 1}, PipelineShape{huge, huge, 1},
          PipelineShape{2, 0, 2}, PipelineShape{2, huge, 2}, PipelineShape{2, 4, 0},
          PipelineShape{2, 4, huge}, PipelineShape{2, max_passes, 2}, PipelineShape{4, 8, 1, huge},
          PipelineShape{4, 8, 1, 0}, PipelineShape{4, 8, 2, 1, -1},
          PipelineShape{4, 8, 2, 1, huge}}) {
      CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, shape.slices);
      CHECK(schedule.problem(shape) != "");
    }
  CHECK(find("gpipe")->problem({0, 4, 1}) ==
        "the number of pipeline stages is 0; it must be 1 to 65536");
}

TEST_CASE("schedule: an unknown name is answered with the nearest one and all of them") {
  CHECK(find("1f1") == nullptr);
  const std::string all = unknown("chimera-wave");
  CHECK(all.rfind("no schedule 'chimera-wave'; there are gpipe, 1f1b, ", 0) == 0);
  for (const Schedule& schedule : catalog())
    CHECK(all.find(std::string(schedule.name)) != std::string::npos);
  CHECK(unknown("1f1").rfind("no schedule '1f1'; did you mean '1f1b'? There are gpipe, ", 0) == 0);
}

}  // namespace sim::schedule
