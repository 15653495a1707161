// summary.cpp — the summary of a campaign's seeds, from outcomes written by hand.
#include "sim/study/campaign/summary.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "sim/study/campaign/run.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;

namespace {

// 100 s with 70 s of training, whose steps would take 60 s at full speed.
Outcome outcome() {
  Outcome o;
  o.wall = span(100);
  o.kept = {7, 700, span(70), span(60)};
  o.saving = span(9);
  o.lost = span(8);
  o.detecting = span(6);
  o.waiting = span(4);
  o.restarting = span(3);
  o.causes = {{5, 2, span(7), span(12)}};
  o.interruptions = 2;
  o.saves = 11;
  o.changes = 1;
  o.spares_least = 3;
  o.finished = 1;
  return o;
}

Built built() {
  Built all;
  all.spec = sample::memoryless(10, 3600, 600, 12, 600, 1);
  all.name = "it";
  all.gpus = 16;
  all.job_gpus = 8;
  all.tokens_per_step = 100;
  all.price_per_gpu_hour = 2;
  all.costs = {3600, 12, 600};
  all.memoryless = true;
  all.usual_interval = 300;
  all.least_interval = 12;
  return all;
}

}  // namespace

TEST_CASE("campaign: a summary has the means of the seeds, and each of them") {
  const Outcome one = outcome();
  Outcome other;
  other.wall = span(200);
  other.kept = {1, 100, span(10), span(10)};
  other.causes = {{}};
  other.lost = span(190);
  other.spares_least = 1;
  const Spec spec = sample::memoryless(10, 3600, 600, 12, 600, 2);
  const Summary s = summarise(spec, {one, other});
  CHECK(s.seeds == 2);
  CHECK(s.days == Approx(2));
  CHECK(s.step == Approx(10));
  CHECK(s.intervals.used == Approx(600));
  CHECK(s.goodput.mean == Approx((0.7 + 0.05) / 2));
  CHECK(s.effective.mean == Approx((0.6 + 0.05) / 2));
  CHECK(s.interruptions.mean == Approx(1));
  CHECK(s.wall.mean == Approx(150));
  CHECK(s.slowed == Approx(5));
  CHECK(s.tokens == Approx(400));
  CHECK(s.saves == Approx(5.5));
  CHECK(s.changes == Approx(0.5));
  CHECK(s.spares_least == Approx(2));
  CHECK(s.finished == Approx(0.5));
  REQUIRE(s.accounts.size() == 6);
  const double means[] = {40, 4.5, 99, 3, 2, 1.5};
  const char* names[] = {"training that was kept", "saving",
                         "training that was lost", "detecting",
                         "waiting for nodes",      "restarting"};
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(s.accounts[i].name == names[i]);
    CHECK(s.accounts[i].seconds == Approx(means[i]));
  }
  // Shares are means over the seeds, so that of the kept training is the goodput.
  const double shares[] = {0.375, 0.045, 0.515, 0.03, 0.02, 0.015};
  for (std::size_t i = 0; i < 6; ++i) CHECK(s.accounts[i].share == Approx(shares[i]));
  CHECK(s.accounts[0].share == Approx(s.goodput.mean));
  REQUIRE(s.causes.size() == 1);
  CHECK(s.causes[0].name == "any");
  CHECK(s.causes[0].events == Approx(2.5));
  CHECK(s.causes[0].interruptions == Approx(1));
  CHECK(s.causes[0].lost == Approx(3.5));
  CHECK(s.causes[0].down == Approx(6));
  REQUIRE(s.each.size() == 2);
  CHECK(s.each[0].goodput == Approx(0.7));
  CHECK(s.each[0].effective == Approx(0.6));
  CHECK(s.each[0].wall == Approx(100));
  CHECK(s.each[0].lost == Approx(8));
  CHECK(s.each[0].down == Approx(13));
  CHECK(s.each[0].interruptions == 2);
  CHECK(s.each[1].lost == Approx(190));
}

TEST_CASE("campaign: what is built is added to what the seeds say, and formulas where they hold") {
  Built all = built();
  const Summary s = summary_of(all, 7, {outcome(), outcome()});
  CHECK(s.name == "it");
  CHECK(s.gpus == 16);
  CHECK(s.job_gpus == 8);
  CHECK(s.first_seed == 7);
  CHECK(s.gpu_hours == Approx(16 * 100 / 3600.0));
  CHECK(s.tokens_per_step == 100);
  CHECK(s.price_per_gpu_hour == 2);
  CHECK(s.intervals.young == Approx(young_interval(all.costs)));
  CHECK(s.intervals.daly == Approx(daly_interval(all.costs)));
  CHECK(*s.intervals.exact == Approx(best_interval(all.costs)));
  CHECK(*s.renewal == Approx(renewal_goodput(all.costs, 600)));
  // The interval is never shorter than a step.
  all.costs.mtbf = 1;
  CHECK(*summary_of(all, 7, {outcome()}).intervals.exact == 10);
  all.memoryless = false;
  CHECK_FALSE(summary_of(all, 7, {outcome()}).intervals.exact);
  CHECK_FALSE(summary_of(all, 7, {outcome()}).renewal);
  all.costs.mtbf = 0;
  CHECK(summary_of(all, 7, {outcome()}).intervals.young == 0);
}

TEST_CASE("campaign: the best interval is simulated where it was asked for, or no formula holds") {
  Built all = built();
  const auto made = [&](int seeds, bool vary) {
    const auto summary = run(all, {1, seeds, 1}, vary);
    REQUIRE(summary);
    return *summary;
  };
  CHECK_FALSE(made(2, false).intervals.simulated);
  CHECK(made(2, true).intervals.simulated->points.size() == 13);
  all.memoryless = false;
  CHECK(made(2, false).intervals.simulated->interval > 0);
  CHECK(made(2, false).intervals.simulated->points.empty());
  // By default the interval is simulated with at most 24 seeds.
  const auto interval = [&](int seeds) { return made(seeds, false).intervals.simulated->interval; };
  CHECK(interval(25) == interval(24));
  CHECK(made(25, true).intervals.simulated->interval != interval(25));
  const auto stopped = [&](int answers) {
    int asked = 0;
    return !run(all, {1, 3, 1}, false, [&] { return ++asked <= answers; });
  };
  CHECK(stopped(0));
  CHECK(stopped(3));
  CHECK_FALSE(stopped(1000));
}

TEST_CASE("campaign: sentences name the account that limits, and what slowed or sped up") {
  Built all = built();
  Summary s = summary_of(all, 7, {outcome()});
  CHECK(sentences(s).find("limited by saving: 9.00 % of the time\n") != std::string::npos);
  CHECK(sentences(s).find("stragglers and other shapes took 10.0 s of the kept time") !=
        std::string::npos);
  CHECK(sentences(s).find("700 tokens, 60.00 % of what the undisturbed job would train\n") !=
        std::string::npos);
  CHECK(sentences(s).find("0.4444 GPU hours cost 0.8889\n") != std::string::npos);
  s.slowed = -10;
  CHECK(sentences(s).find("stragglers and other shapes saved 10.0 s") != std::string::npos);
  s.slowed = 0;
  CHECK(sentences(s).find("stragglers") == std::string::npos);
  s.tokens_per_step = 0;
  s.price_per_gpu_hour = 0;
  CHECK(sentences(s).find("tokens") == std::string::npos);
  CHECK(sentences(s).find("GPU hours") == std::string::npos);
}
