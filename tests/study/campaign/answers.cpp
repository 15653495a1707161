// answers.cpp — responses to disturbances and changes: stragglers, phases, pools of unlike nodes,
// moved state.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "sim/study/campaign/ensemble.h"
#include "sim/study/campaign/reshard.h"
#include "sim/study/campaign/run.h"
#include "sim/study/campaign/state.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;
namespace input = sim::input;
namespace answer = sim::answer;

namespace {

// The bytes that the ranks of `after` lack, counted cell by cell. Every rank's share ends at a cell
// boundary of the grid.
Received counted(const Degrees& before, const Degrees& after, const std::vector<int>& was,
                 const ParameterBytes& bytes) {
  constexpr int rows = 48, columns = 4;
  const auto holds = [](const Degrees& d, int rank, int row, int column, bool band) {
    const int tp = rank % d.tp, cp = rank / d.tp % d.cp, dp = rank / d.tp / d.cp % d.dp;
    const int pp = rank / d.tp / d.cp / d.dp;
    if (column * d.tp / columns != tp || row * d.pp / rows != pp) return false;
    return !band || row * d.pp * d.dp * d.cp / rows == (pp * d.dp + dp) * d.cp + cp;
  };
  Received all;
  for (int rank = 0; rank < after.gpus(); ++rank) {
    const int old = was[static_cast<std::size_t>(rank)];
    double comes = 0;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column)
        for (const bool band : {false, true})
          if (holds(after, rank, row, column, band) &&
              !(old >= 0 && holds(before, old, row, column, band)))
            comes += band ? bytes.divided : bytes.replicated;
    all.most = std::max(all.most, comes);
    all.all += comes;
  }
  return all;
}

Degrees sized(int tp, int cp, int pp, int dp) {
  Degrees degrees;
  degrees.tp = tp;
  degrees.cp = cp;
  degrees.pp = pp;
  degrees.dp = dp;
  return degrees;
}

Moment at(double seconds) {
  return {span(seconds).ns};
}

}  // namespace

TEST_CASE("campaign: state on the move is what a rank lacks, counted cell by cell") {
  std::vector<Degrees> all;
  for (const int tp : {1, 2, 4})
    for (const int cp : {1, 2})
      for (const int pp : {1, 2, 4})
        for (const int dp : {1, 2, 3}) all.push_back(sized(tp, cp, pp, dp));
  const ParameterBytes bytes = {2, 12};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i % 5; k < all.size(); k += 5) {
      const Degrees &before = all[i], &after = all[k];
      const auto was = gpus_after_loss(before.gpus(), after.gpus(), before.gpus() / 4);
      const Received exact = counted(before, after, was, bytes);
      const Received found = received(before, after, was, 48 * 4, bytes);
      CHECK(found.most == Approx(exact.most).margin(1e-6));
      CHECK(found.all == Approx(exact.all).margin(1e-6));
    }
  }
  // The same plan on the same GPUs moves nothing. GPUs without state receive everything.
  const Degrees plan = sized(4, 2, 2, 3);
  CHECK(received(plan, plan, gpus_after_loss(48, 48, 0), 1e9, bytes).all == Approx(0).margin(1));
  CHECK(received(plan, plan, std::vector<int>(48, -1), 1e9, bytes).all ==
        Approx(1e9 * (2 * 6 + 12)));
  CHECK(gpus_after_loss(8, 7, 2) == std::vector<int>{0, 1, 2, 5, 6, 7, -1});
}

TEST_CASE("campaign: a straggler that leaves with the next save loses no training") {
  // Four nodes and a spare, steps of 10 s, a save of 10 s after 90 s, restarts of 30 s. From 1000 s
  // on a straggler makes steps last 20 s. It is found at 1905 s; the save of that cycle ends at
  // 1950 s.
  Spec spec = sample::memoryless(10, 1e15, 90, 10, 30, 1);
  spec.nodes = 5;
  spec.phases[0].shapes[0][0].nodes = 4;
  spec.phases[0].shapes[0][0].slowed = {span(20)};
  spec.kinds[0].takes = Takes::node;
  spec.kinds[0].repair = {find_law("fixed"), 5000};
  spec.kinds[0].straggler = spec.kinds[0].at_save = true;
  spec.kinds[0].found = {find_law("fixed"), 905};
  spec.trace = {{at(1000), 0, 1}};
  for (const bool leap : {true, false}) {
    spec.leap = leap;
    const Outcome outcome = simulate(spec, 1);
    CHECK(outcome.interruptions == 0);
    CHECK(outcome.lost == span(0));
    CHECK(outcome.restarting == span(30));
    CHECK(outcome.causes[0].down == span(30));
    CHECK(outcome.kept.wall - outcome.kept.ideal == span(5 * 90));
    CHECK(outcome.spares_least == 0);
  }
}

