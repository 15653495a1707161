// launch_test.cpp — launch scripts and configurations in the usual formats. The texts are this
// project's own. Their form follows public scripts of Megatron-LM, Megatron-DeepSpeed, torchtitan,
// NeMo, DeepSpeed and accelerate.
#include "sim/input/launch/launch.h"

#include <catch2/catch.hpp>

#include "sim/input/launch/megatron_flags.h"
#include "sim/input/plan/plan.h"
#include "sim/input/tables/tokenizer.h"
#include "sim/model/architecture.h"
#include "support.h"

using sim::input::flag_meaning;
using sim::input::FlagEffect;
using sim::input::load_megatron;
using support::contains;
using support::problems;

namespace {

std::string notes(const sim::Result<sim::input::PlanFile>& file) {
  std::string all;
  if (file)
    for (const std::string& note : file->notes) all += note + "\n";
  return all;
}

// The flags of a complete GPT, to which tests add more.
const std::string gpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 2 --global-batch-size 64 --bf16 --vocab-file v.json ";

// Types in DeepSpeed's file, and whether gradients are then fp32.
constexpr std::pair<const char*, bool> deepspeed_types[] = {
    {"", false},
    {R"(, "data_types": {"grad_accum_dtype": "fp32"})", true},
    {R"(, "data_types": {"grad_accum_dtype": "float32"})", true},
    {R"(, "data_types": {"grad_accum_dtype": "bf16"})", false},
    {R"(, "data_types": {"grad_accum_dtype": null}, "communication_data_type": 32)", false},
    {R"(, "data_types": "fp32")", false},
    {R"(, "communication_data_type": "fp32")", true},
    {R"(, "communication_data_type": "bfp16")", false}};

sim::Result<sim::input::PlanFile> with(const std::string& flags,
                                       const std::string& program = "pretrain_gpt.py",
                                       const std::string& cluster = "dgx-h100") {
  support::Scratch scratch;
  return load_megatron(
      scratch.write("t.sh", support::replaced(gpt, "pretrain_gpt.py", program) + flags),
      {"cluster=" + cluster});
}

}  // namespace

TEST_CASE("launch: a Slurm script with arrays, arithmetic and defaults is read as a shell would") {
  support::Scratch scratch;
  const std::string script = R"(#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
source /opt/conda/bin/activate env
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
TP=${TP:-4}; PP=2
DP=$((WORLD_SIZE / (TP * PP)))
CHECKPOINT=$1
MODEL=(
    --num-layers 32   # depth
    --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --swiglu --normalization RMSNorm
    --disable-bias-linear --untie-embeddings-and-output-weights
    --attention-dropout 0.0 --hidden-dropout 0.0
    --tokenizer-type Llama3Tokenizer --tokenizer-model /data/Meta-Llama-3-8B/tokenizer.json
)
TRAIN="--micro-batch-size 1 --global-batch-size $((DP * 32)) --bf16 --lr 3e-4"
if [ "$PP" -gt 1 ]; then
  TRAIN="$TRAIN --num-layers-per-virtual-pipeline-stage 4"
fi
if [[ -f $CHECKPOINT/latest ]]; then LOAD="--load $CHECKPOINT"; else LOAD="--no-load-optim"; fi
srun torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL[@]} \
    $TRAIN $LOAD \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} \
    --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce
)";
  const auto file = load_megatron(scratch.write("train.sh", script), {"cluster=dgx-h100"});
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->plan->world() == 32);
  CHECK(sim::model::parameters(file->plan->architecture) == 8'030'261'248);
  CHECK(notes(file).empty());  // a checkpoint changes nothing, and everything else is known
}

TEST_CASE("launch: DeepSpeed's launcher, its here-document and old names of recomputation") {
  support::Scratch scratch;
  const std::string script = R"(
ZERO=1
config=./ds.$SLURM_JOBID.json
cat <<EOT > $config
{ "zero_optimization": { "stage": $ZERO }, "fp16": {"enabled": true} }
EOT
CMD="pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
  --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 512 \
  --rampup-batch-size 32 32 2_000_000 --vocab-file $SCRATCH/gpt2-vocab.json --fp16 \
  --checkpoint-activations --embed-layernorm --position-embedding-type alibi \
  --deepspeed --deepspeed_config ${config} --deepspeed-activation-checkpointing \
  --pipeline-model-parallel-size 2"
echo $CMD
srun bash -c 'python -m torch.distributed.launch --nproc_per_node 8 --nnodes $N $CMD' | tee log
)";
  const auto file =
      load_megatron(scratch.write("train.slurm", script), {"cluster=dgx-a100", "gpus=16"});
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->plan->architecture.vocab == 50257);
  CHECK(file->plan->architecture.position == sim::model::Position::none);
  const std::string all = notes(file);
  for (const char* said :
       {"ALiBi is not simulated", "--rampup-batch-size is not simulated", "ZeRO stage 1"})
    CHECK(contains(all, said));
  CHECK_FALSE(contains(all, "times"));  // echo starts nothing
  CHECK_FALSE(file->plan->sharding.deepspeed_optimizer);
}

