// document.cpp — the page of a campaign: its parts, its sums and escaped text. Also the cost of a
// pool whose size changes.
#include "sim/study/campaign/document.h"

#include <catch2/catch.hpp>

#include "sim/output/page.h"
#include "sim/study/campaign/variants.h"
#include "tests/picture.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;
namespace output = sim::output;

namespace {

Built built_of(const Spec& spec) {
  Built built;
  built.spec = spec;
  built.name = "sample";
  built.gpus = built.job_gpus = 512;
  built.usual_interval = 1800;
  built.least_interval = 10;
  built.costs = {10800, 60, 600};
  return built;
}

output::Document made(const Built& built, int seeds, bool vary) {
  const auto summary = run(built, {1, seeds, 1}, vary);
  REQUIRE(summary);
  std::vector<Slice> timeline;
  simulate(built.spec, 1, &timeline);
  return document(*summary, built, timeline);
}

double sum(const output::Rows& rows, std::size_t column) {
  double all = 0;
  for (const auto& row : rows.cells) all += row[column].get<double>();
  return all;
}

}  // namespace

TEST_CASE("campaign: the page counts every seed once and its charts name columns that are there") {
  for (const Spec& spec : sample::all()) {
    const output::Document page = made(built_of(spec), 9, true);
    CHECK(sum(*page.table("distribution"), 1) == 9);
    CHECK(page.table("distribution")->cells.size() <= 20);
    CHECK(page.table("seeds")->cells.size() == 9);
    CHECK(page.table("intervals")->cells.size() == 4);
    CHECK(page.table("simulated")->cells.size() == 13);
    CHECK(page.table("causes")->cells.size() == spec.kinds.size());
    int charts = 0, timelines = 0;
    for (const output::Block& block : page.blocks) {
      if (std::holds_alternative<output::TimelineChart>(block)) ++timelines;
      const auto* series = std::get_if<output::Series>(&block);
      if (series == nullptr) continue;
      ++charts;
      const output::Rows* table = page.table(series->table);
      REQUIRE(table != nullptr);
      std::vector<std::string> keys = series->y;
      keys.push_back(series->x);
      for (const std::string& key : keys)
        CHECK(std::ranges::count(table->columns, key, &output::Column::key) == 1);
    }
    CHECK(charts == 5);
    CHECK(timelines == 1);
    // The slices of the first seed fill its time without a gap. A last save that completes in the
    // background counts up to its start; the job trains meanwhile.
    const output::Rows& slices = *page.table("timeline");
    CHECK(slices.cells.front()[3] == 0);
    for (std::size_t i = 1; i < slices.cells.size(); ++i)
      CHECK(slices.cells[i][3] == slices.cells[i - 1][4]);
    const double end = slices.cells.back()[4].get<double>() * 24;
    const double wall = page.table("seeds")->cells[0][7].get<double>();
    double behind = 0;
    for (const Tier& tier : spec.tiers) behind += seconds(tier.background) / 3600;
    CHECK(end >= wall - 1e-5);
    CHECK(end <= wall + behind + 1e-5);
  }
}

TEST_CASE("campaign: seeds that do not differ are one bar of the page") {
  Spec quiet = sample::memoryless(10, 1e12, 1000, 0, 0, 1);
  const output::Document page = made(built_of(quiet), 3, false);
  REQUIRE(page.table("distribution")->cells.size() == 1);
  CHECK(page.table("distribution")->cells[0][1] == 3);
  CHECK(page.table("simulated") == nullptr);
}

TEST_CASE("campaign: names of failures, phases and plans stay text in the page") {
  const std::string evil = "</script><script>document.title=`owned`</script><img src=x>";
  Built built = built_of(sample::cluster(2, true));
  built.name = evil;
  for (FailureKind& kind : built.spec.kinds) kind.name = evil;
  built.spec.phases[0].name = evil;
  for (JobShape& shape : built.spec.phases[0].shapes[0]) shape.plan = evil;
  const std::string page = output::page(made(built, 2, false));
  CHECK(page.find(evil) == std::string::npos);
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("\\u003c/script>\\u003cscript>document") != std::string::npos);
}

