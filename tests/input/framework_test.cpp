// framework_test.cpp — workloads/frameworks: every file is read, has its sources and gives a legal
// plan. Fields of the plan override it. Errors in a file have their place.
#include "sim/input/frameworks/framework.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "sim/input/plan/plan.h"
#include "sim/input/schema/plan.pb.h"
#include "tests/input/support.h"

using namespace sim;
using support::Scratch;

namespace {

const std::string small = R"(
  model: "llama-2-7b" cluster: "dgx-h100" gpus: 8 tp: 2 pp: 2 precision: bf16
  global_batch: 64 sequence: 4096
)";

input::PlanFile plan_with(const std::vector<std::string>& settings) {
  const Scratch scratch;
  const auto plan = input::load_plan(scratch.write("small.textproto", small), settings);
  for (const Diagnostic& problem : plan ? Diagnostics{} : plan.errors())
    INFO(problem.where << ": " << problem.message);
  REQUIRE(plan);
  return *plan;
}

std::string problems_of(const Scratch& folder) {
  const auto loaded = input::load_frameworks(folder.path("."));
  std::string text;
  for (const Diagnostic& problem : loaded ? Diagnostics{} : loaded.errors())
    text +=
        std::filesystem::path(problem.where).filename().string() + ": " + problem.message + "\n";
  return text;
}

}  // namespace

TEST_CASE("framework: every file is read and gives a legal plan, or says why not") {
  const Scratch scratch;
  const auto& all = input::frameworks();
  for (const Diagnostic& problem : all ? Diagnostics{} : all.errors())
    FAIL(problem.where << ": " << problem.message);
  CHECK(all->size() > 15);
  const std::string path = scratch.write("small.textproto", small);
  std::set<std::string> names;
  for (const input::Framework& framework : *all) {
    INFO(framework.name);
    CHECK_FALSE(framework.line.empty());
    CHECK_FALSE(framework.source.empty());
    CHECK((framework.name == "common" || !framework.bases.empty()));
    CHECK(input::find_framework(framework.name) == &framework);
    for (const std::string& other : framework.also) {
      CHECK(input::find_framework(other) == &framework);
      CHECK(names.insert(other).second);
    }
    CHECK(names.insert(framework.name).second);
    for (const std::string& statement : input::statements_text(framework))
      CHECK(statement.find(" []") == std::string::npos);
    const auto plan = input::load_plan(path, {"framework=" + framework.name});
    CHECK(static_cast<bool>(plan) == framework.refused.empty());
    if (plan) CHECK(program::problems(plan->plan).empty());
  }
}

TEST_CASE("framework: it holds where the plan says nothing, and only there") {
  const program::Plan silent = plan_with({}).plan;
  CHECK(silent.sharding.distributed_optimizer);
  const program::Plan megatron = plan_with({"framework=megatron-core-0.9"}).plan;
  CHECK_FALSE(megatron.sharding.distributed_optimizer);
  CHECK_FALSE(megatron.sharding.overlap_grad_reduce);
  CHECK(megatron.numerics.fp32_gradients);  // bf16 is the plan's own
  CHECK(
      plan_with({"framework=megatron-core-0.9", "precision=fp16"}).plan->numerics.fp32_gradients ==
      false);
  const program::Plan said =
      plan_with({"framework=megatron-core-0.7", "distributed_optimizer=true"}).plan;
  CHECK(said.sharding.distributed_optimizer);
  CHECK_FALSE(said.sharding.overlap_param_gather);
  const program::Plan titan = plan_with({"framework=torchtitan"}).plan;
  CHECK(titan.sharding.data_parallel == program::DataParallelism::fsdp2);
  CHECK_FALSE(titan.sharding.fsdp.reshard_after_forward);  // with a pipeline
  CHECK(titan.stack.layer_kernels == program::LayerKernels::eager);
  CHECK_FALSE(titan.stack.swiglu_fusion);
  CHECK_FALSE(titan.stack.checkpoint_early_stop);
  CHECK(titan.stack.norm_fusion);
  const program::Plan compiled = plan_with({"framework=torchtitan", "layer_kernels=compiled"}).plan;
  CHECK(compiled.stack.swiglu_fusion);
  CHECK(compiled.stack.checkpoint_early_stop);
  CHECK(titan.pipeline.kept_outputs == program::KeptOutputs::no_stage);
  CHECK_FALSE(titan.pipeline.kept_input_gradients);
}

TEST_CASE("framework: ZeRO-3 with its optimizer on the CPU sums gradients as DeepSpeed does") {
  const auto fp32 = [](std::vector<std::string> settings) {
    settings.push_back("pp=1");
    return plan_with(settings).plan->numerics.fp32_gradients;
  };
  CHECK_FALSE(fp32({"zero=3", "optimizer_cpu_offload=true"}));
  CHECK(fp32({"zero=3", "optimizer_cpu_offload=true", "fp32_gradients=true"}));
  CHECK(fp32({"zero=3"}));
  CHECK(fp32({"zero=1"}));
}

TEST_CASE("framework: what torchtitan's stages keep goes by the version of PyTorch") {
  using rehearse::v1::Plan;
  const auto kept = [](const std::string& version) {
    Plan plan;
    plan.set_framework_version(version);
    input::complete(*input::find_framework("torchtitan"), plan);
    return std::pair(plan.kept_outputs(), plan.kept_input_gradients());
  };
  CHECK(kept("torch 2024-12-23") == std::pair(Plan::every_stage, true));
  CHECK(kept("torch 2.7.0") == std::pair(Plan::every_stage, true));
  CHECK(kept("torch 2025-05-13") == std::pair(Plan::every_stage, true));
  CHECK(kept("torch 2025-05-14") == std::pair(Plan::last_stage, true));
  CHECK(kept("torch 2.8.0a0") == std::pair(Plan::last_stage, true));
  CHECK(kept("torch 2025-10-20") == std::pair(Plan::last_stage, false));
  CHECK(kept("torch 2025-10-21") == std::pair(Plan::kept_outputs_unset, false));
  CHECK(kept("torch 2.10.0") == std::pair(Plan::kept_outputs_unset, false));
  CHECK(kept("") == std::pair(Plan::kept_outputs_unset, false));
}