TEST_CASE("launch: DeepSpeed's ZeRO-1 with its optimizer on the CPU is DeepSpeed's own") {
  support::Scratch scratch;
  const std::string script = R"(
cat <<EOT > ds.json
{ "zero_optimization": { "stage": 1, "offload_optimizer": {"device": "cpu"} } }
EOT
deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 \
  --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 1 --global-batch-size 64 --vocab-size 50257 --bf16 --deepspeed \
  --deepspeed_config ds.json)";
  for (const char* more : {"", " --cpu-optimizer"}) {
    const auto file = load_megatron(scratch.write("train.sh", script + more), {"cluster=dgx-a100"});
    CAPTURE(problems(file));
    REQUIRE(file);
    CHECK(file->plan->sharding.deepspeed_optimizer);
    CHECK(file->plan->optimizer.offload_fraction == 1);
    CHECK_FALSE(file->plan->optimizer.precision_aware);
    CHECK_FALSE(contains(notes(file), "ZeRO stage 1"));
  }
}

TEST_CASE("launch: DeepSpeed's file that a script names says the type of gradients") {
  support::Scratch scratch;
  for (const auto& [words, wide] : deepspeed_types) {
    CAPTURE(words);
    const std::string script =
        R"(cat <<EOT > ds.json
{ "zero_optimization": { "stage": 2 })" +
        std::string(words) + R"( }
EOT
)" + gpt +
        "--deepspeed --deepspeed_config ds.json";
    const auto file = load_megatron(scratch.write("train.sh", script), {"cluster=dgx-a100"});
    CAPTURE(problems(file));
    REQUIRE(file);
    CHECK(file->plan->numerics.fp32_gradients == wide);
  }
}

TEST_CASE("launch: what a script leaves open is asked for at once, with the setting that says it") {
  support::Scratch scratch;
  const std::string path =
      scratch.write("t.sh",
                    "torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --num-layers $1 "
                    "--hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
                    "--max-position-embeddings 2048 --micro-batch-size 2 --lr $LR --bf16 "
                    "--fp16-lm-cross-entropy");
  const std::string all = problems(load_megatron(path, {"cluster=dgx-h100"}));
  CAPTURE(all);
  CHECK(contains(all,
                 "the value of --num-layers is $1, which the script does not define; write "
                 "architecture.layers="));
  CHECK(
      contains(all, "how many GPUs run is $NNODES, which the script does not define; write gpus="));
  CHECK(contains(all, "write vocab="));
  CHECK_FALSE(contains(all, "LR"));
  const auto file =
      load_megatron(path, {"cluster=dgx-h100", "gpus=16", "vocab=50257", "architecture.layers=8"});
  CAPTURE(problems(file));
  REQUIRE(file);
  // Without --global-batch-size each of the 16 replicas has one microbatch.
  CHECK(contains(notes(file), "32 sequences a step"));
}

TEST_CASE("input: a launch file without a number of GPUs is asked for it, not for the batch") {
  support::Scratch scratch;
  const std::string path = scratch.write("titan.toml",
                                         "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                         "[training]\nlocal_batch_size = 1\nseq_len = 8192\n"
                                         "[parallelism]\ntensor_parallel_degree = 2\n");
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{}, std::vector<std::string>{"cluster=dgx-h100"}}) {
    const std::string all = problems(load_megatron(path, settings));
    CAPTURE(all);
    CHECK(contains(all, "say how many GPUs run: gpus, nodes or dp"));
    CHECK_FALSE(contains(all, "global_batch"));
  }
  const std::string odd = problems(load_megatron(path, {"cluster=dgx-h100", "gpus=63"}));
  CAPTURE(odd);
  CHECK(contains(odd, "63 GPUs do not factor into"));
  CHECK_FALSE(contains(odd, "global_batch"));
  const auto file = load_megatron(path, {"cluster=dgx-h100", "gpus=64"});
  REQUIRE(file);
  CHECK(file->plan->batch.global_batch == 32);
}

