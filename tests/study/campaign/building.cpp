// building.cpp — the campaign built from a setup: kinds of failures, checkpoint tiers, phases and
// shapes.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>

#include "sim/study/campaign/build.h"
#include "sim/study/campaign/formula.h"
#include "tests/study/campaign/sample.h"

using namespace sim::campaign;
namespace input = sim::input;

namespace {

// 100 GPUs, eight per node, steps of 10 s, a failure every 10,000 s on average.
Setup stated() {
  Setup setup;
  setup.step = 10;
  setup.gpus = 100;
  setup.file.mtbf = 10'000;
  setup.file.length = 86400;
  input::CheckpointFields checkpoint;
  checkpoint.name = "storage";
  checkpoint.interval = 600;
  checkpoint.write = 20;
  checkpoint.load = 7;
  setup.file.checkpoints = {checkpoint};
  return setup;
}

input::FailureFields failing(const char* name, input::PartOf part, input::TakesWhat takes,
                             double mean) {
  input::FailureFields kind;
  kind.name = name;
  kind.part = part;
  kind.takes = takes;
  kind.life = {"exponential", mean, 1, 1, 0, ""};
  return kind;
}

sim::Result<Built> built(const Setup& setup) {
  Steps steps = steps_of(setup);
  return build(setup, steps);
}

Built made(const Setup& setup) {
  const auto all = built(setup);
  if (!all) FAIL(all.errors()[0].where << ": " << all.errors()[0].message);
  return *all;
}

std::string refusal(const Setup& setup) {
  const auto all = built(setup);
  if (all) return "accepted";
  std::string text;
  for (const sim::Diagnostic& problem : all.errors())
    text += (text.empty() ? "" : " | ") + problem.message;
  return text;
}

}  // namespace

