// renewal.cpp — failures without memory and fixed costs: the simulation against the exact renewal
// formula.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/study/campaign/ensemble.h"
#include "sim/study/campaign/formula.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;

namespace {

Statistic goodputs(const std::vector<Outcome>& outcomes) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes) values.push_back(goodput(outcome));
  return statistic(values);
}

Statistic interruptions(const std::vector<Outcome>& outcomes) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes)
    values.push_back(static_cast<double>(outcome.interruptions));
  return statistic(values);
}

}  // namespace

TEST_CASE("campaign: goodput and interruptions are those of the renewal formula") {
  struct Case {
    double step, mtbf, interval, write, restart, days;
  };
  // From rare failures to ones that interrupt more than half of the restarts.
  for (const Case& c : {Case{10, 10800, 1800, 60, 600, 20}, Case{30, 90000, 3600, 300, 1200, 60},
                        Case{7.3, 3600, 1801, 120, 900, 8}, Case{1, 600, 60, 5, 900, 1},
                        Case{5, 7200, 600, 0, 300, 10}}) {
    INFO("M " << c.mtbf << " tau " << c.interval << " delta " << c.write << " R " << c.restart);
    const Spec spec = sample::memoryless(c.step, c.mtbf, c.interval, c.write, c.restart, c.days);
    const auto outcomes = simulate_all(spec, 1, 10'000, 2);
    const Statistic good = goodputs(outcomes);
    const double exact = renewal_goodput({c.mtbf, c.write, c.restart}, c.interval);
    CHECK(std::abs(good.mean - exact) < 3 * good.standard_error);
    CHECK(good.standard_error < 0.01 * exact);
    // Failures occur during every activity: their expected number is the length over the mean time
    // between failures.
    const Statistic stops = interruptions(outcomes);
    CHECK(std::abs(stops.mean - c.days * 86400 / c.mtbf) < 3 * stops.standard_error);
  }
}

TEST_CASE("campaign: the accounts sum to the wall time, to the nanosecond") {
  for (const Spec& spec : sample::all()) {
    for (const Outcome& o : simulate_all(spec, 1, 20, 1)) {
      CHECK(o.kept.wall + o.lost + o.saving + o.detecting + o.waiting + o.restarting == o.wall);
      Span lost{}, down{};
      for (const CauseOutcome& cause : o.causes) {
        lost += cause.lost;
        down += cause.down;
      }
      CHECK(lost <= o.lost);
      CHECK(down <= o.detecting + o.waiting + o.restarting);
    }
  }
}

TEST_CASE("campaign: leaping over undisturbed saves changes nothing") {
  for (Spec spec : sample::all()) {
    const auto leapt = simulate_all(spec, 1, 20, 1);
    spec.leap = false;
    const auto walked = simulate_all(spec, 1, 20, 1);
    for (std::size_t i = 0; i < leapt.size(); ++i) CHECK(sample::same(leapt[i], walked[i]));
  }
}

TEST_CASE("campaign: any number of threads gives the same outcomes") {
  for (const Spec& spec : sample::all()) {
    const auto one = simulate_all(spec, 7, 20, 1), four = simulate_all(spec, 7, 20, 4);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(sample::same(one[i], four[i]));
    // A seed's outcome does not depend on other seeds, so shards are possible.
    CHECK(sample::same(one[13], simulate(spec, 20)));
  }
}

TEST_CASE("campaign: the best interval is the root of the derivative, near Daly's and Young's") {
  for (const double mtbf : {600.0, 10800.0, 1e6}) {
    for (const double write : {1.0, 60.0, 300.0}) {
      const Costs costs = {mtbf, write, 100};
      const double best = best_interval(costs);
      CHECK(renewal_goodput(costs, best) >= renewal_goodput(costs, best * 1.001));
      CHECK(renewal_goodput(costs, best) >= renewal_goodput(costs, best * 0.999));
      CHECK(daly_interval(costs) == Approx(best).epsilon(0.006));
      CHECK(young_interval(costs) == Approx(best).epsilon(0.6));
    }
  }
  CHECK(daly_interval({100, 200, 0}) == 100);
}

TEST_CASE("campaign: the simulated optimum finds the exact one through its noise") {
  const Spec spec = sample::memoryless(10, 10800, 1800, 60, 600, 54);
  const Optimum found = simulated_optimum(spec, 1200, 60, 1, 200, 2);
  CHECK(found.interval == Approx(best_interval({10800, 60, 600})).epsilon(0.05));
  CHECK(found.points.size() == 13);
}

TEST_CASE("campaign: without failures only saves take time") {
  // 54 days of steps of 10 s, and a save of 60 s after every 180 steps: 30/31 of the time trains.
  const Spec spec = sample::memoryless(10, 1e12, 1800, 60, 600, 54);
  const Outcome outcome = simulate(spec, 1);
  CHECK(outcome.interruptions == 0);
  CHECK(outcome.kept.wall.ns * 31 == outcome.wall.ns * 30);
  CHECK(outcome.wall >= spec.length);
}

TEST_CASE("campaign: a job that saves nothing keeps nothing, and ends") {
  const Outcome outcome = simulate(sample::memoryless(10, 20, 6000, 60, 600, 1), 1);
  CHECK(outcome.kept.steps == 0);
  CHECK(outcome.wall <= Span{2 * 86400'000'000'000});
}