TEST_CASE("campaign: GPU hours are those of the nodes that are there") {
  Built built = built_of(sample::cluster(0, false));
  const Span days = span(20 * seconds_per_day);
  CHECK(gpu_hours(built, days) == Approx(512 * 480));
  built.spec.pools = {{{span(5 * seconds_per_day).ns}, {}, 55},
                      {{span(9 * seconds_per_day).ns}, {}, 75},
                      {{span(30 * seconds_per_day).ns}, {}, 10}};
  CHECK(gpu_hours(built, days) == Approx(24 * 8 * (64 * 5 + 55 * 4 + 75 * 11)));
  CHECK(gpu_hours(built, span(5 * seconds_per_day)) == Approx(24 * 8 * 64 * 5));
  CHECK(gpu_hours(built, {}) == 0);
}

TEST_CASE("campaign: a summary and variants beside each other are as they were") {
  Summary s;
  s.name = "sample";
  s.gpus = 520;
  s.job_gpus = 512;
  s.days = 12.5;
  s.seeds = 40;
  s.step = 9.75;
  s.tokens_per_step = 4'194'304;
  s.price_per_gpu_hour = 2.5;
  s.costs = {10800, 60, 600};
  s.goodput = {0.913, 0.004, 0.89, 0.914, 0.93};
  s.effective = {0.8875, 0.0035, 0.87, 0.888, 0.9};
  s.interruptions = {23.25, 1.5, 20, 23, 26};
  s.wall = {13.75 * 86400, 3600, 1.18e6, 1.188e6, 1.2e6};
  s.gpu_hours = 520 * 13.75 * 24;
  s.tokens = 4.6e11;
  s.saves = 612.5;
  s.changes = 3.5;
  s.spares_least = 2;
  s.finished = 40;
  const char* names[] = {"kept", "saving", "lost", "detecting", "waiting", "restarting"};
  double left = s.wall.mean;
  for (int i = 5; i > 0; --i) {
    const double part = s.wall.mean * 0.004 * i;
    s.accounts.insert(s.accounts.begin(), {names[i], part, part / s.wall.mean});
    left -= part;
  }
  s.accounts.insert(s.accounts.begin(), {names[0], left, left / s.wall.mean});
  s.assumed = {"restart 0 s", "detection 0 s"};
  s.options = {"--restart", "--detection"};
  s.slowed = 7200;
  s.causes = {{"gpu", 30, 17.25, 20000, 9000}, {"leaf", 2.5, 2.25, 3000, 4000}};
  for (int i = 0; i < 40; ++i)
    s.each.push_back({0.9 + 0.0005 * i, 0.88, s.wall.mean + 100 * i, 2e4, 1e4, 20 + i % 7});
  s.intervals = {1800, 1138, 1080, 1100,
                 Optimum{1200, {{900, 0.91, 0.001}, {1200, 0.914, 0.001}, {1800, 0.912, 0.001}}}};
  s.renewal = 0.9142;
  Row known{"interval=30min", {"interval=30min"}, "", s, 0.874, 3.1e6, 1.24e6};
  Row other = known;
  other.name = "interval=1h";
  other.summary.goodput.mean = 0.899;
  other.per_gpu = 0.86;
  Row none{"interval=1s", {"interval=1s"}, "a save takes longer than its interval", {}, 0, 0, 0};
  picture::same("study/campaign/pictures/summary.txt", text(s));
  picture::same("study/campaign/pictures/variants.txt", text(std::vector<Row>{known, other, none}));
  for (Row* row : {&known, &other}) row->tokens_per_money = 0;
  picture::same("study/campaign/pictures/variants-hours.txt", text(std::vector<Row>{known, other}));
  picture::same("study/campaign/pictures/summary.json", to_json(s).dump(1) + "\n");
}

TEST_CASE("campaign: the page of a campaign is as it was") {
  const Spec spec = sample::memoryless(10, 40000, 1800, 20, 300, 2);
  picture::same("study/campaign/pictures/page.json",
                output::to_json(made(built_of(spec), 3, true)).dump(1) + "\n");
}
