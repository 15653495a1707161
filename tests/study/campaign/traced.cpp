// traced.cpp — campaigns with traced failures, second by second. Steps of 10 s, saves of 5 s after
// every tenth step, 20 s to detect a failure, 30 s to restart, 7 s to load.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/study/campaign/hazards.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;

namespace {

constexpr int software = 0, node = 1, leaf = 2, slow = 3, hiccup = 4, drained = 5;

FailureKind kind(const char* name, Takes takes, int group = 1) {
  FailureKind kind;
  kind.name = name;
  kind.takes = takes;
  kind.group = group;
  kind.detection = span(20);
  kind.repair = {find_law("fixed"), 400};
  return kind;
}

// Four nodes and spares. With `shrinks` there are shapes of fewer nodes.
Spec known(int spares, bool shrinks, double length = 1000) {
  Spec spec;
  spec.nodes = 4 + spares;
  spec.kinds = {kind("software", Takes::nothing), kind("node", Takes::node),
                kind("leaf", Takes::group, 2),    kind("slow", Takes::node),
                kind("hiccup", Takes::nothing),   kind("drained", Takes::node)};
  for (const int straggler : {slow, hiccup, drained}) {
    spec.kinds[straggler].straggler = true;
    spec.kinds[straggler].found = {find_law("fixed"), 50};
  }
  spec.kinds[drained].at_save = true;
  spec.tiers = {{"storage", span(100), span(5), {}, span(7), survives_everything}};
  JobShape full;
  full.plan = "full";
  full.nodes = 4;
  full.step = span(10);
  full.tokens = 400;
  full.restart = span(30);
  full.change = span(3);
  full.slowed.assign(6, span(12));
  spec.phases = {{"all", 0, {{full}}}};
  for (int missing = 1; shrinks && missing <= 2; ++missing) {
    JobShape less = full;
    less.plan = "half";
    less.nodes = 2;
    less.tokens = 200;
    spec.phases[0].shapes[0].push_back(less);
  }
  spec.length = span(length);
  return spec;
}

TracedFailure at(double second, int kind, int where = 0, double repair = -1) {
  TracedFailure failure;
  failure.when = Moment{span(second).ns};
  failure.kind = kind;
  failure.node = where;
  if (repair >= 0) failure.repair = span(repair);
  return failure;
}

std::string told(const Spec& spec) {
  std::vector<Slice> timeline;
  const Outcome o = simulate(spec, 1, &timeline);
  constexpr const char* names[] = {"train", "save", "detect", "wait", "restart"};
  std::string text;
  for (const Slice& slice : timeline) {
    text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ",
                        names[static_cast<int>(slice.activity)], seconds(slice.to - slice.from));
    if (slice.cause >= 0) text += " " + spec.kinds[static_cast<std::size_t>(slice.cause)].name;
    if (slice.shape > 0) text += fmt::format(" shape {}", slice.shape);
    if (slice.pool > 0) text += fmt::format(" pool {}", slice.pool);
    if (slice.phase > 0) text += fmt::format(" phase {}", slice.phase);
  }
  return text;
}

std::string summed(const Spec& spec) {
  const Outcome o = simulate(spec, 1);
  std::string text = fmt::format(
      "wall {:g}: {} steps of {} tokens in {:g}, ideally {:g}; saving {:g}, lost {:g}, detecting "
      "{:g}, waiting {:g}, restarting {:g}; {} stops, {} saves, {} changes, {} spares, {} finished",
      seconds(o.wall), o.kept.steps, o.kept.tokens, seconds(o.kept.wall), seconds(o.kept.ideal),
      seconds(o.saving), seconds(o.lost), seconds(o.detecting), seconds(o.waiting),
      seconds(o.restarting), o.interruptions, o.saves, o.changes, o.spares_least, o.finished);
  for (std::size_t i = 0; i < o.causes.size(); ++i) {
    const CauseOutcome& c = o.causes[i];
    if (c.events > 0)
      text += fmt::format("; {} {} of {}: {:g} lost, {:g} down", spec.kinds[i].name,
                          c.interruptions, c.events, seconds(c.lost), seconds(c.down));
  }
  return text;
}

}  // namespace

