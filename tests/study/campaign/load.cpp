// load.cpp — campaigns and tables of failures from files: the shipped ones load, bad ones are
// refused with line and rule.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sim/study/campaign/run.h"
#include "sim/study/campaign/shards.h"
#include "sim/study/campaign/variants.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;
namespace input = sim::input;

namespace {

std::string written(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("campaign_test_" + name);
  std::ofstream(path) << text;
  return path.string();
}

template <class T>
bool says(const sim::Result<T>& result, const std::string& where, const std::string& rule) {
  if (result) return false;
  for (const sim::Diagnostic& problem : result.errors())
    if (problem.where.find(where) != std::string::npos &&
        problem.message.find(rule) != std::string::npos)
      return true;
  for (const sim::Diagnostic& problem : result.errors())
    WARN(problem.where << ": " << problem.message);
  return false;
}

Setup stated(double step, double mtbf, double interval, double write) {
  Setup setup;
  setup.step = step;
  setup.gpus = 64;
  setup.file.mtbf = mtbf;
  setup.file.length = 10 * 86400;
  input::CheckpointFields checkpoint;
  checkpoint.name = "storage";
  checkpoint.interval = interval;
  checkpoint.write = write;
  setup.file.checkpoints = {checkpoint};
  return setup;
}

sim::Result<Built> built(const Setup& setup) {
  Steps steps = steps_of(setup);
  return build(setup, steps);
}

const std::string kind = "kind { name: \"a\" part: gpu takes: its_node sure: chosen ";

}  // namespace

TEST_CASE("campaign: every table of failures loads and has its sources") {
  setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  int tables = 0;
  const auto folder = std::filesystem::path(REHEARSE_SOURCE_DIR) / "workloads/failures";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path().string());
    const auto table = input::load_failures(entry.path().stem().string());
    REQUIRE(table);
    CHECK_FALSE(table->sources.empty());
    for (const input::FailureFields& one : table->kinds) CHECK(one.life.mean > 0);
    ++tables;
  }
  CHECK(tables >= 5);
}

TEST_CASE("campaign: the published counts come back from the table") {
  setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  Setup setup = stated(5, -1, 600, 5);
  setup.gpus = 16384;
  setup.file.length = 54 * 86400;
  setup.kinds = input::load_failures("llama-3")->kinds;
  setup.file.spares = 128;
  const auto campaign = built(setup);
  REQUIRE(campaign);
  CHECK(54 * 86400 / campaign->costs.mtbf == Approx(419));
  std::vector<double> stops;
  for (const Outcome& outcome : simulate_all(campaign->spec, 1, 50, 2))
    stops.push_back(static_cast<double>(outcome.interruptions));
  const Statistic s = statistic(stops);
  CHECK(std::abs(s.mean - 419) < 3 * std::sqrt(419.0 / 50) + 2);
}

TEST_CASE("campaign: bad tables are refused with line and rule") {
  const auto bad = [](const std::string& text) {
    return input::load_failures(written("table.textproto", text));
  };
  CHECK(says(bad("source: \"x\"\n" + kind + "life { mean: \"-3h\" } }"), ":2:", "negative"));
  CHECK(says(bad("source: \"x\"\n" + kind + "life { mean: \"3\" } }"), ":2:", "has no unit"));
  CHECK(says(bad("source: \"x\"\n" + kind + "count: -4 }"), ":2:", "between 0 and"));
  CHECK(says(bad("source: \"x\"\n" + kind + "count: 4 }"), ":2:", "needs 'watched'"));
  CHECK(says(bad("source: \"x\"\n" + kind + "}"), ":2:", "needs one rate"));
  CHECK(says(bad("source: \"x\"\n" + kind + "life { mean: \"3h\" } speed: 0.5 }"),
             ":2:", "a straggler has"));
}

TEST_CASE("campaign: bad campaigns are refused with line and rule") {
  const auto bad = [](const std::string& text) {
    return input::load_campaign(written("campaign.textproto", text));
  };
  CHECK(says(bad("plan: \"x\"\n"), ":1:", "length"));
  CHECK(says(bad("length: \"54d\"\nanswer: \"wiat\"\n"), ":2:", "did you mean 'wait'"));
  CHECK(says(bad("length: \"54 d\"\nmtbf: \"1h\"\nfailures: \"x\"\n"), ":2:", "one of them"));
  CHECK(says(bad("length: \"54d\"\nphase { name: \"a\" }\nphase { name: \"b\" }\n"),
             ":2:", "has no end"));
  CHECK(says(bad("length: \"54d\"\npool { after: \"9d\" nodes: 3 }\n"
                 "pool { after: \"8d\" nodes: 3 }\n"),
             ":3:", "before the pool"));
}

TEST_CASE("campaign: what cannot be is refused with its rule") {
  CHECK(built(stated(10, 3600, 600, 60)));
  CHECK(says(built(stated(10, 5, 600, 60)), "", "below one step"));
  CHECK(says(built(stated(10, 3600, 600, 601)), "", "longer, 10.0 min, than its interval"));
  CHECK(says(built(stated(10, 3600, 5, 1)), "", "below one step"));
  CHECK(says(built(stated(10, -1, 600, 60)), "", "nothing fails"));
  Setup spares = stated(10, -1, 600, 60);
  spares.kinds = input::load_failures(
                     written("t.textproto", "source: \"x\"\n" + kind + "life { mean: \"900h\" } }"))
                     ->kinds;
  spares.file.spares = 9;
  CHECK(says(built(spares), "", "9 spares are more than the 8 nodes"));
  spares.file.spares = 2;
  CHECK(built(spares));
  spares.kinds[0].life.law = "weibul";
  CHECK(says(built(spares), "", "did you mean 'weibull'"));
}

