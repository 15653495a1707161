// numbers.cpp — numbers from outcomes: statistics, the fit around the best interval, lines of
// shards, strips and words.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "sim/study/campaign/ensemble.h"
#include "sim/study/campaign/formula.h"
#include "sim/study/campaign/hazards.h"
#include "sim/study/campaign/shards.h"
#include "sim/study/campaign/summary.h"
#include "sim/study/campaign/timeline.h"
#include "sim/study/sweep/records.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;

namespace {

// Least squares by Cramer's rule, independent of any elimination.
double determinant(const std::vector<std::vector<long double>>& m) {
  if (m.size() == 1) return static_cast<double>(m[0][0]);
  long double sum = 0;
  for (std::size_t column = 0; column < m.size(); ++column) {
    std::vector<std::vector<long double>> minor;
    for (std::size_t row = 1; row < m.size(); ++row) {
      minor.emplace_back();
      for (std::size_t c = 0; c < m.size(); ++c)
        if (c != column) minor.back().push_back(m[row][c]);
    }
    sum += (column % 2 == 0 ? 1 : -1) * m[0][column] * static_cast<long double>(determinant(minor));
  }
  return static_cast<double>(sum);
}

std::vector<double> fitted(const std::vector<std::vector<double>>& rows,
                           const std::vector<double>& values) {
  std::vector<std::vector<long double>> normal(4, std::vector<long double>(4, 0));
  std::vector<long double> right(4, 0);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < 4; ++i) {
      right[i] += static_cast<long double>(rows[r][i]) * values[r];
      for (std::size_t j = 0; j < 4; ++j)
        normal[i][j] += static_cast<long double>(rows[r][i]) * rows[r][j];
    }
  std::vector<double> solution;
  for (std::size_t i = 0; i < 4; ++i) {
    auto changed = normal;
    for (std::size_t j = 0; j < 4; ++j) changed[j][i] = right[j];
    solution.push_back(determinant(changed) / determinant(normal));
  }
  return solution;
}

std::string first_line(const Spec& spec) {
  const std::string lines = lines_of(spec, {1, 0}, {});
  return lines.substr(0, lines.find('\n'));
}

Slice slice(Activity activity, double from, double to, int shape = 0) {
  Slice one;
  one.activity = activity;
  one.from = Moment{span(from).ns};
  one.to = Moment{span(to).ns};
  one.shape = shape;
  return one;
}

}  // namespace

TEST_CASE("campaign: a statistic has the mean, its error and the nearest ranks") {
  const Statistic none = statistic({});
  CHECK(none.mean == 0);
  CHECK(none.standard_error == 0);
  const Statistic one = statistic({7});
  CHECK(one.mean == 7);
  CHECK(one.standard_error == 0);
  CHECK((one.low == 7 && one.middle == 7 && one.high == 7));
  const Statistic two = statistic({4, 2});
  CHECK(two.mean == 3);
  CHECK(two.standard_error == Approx(1));  // sqrt(2 / 1 / 2)
  CHECK((two.low == 2 && two.middle == 4 && two.high == 4));
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const Statistic many = statistic(values);
  CHECK(many.mean == Approx(50));
  CHECK(many.standard_error == Approx(std::sqrt(101.0 * 102 / 12 / 101)));
  CHECK((many.low == 5 && many.middle == 50 && many.high == 95));
}

TEST_CASE("campaign: shares are of the wall time, and none of no time") {
  Outcome outcome;
  CHECK(goodput(outcome) == 0);
  CHECK(effective(outcome) == 0);
  outcome.wall = span(200);
  outcome.kept.wall = span(150);
  outcome.kept.ideal = span(120);
  CHECK(goodput(outcome) == Approx(0.75));
  CHECK(effective(outcome) == Approx(0.6));
  outcome.wall = {1};
  CHECK(goodput(outcome) > 0);
}