TEST_CASE("campaign: a failure loses the training since the last save") {
  Spec spec = known(1, false);
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train "
        "100, save 5");
  CHECK(summed(spec) ==
        "wall 1050: 100 steps of 40000 tokens in 1000, ideally 1000; saving 50, lost 0, detecting "
        "0, waiting 0, restarting 0; 0 stops, 10 saves, 0 changes, 1 spares, 0 finished");
  spec.trace = {at(254, software)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 software, restart 37 software, "
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1046: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 44, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 1 spares, 0 finished; software "
        "1 of 1: 44 lost, 57 down");
  spec.trace = {at(254, node, 2)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 node, restart 37 node, train "
        "100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, "
        "train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1046: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 44, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 0 spares, 0 finished; node 1 "
        "of 1: 44 lost, 57 down");
  spec = known(0, false);
  spec.trace = {at(254, node, 2)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 node, wait 380 node, restart 37 "
        "node, train 100, save 5, train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1006: 50 steps of 20000 tokens in 500, ideally 500; saving 25, lost 44, detecting "
        "20, waiting 380, restarting 37; 1 stops, 5 saves, 0 changes, 0 spares, 0 finished; node 1 "
        "of 1: 44 lost, 437 down");
  spec.trace = {at(254, node, 2, 0)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 node, restart 37 node, train "
        "100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, "
        "train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1046: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 44, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 0 spares, 0 finished; node 1 "
        "of 1: 44 lost, 57 down");
}

TEST_CASE("campaign: a leaf takes its nodes, and a smaller shape grows back at a save") {
  Spec spec = known(1, true);
  spec.trace = {at(254, leaf, 3)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 leaf shape 1, restart 40 leaf "
        "shape 1, train 100 shape 1, save 5 shape 1, train 100 shape 1, save 5 shape 1, train 100 "
        "shape 1, save 5 shape 1, train 100 shape 1, save 5, restart 40, train 100, save 5, train "
        "100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1089: 90 steps of 28000 tokens in 900, ideally 700; saving 45, lost 44, detecting "
        "20, waiting 0, restarting 80; 1 stops, 9 saves, 2 changes, 0 spares, 0 finished; leaf 1 "
        "of 1: 44 lost, 60 down");
}

TEST_CASE(
    "campaign: a failure may strike a save, the detection, the wait and the restart of another") {
  Spec spec = known(1, false);
  spec.trace = {at(207, software), at(208, node, 1)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 2, detect 20 software, restart 37 software, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train "
        "100, save 5, train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1104: 90 steps of 36000 tokens in 900, ideally 900; saving 47, lost 100, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 0 spares, 0 finished; software "
        "1 of 1: 100 lost, 57 down; node 0 of 1: 0 lost, 0 down");
  spec.trace = {at(254, software), at(260, node, 1)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 software, restart 37 software, "
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1046: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 44, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 0 spares, 0 finished; software "
        "1 of 1: 44 lost, 57 down; node 0 of 1: 0 lost, 0 down");
  spec.trace = {at(254, software), at(280, node, 1)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 software, restart 6 software, "
        "detect 20 node, restart 37 node, train 100, save 5, train 100, save 5, train 100, save 5, "
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1072: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 44, detecting "
        "40, waiting 0, restarting 43; 2 stops, 9 saves, 0 changes, 0 spares, 0 finished; software "
        "1 of 1: 44 lost, 26 down; node 1 of 1: 0 lost, 57 down");
  spec = known(0, false);
  spec.trace = {at(254, node, 1), at(300, node, 3, 500)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 node, wait 526 node, restart 37 "
        "node, train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1047: 40 steps of 16000 tokens in 400, ideally 400; saving 20, lost 44, detecting "
        "20, waiting 526, restarting 37; 1 stops, 4 saves, 0 changes, 0 spares, 0 finished; node 1 "
        "of 2: 44 lost, 583 down");
}

