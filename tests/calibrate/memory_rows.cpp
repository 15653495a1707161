// memory_rows.cpp — rows of the table of memory as runs: default values, and the rank whose memory
// is stated.
#include "sim/calibrate/tables/memory_rows.h"

#include <catch2/catch.hpp>

using namespace sim;

namespace {

// A row of calibration/measured/memory.csv, unchanged.
calibrate::Row llama() {
  return {{"row_id", "M0297"},
          {"source_group", "simumax-b200"},
          {"framework", "Megatron-LM"},
          {"version", "Megatron-LM 23e00ed0 (core 0.14), TE 2.11"},
          {"attention", "flash/TE"},
          {"glu", "1"},
          {"gbs", "4"},
          {"model", "llama3-70b-12layers"},
          {"layers", "12"},
          {"hidden", "8192"},
          {"heads", "64"},
          {"kv_heads", "8"},
          {"ffn", "28672"},
          {"vocab", "128256"},
          {"seq", "32768"},
          {"gpu", "B200-SXM"},
          {"gpu_mem_gb", "192"},
          {"n_gpus", "8"},
          {"tp", "1"},
          {"pp", "1"},
          {"vp", "1"},
          {"dp", "1"},
          {"cp", "8"},
          {"ep", "1"},
          {"sp", "1"},
          {"zero", "1 (dist_opt)"},
          {"mbs", "1"},
          {"n_microbatch", "4"},
          {"recompute", "none"},
          {"precision", "bf16"},
          {"rank", "3"},
          {"pp_stage", "0"},
          {"cur_alloc_gib", ""},
          {"max_alloc_gib", "104.506"},
          {"max_reserved_gib", "107.4"}};
}

}  // namespace

TEST_CASE("calibrate: a row of measured memory becomes a run with the rank it speaks of") {
  const calibrate::Row run = calibrate::run_row(llama());
  CHECK(calibrate::cell(run, "mem_alloc_peak_gib") == "104.506");
  CHECK(calibrate::cell(run, "mem_reserved_peak_gib") == "107.4");
  const calibrate::RowPlan plan = calibrate::plan_of(run);
  CHECK(plan.unsupported == "");
  CHECK(plan.memory_stage == 0);
  CHECK(plan.memory_cp_rank == 3);  // tp 1: rank 3 is the ring's fourth
  CHECK(plan.plan.stack.kept_gradient_handles);
  CHECK(plan.plan.environment.avoid_record_streams);
  CHECK(plan.plan.architecture.activation == model::Activation::swiglu);
  CHECK_FALSE(calibrate::cluster_of(run).memory_only);
}

TEST_CASE("calibrate: experts that nobody knows are refused in a table of memory, adapters not") {
  calibrate::Row experts = llama();
  experts["experts"] = "8";
  CHECK(calibrate::plan_of(calibrate::run_row(experts)).unsupported ==
        "not published: experts, topk");
  calibrate::Row adapters = llama();
  adapters["kind"] = "lora";
  adapters["settings"] = "lora_rank=8";
  const calibrate::RowPlan plan = calibrate::plan_of(calibrate::run_row(adapters));
  CHECK(plan.unsupported == "");
  CHECK(plan.plan.trains_adapters());
}

TEST_CASE("calibrate: a row of runs is left as it is") {
  calibrate::Row row = llama();
  row.erase("max_alloc_gib");
  CHECK(calibrate::run_row(row) == row);
}