TEST_CASE("campaign: the simulated optimum is the lowest of the curve through its points") {
  const double near = 1200;
  const Spec spec = sample::memoryless(10, 10800, 1800, 60, 600, 20);
  const Optimum found = simulated_optimum(spec, near, 60, 1, 20, 1);
  REQUIRE(found.points.size() == 13);
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    const Optimum::Point& point = found.points[i];
    CHECK(point.interval == Approx(near * std::pow(3, (static_cast<double>(i) - 6) / 6)));
    Spec own = spec;
    own.tiers.back().interval = span(point.interval);
    std::vector<double> shares;
    for (const Outcome& outcome : simulate_all(own, 1, 20, 1)) shares.push_back(effective(outcome));
    CHECK(point.goodput == statistic(shares).mean);
    CHECK(point.standard_error == statistic(shares).standard_error);
    const double x = point.interval / near;
    rows.push_back({1 / x, 1, x, x * x});
    values.push_back(1 / point.goodput);
  }
  const std::vector<double> fit = fitted(rows, values);
  double best = 0, lowest = 1e300;
  for (int i = 0; i <= 2000; ++i) {
    const double x = std::pow(9, i / 2000.0) / 3;
    const double overhead = fit[0] / x + fit[1] + fit[2] * x + fit[3] * x * x;
    if (overhead < lowest) lowest = overhead, best = x * near;
  }
  CHECK(found.interval == Approx(best).epsilon(0.002));
}

TEST_CASE("campaign: an optimum is never sought below the least, and few points have no curve") {
  const Spec spec = sample::memoryless(10, 10800, 1800, 60, 600, 2);
  // The longest candidate is 3 x 600. The six candidates below 600 collapse into one.
  const Optimum half = simulated_optimum(spec, 600, 600, 1, 2, 1);
  CHECK(half.points.size() == 7);
  CHECK(half.points.front().interval == 600);
  CHECK(half.points.back().interval == Approx(1800));
  const Optimum few = simulated_optimum(spec, 600, 1000, 1, 2, 1);
  REQUIRE(few.points.size() == 5);
  double most = 0, interval = 0;
  for (const Optimum::Point& point : few.points)
    if (point.goodput > most) most = point.goodput, interval = point.interval;
  CHECK(few.interval == interval);
  const Spec longer = sample::memoryless(10, 10800, 1800, 60, 600, 200);
  const Optimum six = simulated_optimum(longer, 600, 800, 1, 4, 1);
  REQUIRE(six.points.size() == 6);
  for (const Optimum::Point& point : six.points) CHECK(six.interval != point.interval);
  CHECK(simulated_optimum(spec, 600, 60, 1, 2, 1, [] { return false; }).points.empty());
}

