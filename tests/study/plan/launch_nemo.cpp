// launch_nemo.cpp — scripts of NeMo 2: what stands in them, and which plans have none.
#include <fmt/format.h>

#include "sim/study/plan/launch/launch_writer.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

struct Written {
  program::Plan plan;
  input::Machine machine;
  std::string model;

  planner::LaunchText script(planner::Launcher launcher = planner::Launcher::torchrun) const {
    for (planner::LaunchText& one :
         planner::launches(plan, model, "dgx-h100", machine, {}, launcher))
      if (one.program == "NeMo 2") return one;
    FAIL("no script of NeMo 2");
    return {};
  }
};

Written written(const std::string& model, std::vector<std::string> settings, int gpus = 16,
                int sequence = 4096) {
  settings.insert(settings.end(), {"micro_batch=1", "recompute=none"});
  const planner::Space space =
      sample::space(sample::question(model, "dgx-h100", gpus, 64, sequence, settings));
  REQUIRE_FALSE(space.cores().empty());
  return {space.plan(space.cores().front(), 0), space.bases().front().file.machine, model};
}

bool has(const planner::LaunchText& one, const std::string& words) {
  return one.text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("planner: a script of NeMo 2 has the arguments that matter and no others") {
  const planner::LaunchText dense =
      written("llama-3.1-8b", {"zero=1", "tp=2", "pp=1", "cp=1"}).script();
  INFO(dense.text << dense.left);
  CHECK(dense.left.empty());
  for (const char* word :
       {"# torchrun --nnodes 2 --nproc_per_node 8 ", "config = Llama31Config(", "scale_factor=8,",
        "tensor_model_parallel_size=2,", "devices=8,", "num_nodes=2,", "vocab_size=128255",
        "os.environ[\"CUDA_DEVICE_MAX_CONNECTIONS\"] = \"1\"", "num_query_groups=8,"})
    CHECK(has(dense, word));
  for (const char* word : {"moe_", "expert_", "context_parallel", "pipeline_model_parallel_size"})
    CHECK_FALSE(has(dense, word));
  const planner::LaunchText mixture =
      written("mixtral-8x7b", {"zero=1", "tp=2", "ep=8", "etp=1", "pp=1", "cp=1"}).script();
  INFO(mixture.text << mixture.left);
  CHECK(mixture.left.empty());
  for (const char* word : {"config = llm.GPTConfig(", "num_moe_experts=8,", "moe_router_topk=2,",
                           "expert_model_parallel_size=8,", "expert_tensor_parallel_size=1,"})
    CHECK(has(mixture, word));
}

TEST_CASE("planner: NeMo 2 multiplies in fp8 where the plan does") {
  const planner::LaunchText one = written("llama-3.1-8b", {"zero=1", "tp=2", "pp=1", "cp=1",
                                                           "fp8=true", "fp8_recipe=tensorwise"})
                                      .script();
  INFO(one.text << one.left);
  CHECK(one.left.empty());
  for (const char* word : {"fp8=\"hybrid\",", "fp8_recipe=\"tensorwise\","}) CHECK(has(one, word));
}

TEST_CASE("planner: latent attention is DeepSeek's class of NeMo 2") {
  const planner::LaunchText one =
      written("deepseek-v3", {"zero=1", "tp=1", "ep=8", "etp=1", "pp=1", "cp=1"}, 64).script();
  INFO(one.text << one.left);
  CHECK(one.left.empty());
  for (const char* word : {"config = DeepSeekConfig(", "kv_lora_rank=512,", "q_lora_rank=1536,",
                           "rotary_scaling_factor=40,", "moe_layer_freq=([0]*3+[1]*58),"})
    CHECK(has(one, word));
}

TEST_CASE("planner: chunks of NeMo 2 are told beside a layout") {
  Written plan = written("llama-3.1-8b",
                         {"zero=1", "tp=1", "pp=4", "cp=1", "vp=2", "schedule=interleaved-1f1b"});
  plan.plan.pipeline.layers_of_parts = {3, 4, 4, 4, 4, 4, 4, 5};
  const planner::LaunchText one = plan.script();
  INFO(one.text << one.left);
  CHECK(one.left.empty());
  CHECK(has(one, "virtual_pipeline_model_parallel_size=2,"));
  CHECK(has(one, "pipeline_model_parallel_layout=\"Et*3|"));
}

TEST_CASE("planner: plans that NeMo 2 cannot run have a reason") {
  Written sharded = written("llama-3.1-8b", {"zero=3", "tp=1", "pp=1", "cp=1"});
  CHECK(sharded.script().text.empty());
  CHECK(sharded.script().left.find("Megatron-FSDP") != std::string::npos);
  Written levels = written("llama-3.1-8b",
                           {"zero=1", "tp=1", "pp=1", "cp=4", "ulysses=2", "context=hierarchical"});
  CHECK(levels.script().left.find("two levels") != std::string::npos);
  Written learned = written("gpt3-22b", {"zero=1", "tp=2", "pp=1", "cp=1"}, 16, 1024);
  CHECK(learned.script().left.find("learned positions") != std::string::npos);
}

TEST_CASE("planner: a script of NeMo 2 starts as a batch job") {
  const planner::LaunchText one =
      written("llama-3.1-8b", {"zero=1", "tp=2", "pp=1", "cp=1"}).script(planner::Launcher::slurm);
  INFO(one.text << one.left);
  CHECK(one.left.empty());
  CHECK(has(one,
            "# sbatch --job-name=llama-3.1-8b --nodes=2 --ntasks-per-node=1 "
            "--gpus-per-node=8 "));
  CHECK(has(one, " torchrun --nnodes 2 --nproc_per_node 8 "));
}
