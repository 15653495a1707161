// predictions.cpp — predictions for a row: the memory of the rank that the row states, and reasons
// against a prediction.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/calibrate/tables/memory_rows.h"
#include "sim/calibrate/validate.h"
#include "sim/input/tables/runs_csv.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

input::RunsRow row_of(const std::string& file, const std::string& id) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const auto table =
      input::load_runs(std::string(REHEARSE_SOURCE_DIR) + "/calibration/measured/" + file);
  REQUIRE(table);
  for (const input::RunsRow& row : table->rows)
    if (cell(row.cells, "row_id") == id) return row;
  FAIL(id << " is not in " << file);
  throw 0;
}

Prediction predicted(input::RunsRow row, const std::map<std::string, std::string>& changes) {
  static answer::Sites sites;
  for (const auto& [column, text] : changes) row.cells[column] = text;
  return predict(row, sites);
}

}  // namespace

TEST_CASE("calibrate: the memory of a row is that of the rank, of the stage, or of the largest") {
  // The model of 3.6B parameters: two stages, tensor parallelism of two, context parallelism of
  // two.
  const input::RunsRow row = row_of("training_runs.csv", "T00019");
  const std::map<std::string, std::string> small = {
      {"layers", "4"},       {"n_gpus", "8"},        {"pp", "2"},        {"cp", "2"},
      {"dp", "1"},           {"mbs", "1"},           {"gbs", "8"},       {"tp", "2"},
      {"recompute", "none"}, {"attention", "flash"}, {"iter_time_s", ""}};
  const auto memory = [&](std::map<std::string, std::string> more) {
    more.insert(small.begin(), small.end());
    const Prediction p = predicted(row, more);
    REQUIRE(p.status == "predicted");
    REQUIRE(p.allocated_gib);
    CHECK(*p.reserved_gib >= *p.allocated_gib);
    return *p.allocated_gib;
  };
  const double first = memory({{"pp_stage", "0"}}), last = memory({{"pp_stage", "1"}});
  CHECK(first != last);
  CHECK(memory({}) == std::max(first, last));
  CHECK(memory({{"mem_scope", "rank 0"}}) == memory({{"pp_stage", "0"}, {"rank", "0"}}));
  CHECK(memory({{"mem_scope", "last rank"}}) == memory({{"pp_stage", "1"}, {"rank", "7"}}));
  for (const char* stage : {"0", "1"}) {
    const double here = memory({{"pp_stage", stage}, {"rank", "0"}});
    const double there = memory({{"pp_stage", stage}, {"rank", "2"}});
    CHECK(memory({{"pp_stage", stage}}) == std::max(here, there));
    CHECK(memory({{"pp_stage", stage}, {"rank", "1"}}) == here);
    CHECK(memory({{"pp_stage", stage}, {"rank", "3"}}) == there);
    CHECK(memory({{"pp_stage", stage}, {"rank", "4"}}) == here);
  }
}

TEST_CASE("calibrate: a row that cannot be predicted says why") {
  const input::RunsRow row = row_of("training_runs.csv", "T00019");
  const Prediction unknown = predicted(row, {{"gpu", "V100"}});
  CHECK(unknown.status == "unsupported");
  CHECK(unknown.reason.find("GPU 'V100'") == 0);
  CHECK_FALSE(unknown.iter_time_s);
  const Prediction impossible = predicted(row, {{"heads", "31"}, {"hidden", "3100"}});
  CHECK(impossible.status == "impossible");
  CHECK(impossible.reason.find("tp 2 does not divide the 31 attention heads") != std::string::npos);
  input::RunsRow wrong = row;
  wrong.line = 17;
  wrong.problems = {"one", "two"};
  const Prediction refused = predicted(wrong, {});
  CHECK(refused.status == "unsupported");
  CHECK(refused.reason == "line 17: one; two");
  CHECK(refused.row_id == "T00019");
}

TEST_CASE("calibrate: a prediction has its rate by the row's convention, and what was assumed") {
  const input::RunsRow row = row_of("training_runs.csv", "T00019");
  const std::map<std::string, std::string> small = {
      {"n_gpus", "8"}, {"tp", "2"}, {"dp", "4"}, {"mbs", "2"}, {"gbs", "16"}, {"iter_time_s", ""}};
  const Prediction p = predicted(row, small);
  REQUIRE(p.status == "predicted");
  CHECK(p.reason == "");
  CHECK_FALSE(*p.oom);
  CHECK(p.plan == "tp2 cp1 pp1 dp4 mbs2 gbs16 seq2048");
  // The FLOPs of the paper's formula, 96 b s l h^2 (1 + s / 6h + V / 16lh), over time and GPUs. The
  // vocabulary is padded to 256.
  const double b = 16, s = 2048, l = 30, h = 3072, v = 51200;
  const double flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  CHECK(*p.tflops_gpu == Approx(flops / *p.iter_time_s / 8 * 1e-12));
  CHECK(*p.bubble_pct == 0);
  CHECK_FALSE(p.situation.many_nodes);
  CHECK_FALSE(p.situation.context_parallel);
  CHECK_FALSE(p.situation.shards);
  CHECK_FALSE(p.situation.mixture);
  CHECK(p.situation.framework == "Megatron-LM");
  std::map<std::string, std::string> more = small;
  more["attention"] = "";
  more["n_gpus"] = "16", more["cp"] = "2";
  const Prediction other = predicted(row, more);
  CHECK(other.reason == "assumed: fused attention");
  CHECK(other.assumptions == std::vector<std::string>{"fused attention"});
  CHECK(other.situation.many_nodes);
  CHECK(other.situation.context_parallel);
  // The plan exceeds the memory: it has a reason and no time.
  std::map<std::string, std::string> large = small;
  large["recompute"] = "none", large["attention"] = "unfused", large["mbs"] = "16",
  large["gbs"] = "64";
  const Prediction out = predicted(row, large);
  CHECK(*out.oom);
  CHECK_FALSE(out.iter_time_s);
  CHECK_FALSE(out.allocated_gib);
  CHECK_FALSE(out.reason.empty());
}

// 14 layers of DeepSeek-V3 with 64 experts over 16 ranks. With the model's 256 experts, a stage of
// four layers has at least 4 x 16 x 3 x 7168 x 2048 weights of experts, 18 bytes each: 47 GiB.
TEST_CASE("calibrate: a run that held less than its plan's state ran another plan") {
  const input::RunsRow row = row_of("memory.csv", "M0359");
  const auto as_run = [&](std::map<std::string, std::string> changes) {
    input::RunsRow changed = row;
    for (const auto& [column, text] : changes) changed.cells[column] = text;
    changed.cells = run_row(changed.cells);
    return predicted(changed, {});
  };
  const Prediction own = as_run({});
  CHECK(own.status == "predicted");
  CHECK(own.oom == false);
  const Prediction whole = as_run({{"experts", "256"}});
  CHECK(whole.status == "unsupported");
  CHECK(whole.reason.starts_with("its rank held 18.5 GiB between steps, less than the 53."));
  // Without that measurement nothing contradicts the plan.
  CHECK(as_run({{"experts", "256"}, {"cur_alloc_gib", ""}}).status == "predicted");
}