TEST_CASE(
    "campaign: a straggler slows the steps until it is found, recovers or leaves with a save") {
  Spec spec = known(1, false);
  spec.trace = {at(254, slow, 1)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 94, detect 20 slow, restart 37 slow, train "
        "100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, "
        "train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1096: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 94, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 0 spares, 0 finished; slow 1 "
        "of 1: 94 lost, 57 down");
  spec.trace = {at(254, slow, 4)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train "
        "100, save 5");
  CHECK(summed(spec) ==
        "wall 1050: 100 steps of 40000 tokens in 1000, ideally 1000; saving 50, lost 0, detecting "
        "0, waiting 0, restarting 0; 0 stops, 10 saves, 0 changes, 1 spares, 0 finished; slow 0 of "
        "1: 0 lost, 0 down");
  spec.trace = {at(254, hiccup, 1)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 108, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train "
        "100, save 5");
  CHECK(summed(spec) ==
        "wall 1058: 100 steps of 40000 tokens in 1008, ideally 1000; saving 50, lost 0, detecting "
        "0, waiting 0, restarting 0; 0 stops, 10 saves, 0 changes, 1 spares, 0 finished; hiccup 0 "
        "of 1: 0 lost, 0 down");
  spec.trace = {at(254, drained, 1)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 110, save 5, restart 37 drained, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train "
        "100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 1097: 100 steps of 40000 tokens in 1010, ideally 1000; saving 50, lost 0, detecting "
        "0, waiting 0, restarting 37; 0 stops, 10 saves, 0 changes, 0 spares, 0 finished; drained "
        "0 of 1: 0 lost, 37 down");
}

TEST_CASE("campaign: a copy in memory is newer, and is lost with two nodes") {
  Spec spec = known(1, false);
  spec.tiers.insert(spec.tiers.begin(), {"memory", span(30), span(1), span(0), span(2), 1});
  spec.trace = {at(254, node, 1)};
  CHECK(told(spec) ==
        "train 30, save 1, train 30, save 1, train 30, save 1, train 10, save 5, train 20, save 1, "
        "train 30, save 1, train 30, save 1, train 20, save 5, train 10, save 1, train 27, detect "
        "20 node, restart 32 node, train 30, save 1, train 30, save 1, train 30, save 6, train 30, "
        "save 1, train 30, save 1, train 30, save 1, train 10, save 5, train 20, save 1, train 30, "
        "save 1, train 30, save 1, train 20, save 5, train 10, save 1, train 30, save 1, train 30, "
        "save 1, train 30, save 6, train 30, save 1, train 30, save 1, train 30, save 1, train 10, "
        "save 5, train 20, save 1, train 30, save 1, train 30, save 1, train 20, save 5, train 10, "
        "save 1, train 30, save 1, train 30, save 1");
  CHECK(summed(spec) ==
        "wall 1018: 87 steps of 34800 tokens in 870, ideally 870; saving 69, lost 27, detecting "
        "20, waiting 0, restarting 32; 1 stops, 37 saves, 0 changes, 0 spares, 0 finished; node 1 "
        "of 1: 27 lost, 52 down");
  spec.trace = {at(254, leaf, 0)};
  CHECK(told(spec) ==
        "train 30, save 1, train 30, save 1, train 30, save 1, train 10, save 5, train 20, save 1, "
        "train 30, save 1, train 30, save 1, train 20, save 5, train 10, save 1, train 27, detect "
        "20 leaf, wait 380 leaf, restart 37 leaf, train 10, save 1, train 30, save 1, train 30, "
        "save 1, train 30, save 6, train 30, save 1, train 30, save 1, train 30, save 1, train 10, "
        "save 5, train 20, save 1, train 30, save 1, train 30, save 1, train 20, save 5");
  CHECK(summed(spec) ==
        "wall 1016: 50 steps of 20000 tokens in 500, ideally 500; saving 42, lost 37, detecting "
        "20, waiting 380, restarting 37; 1 stops, 22 saves, 0 changes, 0 spares, 0 finished; leaf "
        "1 of 1: 37 lost, 437 down");
}