TEST_CASE("campaign: shards are of one campaign: whatever an outcome depends on names it") {
  const Spec spec = [] {
    Spec all = sample::cluster(2, true);
    all.trace.resize(1);
    all.pools.push_back({{span(86400).ns}, span(3600), 55});
    all.phases[0].shapes.push_back(all.phases[0].shapes[0]);
    return all;
  }();
  std::vector<std::function<void(Spec&)>> changes = {
      [](Spec& s) { ++s.nodes; },
      [](Spec& s) { ++s.length.ns; },
      [](Spec& s) { s.kinds[1].name += "s"; },
      [](Spec& s) { s.kinds[1].parts += 1; },
      [](Spec& s) { s.kinds[1].takes = Takes::nothing; },
      [](Spec& s) { ++s.kinds[1].group; },
      [](Spec& s) { ++s.kinds[1].detection.ns; },
      [](Spec& s) { s.kinds[1].straggler = true; },
      [](Spec& s) { s.kinds[3].at_save = true; },
      [](Spec& s) { s.kinds[1].life.law = find_law("fixed"); },
      [](Spec& s) { s.kinds[1].life.law = nullptr; },
      [](Spec& s) { s.kinds[1].life.mean += 1; },
      [](Spec& s) { s.kinds[2].life.shape += 1; },
      [](Spec& s) { s.kinds[3].life.early += 1; },
      [](Spec& s) { s.kinds[3].life.burn_in += 1; },
      [](Spec& s) { s.kinds[1].repair.mean += 1; },
      [](Spec& s) { s.kinds[3].found.mean += 1; },
      [](Spec& s) { s.kinds.pop_back(); },
      [](Spec& s) { ++s.trace[0].when.ns; },
      [](Spec& s) { ++s.trace[0].kind; },
      [](Spec& s) { ++s.trace[0].node; },
      [](Spec& s) { ++s.trace[0].repair.ns; },
      [](Spec& s) { ++s.tiers[0].interval.ns; },
      [](Spec& s) { ++s.tiers[0].blocking.ns; },
      [](Spec& s) { ++s.tiers[0].background.ns; },
      [](Spec& s) { ++s.tiers[0].load.ns; },
      [](Spec& s) { --s.tiers[0].survives; },
      [](Spec& s) { ++s.pools[0].when.ns; },
      [](Spec& s) { ++s.pools[0].notice.ns; },
      [](Spec& s) { ++s.pools[0].nodes; },
      [](Spec& s) { ++s.phases[0].steps; },
      [](Spec& s) { s.phases[0].seamless = true; },
      [](Spec& s) { ++s.phases[0].shapes[1][0].nodes; },
      [](Spec& s) { ++s.phases[0].shapes[0][1].step.ns; },
      [](Spec& s) { ++s.phases[0].shapes[0][1].tokens; },
      [](Spec& s) { ++s.phases[0].shapes[0][1].restart.ns; },
      [](Spec& s) { ++s.phases[0].shapes[0][1].change.ns; },
      [](Spec& s) { ++s.phases[0].shapes[0][1].slowed[0].ns; },
  };
  std::vector<std::string> names = {first_line(spec)};
  for (const auto& change : changes) {
    Spec other = spec;
    change(other);
    names.push_back(first_line(other));
  }
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) - names.begin() ==
        static_cast<std::ptrdiff_t>(changes.size()) + 1);
  Spec walks = spec;
  walks.leap = false;
  CHECK(first_line(walks) == first_line(spec));
}

TEST_CASE("campaign: shards are runs of neighbours that leave none out") {
  for (const int count : {1, 2, 7, 100})
    for (const int of : {1, 2, 3, 7, 8}) {
      std::uint64_t next = 5;
      for (int number = 1; number <= of; ++number) {
        const SeedRange one = shard({5, count}, number, of);
        CHECK(one.first == next);
        CHECK(std::abs(one.count - count / of) <= 1);
        next += static_cast<std::uint64_t>(one.count);
      }
      CHECK(next == 5 + static_cast<std::uint64_t>(count));
    }
}