TEST_CASE("campaign: a trace out of order or of unknown kinds is refused") {
  input::FailureFields known;
  known.name = "GPU";
  const auto bad = [&](const std::string& rows) {
    return input::load_failure_trace(
        written("trace.csv", "seconds,kind,node,repair_seconds\n" + rows), {known}, 8);
  };
  const auto good = bad("10,GPU,3,\n20.5,GPU,,60\n");
  REQUIRE(good);
  CHECK(good->size() == 2);
  CHECK((*good)[1].repair == 60);
  CHECK((*good)[0].repair < 0);
  CHECK(says(bad("10,GPU,3,\n9,GPU,3,\n"), ":3", "out of order"));
  CHECK(says(bad("10,GPX,3,\n"), ":2", "did you mean 'GPU'"));
  CHECK(says(bad("10,GPU,8,\n"), ":2", "from 0 to 7"));
  CHECK(says(bad("-1,GPU,1,\n"), ":2", "'seconds' is '-1'"));
}

TEST_CASE("campaign: shards, merged, are the whole, bit for bit") {
  const Spec spec = sample::cluster(2, true);
  const SeedRange all = {5, 23};
  std::vector<std::string> paths;
  for (int k = 1; k <= 4; ++k) {
    const SeedRange part = shard(all, k, 4);
    const auto outcomes = simulate_all(spec, part.first, part.count, 2);
    paths.push_back(written("shard" + std::to_string(k), lines_of(spec, part, outcomes)));
  }
  const auto whole = simulate_all(spec, all.first, all.count, 1);
  const auto together = merged(spec, all, paths);
  REQUIRE(together);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(sample::same(whole[i], (*together)[i]));
  CHECK(says(merged(sample::cluster(3, true), all, paths), ":1", "another campaign"));
  CHECK(says(merged(spec, all, {paths[0], paths[0]}), ":2", "there twice"));
  CHECK(says(merged(spec, all, {paths[0]}), "", "in none of the files"));
}

TEST_CASE("campaign: variants change what they name") {
  const Setup setup = stated(10, 10800, 600, 60);
  Steps steps = steps_of(setup);
  const auto variants =
      input::combinations({{"interval", {"10min", "30min"}}, {"mtbf", {"1h", "3h"}}});
  const auto rows = compare(setup, *variants, steps, {1, 200, 2}, {});
  REQUIRE(rows.size() == 4);
  for (const Row& row : rows) {
    REQUIRE(row.problem.empty());
    CHECK(std::abs(row.summary.goodput.mean - *row.summary.renewal) <
          4 * row.summary.goodput.standard_error);
  }
  CHECK(rows[0].summary.costs.mtbf == 3600);
  Setup changed = setup;
  CHECK(set(changed, "intervall=3h").find("did you mean 'interval'") != std::string::npos);
  CHECK(set(changed, "answer=wiat").find("did you mean 'wait'") != std::string::npos);
}

TEST_CASE("campaign: each setting that varies changes its own field and no other") {
  const auto changed = [](const Setup& from, const std::string& setting) {
    Setup to = from;
    CHECK(set(to, setting) == "");
    return to;
  };
  const Setup plain = stated(10, 10800, 600, 60);
  CHECK(changed(plain, "interval=30min").file.checkpoints.back().interval == 1800);
  CHECK(changed(plain, "write=90s").file.checkpoints.back().write == 90);
  CHECK(changed(plain, "mtbf=1h").file.mtbf == 3600);
  CHECK(changed(plain, "rate=2").file.mtbf == 5400);
  CHECK(changed(plain, "rate=1e6").file.mtbf == 0.0108);
  CHECK(changed(plain, "stragglers=save").file.stragglers == "save");
  CHECK(changed(plain, "spares=0").file.spares == 0);
  CHECK(changed(plain, "spares=1000000").file.spares == 1'000'000);
  // Of a table of failures: one kind that takes a node, and one that takes nothing.
  Setup table = plain;
  table.file.mtbf = -1;
  table.kinds.resize(2);
  table.kinds[0].takes = input::TakesWhat::its_node;
  table.kinds[1].takes = input::TakesWhat::nothing;
  for (input::FailureFields& one : table.kinds) one.life.mean = 1000, one.repair.mean = 50;
  const Setup often = changed(table, "rate=4");
  CHECK(often.kinds[0].life.mean == 250);
  CHECK(often.kinds[1].life.mean == 250);
  CHECK(often.file.mtbf == -1);
  const Setup later = changed(table, "repair=2h");
  CHECK(later.kinds[0].repair.mean == 7200);
  CHECK(later.kinds[1].repair.mean == 50);
  // `answer=spares` sets at least one spare; the other answers do not change.
  for (const int spares : {0, 1, 3}) {
    Setup some = plain;
    some.file.spares = spares;
    CHECK(changed(some, "answer=spares").file.spares == std::max(1, spares));
    CHECK(changed(some, "answer=spares").file.answer == "wait");
    for (const std::string answer : {"wait", "shrink", "replan"}) {
      CHECK(changed(some, "answer=" + answer).file.spares == 0);
      CHECK(changed(some, "answer=" + answer).file.answer == answer);
    }
  }
  for (const char* wrong : {"rate=0", "rate=-1", "rate=1000001", "rate=2x", "rate=", "spares=-1",
                            "spares=1000001", "spares=2x", "stragglers=never", "interval=soon"}) {
    Setup other = plain;
    INFO(wrong);
    CHECK(set(other, wrong) != "");
  }
  CHECK(set(table, "mtbf=1h").find("a table of failures is given") != std::string::npos);
}