TEST_CASE("campaign: a save behind the job counts once it is complete") {
  Spec spec = known(1, false);
  spec.tiers[0].background = span(50);
  spec.trace = {at(244, software)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 34, detect 20 software, restart 37 software, "
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 50");
  CHECK(summed(spec) ==
        "wall 1036: 80 steps of 32000 tokens in 800, ideally 800; saving 45, lost 134, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 1 spares, 0 finished; software "
        "1 of 1: 134 lost, 57 down");
  spec.trace = {at(260, software)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 50, detect 20 software, restart 37 software, "
        "train 100, save 5, train 100, save 5, train 100, save 5, train 100, save 5, train 100, "
        "save 5, train 100, save 5, train 100, save 5, train 50");
  CHECK(summed(spec) ==
        "wall 1052: 90 steps of 36000 tokens in 900, ideally 900; saving 45, lost 50, detecting "
        "20, waiting 0, restarting 37; 1 stops, 9 saves, 0 changes, 1 spares, 0 finished; software "
        "1 of 1: 50 lost, 57 down");
  spec.tiers[0].background = span(120);
  spec.trace = {at(244, software)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 25, train 14, detect 20 software, restart 37 software, "
        "train 100, save 5, train 100, save 25, train 100, save 25, train 100, save 25, train 100, "
        "save 25, train 100, save 20");
  CHECK(summed(spec) ==
        "wall 926: 60 steps of 24000 tokens in 600, ideally 600; saving 155, lost 114, detecting "
        "20, waiting 0, restarting 37; 1 stops, 7 saves, 0 changes, 1 spares, 0 finished; software "
        "1 of 1: 114 lost, 57 down");
}

TEST_CASE("campaign: phases follow each other with a restart or without") {
  Spec spec = known(1, false);
  spec.phases.push_back(spec.phases[0]);
  spec.phases[0].steps = 15;
  spec.phases[1].steps = 20;
  spec.phases[1].shapes[0][0].step = span(20);
  CHECK(told(spec) ==
        "train 100, save 5, train 50, save 5 phase 1, restart 40 phase 1, train 100 phase 1, save "
        "5 phase 1, train 100 phase 1, save 5 phase 1, train 100 phase 1, save 5 phase 1, train "
        "100 phase 1, save 5 phase 1");
  CHECK(summed(spec) ==
        "wall 620: 35 steps of 14000 tokens in 550, ideally 550; saving 30, lost 0, detecting 0, "
        "waiting 0, restarting 40; 0 stops, 6 saves, 1 changes, 1 spares, 1 finished");
  spec.phases[1].seamless = true;
  CHECK(told(spec) ==
        "train 100, save 5, train 50, save 5 phase 1, train 100 phase 1, save 5 phase 1, train 100 "
        "phase 1, save 5 phase 1, train 100 phase 1, save 5 phase 1, train 100 phase 1, save 5 "
        "phase 1");
  CHECK(summed(spec) ==
        "wall 580: 35 steps of 14000 tokens in 550, ideally 550; saving 30, lost 0, detecting 0, "
        "waiting 0, restarting 0; 0 stops, 6 saves, 0 changes, 1 spares, 1 finished");
}

TEST_CASE("campaign: a pool shrinks and grows, announced or not") {
  Spec spec = known(0, true, 1000);
  spec.pools.push_back({{span(250).ns}, span(60), 2});
  spec.pools.push_back({{span(600).ns}, {}, 4});
  const std::vector<JobShape> shapes = spec.phases[0].shapes[0];
  std::vector<JobShape> small = shapes;
  small.erase(small.begin());
  spec.phases[0].shapes.push_back(small);
  spec.phases[0].shapes.push_back(shapes);
  CHECK(told(spec) ==
        "train 100, save 5, train 100 pool 1, save 5 pool 1, restart 40 pool 1, train 100 pool 1, "
        "save 5 pool 1, train 100 pool 1, save 5 pool 1, train 100 pool 1, save 5 pool 1, train "
        "100 pool 2, save 5 pool 2, restart 40 pool 2, train 100 pool 2, save 5 pool 2, train 100 "
        "pool 2, save 5 pool 2, train 100 pool 2, save 5 pool 2");
  CHECK(summed(spec) ==
        "wall 1025: 90 steps of 28000 tokens in 900, ideally 700; saving 45, lost 0, detecting 0, "
        "waiting 0, restarting 80; 0 stops, 9 saves, 2 changes, 0 spares, 0 finished");
  spec.pools[0].notice = {};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 40 pool 1, restart 40 pool 1, train 100 pool "
        "1, save 5 pool 1, train 100 pool 1, save 5 pool 1, train 100 pool 1, save 5 pool 2, train "
        "100 pool 2, save 5 pool 2, restart 40 pool 2, train 100 pool 2, save 5 pool 2, train 100 "
        "pool 2, save 5 pool 2, train 100 pool 2, save 5 pool 2");
  CHECK(summed(spec) ==
        "wall 1065: 90 steps of 28000 tokens in 900, ideally 700; saving 45, lost 40, detecting 0, "
        "waiting 0, restarting 80; 1 stops, 9 saves, 2 changes, 0 spares, 0 finished");
}