TEST_CASE("launch: a variable counts however the program gets it") {
  support::Scratch scratch;
  const auto avoids = [&](const std::string& before) {
    const auto file = load_megatron(scratch.write("t.sh", before + gpt), {"cluster=dgx-h100"});
    INFO(before << problems(file));
    REQUIRE(file);
    return file->plan->environment.avoid_record_streams;
  };
  const std::string variable = "TORCH_NCCL_AVOID_RECORD_STREAMS=1";
  CHECK_FALSE(avoids(""));
  CHECK_FALSE(avoids("env TORCH_NCCL_AVOID_RECORD_STREAMS=0 "));
  for (const char* before : {"export {}\n", "{} ", "env {} ", "mpirun -n 1 -x {} "})
    CHECK(avoids(support::replaced(before, "{}", variable)));
}

TEST_CASE("launch: programs that train something else are refused by name") {
  for (const char* program :
       {"pretrain_bert.py", "pretrain_t5.py", "pretrain_ict.py", "pretrain_retro.py",
        "pretrain_mamba.py", "pretrain_vlm.py", "examples/multimodal/train_multimodal.py",
        "train_rl.py", "pretrain_vision_classify.py", "pretrain_prefix_lm.py",
        "examples/multimodal/train.py", "-m examples.inference.offline_inference",
        "tools/create_doc_index.py", "tools/run_text_generation_server.py",
        "tasks/eval_harness/evaluate.py"}) {
    CAPTURE(program);
    const auto file = with("", program);
    REQUIRE_FALSE(file);
    CHECK(contains(problems(file), "only GPTs are simulated"));
  }
  for (const char* program : {"pretrain_gpt.py", "/opt/megatron/pretrain_gpt_core.py",
                              "finetune_llama.py", "pretrain_qwen.py"}) {
    CAPTURE(program);
    CHECK(with("", program));
  }
  // Other started programs are named, without their folder.
  const std::string said = "is read as a program that trains a GPT with Megatron-LM's arguments";
  for (const char* folder : {"", "/", "./", "/opt/megatron/", "${HERE}/"}) {
    CAPTURE(folder);
    CHECK(contains("\n" + notes(with("", std::string(folder) + "finetune.py")),
                   "\nfinetune.py " + said));
  }
  CHECK(contains(notes(with("", "-m tools.finetune")), "finetune.py " + said));
  CHECK_FALSE(contains(notes(with("", "/opt/pretrain_gpt.py")), said));
}

TEST_CASE("launch: a flag is in one row of the table, and what is not simulated is said") {
  CHECK(flag_meaning("tensor-model-parallel-size").effect == FlagEffect::mapped);
  CHECK(flag_meaning("vocab-file").effect == FlagEffect::together);
  CHECK(flag_meaning("wandb-project").effect == FlagEffect::harmless);
  CHECK(flag_meaning("defer-embedding-wgrad-compute").effect == FlagEffect::noted);
  CHECK(flag_meaning("mtp-standalone").effect == FlagEffect::refused);
  for (const char* none : {"", " ", "tensor", "wandb", "size", "tensor-model-parallel-siz"})
    CHECK(flag_meaning(none).effect == FlagEffect::unknown);

  struct Said {
    const char *flags, *note;
  };
  for (const Said& one :
       {Said{"--qk-l2-norm", "--qk-l2-norm is not simulated"}, Said{"--squared-relu", "as GELU"},
        Said{"--optimizer sgd", "the optimizer is Adam"},
        Said{"--cp-comm-type a2a p2p", "as the first one"},
        Said{"--fp8-hybrid --fp8-recipe blockwise", "as delayed scaling"},
        Said{"--outer-dp-sharding-strategy no_shard", "copies of the optimizer"},
        Said{"--fp32-residual-connection", "16 bits"},
        Said{"--manual-gc --defer-embedding-wgrad-compute", "collector"},
        Said{"$MORE_ARGS", "nothing in the script says what $MORE_ARGS holds"}}) {
    CAPTURE(one.flags);
    const auto file = with(one.flags);
    CAPTURE(problems(file));
    REQUIRE(file);
    CHECK(contains(notes(file), one.note));
  }
  for (const char* flags :
       {"--num-experts 8 --expert-model-parallel-size 3", "--mtp-standalone",
        "--hybrid-override-pattern M-M*", "--is-hybrid-model", "--use-mamba-mem",
        "--pipeline-model-parallel-layout Et*3|L|", "--force-ds-sequence-parallel",
        "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec"})
    CHECK_FALSE(with(flags));
  CHECK(contains(problems(with("--seq-lenght 5")),
                 "Megatron-LM has no flag --seq-lenght; did you mean --seq-length?"));
}

