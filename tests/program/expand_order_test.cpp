// expand_order_test.cpp — the actions of a stage around its passes, for every schedule over all
// small shapes.
#include "sim/program/parallel/pipeline/expand_order.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/job/schedule/placement.h"
#include "sim/job/schedule/timeline.h"

namespace sim::program {
namespace {

using schedule::Pass;
using schedule::PipelineShape;
using schedule::Schedule;
using schedule::ScheduledPass;

void for_each_walk(const std::function<void(const Schedule&, const PipelineShape&,
                                            std::vector<std::vector<StageAction>>)>& check) {
  for (const Schedule& schedule : schedule::catalog())
    for (int p = 1; p <= 4; ++p)
      for (int m = 1; m <= 9; ++m)
        for (int v = 1; v <= 3; ++v) {
          const PipelineShape shape{p, m, v};
          if (!schedule.problem(shape).empty()) continue;
          CAPTURE(schedule.name, p, m, v);
          std::vector<std::vector<StageAction>> walks;
          const std::vector<schedule::Order> orders = schedule.orders(shape);
          for (int stage = 0; stage < p; ++stage)
            walks.push_back(
                expand_order(schedule, shape, orders[static_cast<std::size_t>(stage)], stage));
          check(schedule, shape, walks);
        }
}

bool goes_back(Pass pass) {
  return pass == Pass::backward || pass == Pass::input;
}

}  // namespace

TEST_CASE("program: gradients of a chunk begin in the first pass that adds to them") {
  for_each_walk([](const Schedule&, const PipelineShape&,
                   const std::vector<std::vector<StageAction>>& walks) {
    for (const std::vector<StageAction>& acts : walks) {
      // Gradients of layers: combined and weight passes. Gradients of the model's ends:
      // combined and input passes.
      std::map<std::pair<int, bool>, std::vector<Position>> positions;
      for (const StageAction& act : acts) {
        if (act.kind != StageAction::Kind::pass) continue;
        const Pass pass = act.step.pass;
        if (pass == Pass::backward || pass == Pass::weight)
          positions[{act.step.chunk, false}].push_back(act.position);
        if (goes_back(pass)) positions[{act.step.chunk, true}].push_back(act.position);
      }
      for (const auto& [of, list] : positions)
        for (std::size_t i = 0; i < list.size(); ++i) {
          CHECK(list[i].first == (i == 0));
          CHECK(list[i].last == (i + 1 == list.size()));
        }
    }
  });
}

// By wire: the kind of message, its direction, and the stages.
TEST_CASE("program: every message that is sent is received, in the same order") {
  for_each_walk([](const Schedule& schedule, const PipelineShape& shape,
                   const std::vector<std::vector<StageAction>>& walks) {
    using Wire = std::tuple<bool, bool, int, int>;  // gradient, upward, from, to
    std::map<Wire, std::vector<int>> sent, received;
    for (int stage = 0; stage < shape.stages; ++stage)
      for (std::size_t i = 0; i < walks[static_cast<std::size_t>(stage)].size(); ++i) {
        const std::vector<StageAction>& acts = walks[static_cast<std::size_t>(stage)];
        const StageAction& act = acts[i];
        if (act.kind != StageAction::Kind::exchange) continue;
        const bool up = act.messages & upward;
        const int behind = (stage + (up ? shape.stages - 1 : 1)) % shape.stages;
        const int ahead = (stage + (up ? 1 : shape.stages - 1)) % shape.stages;
        // A batch sends the output of the pass before it.
        std::size_t made = i;
        while (acts[made].kind != StageAction::Kind::pass && made > 0) --made;
        const ScheduledPass& sender = schedule.wire.batched ? acts[made].step : act.step;
        const int from = sender.microbatch, into = act.step.microbatch;
        if (act.messages & send_forward) sent[{false, up, stage, behind}].push_back(from);
        if (act.messages & send_backward) sent[{true, up, stage, ahead}].push_back(from);
        if (act.messages & receive_forward) received[{false, up, ahead, stage}].push_back(into);
        if (act.messages & receive_backward) received[{true, up, behind, stage}].push_back(into);
      }
    CHECK(sent == received);
    if (shape.stages == 1 || !schedule.gradients_travel) return;
    CHECK_FALSE(sent.empty());
  });
}

TEST_CASE("program: a pass has its input before it runs, from a message or at a turn") {
  for_each_walk([](const Schedule& schedule, const PipelineShape& shape,
                   const std::vector<std::vector<StageAction>>& walks) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::map<std::tuple<int, int, int, bool>, int> there;  // chunk, microbatch, slice, gradient
      for (const StageAction& act : walks[static_cast<std::size_t>(stage)]) {
        const auto key = [&](const ScheduledPass& step, bool gradient) {
          return std::tuple(step.chunk, step.microbatch, step.slice, gradient);
        };
        if (act.messages & receive_forward) ++there[key(act.step, false)];
        if (act.messages & receive_backward) ++there[key(act.step, true)];
        if (act.kind == StageAction::Kind::turn) ++there[key(act.next, goes_back(act.step.pass))];
        if (act.kind != StageAction::Kind::pass) continue;
        const schedule::StageChunk own{stage, act.step.chunk};
        if (act.step.pass == Pass::forward && !is_first(schedule.placement, shape, own))
          CHECK(there[key(act.step, false)] == 1);
        if (goes_back(act.step.pass) && schedule.gradients_travel &&
            !is_last(schedule.placement, shape, own))
          CHECK(there[key(act.step, true)] == 1);
      }
    }
  });
}