TEST_CASE("campaign: lines that are no outcomes of all seeds are refused at their place") {
  const Spec spec = sample::memoryless(10, 3600, 600, 12, 600, 1);
  const std::vector<Outcome> outcomes = simulate_all(spec, 3, 2, 1);
  const std::string lines = lines_of(spec, {3, 2}, outcomes);
  const std::string path =
      (std::filesystem::temp_directory_path() / "campaign_numbers_lines").string();
  const auto said = [&](const std::string& text) -> std::string {
    std::ofstream(path) << text;
    const auto merged_lines = merged(spec, {3, 2}, {path});
    if (merged_lines) return "";
    const sim::Diagnostic& problem = merged_lines.errors().front();
    return problem.where.substr(path.size()) + " " + problem.message;
  };
  CHECK(said(lines) == "");
  const std::size_t first = lines.find('\n') + 1, second = lines.find('\n', first) + 1;
  const std::string head = lines.substr(0, first);
  const std::string one = lines.substr(first, second - first), two = lines.substr(second);
  CHECK(said(head + two + one) == "");
  CHECK(said(one + two) == ":1 these outcomes are of another campaign, or of other settings");
  CHECK(said("{}\n") == ":1 these outcomes are of another campaign, or of other settings");
  CHECK(said(head + one) == " seed 4 is in none of the files");
  CHECK(said(head + two) == " seed 3 is in none of the files");
  CHECK(said(head + one + two + one) == ":4 seed 3 is there twice");
  // The changed line with its checksum computed anew.
  const auto resealed = [](const std::string& line) {
    const std::string without = line.substr(0, line.find(",\"checksum\"")) + "}";
    return sim::study::sealed(without) + "\n";
  };
  const auto changed = [&](const std::string& line, const std::string& from,
                           const std::string& to) {
    std::string other = line;
    return other.replace(other.find(from), from.size(), to);
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    return resealed(changed(one, from, to));
  };
  const std::string told = " is not as `campaign --shard` wrote it; make this shard anew";
  REQUIRE(resealed(one) == one);
  CHECK(said(head + changed(one, "\"outcome\":[", "\"outcome\":[1") + two) == ":2" + told);
  CHECK(said(head + one + changed(two, "\"seed\":4", "\"seed\":3")) == ":3" + told);
  CHECK(said(head + one + two.substr(0, two.size() - 2)) == ":3" + told);
  CHECK(said(head + one + two.substr(0, two.find(",\"checksum\"")) + "}\n") == ":3" + told);
  CHECK(said(head + one + two + "\n") == ":4" + told);
  CHECK(said(head.substr(0, head.find(",\"checksum\"")) + "}\n" + one + two) == ":1" + told);
  CHECK(said(head + with("\"seed\":3", "\"seed\":2")) == ":2 seed 2 is none of this campaign's");
  CHECK(said(head + with("\"seed\":3", "\"seed\":5")) == ":2 seed 5 is none of this campaign's");
  for (const std::string& bad :
       {with("\"seed\":3", "\"seed\":-3"), with("\"seed\":3", "\"site\":3"),
        with("\"outcome\":[", "\"outcome\":[1,"), with("\"outcome\":[", "\"outcome\":[1.5,"),
        with("\"outcome\":", "\"other\":"), with("]", "")})
    CHECK(said(head + one + two + bad) == ":4 this is no outcome of a seed");
  // All errors at once, up to the limit of the report.
  std::string many = head;
  for (int i = 0; i < 30; ++i) many += "{}\n";
  std::ofstream(path) << many;
  const auto all = merged(spec, {3, 2}, {path});
  REQUIRE_FALSE(all);
  REQUIRE(all.errors().size() == 21);
  CHECK(all.errors()[19].where == path + ":21");
  CHECK(all.errors()[20].message == "and more; these are the first 20");
  std::filesystem::remove(path);
}

TEST_CASE("campaign: a strip shows what each column was spent on") {
  CHECK(strip({}, 10) == "");
  CHECK(strip({slice(Activity::training, 0, 10)}, 5) == "=====");
  // Columns of one second: half of one is lost, then a smaller shape trains, which grows back
  // within a column.
  CHECK(strip({slice(Activity::training, 0, 1.5), slice(Activity::detecting, 1.5, 2),
               slice(Activity::restarting, 2, 3), slice(Activity::training, 3, 5.6, 1),
               slice(Activity::saving, 5.6, 6), slice(Activity::training, 6, 7),
               slice(Activity::waiting, 7, 9), slice(Activity::training, 9, 10)},
              10) == "=xx---=ww=");
  // A stop of less than a tenth of a column is not shown. Of two stops the longer one is.
  CHECK(strip({slice(Activity::detecting, 0, 1), slice(Activity::training, 1, 10)}, 1) == "x");
  CHECK(strip({slice(Activity::waiting, 0, 1), slice(Activity::training, 1, 10)}, 1) == "w");
  CHECK(strip({slice(Activity::training, 0, 0.91), slice(Activity::detecting, 0.91, 1),
               slice(Activity::training, 1, 1.8), slice(Activity::waiting, 1.8, 2)},
              2) == "=w");
  CHECK(strip({slice(Activity::waiting, 0, 0.4), slice(Activity::detecting, 0.4, 1),
               slice(Activity::waiting, 1, 1.6), slice(Activity::restarting, 1.6, 2)},
              2) == "xw");
}