TEST_CASE(
    "campaign: a campaign ends with the save or restart after its length, or is cut at twice its "
    "length") {
  Spec spec = known(0, false, 300);
  spec.trace = {at(254, node, 2, 10000)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 44, detect 20 node, wait 326 node");
  CHECK(summed(spec) ==
        "wall 600: 20 steps of 8000 tokens in 200, ideally 200; saving 10, lost 44, detecting 20, "
        "waiting 326, restarting 0; 1 stops, 2 saves, 0 changes, 0 spares, 0 finished; node 1 of "
        "1: 44 lost, 346 down");
  spec = known(0, false, 300);
  spec.trace = {at(290, software)};
  CHECK(told(spec) ==
        "train 100, save 5, train 100, save 5, train 80, detect 20 software, restart 37 software");
  CHECK(summed(spec) ==
        "wall 347: 20 steps of 8000 tokens in 200, ideally 200; saving 10, lost 80, detecting 20, "
        "waiting 0, restarting 37; 1 stops, 2 saves, 0 changes, 0 spares, 0 finished; software 1 "
        "of 1: 80 lost, 57 down");
  spec = known(0, false, 0);
  CHECK(told(spec) == "");
  CHECK(summed(spec) ==
        "wall 0: 0 steps of 0 tokens in 0, ideally 0; saving 0, lost 0, detecting 0, waiting 0, "
        "restarting 0; 0 stops, 0 saves, 0 changes, 0 spares, 0 finished");
  spec = known(0, false, 105);
  CHECK(told(spec) == "train 100, save 5, train 100, save 5");
  CHECK(summed(spec) ==
        "wall 210: 20 steps of 8000 tokens in 200, ideally 200; saving 10, lost 0, detecting 0, "
        "waiting 0, restarting 0; 0 stops, 2 saves, 0 changes, 0 spares, 0 finished");
  spec = known(0, false, 104);
  CHECK(told(spec) == "train 100, save 5");
  CHECK(summed(spec) ==
        "wall 105: 10 steps of 4000 tokens in 100, ideally 100; saving 5, lost 0, detecting 0, "
        "waiting 0, restarting 0; 0 stops, 1 saves, 0 changes, 0 spares, 0 finished");
}
