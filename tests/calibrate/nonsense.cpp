// nonsense.cpp — inputs that a profile must not be fitted to. Each is refused, and the reason says
// what is wrong with it.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "sim/calibrate/runs/factors.h"
#include "sim/calibrate/trace/doubts.h"
#include "sim/cluster/device/kernel.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "tests/calibrate/kineto_writer.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

const std::string root = REHEARSE_SOURCE_DIR;
const std::string a100 = "NVIDIA A100-SXM4-80GB";

bool says(const std::vector<std::string>& reasons, const std::string& words) {
  return std::ranges::any_of(
      reasons, [&](const std::string& one) { return one.find(words) != std::string::npos; });
}

// Four layers of Llama-2-7B on one node.
input::PlanFile plan(const std::vector<std::string>& more = {}) {
  ::setenv("REHEARSE_ROOT", root.c_str(), 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 0);
  std::vector<std::string> settings = {
      "model=llama-2-7b",     "cluster=dgx-a100", "gpus=8",        "tp=8",
      "micro_batch=1",        "global_batch=4",   "sequence=4096", "architecture.layers=4",
      "architecture.heads=32"};
  settings.insert(settings.end(), more.begin(), more.end());
  const auto loaded = input::load_plan("", settings);
  if (!loaded) FAIL(loaded.errors().front().message);
  return *loaded;
}

struct Stage {
  input::PlanFile file;
  answer::Sites sites;
  answer::Site& site;
  std::shared_ptr<const ExpectedStep> step;

  explicit Stage(const std::vector<std::string>& more = {})
      : file(plan(more)),
        site(**sites.of(file.machine)),
        step(std::make_shared<const ExpectedStep>(
            expected_step(answer::checked(file.plan, site), 0))) {}

  std::vector<std::string> doubts(MeasuredTrace trace) const {
    return calibrate::doubts(compared_trace(std::move(trace), step, 0), file.plan,
                             site.machine.gpu);
  }
};

MeasuredTrace recorded(const ExpectedStep& step, const std::string& device = a100, int steps = 1) {
  const auto file = read_trace_events(kineto_trace(step, {0, steps, device, 0}), "own.json");
  REQUIRE(file);
  return measured_trace(*file, "own.json");
}

CalibrateOptions from_a100() {
  CalibrateOptions wanted;
  wanted.base = root + "/calibration/a100-80.textproto";
  wanted.name = "mine";
  return wanted;
}

device::Profile short_runs(const std::string& base) {
  device::Profile profile = input::ProfileDraft::load(base)->device();
  profile.gemm.sustained = 1;
  profile.gemm.alone = true;
  return profile;
}

// A table of square products of a machine that takes `factor(i)` times as long as the profile.
template <class Factor>
SourceFile products(const std::vector<std::int64_t>& sizes, const Factor& factor) {
  const input::Machine machine = plan().machine;
  const device::Profile profile = short_runs(from_a100().base);
  SourceFile table{"gemm.csv", "gemm.csv", {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    KernelSample sample;
    sample.group = "gemm forward";
    sample.source = "lab";
    sample.gpu = "A100-SXM 80GB";
    sample.operations = {model::gemm("x", sizes[i], sizes[i], sizes[i])};
    sample.seconds =
        factor(i) * seconds(device::time(sample.operations.front(), machine.gpu, profile));
    table.measurements.kernels.push_back(sample);
  }
  return table;
}

const std::vector<std::int64_t> many_sizes = {1024, 1536, 2048, 3072,  4096,  5120, 6144,
                                              7168, 8192, 9216, 10240, 11264, 12288};

Calibration fitted_to(SourceFile table, bool force = false) {
  CalibrateOptions wanted = from_a100();
  wanted.force = force;
  const auto done = calibrate::calibrate({std::move(table)}, plan().machine, wanted);
  REQUIRE(done);
  return *done;
}

}  // namespace

TEST_CASE("nonsense: the trace of its own plan is not doubted") {
  const Stage stage;
  CHECK(stage.doubts(recorded(*stage.step)).empty());
  CHECK(stage.doubts(recorded(*stage.step, "", 4)).empty());
}

