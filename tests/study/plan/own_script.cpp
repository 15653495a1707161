// own_script.cpp — the user's launch script with another plan keeps all other flags.
#include "sim/study/plan/launch/own_script.h"

#include <algorithm>

#include "sim/output/json.h"
#include "sim/study/plan/launch/launch_writer.h"
#include "tests/input/support.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

const std::string script =
    "#!/bin/bash\n"
    "export NCCL_IB_HCA='mlx5_0:1'\n"
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "TP=4\n"
    "GPT=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32\n"
    "  --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm\n"
    "  --disable-bias-linear --untie-embeddings-and-output-weights --rotary-base 500000\n"
    "  --position-embedding-type rope --attention-dropout 0 --hidden-dropout 0\n"
    "  --max-position-embeddings 8192 --make-vocab-size-divisible-by 64)\n"
    "OMP_NUM_THREADS=4 torchrun --nproc_per_node 8 --nnodes 2 /opt/megatron/pretrain_gpt.py \\\n"
    "  ${GPT[@]} --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 \\\n"
    "  --micro-batch-size 8 --global-batch-size 64 --seq-length 8192 --sequence-parallel --bf16 "
    "\\\n"
    "  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \\\n"
    "  --recompute-activations --vocab-size 128000 --tokenizer-type HuggingFaceTokenizer \\\n"
    "  --tokenizer-model /m/tok --data-path $DATA --split '949,50,1' --lr 3e-4 --ckpt-format torch "
    "\\\n"
    "  --lr-decay-style cosine --save \"$OUT/ckpt\" --save-interval 500 --train-samples 100000\n";

struct Scripts {
  planner::OwnScript own;
  input::PlanFile file;
};

Scripts scripts_of(support::Scratch& scratch, const std::string& text) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const std::string path = scratch.write("train.sh", text);
  const std::vector<std::string> overrides = {"cluster=dgx-h100"};
  const auto file = input::load_megatron(path, overrides);
  INFO((file ? "" : file.errors().front().message));
  REQUIRE(file);
  const auto own = planner::own_script(path, overrides);
  REQUIRE(own);
  return {*own, *file};
}

planner::LaunchText written(const Scripts& all, const program::Plan& plan) {
  return planner::launches(plan, "", "dgx-h100", all.file.machine, {}, planner::Launcher::torchrun,
                           &all.own)
      .front();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The tensors, microbatches and recomputation that a search would choose.
program::Plan changed(const Scripts& all) {
  program::Plan plan = *all.file.plan;
  plan.mesh.tp = 2;
  plan.mesh.dp = 4;
  plan.batch.micro_batch = 1;
  plan.policy = {};
  return plan;
}

}  // namespace

TEST_CASE("planner: a script with its own plan is the script") {
  support::Scratch scratch;
  const Scripts all = scripts_of(scratch, script);
  CHECK(planner::with_plan(all.own, *all.file.plan, "").changes.empty());
  const planner::LaunchText one = written(all, *all.file.plan);
  INFO(one.text << "\n" << one.left);
  CHECK(one.left.empty());
  CHECK(has(one.text, "with this plan: no flag changes\n"));
}

TEST_CASE("planner: a script keeps the flags and the environment that a plan does not decide") {
  support::Scratch scratch;
  const Scripts all = scripts_of(scratch, script);
  const planner::LaunchText one = written(all, changed(all));
  INFO(one.text << "\n" << one.left);
  CHECK(one.left.empty());
  for (const char* kept :
       {"export NCCL_IB_HCA=mlx5_0:1\n", "export OMP_NUM_THREADS=4\n",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\n", " /opt/megatron/pretrain_gpt.py \\\n",
        "  --rotary-base 500000 \\\n", "  --make-vocab-size-divisible-by 64 \\\n",
        "  --tokenizer-type HuggingFaceTokenizer \\\n", "  --data-path $DATA \\\n",
        "  --split 949,50,1 \\\n", "  --lr 3e-4 \\\n", "  --lr-decay-style cosine \\\n",
        "  --save \"$OUT/ckpt\" \\\n", "  --vocab-size 128000 \\\n", "  --train-samples 100000",
        "  --use-distributed-optimizer \\\n", "  --ckpt-format torch \\\n"}) {
    INFO(kept);
    CHECK(has(one.text, kept));
  }
  for (const char* gone : {"  --recompute", "--mock-data", "--train-iters", "NullTokenizer"})
    CHECK_FALSE(has(one.text, gone));
  CHECK(has(one.text, "  --micro-batch-size 1 \\\n"));
  CHECK(has(one.text, "  --tensor-model-parallel-size 2 \\\n"));
  std::vector<std::string> changes;
  for (const auto& change : planner::with_plan(all.own, changed(all), "").changes)
    changes.push_back(planner::change_text(change));
  std::ranges::sort(changes);
  CHECK(changes == std::vector<std::string>{"--micro-batch-size 8 -> 1",
                                            "--tensor-model-parallel-size 4 -> 2",
                                            "remove --recompute-activations"});
  for (const std::string& change : changes)
    CHECK(has(one.text.substr(0, one.text.find("torchrun")), change));
}

TEST_CASE("planner: a script whose parameters are sharded loses what does not go with that") {
  support::Scratch scratch;
  const Scripts all = scripts_of(scratch, script);
  program::Plan plan = changed(all);
  plan.mesh.pp = plan.mesh.tp = 1;
  plan.mesh.dp = 16;
  plan.pipeline = {};
  plan.sharding.data_parallel = program::DataParallelism::fsdp2;
  plan.sharding.distributed_optimizer = false;
  plan.stack.gradient_accumulation_fusion = plan.stack.attention_mask = plan.stack.check_for_nan =
      false;
  const planner::LaunchText one = written(all, plan);
  INFO(one.text << "\n" << one.left);
  for (const char* gone :
       {"--overlap-grad-reduce \\", "--overlap-param-gather \\", "--use-distributed-optimizer \\",
        "export CUDA_DEVICE_MAX_CONNECTIONS", "  --sequence-parallel \\"})
    CHECK_FALSE(has(one.text, gone));
  for (const char* now : {"  --use-torch-fsdp2 \\\n", "  --no-gradient-accumulation-fusion",
                          "  --ckpt-format torch_dist \\\n", "  --rotary-base 500000 \\\n"})
    CHECK(has(one.text, now));
}

TEST_CASE("planner: values from outside stay in a script, unless the plan decides them") {
  support::Scratch scratch;
  std::string text = script;
  text.replace(text.find("TP=4\n"), 5, "");
  const std::string path = scratch.write("open.sh", text);
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const std::vector<std::string> overrides = {"cluster=dgx-h100", "tp=4"};
  const auto file = input::load_megatron(path, overrides);
  REQUIRE(file);
  const auto own = planner::own_script(path, overrides);
  REQUIRE(own);
  const planner::LaunchText one = written({*own, *file}, *file->plan);
  INFO(one.text << "\n" << one.left);
  CHECK(one.left.empty());
  CHECK(has(one.text, "  --tensor-model-parallel-size 4 \\\n"));
  CHECK(has(one.text, "  --data-path $DATA \\\n"));
}

TEST_CASE("planner: only scripts of Megatron-LM have words to keep") {
  support::Scratch scratch;
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const std::vector<std::string> overrides = {"cluster=dgx-h100", "gpus=8"};
  CHECK_FALSE(planner::own_script(
      scratch.write("train.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"), overrides));
  CHECK_FALSE(planner::own_script("/nowhere/train.sh", overrides));
}
