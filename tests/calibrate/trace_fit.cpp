// trace_fit.cpp — from end to end. A replay writes a trace in the format of PyTorch's profiler, of
// a machine whose profile has known errors. The comparison with the plan must find each error.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "sim/calibrate/fit/fit.h"
#include "sim/calibrate/trace/step_document.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "tests/calibrate/kineto_writer.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

const std::string root = REHEARSE_SOURCE_DIR;

struct Off {
  const char* path;
  double factor;
};
const std::vector<Off> all_off = {
    {"gemm.sustained", 0.93},
    {"gemm.input_gradient", 0.96},
    {"gemm.weight_gradient", 0.95},
    {"attention[0].forward.causal[2].fraction", 0.90},
    {"attention[0].backward.causal[1].fraction", 1.08},
    {"norm.hbm", 0.88},
    {"elementwise.hbm", 1.06},
    {"copy.hbm", 0.9},
    {"reduction.hbm", 0.92},
    {"optimizer.hbm", 0.91},
    {"embedding.hbm", 0.85},
    {"softmax.hbm", 0.94},
    {"communication.achieved.nvlink", 0.92},
    {"communication.achieved.network", 0.95},
};

input::ProfileDraft draft() {
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 0);
  const auto loaded = input::ProfileDraft::load(root + "/calibration/a100-80.textproto");
  REQUIRE(loaded);
  return *loaded;
}

// Llama-2-7B with four layers on two nodes: tensor-parallel groups of eight in a node,
// data-parallel pairs across nodes.
input::PlanFile plan(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model=llama-2-7b",
                                       "cluster=dgx-a100",
                                       "gpus=16",
                                       "tp=8",
                                       "pp=1",
                                       "micro_batch=1",
                                       "global_batch=8",
                                       "sequence=4096",
                                       "distributed_optimizer=true"};
  settings.insert(settings.end(), more.begin(), more.end());
  const auto loaded = input::load_plan("", settings);
  if (!loaded) FAIL(loaded.errors().front().message);
  return *loaded;
}

// Sets the profile of a site.
void give(answer::Site& site, const input::ProfileDraft& profile) {
  site.profile.device = profile.device();
  site.profile.communication = profile.communication();
  site.network = std::make_unique<network::Network>(
      site.machine.cluster,
      std::make_shared<const network::CommunicationProfile>(profile.communication()));
}

MeasuredTrace recorded(const ExpectedStep& step, const KinetoOptions& options) {
  const std::string text = kineto_trace(step, options);
  const auto file = read_trace_events(text, "own.json");
  REQUIRE(file);
  return measured_trace(*file, "own.json");
}

}  // namespace

TEST_CASE("trace: a fit finds each of fourteen parameters that a recorded step was off by") {
  input::ProfileDraft truth = draft();
  for (const Off& off : all_off) {
    INFO(off.path);
    REQUIRE(truth.paths(off.path).size() == 1);
    truth.set(off.path, truth.get(off.path) * off.factor);
  }
  const input::PlanFile file = plan();
  answer::Sites sites;
  answer::Site& site = **sites.of(file.machine);
  give(site, truth);
  const ExpectedStep happened = expected_step(answer::checked(file.plan, site), 0);
  const MeasuredTrace trace = recorded(happened, {0, 5, "NVIDIA A100-SXM4-80GB", 0});
  REQUIRE(trace.steps.size() == 5);
  CHECK(trace.world == 16);

  give(site, draft());
  const auto expected =
      std::make_shared<const ExpectedStep>(expected_step(answer::checked(file.plan, site), 0));
  CHECK(expected->step_time != happened.step_time);
  const ComparedTrace compared = compared_trace(trace, expected, 0);
  const StepComparison& comparison = compared.comparison;
  CHECK(comparison.share.by_count() == 1);
  CHECK(comparison.share.by_time() == 1);
  CHECK(comparison.share.near_by_time() > 0.9);
  CHECK(comparison.measured_s == Approx(seconds(happened.step_time)).epsilon(0.005));
  // The error of the replay itself: the step rebuilt with the measured kernels.
  CHECK(comparison.rebuilt_s == Approx(seconds(happened.step_time)).epsilon(0.01));

  CalibrateOptions wanted;
  wanted.base = root + "/calibration/a100-80.textproto";
  wanted.name = "found";
  const auto done = calibrate_traces({compared}, {}, file.plan, site, wanted);
  REQUIRE(done);
  const Fit& fitted = done->fit;
  for (const Off& off : all_off) {
    INFO(off.path << ": base " << draft().get(off.path));
    CHECK(fitted.profile.get(off.path) == Approx(truth.get(off.path)).epsilon(0.006));
  }
  for (const SourceResidual& r : fitted.residuals) {
    INFO(r.group);
    CHECK(r.source == "own.json");
    CHECK(r.mean_absolute_percent <= r.base_percent + 0.1);
  }
}