TEST_CASE("campaign: a slice is named by what it does or what is behind it") {
  const Spec spec = [] {
    Spec all = sample::memoryless(10, 3600, 600, 12, 600, 1);
    all.phases[0].shapes[0][0].plan = "dp=8";
    all.phases[0].shapes[0].push_back(all.phases[0].shapes[0][0]);
    all.phases[0].shapes[0][1].plan = "";
    return all;
  }();
  CHECK(words(spec, slice(Activity::saving, 0, 1)) == "save");
  CHECK(words(spec, slice(Activity::restarting, 0, 1)) == "planned");
  Slice down = slice(Activity::detecting, 0, 1);
  down.cause = 0;
  CHECK(words(spec, down) == "any");
  CHECK(words(spec, slice(Activity::training, 0, 1)) == "all: dp=8");
  CHECK(words(spec, slice(Activity::training, 0, 1, 1)) == "all");
  CHECK(words(spec, slice(Activity::training, 0, 1, 2)) == "all");  // as the last one
}

TEST_CASE("campaign: times and shares are written in the unit that fits") {
  CHECK(percent(0.12345) == "12.35 %");
  CHECK(human_span(119.94) == "119.9 s");
  CHECK(human_span(120) == "2.0 min");
  CHECK(human_span(7199) == "120.0 min");
  CHECK(human_span(7200) == "2.0 h");
  CHECK(human_span(172799) == "48.0 h");
  CHECK(human_span(172800) == "2.0 d");
  Intervals intervals;
  intervals.daly = 3;
  CHECK(intervals.best() == 3);
  intervals.simulated = Optimum{2, {}};
  CHECK(intervals.best() == 2);
  intervals.exact = 1;
  CHECK(intervals.best() == 1);
}

TEST_CASE("campaign: the formulas have their values") {
  CHECK(young_interval({10800, 60, 0}) == Approx(std::sqrt(2 * 60 * 10800.0)));
  // Daly 2006, equation 37: sqrt(2 d M) (1 + sqrt(d / 2 M) / 3 + d / 2 M / 9) - d.
  CHECK(daly_interval({200, 100, 0}) == Approx(200 * (1 + 0.5 / 3 + 0.25 / 9) - 100));
  CHECK(daly_interval({100, 199, 0}) == Approx(88.8884708288));
  CHECK(daly_interval({100, 201, 0}) == 100);
  CHECK(best_interval({10800, 0, 0}) == Approx(0).margin(1));
  // x = 1 / 2: ln(1 - x) + x + d / M = 0 where d / M = ln 2 - 1 / 2.
  CHECK(best_interval({1000, 1000 * (std::log(2) - 0.5), 5}) == Approx(500));
  CHECK(renewal_goodput({1000, 100, 50}, 400) ==
        Approx(400 / (1000 * std::exp(0.05) * (std::exp(0.5) - 1))));
}

TEST_CASE("campaign: laws have their cumulative hazards") {
  const auto hazard = [](const Lifetime& life, double age) {
    return life.law->cumulative(life, age);
  };
  CHECK(hazard({find_law("exponential"), 100}, 50) == Approx(0.5));
  // Weibull of shape 2 and mean 1: scale 2 / sqrt(pi).
  CHECK(hazard({find_law("weibull"), 1, 2}, 1) == Approx(std::acos(-1.0) / 4));
  CHECK(hazard({find_law("infant"), 100, 1, 5, 10}, 10) ==
        Approx((10 + 4 * 10 * (1 - std::exp(-1))) / 100));
  CHECK(hazard({find_law("fixed"), 100}, 99.9) == 0);
  CHECK(std::isinf(hazard({find_law("fixed"), 100}, 100)));
  CHECK(find_law("none") == nullptr);
}