TEST_CASE("launch: how a sequence is shared is what its flags say") {
  struct Said {
    const char *flags, *context;
    int cp, ulysses;
  };
  for (const Said& one :
       {Said{"--context-parallel-size 2", "ring", 2, 0},
        Said{"--context-parallel-size 2 --cp-comm-type p2p", "ring", 2, 0},
        Said{"--context-parallel-size 2 --cp-comm-type all_gather", "all-gather", 2, 0},
        Said{"--context-parallel-size 2 --cp-comm-type a2a", "ulysses", 2, 0},
        Said{"--context-parallel-size 4 --cp-comm-type a2a+p2p "
             "--hierarchical-context-parallel-sizes 2 2",
             "hierarchical", 4, 2},
        Said{"--ds-sequence-parallel-size 4", "ulysses", 4, 0}}) {
    CAPTURE(one.flags);
    const auto file = with(one.flags);
    CAPTURE(problems(file));
    REQUIRE(file);
    CHECK(file->plan->mesh.context == one.context);
    CHECK(file->plan->mesh.cp == one.cp);
    CHECK(file->plan->mesh.ulysses == one.ulysses);
  }
  CHECK_FALSE(with("--context-parallel-size 2 --cp-comm-type a2b"));
}

TEST_CASE("launch: experts, latent attention and further tokens are what their flags say") {
  const auto file = with(
      "--num-experts 8 --moe-router-topk 3 --moe-ffn-hidden-size 768 --moe-router-dtype fp32 "
      "--moe-shared-expert-intermediate-size 512 --expert-tensor-parallel-size 1 "
      "--sequence-parallel --moe-token-dispatcher-type alltoall --moe-grouped-gemm "
      "--moe-router-score-function sigmoid --moe-aux-loss-coeff 1e-2");
  CAPTURE(problems(file));
  REQUIRE(file);
  const sim::program::Plan& plan = file->plan;
  const sim::model::Experts& e = plan.architecture.experts;
  CHECK(e.count == 8);
  CHECK(e.top_k == 3);
  CHECK(e.ffn == 768);
  CHECK(e.shared_ffn == 512);
  CHECK(e.score == sim::model::RouterScore::sigmoid);
  CHECK(plan.expert_tp() == 1);
  CHECK(plan.experts.dispatcher == sim::program::Dispatcher::alltoall);
  CHECK(plan.experts.grouped_gemm);
  CHECK_FALSE(plan.experts.permute_fusion);
  CHECK(plan.experts.fp32_router);
  const char* both =
      "--num-experts 8 --moe-shared-expert-intermediate-size 512 --sequence-parallel "
      "--moe-token-dispatcher-type alltoall --untie-embeddings-and-output-weights ";
  const auto overlaps = with(std::string(both) + "--moe-shared-expert-overlap --mtp-num-layers 3");
  CAPTURE(problems(overlaps));
  REQUIRE(overlaps);
  CHECK(overlaps->plan->experts.shared_overlap);
  CHECK(overlaps->plan->architecture.predicted_tokens == 3);
  CHECK_FALSE(with(std::string(both) + "--moe-shared-expert-overlap --expert-model-parallel-size 2 "
                                       "--overlap-moe-expert-parallel-comm"));
}

TEST_CASE("launch: flags change the plan as the program would") {
  const auto plan = [](const std::string& flags) {
    const auto file = with(flags);
    CAPTURE(flags, problems(file));
    REQUIRE(file);
    return file->plan;
  };
  CHECK(plan("--tokenizer-type NullTokenizer --vocab-size 131072")->architecture.vocab == 131073);
  CHECK(plan("--pad-vocab-size-to 65536")->architecture.vocab == 65536);
  CHECK(plan("--make-vocab-size-divisible-by 512")->architecture.vocab == 50688);
  CHECK(plan("--swiglu")->architecture.ffn == 2688);  // 2/3 of 4096 = 2730, in steps of 64
  CHECK(plan("--glu-activation swiglu")->architecture.activation == sim::model::Activation::swiglu);
  CHECK(plan("--RMSNorm")->architecture.norm == sim::model::Norm::rms);
  CHECK(plan("--num-query-groups 4")->architecture.kv_heads == 16);  // not asked for
  CHECK(plan("--group-query-attention --num-query-groups 4")->architecture.kv_heads == 4);
  CHECK(plan("--position-embedding-type none")->architecture.position ==
        sim::model::Position::none);
  CHECK(plan("--num-workers 0")->world() == 8);
}

TEST_CASE("launch: a layout says what each part of the model has, and how many chunks there are") {
  const auto file = with(
      "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tt|(t|)*0ttt|ttL'");
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->plan->pipeline.layers_of_parts == std::vector<int>{1, 2, 3, 2});
  CHECK(file->plan->pipeline.virtual_stages == 2);
  CHECK(file->plan->pipeline.schedule == "interleaved-1f1b");
  const auto refused = [](const std::string& layout) {
    return problems(
        with("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '" + layout + "'"));
  };
  CHECK(contains(refused("Et*4|tt|ttL"),
                 "the layout has 3 parts, which 2 stages do not share evenly; write 4"));
  CHECK(contains(refused("Et*4|t*5L"), "the parts have 9 layers together; the model has 8"));
  CHECK(contains(refused("Et*4|t*4mL"), "the layout has 1 m; the model predicts 0 further tokens"));
  CHECK(contains(refused("t*4|t*4L"), "the layout has an embedding elsewhere"));
  CHECK(flag_meaning("allow-padding-num-layers").text == "layer_split=padded");
}