TEST_CASE("trace: ranks of one run tell their clocks apart, and who kept the others waiting") {
  const input::PlanFile file = plan({"global_batch=2"});
  answer::Sites sites;
  answer::Site& site = **sites.of(file.machine);
  give(site, draft());
  const ExpectedStep step = expected_step(answer::checked(file.plan, site), 0);
  // Rank 1 by a clock that is 5 ms ahead; it comes 100 us late to every collective of its node.
  MeasuredTrace first = recorded(step, {0, 2, "", 0});
  MeasuredTrace second = recorded(step, {1, 2, "", 5'000'000});
  for (MeasuredKernel& kernel : second.kernels)
    if (communicates(kernel.family) && kernel.duration_ns > 100'000) {
      kernel.start_ns += 100'000;
      kernel.duration_ns -= 100'000;
    }
  const TraceMatch a = match(step, first), b = match(step, second);
  const auto clocks = compare_clocks({{0, &step, &first, &a}, {1, &step, &second, &b}});
  REQUIRE(clocks.size() == 2);
  CHECK(clocks[1].offset_s == Approx(5e-3).epsilon(1e-6));
  CHECK(clocks[1].scatter_s < 1e-6);
  CHECK(clocks[1].collectives > 20);
  CHECK(clocks[1].last > clocks[0].last);
  CHECK(clocks[1].kept_waiting_s == Approx(100e-6 * double(clocks[1].last)).epsilon(0.05));
}

TEST_CASE("trace: of ranks that share as much with it a rank is held against the first") {
  const input::PlanFile file = plan({"global_batch=2"});
  answer::Sites sites;
  answer::Site& site = **sites.of(file.machine);
  give(site, draft());
  const ExpectedStep step = expected_step(answer::checked(file.plan, site), 0);
  const MeasuredTrace first = recorded(step, {0, 2, "", 0});
  MeasuredTrace second = recorded(step, {1, 2, "", 0});
  const MeasuredTrace third = recorded(step, {2, 2, "", 3'000'000});
  std::int64_t late = 0;  // the second's collectives end up to 60 us late
  for (MeasuredKernel& kernel : second.kernels)
    if (communicates(kernel.family)) kernel.start_ns += 10'000 * (late++ % 7);
  const TraceMatch a = match(step, first), b = match(step, second), c = match(step, third);
  const auto clocks =
      compare_clocks({{0, &step, &first, &a}, {1, &step, &second, &b}, {2, &step, &third, &c}});
  REQUIRE(clocks.size() == 3);
  CHECK(clocks[1].scatter_s > 5e-6);
  CHECK(clocks[2].scatter_s < 1e-6);
  CHECK(clocks[2].offset_s == Approx(3e-3).epsilon(1e-6));
}

TEST_CASE("trace: a collective's bytes are those of its larger end, by the type of its elements") {
  const std::map<std::string, int> types = {{"BFloat16", 2},      {"Half", 2}, {"Float", 4},
                                            {"Float8_e4m3fn", 1}, {"Byte", 1}, {"Char", 1},
                                            {"Int", 4},           {"Long", 8}, {"Double", 8}};
  for (const auto& [type, bytes] : types) {
    CAPTURE(type);
    const std::string event =
        R"([{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "ts": 1,
"dur": 250, "args": {"In msg nelems": 64, "Out msg nelems": 512, "Group size": 8, "dtype": ")" +
        type + "\"}}]";
    const auto read = read_trace_events(event, "t.json");
    REQUIRE(read);
    const MeasuredTrace trace = measured_trace(*read, "t.json");
    REQUIRE(trace.kernels.size() == 1);
    CHECK(trace.kernels[0].bytes == 512 * bytes);
    CHECK(trace.kernels[0].ranks == 8);
  }
}

TEST_CASE("trace: steps are found by annotations, else by what repeats") {
  const input::PlanFile file = plan({"global_batch=2"});
  answer::Sites sites;
  answer::Site& site = **sites.of(file.machine);
  give(site, draft());
  const ExpectedStep step = expected_step(answer::checked(file.plan, site), 0);
  std::string text = kineto_trace(step, {0, 3, "", 0});
  for (std::size_t at = 0; (at = text.find("ProfilerStep", at)) != std::string::npos;)
    text.replace(at, 12, "another_step");
  const auto read = read_trace_events(text, "own.json");
  REQUIRE(read);
  const MeasuredTrace trace = measured_trace(*read, "own.json");
  REQUIRE(trace.steps.size() == 3);
  CHECK(trace.found.find("repeat") != std::string::npos);
  for (const MeasuredStep& one : trace.steps) CHECK(one.kernels.size() == step.operations.size());
}