TEST_CASE("nonsense: a trace of a convolutional network against a plan of a language model") {
  const Stage stage;
  const auto file = read_trace_file(root + "/tests/calibrate/data/alexnet.json.gz");
  REQUIRE(file);
  const auto reasons = stage.doubts(measured_trace(*file, "alexnet.json.gz"));
  CHECK(says(reasons, "of the plan with"));
  CHECK(reasons.size() >= 2);
}

TEST_CASE("nonsense: inference, with a plan and without") {
  const Stage stage;
  ExpectedStep forward = *stage.step;
  std::erase_if(forward.operations,
                [](const ExpectedOperation& o) { return o.pass != program::PassKind::forward; });
  CHECK(says(stage.doubts(recorded(forward)), "a trace of inference"));
  const std::string text = R"({"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 9,
 "args": {"External id": 7, "Input Dims": [[141, 768], [768, 3072]],
          "Input type": ["c10::Half", "c10::Half"]}},
{"ph": "X", "cat": "kernel", "name": "ampere_fp16_s16816gemm", "pid": 0, "tid": 7, "ts": 10,
 "dur": 20, "args": {"External id": 7}}]})";
  const auto read = read_bytes(text, "bert.json");
  REQUIRE(read);
  CHECK(says(read->measurements.doubts, "a trace of inference"));
}

TEST_CASE("nonsense: another model, told by its layers, its products or the rate that they need") {
  const Stage stage;
  const Stage deeper({"architecture.layers=5"});
  CHECK(says(stage.doubts(recorded(*deeper.step)), "layers (4: 5 by this count)"));

  // Shapes are recorded: the trace proposes the hidden size.
  const Stage wider({"architecture.hidden=5120", "architecture.heads=40",
                     "architecture.kv_heads=40", "architecture.ffn=13824"});
  MeasuredTrace shaped = recorded(*wider.step);
  for (const ExpectedOperation& o : wider.step->operations)
    if (o.family == KernelFamily::gemm) {
      KernelSample sample;
      sample.operations = {wider.step->kernel(o)};
      sample.seconds = seconds(o.own());
      shaped.shaped.push_back(sample);
    }
  CHECK(says(stage.doubts(shaped), "hidden 5120 (plan: 4096)"));

  // They are not: products that need another rate than any known cluster has.
  const ComparedTrace compared = compared_trace(recorded(*wider.step, a100, 5), stage.step, 0);
  const auto done = calibrate_traces({compared}, {}, stage.file.plan, Stage().site, from_a100());
  REQUIRE(done);
  const auto base = input::ProfileDraft::load(from_a100().base);
  CHECK(says(moved_too_far(*find_factors(), *base, done->fit.profile), "products takes"));
}

TEST_CASE("nonsense: a trace of another GPU, and one in another precision") {
  const Stage stage;
  CHECK(says(stage.doubts(recorded(*stage.step, "NVIDIA H100 80GB HBM3")),
             "recorded on NVIDIA H100 80GB HBM3"));
  MeasuredTrace trace = recorded(*stage.step);
  for (MeasuredKernel& kernel : trace.kernels)
    if (kernel.family == KernelFamily::gemm)
      kernel.name = trace.texts->keep("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_tn");
  CHECK(says(stage.doubts(trace), "in fp16, the plan's in bf16"));
}

TEST_CASE("nonsense: half a trace") {
  const Stage stage;
  ExpectedStep half = *stage.step;
  std::erase_if(half.operations, [&](const ExpectedOperation& o) {
    return o.start.ps > stage.step->step_time.ps / 2;
  });
  CHECK(says(stage.doubts(recorded(half)), "have no kernel"));
  // Of several steps only the last is cut: it is left out, and the others count.
  MeasuredTrace trace = recorded(*stage.step, a100, 4);
  CHECK(trace.steps.size() == 4);
}