TEST_CASE("launch: a recipe of fp8 counts where products are in fp8") {
  const auto recipe = [](const std::string& flags, const std::string& cluster = "dgx-h100") {
    const auto file = with(flags, "pretrain_gpt.py", cluster);
    REQUIRE(file);
    CHECK(notes(file).empty());
    return file->plan->numerics.fp8_recipe;
  };
  using sim::program::Fp8Recipe;
  CHECK(recipe("--fp8-format e4m3 --fp8-recipe mxfp8", "dgx-b200") == Fp8Recipe::mxfp8);
  CHECK_FALSE(with("--fp8-format e4m3 --fp8-recipe mxfp8"));  // of Blackwell
  CHECK(recipe("--fp4-format e2m1") == Fp8Recipe::nvfp4);
  CHECK(recipe("--fp8-format hybrid --fp8-recipe tensorwise") == Fp8Recipe::tensorwise);
  CHECK(recipe("--fp8-hybrid --fp8-recipe delayed") == Fp8Recipe::delayed);
  CHECK(recipe("--fp8-format hybrid") == Fp8Recipe::delayed);
  CHECK(recipe("--fp8-recipe tensorwise") == Fp8Recipe::delayed);
}

TEST_CASE("launch: variables of NCCL that change times are noted") {
  support::Scratch scratch;
  const auto file = load_megatron(
      scratch.write("t.sh", "export NCCL_ALGO=Ring NCCL_NVLS_ENABLE=0 NCCL_IB_SL=1\n" +
                                std::string("export CUDA_DEVICE_MAX_CONNECTIONS=8\n") + gpt),
      {"cluster=dgx-h100"});
  REQUIRE(file);
  CHECK(contains(notes(file), "NCCL_ALGO=Ring is not simulated"));
  CHECK(contains(notes(file), "add `cluster.node.nvlink_sharp=false`"));
  CHECK(contains(notes(file), "CUDA_DEVICE_MAX_CONNECTIONS=8 is not simulated"));
  CHECK_FALSE(contains(notes(file), "NCCL_IB_SL"));
}

TEST_CASE("launch: a condition that only the run could decide is named where it matters") {
  const auto file = with("$X\nif [ $NODES -gt 1 ]; then echo; fi");
  REQUIRE(file);
  support::Scratch scratch;
  const std::string script =
      "if [ \"$FAST\" = 1 ]; then R=''; else R='--recompute-granularity full "
      "--recompute-method uniform --recompute-num-layers 1'; fi\n" +
      gpt + " $R";
  const auto read = load_megatron(scratch.write("t.sh", script), {"cluster=dgx-h100"});
  REQUIRE(read);
  CHECK(notes(read).empty());  // taken, recomputation is off: nothing that is not there now
  const std::string other =
      "if [ \"$SLOW\" = 1 ]; then R='--recompute-activations'; fi\n" + gpt + " $R";
  const auto slow = load_megatron(scratch.write("s.sh", other), {"cluster=dgx-h100"});
  REQUIRE(slow);
  CHECK(contains(notes(slow),
                 "s.sh:1:4: a condition that only the run could decide is taken as "
                 "false; otherwise: recompute=selective"));
}

TEST_CASE("launch: Megatron-LM's own configurations in YAML") {
  support::Scratch scratch;
  const std::string yaml = R"(ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --global-batch-size: 32
  --seq-length: 1024
  --max-position-embeddings: 1024
  --vocab-file: ${DATA_PATH}/bpe/vocab.json
  --tensor-model-parallel-size: 2
  --sequence-parallel: true
  --use-distributed-optimizer: true
  --bf16: true
  --use-flash-attn: false
TEST_TYPE: regular
)";
  const auto file =
      load_megatron(scratch.write("model_config.yaml", yaml), {"cluster=dgx-a100", "gpus=8"});
  CAPTURE(problems(file));
  REQUIRE(file);
  CHECK(file->plan->architecture.vocab == 50257);
  CHECK(file->plan->world() == 8);
  CHECK_FALSE(load_megatron(scratch.write("a.yaml", yaml + "MODE: inference\n"),
                            {"cluster=dgx-a100", "gpus=8"}));
  CHECK_FALSE(load_megatron(
      scratch.write("b.yaml", support::replaced(yaml, "--bf16: true", "--decoder-seq-length: 8")),
      {"cluster=dgx-a100", "gpus=8"}));
  // Each of these flags alone identifies the program.
  const struct {
    const char *flag, *program;
  } others[] = {{"--decoder-seq-length: 8", "pretrain_t5.py"},
                {"--decoder-num-layers: 8", "pretrain_t5.py"},
                {"--language-model-type: 2b", "pretrain_vlm.py"},
                {"--img-h: 336", "pretrain_vlm.py"}};
  for (const auto& [flag, program] : others) {
    const auto other =
        load_megatron(scratch.write("c.yaml", support::replaced(yaml, "--bf16: true", flag)),
                      {"cluster=dgx-a100", "gpus=8"});
    INFO(flag << "\n" << problems(other));
    CHECK(contains(problems(other), program));
  }
}

