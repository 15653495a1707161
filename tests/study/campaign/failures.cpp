// failures.cpp — failures and recoveries against times worked out by hand, to the nanosecond.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/study/campaign/ensemble.h"
#include "sim/study/campaign/hazards.h"
#include "sim/study/campaign/timeline.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;

namespace {

// Four nodes, steps of 10 s, a save of 10 s after every 90 s of training, restarts of 30 s. The
// length is one day, and only the traced failures occur.
Spec traced(int spares, std::vector<TracedFailure> trace) {
  Spec spec = sample::memoryless(10, 1e15, 90, 10, 30, 1);
  spec.nodes = 4 + spares;
  spec.phases[0].shapes[0][0].nodes = 4;
  spec.kinds[0].takes = Takes::node;
  spec.kinds[0].repair = {find_law("fixed"), 5000};
  spec.trace = std::move(trace);
  return spec;
}

Moment at(double seconds) {
  return {span(seconds).ns};
}

}  // namespace

TEST_CASE("campaign: laws are their own inverses, and have the mean that they say") {
  for (const Law& law : laws()) {
    INFO(law.name);
    Lifetime life = {&law, 1000, 0.7, 10, 200};
    if (law.name == "fixed") continue;
    for (const double age : {0.1, 10.0, 900.0, 1e5})
      CHECK(law.inverse(life, law.cumulative(life, age)) == Approx(age).epsilon(1e-9));
    sim::Random random(3);
    double mean = 0;
    for (int i = 0; i < 200'000; ++i) mean += draw(life, random) / 200'000;
    // Early failures shorten the mean of `infant`. The other laws have the given mean.
    if (law.name == "infant") {
      CHECK(mean < 900);
    } else {
      CHECK(mean == Approx(1000).epsilon(0.01));
    }
  }
}

TEST_CASE("campaign: a fleet fails as its parts do one by one") {
  // 500 Weibull parts, each replaced when it fails, against the same parts simulated one by one.
  Spec spec = sample::memoryless(10, 1000, 90, 10, 30, 1);
  spec.kinds[0].life = {find_law("weibull"), 1000, 0.7};
  spec.kinds[0].parts = 500;
  double fleet = 0, single = 0;
  sim::Random random(5);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Hazards hazards(spec, 0, seed);
    Failure failure;
    while (hazards.next(0, failure) && failure.when < at(2000)) fleet += 1;
    for (int part = 0; part < 500; ++part)
      for (double t = draw(spec.kinds[0].life, random); t < 2000;
           t += draw(spec.kinds[0].life, random))
        single += 1;
  }
  CHECK(fleet == Approx(single).epsilon(0.01));
}

TEST_CASE("campaign: a failure without a spare waits for the repair, with one it does not") {
  // Cycles of 100 s. The failure at 1045 s loses the 45 s since the save that ended at 1000 s; then
  // 5000 s of repair and 30 s of restart, or the restart alone.
  const Outcome waits = simulate(traced(0, {{at(1045), 0, 2}}), 1);
  CHECK(waits.lost == span(45));
  CHECK(waits.waiting == span(5000));
  CHECK(waits.restarting == span(30));
  CHECK(waits.interruptions == 1);
  const Outcome swaps = simulate(traced(1, {{at(1045), 0, 2}}), 1);
  CHECK(swaps.lost == span(45));
  CHECK(swaps.waiting == span(0));
  CHECK(swaps.spares_least == 0);
  // The failure of a spare stops nothing.
  const Outcome idle = simulate(traced(1, {{at(1045), 0, 4}}), 1);
  CHECK(idle.interruptions == 0);
  CHECK(idle.lost == span(0));
  CHECK(idle.causes[0].events == 1);
}

TEST_CASE("campaign: failures may strike a save and a restart") {
  // At 995 s the save is under way. All 90 s of its interval are lost, and 5 s of saving.
  const Outcome save = simulate(traced(4, {{at(995), 0, 0}}), 1);
  CHECK(save.lost == span(90));
  CHECK(save.saving.ns % span(10).ns == span(5).ns);
  // The second failure comes 20 s into the restart after the first. The restart begins anew.
  const Outcome twice = simulate(traced(4, {{at(1045), 0, 0}, {at(1065), 0, 1}}), 1);
  CHECK(twice.interruptions == 2);
  CHECK(twice.restarting == span(50));
  CHECK(twice.lost == span(45));
}

TEST_CASE("campaign: a smaller shape goes on, and grows back at a save") {
  Spec spec = traced(0, {{at(1045), 0, 2}});
  JobShape less = spec.phases[0].shapes[0][0];
  less.nodes = 3;
  less.tokens = 3;
  spec.phases[0].shapes[0][0].tokens = 4;
  spec.phases[0].shapes[0].push_back(less);
  std::vector<Slice> timeline;
  const Outcome outcome = simulate(spec, 1, &timeline);
  CHECK(outcome.waiting == span(0));
  CHECK(outcome.changes == 2);
  CHECK(outcome.restarting == span(60));
  // The speed is three quarters while the node is away: a step of 10 s counts as 7.5 s.
  const Span slowed = outcome.kept.wall - outcome.kept.ideal;
  CHECK(slowed > span(0.2 * 5000));
  CHECK(slowed < span(0.3 * 5000));
  // A column is an hour. The node is away from 1045 s to 6045 s, most of the first two hours.
  CHECK(strip(timeline, 24) == "--======================");
}

TEST_CASE("campaign: a copy in memory survives one node, and not two at once") {
  Spec spec = traced(4, {{at(5045), 0, 2}});
  spec.tiers.insert(spec.tiers.begin(), {"memory", span(20), span(0), span(0), span(1), 1});
  spec.tiers.back().interval = span(3600);
  const Outcome one = simulate(spec, 1);
  CHECK(one.lost <= span(20));
  spec.kinds[0].takes = Takes::group;
  spec.kinds[0].group = 2;
  const Outcome two = simulate(spec, 1);
  // The job returns to the save of the first hour, after 3600 s of training and 10 s of saving.
  CHECK(two.lost == span(5045 - 3610));
}

TEST_CASE("campaign: a straggler slows every step until it is found") {
  Spec spec = traced(1, {{at(1000), 0, 1}});
  spec.kinds[0].straggler = true;
  spec.kinds[0].found = {find_law("fixed"), 905};
  spec.phases[0].shapes[0][0].slowed = {span(20)};
  const Outcome outcome = simulate(spec, 1);
  CHECK(outcome.interruptions == 1);
  // The straggler is found 905 s later. A cycle is nine steps of 20 s and a save of 10 s: 190 s.
  // Four cycles are complete. The fifth has 145 s, which are lost with the step under way.
  CHECK(outcome.lost == span(145));
  CHECK(outcome.kept.wall - outcome.kept.ideal == span(4 * 90));
}

TEST_CASE("campaign: answers are compared under the same failures") {
  Spec waits = sample::cluster(0, false), spares = sample::cluster(0, false);
  spares.phases[0].shapes[0] = sample::cluster(0, true).phases[0].shapes[0];
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome a = simulate(waits, seed), b = simulate(spares, seed);
    CHECK(a.causes[0].events > 0);
    // Software failures do not depend on the response, and both campaigns end near the same time.
    CHECK(std::abs(static_cast<double>(a.causes[0].events - b.causes[0].events)) <= 2);
  }
}