TEST_CASE("campaign: a batch that grows needs no restart, another plan does") {
  Spec spec = sample::memoryless(10, 1e15, 90, 10, 30, 1);
  spec.phases[0].steps = 900;
  Phase larger = spec.phases[0];
  larger.steps = 0;
  larger.shapes[0][0].step = span(20);
  larger.shapes[0][0].change = span(100);
  spec.phases.push_back(larger);
  const Outcome restarts = simulate(spec, 1);
  CHECK(restarts.restarting == span(130));
  CHECK(restarts.changes == 1);
  spec.phases[1].seamless = true;
  const Outcome ramps = simulate(spec, 1);
  CHECK(ramps.restarting == span(0));
  CHECK(ramps.changes == 0);
  CHECK(ramps.kept.wall == ramps.kept.ideal);
}

TEST_CASE("campaign: the best interval is never shorter than what a save takes behind the job") {
  Setup setup;
  setup.step = 10;
  setup.gpus = 64;
  setup.file.mtbf = 3600;
  setup.file.length = 5 * 86400;
  input::CheckpointFields checkpoint;
  checkpoint.name = "storage";
  checkpoint.write = 0.01;  // alone worth a save every step
  checkpoint.background = 300;
  setup.file.checkpoints = {checkpoint};
  Steps steps = steps_of(setup);
  const auto built = build(setup, steps);
  REQUIRE(built);
  CHECK(built->spec.tiers.back().interval >= span(300));
  const auto summary = run(*built, {1, 20, 2}, false);
  REQUIRE(summary);
  CHECK(summary->intervals.best() >= 300);
}

TEST_CASE("campaign: nodes with another GPU join a pool, slow it, and leave") {
  setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  Setup setup;
  setup.file = *input::load_campaign("unlike");
  setup.plan = *input::locate(input::Kind::workload, setup.file.plan);
  setup.kinds = input::load_failures(setup.file.failures)->kinds;
  setup.file.answer = "wait";
  Steps steps = steps_of(setup);
  const auto built = build(setup, steps);
  if (!built) FAIL(built.errors().front().message);
  const auto& pools = built->spec.phases[0].shapes;
  REQUIRE(pools.size() == 3);
  const auto rate = [](const JobShape& shape) {
    return static_cast<double>(shape.tokens) / seconds(shape.step);
  };
  CHECK(pools[1][0].nodes == 12);
  // 50 % more nodes raise the rate by less than 20 %: every step waits for the slower GPUs.
  CHECK(rate(pools[1][0]) < 1.2 * rate(pools[0][0]));
  CHECK(pools[2][0].step == pools[0][0].step);
  CHECK(pools[1][0].change > span(0));
  // The notes on the shapes agree with the simulated shapes.
  REQUIRE(built->shapes.size() == 3);
  for (const ShapeNote& note : built->shapes) {
    INFO("pool " << note.pool);
    const JobShape& shape = pools[static_cast<std::size_t>(note.pool)][0];
    CHECK(note.missing == 0);
    CHECK(note.plan.starts_with(shape.plan));
    CHECK(note.step == Approx(seconds(shape.step)).epsilon(1e-9));
    CHECK(note.speed == 1);
    CHECK(note.change == seconds(shape.change));
  }
  std::vector<Slice> timeline;
  simulate(built->spec, 3, &timeline);
  std::vector<int> seen;
  for (const Slice& slice : timeline)
    if (slice.activity == Activity::training && (seen.empty() || seen.back() != slice.pool))
      seen.push_back(slice.pool);
  CHECK(seen == std::vector<int>{0, 1, 2});
}

TEST_CASE("campaign: every shipped campaign loads, with its table and the plan of each phase") {
  setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const std::vector<std::string> names = input::campaign_names();
  CHECK(names.size() >= 6);
  for (const std::string& name : names) {
    INFO(name);
    const auto file = input::load_campaign(name);
    REQUIRE(file);
    CHECK(input::load_failures(file->failures));
    Setup setup;
    setup.file = *file;
    setup.plan = *input::locate(input::Kind::workload, file->plan);
    const Steps steps = steps_of(setup);
    CHECK(steps.load({}));
    for (const input::PhaseFields& phase : file->phases) CHECK(steps.load(phase.settings));
    for (const input::PoolFields& pool : file->pools) CHECK(steps.load(pool.settings));
  }
}