TEST_CASE("launch: configurations of NeMo, Megatron-Bridge, torchtitan, DeepSpeed, accelerate") {
  support::Scratch scratch;
  const auto load = [&](const std::string& name, const std::string& text,
                        std::vector<std::string> more) {
    more.push_back("cluster=dgx-h100");
    const auto file = load_megatron(scratch.write(name, text), more);
    CAPTURE(name, problems(file));
    REQUIRE(file);
    return *file;
  };
  const auto nemo = load("nemo.yaml", R"(trainer:
  devices: 8
  num_nodes: 2
  precision: bf16
model:
  micro_batch_size: 2
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  encoder_seq_length: 4096
  max_position_embeddings: 4096
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  normalization: rmsnorm
  activation: fast-swiglu
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  attention_dropout: 0.0
  hidden_dropout: 0.0
  sequence_parallel: true
  something_new: 3
  tokenizer:
    type: meta-llama/Llama-2-7b-hf
  optim:
    name: distributed_fused_adam
    overlap_grad_sync: true
)",
                         {});
  CHECK(nemo.plan->world() == 16);
  CHECK(sim::model::parameters(nemo.plan->architecture) == 6'738'415'616);
  CHECK(nemo.notes.back() == "not read: model.something_new");

  const auto bridge = load("bridge.yaml", R"(model:
  num_layers: 8
  hidden_size: 1024
  num_attention_heads: 16
  seq_length: 2048
  vocab_size: 32000
  gated_linear_unit: true
  ffn_hidden_size: 4096
  add_bias_linear: false
  tensor_model_parallel_size: 2
train:
  micro_batch_size: 1
  global_batch_size: 16
ddp:
  use_distributed_optimizer: true
mixed_precision: bf16_mixed
)",
                           {"gpus=8"});
  CHECK(bridge.plan->architecture.activation == sim::model::Activation::swiglu);

  const auto titan = load("titan.toml", R"([job]
dump_folder = "./out"
[model]
name = "llama3"
flavor = "8B"  # the small one
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "full"
)",
                          {"gpus=16", "global_batch=8"});
  CHECK(titan.plan->world() == 16);
  CHECK(titan.plan->shards_parameters());

  const auto deepspeed = load("ds.json", R"({"train_micro_batch_size_per_gpu": 2,
 "train_batch_size": 32, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})",
                              {"gpus=16", "model=llama-2-7b", "sequence=4096"});
  CHECK(deepspeed.plan->shards_parameters());
  CHECK(deepspeed.plan->sharding.deepspeed_optimizer);
  CHECK(deepspeed.plan->sharding.overlap_grad_reduce);
  CHECK_FALSE(deepspeed.plan->sharding.deepspeed_all_reduce);
  CHECK_FALSE(deepspeed.plan->numerics.fp32_gradients);
  const auto alone = load("ds.json", R"({"train_micro_batch_size_per_gpu": 2,
 "train_batch_size": 32, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
 "offload_optimizer": {"device": "cpu"}, "overlap_comm": false, "reduce_scatter": false,
 "sub_group_size": 100000000}})",
                          {"gpus=16", "model=llama-2-7b", "sequence=4096"});
  CHECK(alone.plan->optimizer.offload_fraction == 1);
  CHECK(alone.plan->optimizer.sub_group == 100'000'000);
  CHECK(alone.plan->sharding.deepspeed_all_reduce);
  CHECK_FALSE(alone.plan->sharding.overlap_grad_reduce);
  CHECK(sim::program::problems(alone.plan).empty());
  // The type of gradients, in DeepSpeed's own file and in a file that a script names.
  for (const auto& [words, wide] : deepspeed_types) {
    CAPTURE(words);
    CHECK(load("ds.json",
               R"({"train_micro_batch_size_per_gpu": 2, "train_batch_size": 32, "bf16":
 {"enabled": true}, "zero_optimization": {"stage": 3})" +
                   std::string(words) + "}",
               {"gpus=16", "model=llama-2-7b", "sequence=4096"})
              .plan->numerics.fp32_gradients == wide);
  }

  const auto accelerate = load("fsdp.yaml", R"(distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_activation_checkpointing: true
mixed_precision: bf16
num_machines: 2
num_processes: 16
)",
                               {"model=llama-2-7b", "sequence=4096", "global_batch=16"});
  CHECK(accelerate.plan->world() == 16);
}