TEST_CASE("campaign: a stated setup becomes one kind, one tier, one phase of one shape") {
  Setup setup = stated();
  const Built plain = made(setup);
  CHECK(plain.name == "campaign");
  CHECK(plain.job_gpus == 100);
  CHECK(plain.gpus == 100);
  CHECK(plain.gpus_per_node == 8);
  CHECK(plain.tokens_per_step == 0);
  CHECK(plain.price_per_gpu_hour == 0);
  CHECK(plain.replays == 0);
  CHECK(plain.memoryless);
  CHECK(plain.spec.nodes == 0);
  CHECK(plain.spec.length == span(86400));
  REQUIRE(plain.spec.kinds.size() == 1);
  CHECK(plain.spec.kinds[0].name == "any failure");
  CHECK(plain.spec.kinds[0].life.mean == 10'000);
  CHECK(plain.spec.kinds[0].parts == 1);
  CHECK(plain.costs.mtbf == Approx(10'000));
  CHECK(plain.costs.write == 20);
  CHECK(plain.costs.restart == Approx(7));  // the load
  REQUIRE(plain.spec.tiers.size() == 1);
  CHECK(plain.spec.tiers[0].interval == span(600));
  CHECK(plain.spec.tiers[0].blocking == span(20));
  CHECK(plain.spec.tiers[0].survives == survives_everything);
  CHECK(plain.least_interval == 20);
  CHECK(plain.usual_interval == Approx(best_interval({10'000, 20, 0})));
  REQUIRE(plain.spec.phases.size() == 1);
  const JobShape& shape = plain.spec.phases[0].shapes.at(0).at(0);
  CHECK(shape.nodes == 0);  // nothing takes one
  CHECK(shape.step == span(10));
  CHECK(shape.tokens == 1);
  REQUIRE(plain.shapes.size() == 1);
  CHECK(plain.shapes[0].missing == 0);
  CHECK(plain.shapes[0].step == 10);
  CHECK(plain.shapes[0].speed == 1);
  CHECK(plain.shapes[0].plan == "campaign");
  setup.file.name = "mine";
  setup.price = 2.5;
  CHECK(made(setup).name == "mine");
  CHECK(made(setup).price_per_gpu_hour == 2.5);
  setup.file.checkpoints[0].background = 1;
  CHECK_FALSE(made(setup).memoryless);
}

TEST_CASE("campaign: a restart is its parts, communicators by a thousand ranks, and slow steps") {
  Setup setup = stated();
  input::RestartFields& r = setup.file.restart;
  const auto restart = [&] { return seconds(made(setup).spec.phases[0].shapes[0][0].restart); };
  CHECK(restart() == 0);
  r.scheduling = 1;
  CHECK(restart() == Approx(1));
  r.start = 20;
  CHECK(restart() == Approx(21));
  r.communicators = 512;
  CHECK(restart() == Approx(21 + 50));
  r.compilation = 300;
  CHECK(restart() == Approx(371));
  r.slow_steps = 3;
  CHECK(restart() == Approx(371));
  r.slow_factor = 1.5;
  CHECK(restart() == Approx(371 + 15));
  CHECK(made(setup).costs.restart == Approx(371 + 15 + 7));
  r.detection = 40;
  CHECK(restart() == Approx(386));
  CHECK(made(setup).costs.restart == Approx(371 + 15 + 7 + 40));
  CHECK(made(setup).spec.kinds[0].detection == span(40));
  CHECK_FALSE(made(setup).memoryless);
}

TEST_CASE("campaign: a kind fails as often as its parts are, of the job and of the spares") {
  Setup setup = stated();
  using input::PartOf;
  using input::TakesWhat;
  setup.file.spares = 2;  // beside 13 nodes
  setup.kinds = {failing("gpu", PartOf::gpu, TakesWhat::its_node, 1e6),
                 failing("nic", PartOf::nic, TakesWhat::nothing, 2e6),
                 failing("node", PartOf::node, TakesWhat::its_node, 3e6),
                 failing("leaf", PartOf::leaf, TakesWhat::its_leaf, 4e6),
                 failing("job", PartOf::job, TakesWhat::nothing, 5e6),
                 failing("never", PartOf::job, TakesWhat::nothing, 0)};
  setup.kinds[0].detection = 100;
  setup.kinds[0].repair = {"fixed", 700, 1, 1, 0, ""};
  setup.kinds[1].life = {"weibull", 2e6, 0.7, 1, 0, ""};
  setup.kinds[2].life = {"infant", 3e6, 1, 5, 600, ""};
  setup.file.restart.detection = 30;
  const Built all = made(setup);
  CHECK(all.spec.nodes == 15);
  CHECK(all.gpus == 100 + 16);
  REQUIRE(all.spec.kinds.size() == 6);
  const auto& kinds = all.spec.kinds;
  CHECK(kinds[0].parts == 120);
  CHECK(kinds[1].parts == 120);
  CHECK(kinds[2].parts == 15);
  CHECK(kinds[3].parts == 1);
  CHECK(kinds[4].parts == 1);
  CHECK(kinds[0].takes == Takes::node);
  CHECK(kinds[1].takes == Takes::nothing);
  CHECK(kinds[3].takes == Takes::group);
  CHECK(kinds[0].group == 1);
  CHECK(kinds[3].group == 32);
  CHECK(kinds[0].detection == span(100));
  CHECK(kinds[1].detection == span(30));
  CHECK(kinds[0].repair.mean == 700);
  CHECK(kinds[0].repair.law == find_law("fixed"));
  CHECK(kinds[1].repair.law == nullptr);
  CHECK(kinds[1].life.law == find_law("weibull"));
  CHECK(kinds[1].life.shape == 0.7);
  CHECK(kinds[2].life.early == 5);
  CHECK(kinds[2].life.burn_in == 600);
  CHECK_FALSE(kinds[0].straggler);
  CHECK_FALSE(all.memoryless);
  // The rate of failures of the job's 13 nodes, without spares.
  const double gpu = 104 / 1e6, rate = gpu + 104 / 2e6 + 13 / 3e6 + 1 / 4e6 + 1 / 5e6;
  CHECK(all.costs.mtbf == Approx(1 / rate));
  CHECK(all.costs.restart == Approx((gpu * 100 + (rate - gpu) * 30) / rate + 7));
  CHECK(all.spec.phases[0].shapes[0][0].nodes == 13);
  // 65 nodes, spares included, use three leaves.
  setup.gpus = 8 * 63;
  CHECK(made(setup).spec.kinds[3].parts == 3);
  setup.gpus = 8 * 62;
  CHECK(made(setup).spec.kinds[3].parts == 2);
  // With a trace the random failures of the table's kinds are off.
  setup.trace = {{100, 0, 3, -1}, {200, 2, 1, 50}, {300, 2, 1, 0}};
  const Built traced = made(setup);
  CHECK(traced.spec.kinds[0].life.mean == 0);
  CHECK(traced.costs.mtbf == Approx(86400.0 / 3));
  REQUIRE(traced.spec.trace.size() == 3);
  CHECK(traced.spec.trace[0].when == Moment{span(100).ns});
  CHECK(traced.spec.trace[0].node == 3);
  CHECK(traced.spec.trace[0].repair == Span{-1});
  CHECK(traced.spec.trace[1].kind == 2);
  CHECK(traced.spec.trace[1].repair == span(50));
  CHECK(traced.spec.trace[2].repair == span(0));
}

TEST_CASE("campaign: with a repair time each failure takes a node, at the rate of mtbf") {
  Setup setup = stated();
  setup.repair = 3600;
  setup.file.spares = 2;
  const Built all = made(setup);
  REQUIRE(all.spec.kinds.size() == 1);
  CHECK(all.spec.nodes == 15);
  CHECK(all.gpus == 116);
  CHECK(all.spec.kinds[0].takes == Takes::node);
  CHECK(all.spec.kinds[0].repair.mean == 3600);
  // The 13 nodes of the job fail every 10,000 s; spares fail as often as they.
  CHECK(all.spec.kinds[0].parts == 15);
  CHECK(all.spec.kinds[0].life.mean == Approx(130'000));
  CHECK(all.costs.mtbf == Approx(10'000));
  CHECK_FALSE(all.memoryless);
  setup.repair = 0;
  setup.file.spares = 0;
  CHECK(made(setup).spec.nodes == 0);
  CHECK(made(setup).memoryless);
}

TEST_CASE("campaign: times that are not stated are listed with their options") {
  const auto assumed = [](const Setup& setup) {
    std::string text;
    for (const Assumption& one : made(setup).assumed) text += one.text + " " + one.option + "|";
    return text;
  };
  Setup setup = stated();
  CHECK(assumed(setup) == "restart 0 s --restart|detection 0 s --detection|");
  setup.file.checkpoints[0].write = -1;
  CHECK(assumed(setup) ==
        "checkpoint 0 s --checkpoint-write|restart 0 s --restart|detection 0 s --detection|");
  setup.file.restart.scheduling = 0;
  setup.file.restart.detection = 0;
  setup.file.checkpoints[0].write = 0;
  CHECK(assumed(setup).empty());
  // Every kind of a table may have its own detection.
  setup.file.restart.detection = -1;
  setup.kinds = {failing("gpu", input::PartOf::gpu, input::TakesWhat::its_node, 1e6)};
  CHECK(assumed(setup) == "detection 0 s --detection|no spare nodes --spares|");
  setup.kinds[0].detection = 5;
  CHECK(assumed(setup) == "no spare nodes --spares|");
  // Stated, also as none, or another answer than to wait for the node.
  setup.file.spares_where = "file:1:1";
  CHECK(assumed(setup).empty());
  setup.file.checkpoints[0].storage = {1'000'000};
  CHECK(refusal(setup).starts_with("storage: the size of the state follows from a plan"));
}

TEST_CASE("campaign: every other rank waits for a straggler of a stated step") {
  Setup setup = stated();
  setup.kinds = {failing("gpu", input::PartOf::gpu, input::TakesWhat::its_node, 1e6),
                 failing("slow", input::PartOf::gpu, input::TakesWhat::its_node, 1e6)};
  CHECK(made(setup).spec.phases[0].shapes[0][0].slowed.empty());
  setup.kinds[1].speed = 0.8;
  setup.kinds[1].found = {"fixed", 90, 1, 1, 0, ""};
  const Built all = made(setup);
  CHECK(all.spec.phases[0].shapes[0][0].slowed == std::vector<Span>{span(10), span(12.5)});
  CHECK(all.spec.kinds[1].straggler);
  CHECK(all.spec.kinds[1].found.mean == 90);
  CHECK_FALSE(all.spec.kinds[1].at_save);
  setup.file.stragglers = "save";
  CHECK(made(setup).spec.kinds[1].at_save);
}

TEST_CASE("campaign: phases end after their tokens or steps, pools change when they say") {
  Setup setup = stated();
  setup.kinds = {failing("gpu", input::PartOf::gpu, input::TakesWhat::its_node, 1e6)};
  setup.file.phases = {
      {"first", "", {}, 0, 500}, {"second", "", {}, 700.4, 0}, {"rest", "", {}, 0, 0}};
  Built all = made(setup);
  REQUIRE(all.spec.phases.size() == 3);
  CHECK(all.spec.phases[0].name == "first");
  CHECK(all.spec.phases[0].steps == 500);
  CHECK(all.spec.phases[1].steps == 700);
  CHECK(all.spec.phases[2].steps == 0);
  CHECK_FALSE(all.spec.phases[0].seamless);
  CHECK(all.spec.phases[1].seamless);
  setup.file.phases[1].tokens = 0.2;
  CHECK(made(setup).spec.phases[1].steps == 1);
  setup.file.pools = {{"", 3600, 60, 13, {}}, {"", 7200, 0, 20, {}}};
  all = made(setup);
  REQUIRE(all.spec.pools.size() == 2);
  CHECK(all.spec.pools[0].when == Moment{span(3600).ns});
  CHECK(all.spec.pools[0].notice == span(60));
  CHECK(all.spec.pools[0].nodes == 13);
  CHECK(all.spec.phases[0].shapes.size() == 3);
  CHECK_FALSE(all.spec.phases[1].seamless);
  // The number of parts follows from the largest pool.
  CHECK(all.spec.kinds[0].parts == 160);
  setup.file.pools[0].nodes = 12;
  CHECK(refusal(setup) == "the plan needs 13 nodes and the pool has 12 then; set gpus");
}

TEST_CASE("campaign: copies stand in order of what they survive, with intervals that are best") {
  Setup setup = stated();
  input::CheckpointFields memory;
  memory.name = "memory";
  memory.write = 1;
  memory.background = 30;
  memory.survives = 1;
  setup.file.checkpoints.push_back(memory);
  const Built all = made(setup);
  REQUIRE(all.spec.tiers.size() == 2);
  CHECK(all.spec.tiers[0].name == "memory");
  CHECK(all.spec.tiers[0].survives == 1);
  CHECK(all.spec.tiers[0].background == span(30));
  CHECK(seconds(all.spec.tiers[0].interval) == Approx(best_interval({10'000, 1, 0})).epsilon(1e-6));
  CHECK(all.spec.tiers[1].name == "storage");
  CHECK(all.least_interval == 20);
  CHECK(all.costs.write == 20);
  // A tier that survives no loss of a node still serves failures that take no node.
  setup.file.checkpoints.back().survives = 0;
  CHECK(made(setup).spec.tiers[0].survives == 0);
  CHECK(made(setup).spec.tiers[1].survives == survives_everything);
  setup.file.checkpoints = {memory};
  CHECK(refusal(setup) == "no checkpoint survives the loss of many nodes; add one on storage");
  // The interval is never shorter than a step or a save.
  setup.file.checkpoints[0].survives = -1;
  setup.file.checkpoints[0].background = 900;
  CHECK(made(setup).spec.tiers[0].interval == span(900));
  CHECK(made(setup).least_interval == 900);
  CHECK(made(setup).usual_interval == 900);
  // Without failures it saves once a day.
  setup.file.checkpoints[0].background = 0;
  setup.kinds = {failing("never", input::PartOf::job, input::TakesWhat::nothing, 0)};
  CHECK(made(setup).spec.tiers[0].interval == span(86400));
}

TEST_CASE("campaign: what cannot be is refused in words") {
  const auto with = [](const std::function<void(Setup&)>& change) {
    Setup setup = stated();
    change(setup);
    return refusal(setup);
  };
  CHECK(with([](Setup&) {}) == "accepted");
  CHECK(with([](Setup& s) { s.file.length = 0; }) ==
        "the campaign has no length; write for example 54 days");
  CHECK(with([](Setup& s) { s.file.length = 3.1e9; }) == "accepted");
  CHECK(with([](Setup& s) { s.file.length = 3.2e9; }) ==
        "the campaign lasts longer than a century");
  CHECK(with([](Setup& s) { s.file.mtbf = 0; }) ==
        "nothing fails: give the mean time between failures of the job (--mtbf 3h) or of a GPU "
        "(--gpu-mtbf 1825d), or a table of failures: --failures everything, llama-3, opt-175b, "
        "rsc-1 or rsc-2");
  CHECK(with([](Setup& s) { s.file.mtbf = 9.9; }) ==
        "the mean time between failures, 9.9 s, is below one step, 10.0 s: nothing would ever be "
        "trained");
  CHECK(with([](Setup& s) { s.file.mtbf = 10; }) == "accepted");
  CHECK(with([](Setup& s) { s.file.spares = 13; }) == "accepted");
  CHECK(with([](Setup& s) { s.file.spares = 14; }) ==
        "14 spares are more than the 13 nodes of the job");
  CHECK(with([](Setup& s) { s.file.checkpoints[0].interval = 9; }) ==
        "the interval of checkpoints, 9.0 s, is below one step, 10.0 s | a checkpoint takes "
        "longer, 20.0 s, than its interval, 9.0 s");
  CHECK(with([](Setup& s) { s.file.checkpoints[0].interval = 20; }) == "accepted");
  CHECK(with([](Setup& s) { s.file.checkpoints[0].interval = 19; }) ==
        "a checkpoint takes longer, 20.0 s, than its interval, 19.0 s");
  CHECK(with([](Setup& s) { s.file.checkpoints[0].background = 601; }) ==
        "a checkpoint takes longer, 10.0 min, than its interval, 10.0 min");
  CHECK(with([](Setup& s) { s.file.checkpoints[0].survives = 3; }) ==
        "no checkpoint survives the loss of many nodes; add one on storage");
  CHECK(with([](Setup& s) {
          s.kinds = {failing("a", input::PartOf::gpu, input::TakesWhat::nothing, 1e6)};
          s.kinds[0].life.law = "exponentail";
        }) ==
        "there is no law 'exponentail'; did you mean 'exponential'?; one of exponential, "
        "weibull, infant, fixed");
  CHECK(with([](Setup& s) {
          s.kinds = {failing("a", input::PartOf::gpu, input::TakesWhat::nothing, 1e6)};
          s.kinds[0].life = {"weibull", 1e6, 0.01, 1, 0, ""};
        }) == "has the shape 0.01; one from 0.1 to 20 is a lifetime");
}
