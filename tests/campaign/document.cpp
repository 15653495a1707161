// document.cpp — the page of a campaign: its parts, its sums, and text that stays text; and what a
// pool of a size that changes is paid for.
#include "sim/campaign/document.h"

#include <catch2/catch.hpp>

#include "sim/report/page.h"
#include "tests/campaign/sample.h"

using namespace sim::campaign;
namespace report = sim::report;

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

report::Document made(const Built& built, int seeds, bool vary) {
  const auto summary = run(built, {1, seeds, 1}, vary);
  REQUIRE(summary);
  std::vector<Slice> timeline;
  simulate(built.spec, 1, &timeline);
  return document(*summary, built, timeline);
}

double sum(const report::Rows& rows, std::size_t column) {
  double all = 0;
  for (const auto& row : rows.cells) all += row[column].get<double>();
  return all;
}

}  // namespace

TEST_CASE("campaign: the page counts every seed once and its charts name columns that are there") {
  for (const Spec& spec : sample::all()) {
    const report::Document page = made(built_of(spec), 9, true);
    CHECK(sum(*page.table("distribution"), 1) == 9);
    CHECK(page.table("distribution")->cells.size() <= 20);
    CHECK(page.table("seeds")->cells.size() == 9);
    CHECK(page.table("intervals")->cells.size() == 4);
    CHECK(page.table("simulated")->cells.size() == 13);
    CHECK(page.table("causes")->cells.size() == spec.kinds.size());
    int charts = 0, timelines = 0;
    for (const report::Block& block : page.blocks) {
      if (std::holds_alternative<report::Timeline>(block)) ++timelines;
      const auto* series = std::get_if<report::Series>(&block);
      if (series == nullptr) continue;
      ++charts;
      const report::Rows* table = page.table(series->table);
      REQUIRE(table != nullptr);
      std::vector<std::string> keys = series->y;
      keys.push_back(series->x);
      for (const std::string& key : keys)
        CHECK(std::ranges::count(table->columns, key, &report::Column::key) == 1);
    }
    CHECK(charts == 5);
    CHECK(timelines == 1);
    // The slices of the first seed fill its time without a gap; a last save that completes behind
    // the job counts up to where it began, and the job is seen to train beside it.
    const report::Rows& slices = *page.table("timeline");
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
  const report::Document page = made(built_of(quiet), 3, false);
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
  for (Shape& shape : built.spec.phases[0].shapes[0]) shape.plan = evil;
  const std::string page = report::page(made(built, 2, false));
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