TEST_CASE("launch: recipes of mixed precision say whether parameters are held in fp8") {
  support::Scratch scratch;
  const auto bridge = [&](const std::string& precision, const std::string& cluster = "dgx-h100") {
    const auto file = load_megatron(
        scratch.write("bridge.yaml",
                      "model:\n  tensor_model_parallel_size: 2\n  seq_length: 4096\ntrain:\n"
                      "  micro_batch_size: 1\n  global_batch_size: 16\n" +
                          precision),
        {"model=llama-3.1-8b", "gpus=8", "cluster=" + cluster});
    REQUIRE(file);
    return file->plan->numerics;
  };
  using sim::program::Fp8Recipe;
  CHECK_FALSE(bridge("mixed_precision: bf16_mixed\n").fp8);
  const auto delayed = bridge("mixed_precision: bf16_with_fp8_delayed_scaling_mixed\n");
  CHECK(delayed.fp8);
  CHECK(delayed.fp8_parameters);
  CHECK(delayed.fp8_recipe == Fp8Recipe::delayed);
  const auto current = bridge("mixed_precision: bf16-with-fp8-current-scaling-mixed\n");
  CHECK(current.fp8_parameters);
  CHECK(current.fp8_recipe == Fp8Recipe::tensorwise);
  const auto blocks = bridge("mixed_precision: bf16_with_fp8_subchannel_scaling_mixed\n");
  CHECK(blocks.fp8);
  CHECK_FALSE(blocks.fp8_parameters);
  CHECK(bridge("mixed_precision: bf16_with_mxfp8_mixed\n", "dgx-b200").fp8_recipe ==
        Fp8Recipe::mxfp8);
  // Fields of the file count more than the recipe.
  const auto own = bridge(
      "mixed_precision:\n  bf16: true\n  fp8: hybrid\n"
      "  fp8_recipe: tensorwise\n  fp8_param_gather: false\n");
  CHECK(own.fp8);
  CHECK(own.fp8_recipe == Fp8Recipe::tensorwise);
  CHECK_FALSE(own.fp8_parameters);
}

