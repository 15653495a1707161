// captured_steps.cpp — recorded steps against the plans that ran: how many kernels match operations
// of the program.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "sim/calibrate/trace/compared_trace.h"
#include "sim/input/plan/plan.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

ComparedTrace compared(const std::string& name) {
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 0);
  const std::string path = REHEARSE_SOURCE_DIR "/results/captured-steps/" + name;
  const auto plan = input::load_plan(path + ".textproto");
  REQUIRE(plan);
  static answer::Sites sites;
  answer::Site& site = **sites.of(plan->machine);
  const auto file = read_trace_file(path + ".trace.json.gz");
  REQUIRE(file);
  return compared_trace(
      measured_trace(*file, path),
      std::make_shared<const ExpectedStep>(expected_step(answer::checked(plan->plan, site), 0)), 0);
}

}  // namespace

TEST_CASE("captured steps: nine of ten kernels and nearly all of their time are the program's") {
  struct Least {
    const char* name;
    double count, time;
  };
  for (const Least& least :
       {Least{"8b-dp8-full", 0.95, 0.97}, Least{"8b-dp8-full-compiled", 0.94, 0.98}}) {
    INFO(least.name);
    const ComparedTrace step = compared(least.name);
    CHECK(step.comparison.share.by_count() >= least.count);
    CHECK(step.comparison.share.by_time() >= least.time);
    CHECK(step.comparison.share.near_by_time() >= 0.90);
    // The error of the replay itself: the step rebuilt with the measured kernels.
    CHECK(step.comparison.rebuilt_s < step.comparison.predicted_s);
  }
}

TEST_CASE("captured steps: kernels are given in order, to operations of their family and purpose") {
  const ComparedTrace step = compared("8b-dp8-full");
  const Calls& calls = step.match.calls.front();
  const std::vector<std::int32_t>& owners = step.match.owners.front();
  std::map<int, std::int32_t> last;  // by queue
  for (std::size_t k = 0; k < owners.size(); ++k) {
    if (owners[k] < 0) continue;
    const ExpectedOperation& o = step.expected->operations[static_cast<std::size_t>(owners[k])];
    const Call& call = calls.all[calls.of_kernel[k]];
    CHECK(relation(o.family, call.item.family) != Relation::none);
    const Purposes own = purposes_of_label(o.label);
    if (own != 0 && call.item.purposes != 0) CHECK((own & call.item.purposes) != 0);
    std::int32_t& before = last[static_cast<int>(o.queue)];
    CHECK(owners[k] >= before);
    before = owners[k];
  }
}

TEST_CASE("captured steps: whole lists of tensors belong to the step's operations") {
  // 49 launches of Adam and three of its counters. 49 launches of the norm and one of their sum. 49
  // launches of the clipping.
  const ComparedTrace step = compared("8b-dp8-full");
  std::map<std::string, int> launches;
  for (const std::int32_t owner : step.match.owners.front())
    if (owner >= 0) ++launches[step.expected->operations[static_cast<std::size_t>(owner)].label];
  CHECK(launches["adam"] == 52);
  CHECK(launches["gradient norm"] >= 50);
  CHECK(launches["clip gradients"] >= 49);
  // Seven copies replace each all-gather, on a stream of their own.
  CHECK(launches["parameter gather"] == 7 * 65);
}

TEST_CASE("captured steps: what no network and no single kernel did is no measurement") {
  const ComparedTrace step = compared("8b-dp8-full");
  const auto times = operation_times(*step.expected, step.trace, step.match);
  const Measurements found = measurements_of(*step.expected, times, Duration{}, "captured", "H100");
  CHECK(found.collectives.empty());
  CHECK(found.device == "H100");
  REQUIRE_FALSE(found.kernels.empty());
  for (const KernelSample& kernel : found.kernels) {
    CHECK(kernel.source == "captured");
    CHECK(kernel.gpu == "H100");
    CHECK_FALSE(kernel.group.empty());
    CHECK(kernel.operations.size() == 1);
    CHECK(kernel.in_run);
    CHECK(kernel.count > 0);
    CHECK(kernel.seconds > 0);
  }
  CHECK(found.passed.at("collectives of a fake process group (copies on one GPU)") == 65);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].steps == 0) continue;
    CHECK(times[i].own_median_s <= times[i].median_s);
    if (step.expected->operations[i].family == KernelFamily::gemm) CHECK_FALSE(times[i].in_pieces);
  }
}