TEST_CASE("campaign: a share goes to the next node where there is one") {
  setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  answer::Sites sites;
  const auto seconds = [&](const char* gpus, double bytes) {
    const auto file = input::load_plan(
        "", {"model=llama-2-7b", "cluster=dgx-h100", gpus, "global_batch=64", "sequence=1024"});
    REQUIRE(file);
    return fabric_seconds(file->plan, **sites.of(file->machine), bytes);
  };
  CHECK(seconds("gpus=8", 1e9) == 0);
  CHECK(seconds("gpus=16", 0) == 0);
  CHECK(seconds("gpus=16", 0.99) == 0);
  CHECK(seconds("gpus=16", 1) > 0);
  // Each GPU has a NIC of 50 GB/s; a message reaches between 80 % and 100 % of it.
  CHECK(seconds("gpus=16", 1e9) > 1.0 / 50);
  CHECK(seconds("gpus=16", 1e9) < 1.0 / 40);
  CHECK(seconds("gpus=32", 1e9) == Approx(seconds("gpus=16", 1e9)).epsilon(0.01));
  CHECK(seconds("gpus=16", 4e9) == Approx(4 * seconds("gpus=16", 1e9)).epsilon(0.02));
}

TEST_CASE("campaign: a save stands, goes on behind and delays by its slowest way") {
  setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto file = input::load_plan(
      "", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "global_batch=16", "sequence=1024"});
  REQUIRE(file);
  answer::Sites sites;
  const answer::Site& site = **sites.of(file->machine);
  Ways ways;
  ways.bytes = 80e9;
  ways.host = 2;
  ways.fabric = 0.5;
  ways.nics = 0.25;
  input::CheckpointFields from;
  from.name = "storage";
  // 80 GB to storage of 4 GB/s take 20 s. A node's 40 GB over 8 NICs of 50 GB/s take 0.1 s.
  from.storage = {4'000'000'000};
  CHECK(tier_of(from, ways, file->plan, site, 10).blocking == span(20));
  CHECK(tier_of(from, ways, file->plan, site, 10).background == span(0));
  CHECK(tier_of(from, ways, file->plan, site, 10).load == span(20));
  from.read = {8'000'000'000};
  CHECK(tier_of(from, ways, file->plan, site, 10).load == span(10));
  // A node writes its 40 GB at 1 GB/s. Then a rank writes its 5 GB at 0.1 GB/s.
  from.node = {1'000'000'000};
  CHECK(tier_of(from, ways, file->plan, site, 10).blocking == span(40));
  from.writer = {100'000'000};
  CHECK(tier_of(from, ways, file->plan, site, 10).blocking == span(50));
  // An asynchronous save blocks for the copy to the host and a quarter of the NICs' 0.1 s.
  from.asynchronous = true;
  CHECK(tier_of(from, ways, file->plan, site, 10).blocking == span(2.025));
  CHECK(tier_of(from, ways, file->plan, site, 10).background == span(50));
  // The copy of 4 s overlaps a step of 10 s that uses PCIe half of its time, and delays it by 1 s.
  ways.pcie = 0.5;
  from.overlapped = true;
  CHECK(tier_of(from, ways, file->plan, site, 10).blocking == span(1.025));
  CHECK(tier_of(from, ways, file->plan, site, 3).blocking == span(2.025));
  // In memory: two copies over the fabric survive the loss of two nodes.
  input::CheckpointFields memory;
  memory.in_memory = true;
  memory.copies = 2;
  CHECK(tier_of(memory, ways, file->plan, site, 10).blocking == span(1));
  CHECK(tier_of(memory, ways, file->plan, site, 10).load == span(0.5));
  CHECK(tier_of(memory, ways, file->plan, site, 10).survives == 2);
  memory.survives = 0;
  CHECK(tier_of(memory, ways, file->plan, site, 10).survives == 0);
  // Explicit times stay as they are.
  from.write = 7, from.background = 8, from.load = 9;
  const Tier given = tier_of(from, ways, file->plan, site, 10);
  CHECK(given.blocking == span(7));
  CHECK(given.background == span(8));
  CHECK(given.load == span(9));
  from.write = from.background = from.load = 0;
  const Tier nothing = tier_of(from, ways, file->plan, site, 10);
  CHECK(nothing.blocking == span(0));
  CHECK(nothing.background == span(0));
  CHECK(nothing.load == span(0));
}