TEST_CASE("campaign: lifetimes that cannot be are told") {
  const Law* weibull = find_law("weibull");
  const Law* infant = find_law("infant");
  CHECK(problem({}) == "has no law");
  CHECK(problem({find_law("fixed"), -1}) == "has a mean that is not a time");
  CHECK(problem({find_law("fixed"), std::nan("")}) == "has a mean that is not a time");
  CHECK(problem({find_law("fixed"), 1.0 / 0.0}) == "has a mean that is not a time");
  CHECK(problem({find_law("fixed"), 0}) == "");
  CHECK(problem({weibull, 1, 0.1}) == "");
  CHECK(problem({weibull, 1, 20}) == "");
  CHECK(problem({weibull, 1, 0.09}) == "has the shape 0.09; one from 0.1 to 20 is a lifetime");
  CHECK(problem({weibull, 1, 20.5}) == "has the shape 20.5; one from 0.1 to 20 is a lifetime");
  CHECK(problem({infant, 1, 1, 1, 5}) == "");
  CHECK(problem({infant, 1, 1, 1e4, 5}) == "");
  CHECK(problem({infant, 1, 1, 0.5, 5}) ==
        "has the early factor 0.5; new parts fail 1 to 10000 times as often");
  CHECK(problem({infant, 1, 1, 10001, 5}) ==
        "has the early factor 10001; new parts fail 1 to 10000 times as often");
  CHECK(problem({infant, 1, 1, 2, 0}) == "has no burn-in time");
  CHECK(problem({weibull, 1, 1, 0.5, 0}) == "");
}

TEST_CASE(
    "campaign: a failure takes a node or the group that it is in, with the times of its kind") {
  Spec spec = sample::memoryless(10, 3600, 600, 12, 600, 1);
  FailureKind& kind = spec.kinds[0];
  kind.repair = {find_law("fixed"), 500};
  kind.found = {find_law("fixed"), 70};
  const auto drawn = [&](int nodes) {
    std::vector<int> hit(static_cast<std::size_t>(nodes) + 1, 0);
    Hazards hazards(spec, nodes, 5);
    Moment last{};
    for (int i = 0; i < 400; ++i) {
      Failure failure;
      REQUIRE(hazards.next(0, failure));
      CHECK(failure.when > last);
      last = failure.when;
      CHECK(failure.repair == span(500));
      CHECK(failure.found == (kind.straggler ? span(70) : span(0)));
      ++hit.at(static_cast<std::size_t>(failure.node));
    }
    CHECK(seconds(Span{last.ns}) == Approx(400 * 3600).epsilon(0.15));
    return hit;
  };
  CHECK(drawn(10) == std::vector<int>{400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  kind.takes = Takes::node;
  for (const int hits : drawn(10)) CHECK((hits == 0 || (hits > 20 && hits < 65)));
  CHECK(drawn(10)[0] > 0);
  CHECK(drawn(10)[9] > 0);
  CHECK(drawn(10)[10] == 0);
  kind.takes = Takes::group;
  kind.group = 4;
  kind.straggler = true;
  const std::vector<int> groups = drawn(10);
  for (int node = 0; node <= 10; ++node)
    CHECK((groups[static_cast<std::size_t>(node)] > 0) == (node % 4 == 0 && node < 10));
  // Parts that never fail, and parts whose time of failure lies beyond the range of the clock.
  Failure failure;
  kind.parts = 0;
  CHECK_FALSE(Hazards(spec, 10, 5).next(0, failure));
  kind.parts = 1;
  kind.life.mean = 0;
  CHECK_FALSE(Hazards(spec, 10, 5).next(0, failure));
  kind.life = {};
  CHECK_FALSE(Hazards(spec, 10, 5).next(0, failure));
  kind.life = {find_law("fixed"), 2.9e9};
  CHECK(Hazards(spec, 10, 5).next(0, failure));
  kind.life.mean = 3.1e9;
  CHECK_FALSE(Hazards(spec, 10, 5).next(0, failure));
}

TEST_CASE("campaign: parts that wear out fail once each, and then their replacements") {
  Spec spec = sample::memoryless(10, 3600, 600, 12, 600, 1);
  spec.kinds[0].life = {find_law("fixed"), 1000};
  spec.kinds[0].parts = 3;
  Hazards hazards(spec, 0, 5);
  for (int round = 1; round <= 3; ++round)
    for (int part = 0; part < 3; ++part) {
      Failure failure;
      REQUIRE(hazards.next(0, failure));
      CHECK(failure.when == Moment{span(1000.0 * round).ns});
    }
}