TEST_CASE("launch: files that are no configuration are refused and end quickly") {
  support::Scratch scratch;
  const std::string deep(100'000, '[');
  for (const char* name : {"a.yaml", "a.toml", "a.json", "a.sh"})
    for (const std::string& text :
         {std::string(), deep, std::string(100'000, '{'), std::string("\xff\xfe\x00x", 4),
          std::string("a: &a [*a]"), std::string("{\"a\":"), std::string("[x\n\x01=\x02")}) {
      CAPTURE(name);
      CHECK_FALSE(load_megatron(scratch.write(name, text), {"cluster=dgx-h100", "gpus=8"}));
    }
}

TEST_CASE("launch: without a global batch a step is one microbatch of each replica") {
  support::Scratch scratch;
  const auto none = load_megatron(
      scratch.write("none.sh", "python pretrain_gpt.py --tensor-model-parallel-size 0\n"),
      {"cluster=dgx-h100", "model=llama-2-7b", "sequence=4096", "gpus=16"});
  CHECK_FALSE(none);
  CHECK(support::contains(problems(none), "tp"));
  const std::string script = scratch.write(
      "s.sh",
      "python pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
      "--micro-batch-size 3\n");
  for (const char* size : {"nodes=2", "gpus=16", "dp=4"}) {
    const auto file =
        load_megatron(script, {"cluster=dgx-h100", "model=llama-2-7b", "sequence=4096", size});
    CAPTURE(size, problems(file));
    REQUIRE(file);
    CHECK(file->plan->mesh.dp == 4);
    CHECK(file->plan->batch.global_batch == 4 * 3);
  }
}

// A file that launches nothing is refused, since its contents would not affect the answer.
TEST_CASE("launch: a file that launches nothing says so") {
  support::Scratch scratch;
  struct Case {
    const char *name, *text, *words;
  };
  for (const Case& one :
       {Case{"empty.sh", "", "none of its commands trains"},
        Case{"sweep.sh", "set -eu\nexec mpirun -n 8 rehearse sweep \"$1\" -o \"$2\" --resume\n",
             "none of its commands trains"},
        Case{"lost.sh", "torchrun train.py $ARGS\n", "nobody says what is in $ARGS"},
        Case{"a.toml", "[tool.poetry]\nname = \"x\"\n", "not a configuration of torchtitan"},
        Case{"a.json", R"({"hidden_size": 4096})", "not a configuration of DeepSpeed"}}) {
    const auto file = load_megatron(scratch.write(one.name, one.text),
                                    {"cluster=dgx-h100", "model=llama-2-7b", "gpus=8", "tp=8",
                                     "sequence=4096", "global_batch=8"});
    CAPTURE(one.name, problems(file));
    REQUIRE_FALSE(file);
    CHECK(file.errors().size() == 1);
    CHECK(support::contains(problems(file), one.words));
  }
  for (const char* name : {"slurm.sh", "mpi.sh", "pbs.sh", "grid-engine.sh"})
    CHECK(support::contains(
        problems(load_megatron(support::in_repository(std::string("workloads/jobs/") + name))),
        "none of its commands trains"));
}

TEST_CASE("launch: CUDA graphs of every generation of flags") {
  const auto graphs = [](const std::string& flags) {
    const auto read = sim::input::read_launch(
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 " + flags,
        "launch.sh");
    for (const auto& setting : read.arguments.settings)
      if (setting.text.starts_with("cuda_graph_modules=")) return setting.text.substr(19);
    return std::string("none");
  };
  CHECK(graphs("") == "none");
  CHECK(graphs("--cuda-graph-impl none --cuda-graph-scope attn") == "none");
  CHECK(graphs("--enable-cuda-graph") == "attn,mlp");
  CHECK(graphs("--external-cuda-graph --cuda-graph-scope attn") == "attn");
  CHECK(graphs("--cuda-graph-impl transformer_engine --cuda-graph-scope full") == "attn,mlp");
  CHECK(graphs("--cuda-graph-impl local --cuda-graph-modules attn mlp") == "attn,mlp");
  CHECK(graphs("--cuda-graph-impl full_iteration") == "full_iteration");
  CHECK(graphs("--cuda-graph-impl local --cuda-graph-scope full_iteration") == "full_iteration");
  const std::string experts = "--num-experts 8 --cuda-graph-impl transformer_engine ";
  CHECK(graphs(experts) == "attn,moe_router,moe_preprocess");
  CHECK(graphs(experts + "--cuda-graph-scope attn moe_router") == "attn,moe_router");
}

TEST_CASE("launch: tokenizers are known by their names") {
  using sim::input::vocabulary_of;
  support::Scratch scratch;
  CHECK(vocabulary_of("GPT2BPETokenizer") == 50257);
  CHECK(vocabulary_of("Llama3Tokenizer /x/tokenizer.json") == 128256);
  CHECK(vocabulary_of("HuggingFaceTokenizer meta-llama/Meta-Llama-3.1-70B") == 128256);
  CHECK(vocabulary_of("Llama2Tokenizer /x/tokenizer.model") == 32000);
  CHECK(vocabulary_of("PretrainedFromHF t5-small") == 32100);
  CHECK_FALSE(vocabulary_of("SentencePieceTokenizer /data/my.model"));
}

TEST_CASE("launch: the corpus of the fuzz target is read in bounded time, by every reader") {
  support::Scratch scratch;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           support::in_repository("tests/fuzz/corpus/launch_file"))) {
    ++files;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (const char* name : {"i.sh", "i.yaml", "i.json", "i.toml"})
      for (std::size_t size = 0; size <= text.size(); size += 7)
        for (const auto& setting :
             sim::input::read_launch(text.substr(0, size), name).arguments.settings)
          CHECK(contains(setting.text, "="));
  }
  CHECK(files >= 9);
}

TEST_CASE("launch: what lies beyond the limits of following is said, and refused where it trains") {
  support::Scratch scratch;
  std::string items, nested_begin, nested_end;
  for (int i = 0; i < 1001; ++i) items += " " + std::to_string(i);
  for (int i = 0; i < 30; ++i) {
    nested_begin += "if true; then\n";
    nested_end += "fi\n";
  }
  const auto read = [&](const std::string& text) {
    return load_megatron(scratch.write("t.sh", text), {"cluster=dgx-h100"});
  };
  const auto looped = read("N=0\nfor i in" + items + "; do N=$((N+1)); done\n" + gpt + "\n");
  REQUIRE(looped);
  CHECK(contains(notes(looped), "t.sh:2:1: a loop of more than 1000 rounds: the rest is not"));
  CHECK(notes(read(gpt)).find("is not followed") == std::string::npos);
  std::string words;
  for (int i = 0; i < 25'000; ++i) words += "A=1\n";
  CHECK(contains(problems(read(words + gpt)), "t.sh:20000:1: more than 20000 commands: the rest"));
  CHECK(contains(problems(read(nested_begin + gpt + "\n" + nested_end)), "levels deep: the rest"));
}