TEST_CASE("nonsense: collectives that wait for other ranks move no link") {
  const Stage stage;
  MeasuredTrace trace = recorded(*stage.step, a100, 5);
  std::int64_t late = 0;
  for (MeasuredKernel& kernel : trace.kernels)
    if (communicates(kernel.family)) kernel.duration_ns += kernel.duration_ns * (++late % 11) / 2;
  const ComparedTrace compared = compared_trace(std::move(trace), stage.step, 0);
  const auto done = calibrate_traces({compared}, {}, stage.file.plan, Stage().site, from_a100());
  REQUIRE(done);
  const auto base = input::ProfileDraft::load(from_a100().base);
  CHECK(done->fit.profile.get("communication.achieved.nvlink") ==
        base->get("communication.achieved.nvlink"));
}

TEST_CASE("nonsense: fewer than five distinct shapes, however often they were measured") {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 40; ++i)
    for (const std::int64_t size : {2048, 4096, 8192}) sizes.push_back(size);
  const Calibration few = fitted_to(products(sizes, [](std::size_t) { return 1.2; }));
  CHECK(fitted(few) == 0);
  CHECK_FALSE(doubts(few).empty());
  const Calibration many = fitted_to(products(many_sizes, [](std::size_t) { return 1.2; }));
  CHECK(fitted(many) > 0);
  CHECK(doubts(many).empty());
}

TEST_CASE("nonsense: products measured so long that the clock fell") {
  const double sustained = input::ProfileDraft::load(from_a100().base)->get("gemm.sustained");
  const Calibration warm =
      fitted_to(products(many_sizes, [&](std::size_t) { return 1 / sustained; }));
  CHECK(fitted(warm) == 0);
  CHECK(says(doubts(warm), "as clocks do in long runs"));
}

TEST_CASE("nonsense: milliseconds for microseconds, and times below the peak of the GPU") {
  const Calibration slow = fitted_to(products(many_sizes, [](std::size_t) { return 1000.0; }));
  CHECK(fitted(slow) == 0);
  CHECK(says(doubts(slow), "after the fit; check the unit"));
  const Calibration fast = fitted_to(products(many_sizes, [](std::size_t) { return 0.8; }));
  CHECK(fitted(fast) == 0);
  CHECK(says(doubts(fast), "ended at its bound"));
  CHECK(fitted(fitted_to(products(many_sizes, [](std::size_t) { return 0.8; }), true)) > 0);
}

TEST_CASE("nonsense: times without any order leave more than a quarter") {
  const Calibration done =
      fitted_to(products(many_sizes, [](std::size_t i) { return i % 2 == 0 ? 0.4 : 2.5; }));
  CHECK(fitted(done) == 0);
  CHECK(says(doubts(done), "after the fit"));
}

TEST_CASE("nonsense: folds that get worse, and more parameters than shapes") {
  const input::ProfileDraft base = *input::ProfileDraft::load(from_a100().base);
  const auto moved_copy = [&](std::size_t parameters) {
    Fit fit{base, {}, {}, {}, {}, {}};
    for (std::size_t i = 0; i < parameters; ++i) {
      FittedParameter p;
      p.block = "copy";
      p.path = i == 0 ? "copy.hbm" : "copy.ramp";
      p.base = base.get(p.path);
      p.value = 0.9 * p.base;
      p.upper = 1e9;
      p.fitted = true;
      fit.profile.set(p.path, p.value);
      fit.parameters.push_back(p);
    }
    fit.shapes["copy"] = 2;
    return fit;
  };
  Fit fit = moved_copy(1);
  fit.unseen.push_back({"copy", "5 folds of one source", 20, 60.4, 60, true});
  keep_doubtful(base, fit);
  CHECK(fit.kept.empty());
  CHECK(fit.profile.get("copy.hbm") != base.get("copy.hbm"));
  fit.unseen.front().percent = 86;
  keep_doubtful(base, fit);
  REQUIRE(fit.kept.size() == 1);
  CHECK(fit.kept[0].reason.find("86.0 % against 60.0 %") != std::string::npos);
  CHECK(fit.profile.get("copy.hbm") == base.get("copy.hbm"));
  CHECK_FALSE(fit.parameters[0].fitted);

  Fit two = moved_copy(2);
  keep_doubtful(base, two);
  CHECK(two.kept.empty());
  two.shapes["copy"] = 1;
  keep_doubtful(base, two);
  REQUIRE(two.kept.size() == 1);
  CHECK(two.kept[0].reason == "2 parameters moved by 1 distinct shape");
}