TEST_CASE("framework: what a plan says drops the defaults that contradict it") {
  const program::Plan shards = plan_with({"framework=nemo", "zero=3"}).plan;
  CHECK(shards.sharding.data_parallel == program::DataParallelism::fsdp2);
  CHECK(shards.sharding.fsdp.reshard_after_forward);
  CHECK_FALSE(shards.sharding.distributed_optimizer);
  CHECK_FALSE(shards.sharding.overlap_grad_reduce);
  const program::Plan whole = plan_with({"framework=composer", "data_parallel=ddp"}).plan;
  CHECK_FALSE(whole.shards_parameters());
  CHECK(plan_with({"framework=nemo", "layers_per_virtual_stage=4"}).plan->pipeline.virtual_stages ==
        4);
}

TEST_CASE("framework: it may set what its launcher sets of the cluster") {
  CHECK(plan_with({}).machine.cluster.node.nvlink_sharp);
  CHECK_FALSE(plan_with({"framework=megatron-bridge"}).machine.cluster.node.nvlink_sharp);
  CHECK(plan_with({"framework=megatron-bridge", "node.nvlink_sharp=true"})
            .machine.cluster.node.nvlink_sharp);
}

TEST_CASE("framework: a name that is none, and one that is not simulated") {
  const Scratch scratch;
  const std::string path = scratch.write("small.textproto", small);
  const auto unknown = input::load_plan(path, {"framework=megatron-core-0.99"});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.errors().front().where.find("framework=") != std::string::npos);
  CHECK(unknown.errors().front().message.find("did you mean 'megatron-core-0.9'?") !=
        std::string::npos);
  const auto refused = input::load_plan(path, {"framework=maxtext"});
  REQUIRE_FALSE(refused);
  CHECK(refused.errors().front().message ==
        "'maxtext' is not simulated: JAX programs are not "
        "represented");
}

TEST_CASE("framework: what is wrong with a file is said with its place") {
  const Scratch scratch;
  scratch.write("a.textproto", "line: \"a\" source: \"a\" based_on: \"bb\"\n");
  scratch.write("b.textproto", "line: \"b\" source: \"b\" also: \"a\"\n");
  CHECK(problems_of(scratch) ==
        "a.textproto: there is no framework 'bb'; did you mean 'b'?\n"
        "b.textproto: 'a' is a name of 'a' too\n");
  scratch.write("a.textproto", "line: \"a\" source: \"a\" based_on: \"b\"\n");
  scratch.write("b.textproto", "line: \"b\" source: \"b\" based_on: \"a\"\n");
  CHECK(problems_of(scratch).find("a.textproto: 'a' is based on itself") == 0);
  // A cycle of `based_on` that does not contain the file itself.
  scratch.write("c.textproto", "line: \"c\" source: \"c\" based_on: \"a\"\n");
  CHECK(problems_of(scratch).find("c.textproto: 'a' is based on itself\n") != std::string::npos);
}

TEST_CASE("framework: residuals know a framework by its family, or else by its name") {
  REQUIRE(input::frameworks());
  CHECK(input::find_framework("gpt-neox")->family == "GPT-NeoX");
  CHECK(input::find_framework("internevo")->family == "InternEvo");
  for (const input::Framework& one : *input::frameworks()) {
    INFO(one.name);
    CHECK_FALSE(one.family.empty());
    if (one.name == "mingpt" || one.name == "fms-fsdp") CHECK(one.family == one.name);
  }
}

TEST_CASE("input: a framework is found by the names that people type, and a near one is offered") {
  const auto found = [](std::string_view name) { return input::find_framework(name)->name; };
  CHECK(found("Megatron") == "megatron-lm");
  CHECK(found("FSDP") == "pytorch-fsdp");
  CHECK(found("llm-foundry") == "composer");
  CHECK(found("transformers") == "hf-trainer");
  CHECK(input::unknown_framework("jax") ==
        "there is no framework 'jax'; did you mean 'maxtext' (MaxText on JAX) or 'paxml' (Paxml on "
        "JAX)?; `rehearse list frameworks` has all");
  CHECK(input::unknown_framework("torchtitam") ==
        "there is no framework 'torchtitam'; did you mean 'torchtitan'?; `rehearse list "
        "frameworks` has all");
}

TEST_CASE("framework: conditions name fields that there are") {
  const Scratch scratch;
  scratch.write("b.textproto", R"(line: "b"
source: "b"
says {
  when { field: "modell" is: "8" }
  when { field: "tp" }
  plan { model: "x" }
  cluster: "tp=4"
  about: "nothing"
  source: "b"
}
says { source: "b" when { field: "pp" min: 2 } }
)");
  const std::string problems = problems_of(scratch);
  for (const char* one : {"b.textproto:4:17: 'modell' is no field of a plan with one value",
                          "b.textproto:5:8: a condition says what is there",
                          "b.textproto:6:17: 'model' is for a plan to say",
                          "b.textproto:7:12: 'tp=4' is no setting of a cluster",
                          "b.textproto:8:10: 'nothing' is no field of a plan",
                          "b.textproto:11:6: the statement says nothing"})
    CHECK(problems.find(one) != std::string::npos);
}