// All stages run collectives over all stages in the same order.
TEST_CASE("program: shares of a vocabulary meet in one order on all stages") {
  int shared = 0;
  for_each_walk([&](const Schedule& schedule, const PipelineShape& shape,
                    const std::vector<std::vector<StageAction>>& walks) {
    if (schedule.output == schedule::Output::last_part) return;
    using Meeting = std::pair<StageAction::Kind, int>;
    std::vector<std::vector<Meeting>> meetings;
    for (const std::vector<StageAction>& acts : walks) {
      std::vector<Meeting>& own = meetings.emplace_back();
      std::map<StageAction::Kind, int> seen;
      std::map<int, int> backward, rows;  // places of a microbatch's passes, and of its rows
      for (std::size_t i = 0; i < acts.size(); ++i) {
        const StageAction& act = acts[i];
        const bool gradients = act.step.pass == Pass::output_gradient;
        if (act.kind == StageAction::Kind::pass && act.step.pass == Pass::backward)
          backward[act.step.microbatch] = static_cast<int>(i);
        if (act.kind == StageAction::Kind::look_up) rows[act.step.microbatch] = static_cast<int>(i);
        // A stage has looked up the rows of its forward pass, and shares only gradients that it
        // has.
        if (act.kind == StageAction::Kind::pass && act.step.pass == Pass::forward)
          CHECK(rows.count(act.step.microbatch) == 1);
        if (act.kind == StageAction::Kind::share_rows && own.size() < 1000 &&
            &acts == &walks.front())
          CHECK(backward.count(act.step.microbatch) == 1);
        if (act.kind == StageAction::Kind::pass && !gradients) continue;
        if (act.kind == StageAction::Kind::exchange || act.kind == StageAction::Kind::release)
          continue;
        ++seen[act.kind];
        own.emplace_back(act.kind, act.step.microbatch);
      }
      CHECK(seen[StageAction::Kind::share] == shape.microbatches);
      CHECK(seen[StageAction::Kind::look_up] == shape.microbatches);
      CHECK(seen[StageAction::Kind::share_rows] == shape.microbatches);
      CHECK(seen[StageAction::Kind::look_up_back] == shape.microbatches);
    }
    shared += shape.microbatches;
    for (const std::vector<Meeting>& own : meetings) CHECK(own == meetings.front());
  });
  CHECK(shared > 100);
}

}  // namespace sim::program
