// rows_experts.cpp — rows with experts: what the recipe of their container says in place of their
// columns, how many GPUs those have that state none, and which times no GPU can reach.
#include <catch2/catch.hpp>
#include <string>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/input/tables/runs_csv.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

RowPlan plan_of_row(const std::string& file, const std::string& id) {
  const auto table =
      input::load_runs(std::string(REHEARSE_SOURCE_DIR) + "/calibration/measured/" + file);
  REQUIRE(table);
  for (const input::RunsRow& row : table->rows)
    if (cell(row.cells, "row_id") == id) return plan_of(row.cells);
  FAIL(id << " is not in " << file);
  throw 0;
}

bool says(const RowPlan& row, const std::string& text) {
  for (const std::string& one : row.assumptions)
    if (one.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("calibrate: a mixture in Megatron Bridge runs what its container's recipe says") {
  // 26.02: two stages of twelve chunks, DeepEP, hidden.
  const RowPlan before = plan_of_row("training_runs.csv", "T00132");
  CHECK(before.plan.mesh.pp == 2);
  CHECK(before.plan.pipeline.virtual_stages == 12);
  CHECK(before.plan.experts.dispatcher == program::Dispatcher::flex);
  CHECK(before.plan.experts.overlaps_all_to_all);
  // 26.02.01: one stage, experts over both nodes, nothing hidden; the table still has the degrees
  // of before.
  const RowPlan after = plan_of_row("training_runs.csv", "T00126");
  CHECK(after.plan.mesh.pp == 1);
  CHECK(after.plan.mesh.dp == 16);
  CHECK(after.plan.mesh.ep == 16);
  CHECK(!after.plan.experts.overlaps_all_to_all);
  // 25.11 of gpt-oss: microbatches of one sequence, nothing runs again; 26.02 recomputes.
  const RowPlan oss = plan_of_row("training_runs.csv", "T00137");
  CHECK(oss.plan.batch.micro_batch == 1);
  CHECK(oss.plan.policy.recompute == program::Recompute::none);
  CHECK(plan_of_row("training_runs.csv", "T00131").plan.policy.recompute_modules.moe_activation);
  // DeepSeek-V3 counts the FLOPs of a module that predicts one more token.
  const RowPlan deepseek = plan_of_row("training_runs.csv", "T00143");
  CHECK(deepseek.plan.architecture.predicted_tokens == 1);
  CHECK(deepseek.plan.pipeline.layers_of_parts.size() == 32);
  CHECK(deepseek.plan.architecture.experts.top_groups == 4);
}

TEST_CASE("calibrate: experts on GPUs that are not stated are on as many as hold their state") {
  // 30.5e9 parameters, 29.0e9 of them of experts over 8 ranks: 6 x 5.2e9 + 12 x 3.6e9 bytes on 8
  // GPUs are 75 GB, more than four fifths of 85 GB; on 16 half of the experts' state is elsewhere.
  const RowPlan row = plan_of_row("training_runs.csv", "T01331");
  CHECK(row.plan.world() == 16);
  CHECK(row.assumes_gpus);
  CHECK_FALSE(plan_of_row("megatron_ci_large.csv", "C00582").assumes_gpus);  // its state says
}

TEST_CASE("calibrate: a time above the GPU's peak is not compared") {
  // 2.42e11 FLOPs a token, 256 x 4096 tokens in 6.91 s on 128 GPUs: 287 TFLOP/s, times 39/32 while
  // 32 microbatches fill 8 stages; an A100 has 312.
  const RowPlan memory = plan_of_row("megatron_ci_large.csv", "C00583");
  CHECK(memory.unsupported.empty());
  CHECK(memory.memory_only);
  CHECK(says(memory,
             "its time asks for 350 TFLOP/s of each A100-SXM4-80GB while the pipeline is "
             "full, above the peak of 312"));
  CHECK(plan_of_row("megatron_ci_large.csv", "C01584").unsupported.find("its time asks for 350") ==
        0);
  CHECK(!plan_of_row("megatron_ci_large.csv", "C00582").memory_only);
  CHECK(!plan_of_row("megatron_ci_large.csv", "C00585").memory_only);
}
