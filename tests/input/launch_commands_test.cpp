// launch_commands_test.cpp — commands and configurations of programs other than Megatron-LM: the
// Trainer of transformers, LLaMA-Factory, ms-swift, GPT-NeoX, llm-foundry, OLMo, litgpt, Primus.
#include <catch2/catch.hpp>

#include "sim/input/launch/adapters.h"
#include "sim/input/launch/launch.h"
#include "sim/input/plan/plan.h"
#include "support.h"

using support::contains;
using support::problems;

namespace {

using Settings = std::vector<std::string>;

sim::Result<sim::input::PlanFile> read(const std::string& text, const std::string& name,
                                       Settings more) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  more.emplace_back("cluster=dgx-h100");
  return sim::input::read_megatron(text, name, more);
}

sim::program::Plan plan_of(const std::string& text, const std::string& name, Settings more) {
  const auto file = read(text, name, std::move(more));
  INFO(problems(file));
  REQUIRE(file);
  return *file->plan;
}

std::string refused(const std::string& text, const std::string& name, Settings more = {}) {
  const auto file = read(text, name, std::move(more));
  CHECK_FALSE(file);
  return problems(file);
}

const std::string trainer =
    "torchrun --nproc_per_node 4 train.py --model_name_or_path meta-llama/Llama-3.1-8B "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 8 --model_max_length 2048 ";

}  // namespace

TEST_CASE("commands: the Trainer's arguments of a script give batch, precision and sharding") {
  const auto plan =
      plan_of(trainer + "--bf16 True --gradient_checkpointing True --fsdp 'full_shard auto_wrap'",
              "t.sh", {});
  CHECK(plan.world() == 4);
  CHECK(plan.batch.micro_batch == 2);
  CHECK(plan.batch.global_batch == 64);
  CHECK(plan.batch.sequence == 2048);
  CHECK(plan.numerics.precision == sim::model::Precision::bf16);
  CHECK(plan.policy.recompute == sim::program::Recompute::full);
  CHECK(plan.sharding.data_parallel == sim::program::DataParallelism::fsdp1);
  CHECK(plan.is_eager());
  // Neither fsdp nor deepspeed: DistributedDataParallel.
  const auto alone = plan_of(trainer + "--bf16", "t.sh", {});
  CHECK(alone.sharding.data_parallel == sim::program::DataParallelism::ddp);
  CHECK_FALSE(alone.sharding.distributed_optimizer);
  CHECK(contains(refused(trainer, "t.sh"), "nothing says a precision"));
  CHECK(contains(refused(trainer + "--bf16 --gradient_accumulation_steps $STEPS", "t.sh"),
                 "write global_batch="));
}

TEST_CASE("commands: DeepSpeed's file is found from the script's folder and above") {
  support::Scratch scratch;
  scratch.write("z3.json", R"({"bf16": {"enabled": "auto"}, "train_batch_size": "auto",
      "zero_optimization": {"stage": 3}})");
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto file = sim::input::load_megatron(
      scratch.write("t.sh", trainer + "--bf16 --deepspeed z3.json"), {"cluster=dgx-h100"});
  INFO(problems(file));
  REQUIRE(file);
  CHECK(file->plan->shards_parameters());
  CHECK(file->plan->sharding.deepspeed_optimizer);
  CHECK(contains(refused(trainer + "--bf16 --deepspeed missing.json", "t.sh"), "write zero="));
  CHECK(plan_of(trainer + "--bf16 --deepspeed missing.json", "t.sh", {"zero=1"})
            .sharding.distributed_optimizer);
}

TEST_CASE("commands: ms-swift, with models of transformers and with Megatron-LM") {
  const auto swift = plan_of(
      "NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-30B-A3B-Instruct-2507 --train_type full "
      "--torch_dtype bfloat16 --per_device_train_batch_size 1 --gradient_accumulation_steps 4 "
      "--max_length 4096",
      "s.sh", {"model=llama-3.1-8b"});
  CHECK(swift.world() == 2);
  CHECK(swift.batch.global_batch == 8);
  CHECK(swift.policy.recompute == sim::program::Recompute::full);
  const auto core = plan_of(
      "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --micro_batch_size 1 "
      "--global_batch_size 16 --max_length 2048 --expert_model_parallel_size 4 "
      "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 "
      "--train_type lora --target_modules all-linear --lora_rank 8 "
      "--tensor_model_parallel_size 1",
      "m.sh", {"lora_modules=linear_qkv,linear_proj"});
  CHECK(core.mesh.ep == 4);
  CHECK(core.lora.rank == 8);
  CHECK(
      contains(refused("swift sft --model x/y --deepspeed zero2_offload --train_type full", "s.sh"),
               "ZeRO stage 2 with its optimizer on the CPU"));
}

TEST_CASE("commands: LLaMA-Factory's command names its file") {
  support::Scratch scratch;
  const std::string yaml =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: lora\n"
      "lora_rank: 16\nlora_target: q_proj,v_proj\ncutoff_len: 2048\nbf16: true\n"
      "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\n";
  scratch.write("run.yaml", yaml);
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto file = sim::input::load_megatron(
      scratch.write("t.sh", "llamafactory-cli train run.yaml"), {"cluster=dgx-h100", "gpus=4"});
  INFO(problems(file));
  REQUIRE(file);
  CHECK(file->plan->lora.rank == 16);
  CHECK(file->plan->lora.qkv);
  CHECK_FALSE(file->plan->lora.fc1);
  CHECK(file->plan->batch.global_batch == 8);
  CHECK(contains(refused("llamafactory-cli train other.yaml", "t.sh"), "holds the arguments"));
}

TEST_CASE("commands: names of modules with adapters") {
  const auto modules = [](std::vector<std::string> words) {
    return sim::input::adapter_modules(words).modules;
  };
  CHECK(modules({"q_proj,v_proj"}) == std::set<std::string>{"linear_qkv"});
  CHECK(modules({"model.layers.*.self_attn.o_proj", "down_proj"}) ==
        std::set<std::string>{"linear_fc2", "linear_proj"});
  CHECK(modules({"all-linear"}).size() == 4);
  CHECK(sim::input::adapter_modules({"lm_head"}).others == std::vector<std::string>{"lm_head"});
}

TEST_CASE("commands: GPT-NeoX writes YAML in braces, and gates share two thirds of the width") {
  const std::string text = R"({
  # a comment
  "pipe-parallel-size": 2, "model-parallel-size": 2,
  "num-layers": 4, "hidden-size": 1024, "num-attention-heads": 8,
  "seq-length": 1024, "max-position-embeddings": 1024, "pos-emb": "rotary",
  "norm": "rmsnorm", "activation": "swiglu", "intermediate_size": 3072, "mlp_multiple_of": 256,
  "attention-config": [[["flash"], 4]], "no-weight-tying": true,
  "zero_optimization": {"stage": 1,}, "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4, "bf16": {"enabled": True}, "gpt-j-residual": true,
})";
  const auto plan = plan_of(text, "n.yml", {"gpus=8", "vocab=50304"});
  CHECK(plan.mesh.pp == 2);
  CHECK(plan.mesh.tp == 2);
  CHECK(plan.architecture.ffn == 1024);
  CHECK(plan.architecture.position == sim::model::Position::rope);
  CHECK(plan.stack.attention == sim::program::AttentionBackend::flash);
  CHECK(plan.batch.global_batch == 16);
  CHECK(plan.sharding.deepspeed_optimizer);
}

TEST_CASE("commands: llm-foundry, OLMo and litgpt") {
  const auto mpt = plan_of(
      "max_seq_len: 2048\nmodel: {name: mpt_causal_lm, d_model: 768, n_heads: 12, n_layers: 12,\n"
      "  expansion_ratio: 4, vocab_size: 50368, max_seq_len: 2048,\n"
      "  attn_config: {attn_impl: flash}}\n"
      "train_loader: {name: text}\nglobal_train_batch_size: 64\ndevice_train_microbatch_size: 4\n"
      "precision: amp_bf16\nfsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE,\n"
      "  activation_checkpointing: true}\n",
      "m.yaml", {"gpus=8"});
  CHECK(mpt.architecture.ffn == 3072);
  CHECK(mpt.architecture.tied_embeddings);
  CHECK(mpt.architecture.activation == sim::model::Activation::gelu);
  CHECK(mpt.policy.recompute == sim::program::Recompute::full);
  const auto olmo = plan_of(
      "model: {d_model: 2048, n_heads: 16, n_layers: 16, mlp_hidden_size: 11008, rope: true,\n"
      "  embedding_size: 50304, max_sequence_length: 2048, weight_tying: false}\n"
      "tokenizer: {identifier: t}\nglobal_train_batch_size: 64\ndevice_train_microbatch_size: 2\n"
      "precision: amp_bf16\nfsdp: {precision: mixed}\n",
      "o.yaml", {"gpus=8"});
  CHECK(olmo.architecture.ffn == 5504);  // both halves of SwiGLU count
  CHECK(olmo.numerics.fp32_gradients);
  const auto lit = plan_of(
      "checkpoint_dir: checkpoints/meta-llama/Llama-3.1-8B\nout_dir: o\nprecision: bf16-true\n"
      "devices: 2\nlora_r: 16\nlora_query: true\nlora_mlp: true\n"
      "train: {global_batch_size: 8, micro_batch_size: 2, max_seq_length: 512}\n",
      "l.yaml", {});
  CHECK(lit.world() == 2);
  CHECK(lit.lora.rank == 16);
  CHECK(lit.lora.fc1);
  CHECK_FALSE(lit.lora.projection);
}

TEST_CASE("commands: references of NeMo's launcher, and Primus' variables with defaults") {
  const Settings rest = {"vocab=32000"};
  const auto nemo = plan_of(
      "trainer: {precision: bf16, devices: 8, num_nodes: 1}\nmodel:\n  num_layers: 8\n"
      "  hidden_size: 1024\n  ffn_hidden_size: ${multiply:4,${.hidden_size}}\n"
      "  num_attention_heads: 16\n  encoder_seq_length: 2048\n"
      "  max_position_embeddings: ${.encoder_seq_length}\n  micro_batch_size: 1\n"
      "  global_batch_size: 16\n  tensor_model_parallel_size: 2\n"
      "  optim: {name: mcore_distributed_optim, overlap_param_sync: true,\n"
      "    overlap_grad_sync: true}\n",
      "n.yaml", rest);
  CHECK(nemo.architecture.ffn == 4096);
  CHECK(nemo.architecture.max_positions == 2048);
  CHECK(nemo.sharding.distributed_optimizer);
  const auto primus = plan_of(
      "modules:\n  pre_trainer:\n    framework: megatron\n    model: m.yaml\n    overrides:\n"
      "      micro_batch_size: 2\n      global_batch_size: 32\n"
      "      seq_length: ${SEQ_LENGTH:2048}\n      tensor_model_parallel_size: 2\n"
      "      bf16: true\n",
      "p.yaml", {"gpus=8", "model=llama-3.1-8b"});
  CHECK(primus.mesh.tp == 2);
  CHECK(primus.batch.sequence == 2048);
}

TEST_CASE("commands: adapters of NeMo, and other ways of partial training are refused") {
  const std::string model =
      "trainer: {precision: bf16, devices: 8, num_nodes: 1}\nmodel:\n  micro_batch_size: 1\n"
      "  global_batch_size: 16\n  tensor_model_parallel_size: 2\n  encoder_seq_length: 2048\n";
  const Settings rest = {"model=llama-3.1-8b"};
  const auto lora =
      plan_of(model +
                  "  peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 32, target_modules: "
                  "[attention_qkv]}}\n",
              "n.yaml", rest);
  CHECK(lora.lora.rank == 32);
  CHECK(contains(refused(model + "  adapter_tuning: {adapter_dim: 32}\n", "n.yaml", rest),
                 "only adapters of LoRA"));
}

TEST_CASE("commands: what is another program, a task or a template is refused as that") {
  CHECK(contains(refused("python dist_train.py --micro-batch-size 1 --hidden-size 64 --aa 1 --bb 2 "
                         "--cc 3 --dd 4",
                         "t.sh"),
                 "it is another program"));
  CHECK(contains(
      refused("python tasks/main.py --task RACE --micro-batch-size 1 --num-layers 2", "t.sh"),
      "a task with a head of its own"));
  CHECK(contains(refused("{{- $root := . -}}\nspec: {}\n", "job.yaml"), "Helm"));
  CHECK(contains(refused("{\"train_batch_size\": CONFIG_BATCH_SIZE}", "ds.json"),
                 "a template: CONFIG_BATCH_SIZE"));
  // Keys of Megatron-LM somewhere else are no configuration.
  CHECK(contains(refused("card:\n  recompute_granularity: how much\nitems: [1]\n", "card.yaml"),
                 "its keys: card, items"));
}

TEST_CASE("commands: flags of forks are simulated") {
  const std::string gpt =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 "
      "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
      "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 50257 "
      "--pipeline-model-parallel-size 4 ";
  CHECK(plan_of(gpt + "--attention-head-type multiquery", "t.sh", {}).architecture.kv_heads == 1);
  const auto schedule = [&](const std::string& flags) {
    return plan_of(gpt + flags, "t.sh", {}).pipeline.schedule;
  };
  CHECK(schedule("--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup half") == "v-half");
  CHECK(schedule("--enable-zero-bubble --zero-bubble-max-pending-backward 4") == "zb-1p");
  CHECK(schedule("--enable-vocab-parallel --disable-backward-fusion") == "vocab-1");
}

TEST_CASE("commands: what follows attention's kernel is read with every kernel") {
  const auto plan = plan_of(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 "
      "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
      "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 50257 "
      "--use-flash-attn-triton --ds-sequence-parallel-size 4",
      "t.sh", {});
  CHECK(plan.mesh.cp == 4);
  CHECK(plan.mesh.context == "ulysses");
}

TEST_CASE("commands: switches and references of NeMo, and words of YAML in quotes and brackets") {
  const std::string model =
      "trainer: {precision: bf16, devices: 8, num_nodes: 1}\nmodel:\n  micro_batch_size: 1\n"
      "  global_batch_size: 16\n  tensor_model_parallel_size: 2\n"
      "  encoder_seq_length: ${peft.model.data.length}\n  data: {length: 2048}\n"
      "  fp8: false\n  fp8_hybrid: true\n";
  const auto nemo = plan_of(model, "n.yaml", {"model=llama-3.1-8b"});
  CHECK(nemo.batch.sequence == 2048);
  CHECK_FALSE(nemo.numerics.fp8);
  const auto listed = plan_of(
      "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 512\n  --num-attention-heads: 8\n"
      "  --seq-length: 1024\n  --max-position-embeddings: 1024\n  --micro-batch-size: 1\n"
      "  --global-batch-size: 8\n  --bf16: true\n  --vocab-size: 32000\n"
      "  --recompute-granularity: selective\n  --recompute-modules: '[mlp, core_attn]'\n",
      "model_config.yaml", {"gpus=8"});
  CHECK(listed.policy.recompute_modules.mlp);
}

TEST_CASE("commands: accelerate's file that a command names is read, or asked for") {
  const std::string command =
      "accelerate launch --config_file fsdp.yaml --num_processes 4 train.py --model_name_or_path "
      "meta-llama/Llama-3.1-8B --per_device_train_batch_size 1 --gradient_accumulation_steps 2 "
      "--bf16 --max_length 1024";
  CHECK(contains(refused(command, "t.sh"), "how parameters are sharded; write zero="));
  CHECK(plan_of(command, "t.sh", {"data_parallel=fsdp2"}).shards_parameters());
  support::Scratch scratch;
  scratch.write("fsdp.yaml", "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n");
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto file = sim::input::load_megatron(scratch.write("t.sh", command), {"cluster=dgx-h100"});
  INFO(problems(file));
  REQUIRE(file);
  CHECK(file->plan->sharding.data_parallel == sim::program::DataParallelism::fsdp2);
  CHECK(file->plan->numerics.precision == sim::model::Precision::bf16);
}

TEST_CASE("commands: FlagScale's width is a multiple of a share of the hidden size") {
  const auto plan = plan_of(
      "system: {tensor_model_parallel_size: 1, precision: {bf16: true}}\n"
      "model: {num_layers: 4, hidden_size: 6144, num_attention_heads: 48, seq_length: 2048,\n"
      "  max_position_embeddings: 2048, micro_batch_size: 1, global_batch_size: 8, swiglu: true,\n"
      "  multiple_of: 4096, hidden_dim_multiplier: 1.3}\n",
      "f.yaml", {"gpus=8", "vocab=32000"});
  CHECK(plan.architecture.ffn == 24576);
}

TEST_CASE("commands: accelerate without shards is DistributedDataParallel") {
  const auto plan = plan_of(
      "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"
      "num_processes: 8\n",
      "a.yaml", {"model=llama-3.1-8b", "sequence=2048", "global_batch=8"});
  CHECK(plan.sharding.data_parallel == sim::program::DataParallelism::ddp);
  CHECK(sim::input::adapter_modules({"(mlp|self_attn).(up|q|o)_proj"}).modules.size() == 3);
}

TEST_CASE("commands: a precision that only the run decides is asked for") {
  const std::string script =
      "if [ $PR = fp16 ]; then P=--fp16; elif [ $PR = bf16 ]; then P=--bf16; fi\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 "
      "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
      "--micro-batch-size 1 --global-batch-size 64 --vocab-size 50257 $P\n";
  CHECK(contains(refused(script, "t.sh"), "write precision="));
  CHECK(plan_of(script, "t.sh", {"precision=bf16"}).numerics.precision ==
        sim::model::Precision::bf16);
}

TEST_CASE("commands: adapters have dropout, and other weights that are trained are refused") {
  const std::string lora = trainer + "--bf16 --use_lora True --lora_r 16 ";
  CHECK_FALSE(plan_of(lora, "t.sh", {}).lora.dropout);
  CHECK(plan_of(lora + "--lora_dropout 0.05", "t.sh", {}).lora.dropout);
  CHECK_FALSE(plan_of(lora + "--lora_dropout 0.0", "t.sh", {}).lora.dropout);
  CHECK(contains(refused(lora + "--modules_to_save embed_tokens,lm_head", "t.sh"),
                 "modules that are trained whole beside adapters"));
  // Descriptions of adapters that are switched off.
  const auto whole = plan_of(trainer + "--bf16 --use_lora False --lora_r 16 --lora_dropout 0.05 " +
                                 "--lora_target_modules q_proj",
                             "t.sh", {});
  CHECK_FALSE(whole.trains_adapters());
}

TEST_CASE("commands: keys of trainers that compare answers, and of other optimizers, are refused") {
  for (const char* key :
       {"--max_prompt_length 300", "--ref_model_name_or_path x", "--num_generations 8",
        "--task_type dpo", "--beta 0.1", "--loss_type apo_zero"})
    CHECK(contains(refused(trainer + "--bf16 " + key, "t.sh"), "preferences or rewards"));
  CHECK(plan_of(trainer + "--bf16 --task_type CAUSAL_LM", "t.sh", {}).world() == 4);
  for (const char* kind : {"sgd", "lomo", "adafactor", "galore_adamw"})
    CHECK(
        contains(refused(trainer + "--bf16 --optim " + kind, "t.sh"), "other states than Adam's"));
}

TEST_CASE("commands: GPT-NeoX that sums in fp32 runs DeepSpeed's BF16_Optimizer") {
  const std::string yaml =
      "\"num_layers\": 24, \"hidden_size\": 2048, \"num_attention_heads\": 32,\n"
      "\"seq_length\": 4096, \"model_parallel_size\": 1, \"train_micro_batch_size_per_gpu\": 2,\n"
      "\"gradient_accumulation_steps\": 2, \"attention_config\": [[[\"flash\"], 24]],\n"
      "\"zero_optimization\": {\"stage\": 1}, \"bf16\": {\"enabled\": true},\n"
      "\"precision\": \"bfloat16\", \"no_weight_tying\": true";
  const Settings rest = {"vocab=100352", "gpus=8"};
  const auto own = plan_of("{" + yaml + "}", "c.yml", rest);
  CHECK(own.sharding.deepspeed_optimizer);
  CHECK(own.sharding.deepspeed_all_reduce);
  const auto wide = plan_of("{" + yaml + ", \"fp32_allreduce\": true}", "c.yml", rest);
  CHECK_FALSE(wide.sharding.deepspeed_optimizer);
  CHECK_FALSE(wide.sharding.deepspeed_all_reduce);
  CHECK(wide.numerics.fp32_gradients);
  CHECK(wide.batch.global_batch == 32);
}

TEST_CASE("commands: GPT-NeoX's file that says nothing of its network has that of NeoX") {
  const auto plan = plan_of(
      "{\"num_layers\": 12, \"hidden_size\": 768, \"num_attention_heads\": 12,\n"
      "\"seq_length\": 2048, \"model_parallel_size\": 1, \"train_micro_batch_size_per_gpu\": 32,\n"
      "\"gradient_accumulation_steps\": 1, \"fp16\": {\"enabled\": true}}",
      "160M.yml", {"vocab=50304", "gpus=8"});
  const sim::model::Architecture& a = plan.architecture;
  CHECK(a.activation == sim::model::Activation::gelu);
  CHECK(a.norm == sim::model::Norm::layer);
  CHECK(a.position == sim::model::Position::learned);
  CHECK(a.tied_embeddings);
  CHECK(a.linear_bias);
  CHECK(a.qkv_bias);
  CHECK(a.ffn == 3072);
}

TEST_CASE("commands: Megatron-Bridge's file without a precision trains in bf16") {
  const auto plan = plan_of(
      "train: {global_batch_size: 128, micro_batch_size: 2}\n"
      "model: {seq_length: 4096, tensor_model_parallel_size: 1}\npeft: {dim: 8}\n",
      "conf.yaml", {"model=llama-3.1-8b", "gpus=8"});
  CHECK(plan.numerics.precision == sim::model::Precision::bf16);
  CHECK(plan.lora.rank == 8);
}

TEST_CASE("commands: networks of images are refused by their keys") {
  CHECK(contains(refused("system: {tensor_model_parallel_size: 2, micro_batch_size: 1}\n"
                         "model: {num_layers: 28, hidden_size: 3584, mm_patch_merge_type: flat}\n",
                         "7b.yaml"),
                 "model.mm_patch_merge_type: a network of images"));
}

TEST_CASE("commands: DeepSpeed in fp32, and with parameters on the CPU") {
  const Settings rest = {"model=llama-3.1-8b", "gpus=8", "sequence=4096", "precision=bf16"};
  const std::string batch = R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 1)";
  const Settings open(rest.begin(), rest.end() - 1);
  const auto plain =
      plan_of("{" + batch + R"(, "zero_optimization": {"stage": 1}})", "d.json", open);
  CHECK(plain.numerics.precision == sim::model::Precision::fp32);
  CHECK(plain.stack.attention == sim::program::AttentionBackend::unfused);
  const auto zero3 = [&](const char* device) {
    return "{" + batch + R"(, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, )" +
           R"("offload_param": {"device": ")" + device + R"("}}})";
  };
  CHECK(plan_of(zero3("none"), "d.json", open).shards_parameters());
  CHECK(contains(refused(zero3("cpu"), "d.json", open), "parameters on the CPU or on NVMe"));
}

TEST_CASE("commands: a step of ms-swift has at least 16 sequences") {
  const std::string swift =
      "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-30B-A3B --tuner_type full "
      "--torch_dtype bfloat16 --max_length 2048 ";
  const Settings model = {"model=llama-3.1-8b", "precision=bf16", "gpus=4"};
  CHECK(plan_of(swift, "s.sh", model).batch.global_batch == 16);
  CHECK(plan_of(swift + "--per_device_train_batch_size 8", "s.sh", model).batch.global_batch == 32);
  CHECK(plan_of(swift + "--gradient_accumulation_steps 2", "s.sh", model).batch.global_batch == 8);
}

TEST_CASE("commands: pre-training of litgpt is compiled and shards within a node") {
  const std::string rest =
      "precision: bf16-mixed\ntrain: {global_batch_size: 64, micro_batch_size: 2, max_seq_length: "
      "2048, max_norm: 1.0}\ndevices: 8\nnum_nodes: 2\n";
  const Settings model = {"model=llama-2-7b"};
  const auto first = plan_of("out_dir: out\nmodel_name: Llama-2-7b-hf\n" + rest, "p.yaml", model);
  CHECK(first.stack.layer_kernels == sim::program::LayerKernels::compiled);
  CHECK(first.sharding.fsdp.replicas == 2);
  const auto later = plan_of("checkpoint_dir: meta-llama/Llama-2-7b-hf\n" + rest, "f.yaml", model);
  CHECK(later.stack.layer_kernels == sim::program::LayerKernels::eager);
  CHECK(later.sharding.fsdp.replicas == 1);
}

TEST_CASE("commands: a program of another project with Megatron-LM's names is refused as one") {
  const std::string why = refused(
      "python finetuning.py --seq-length 4096 --micro-batch-size 8 --global-batch-size 1024 --bf16 "
      "--train-iters 10 --lr 1e-4 --min-lr 1e-6 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 "
      "0.95 --adam-eps 1e-6 --save x --load x --split 9,1 --data-path x --tokenizer-type x "
      "--base-model x --mixed-precision --low-cpu-fsdp --sharding-strategy FULL_SHARD",
      "f.sh");
  CHECK(contains(why, "finetuning.py has arguments that no version of Megatron-LM has"));
}

TEST_CASE("commands: main gradients in bf16 are held in bf16") {
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
      "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 50257 "
      "--use-distributed-optimizer ";
  CHECK(plan_of(script, "m.sh", {}).numerics.fp32_gradients);
  const std::string narrow = "--use-precision-aware-optimizer --main-grads-dtype bf16";
  CHECK_FALSE(plan_of(script + narrow, "m.sh", {}).numerics.fp32_gradients);
}

TEST_CASE("commands: NeMo 2 names its precision in a plugin, and its networks of speech") {
  const std::string nemo =
      "plugins: {_target_: nemo.lightning.MegatronMixedPrecision, precision: bf16-mixed}\n"
      "strategy: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 1}\n"
      "data: {global_batch_size: 16, micro_batch_size: 2, seq_length: 4096}\n"
      "trainer: {devices: 8, num_nodes: 1}\n";
  const auto plan = plan_of(nemo, "n.yaml", {"model=llama-3.1-8b"});
  CHECK(plan.numerics.precision == sim::model::Precision::bf16);
  CHECK(plan.mesh.tp == 2);
  CHECK(contains(refused(nemo + "model: {modality_adapter: {input_key_from: d_model}}\n", "n.yaml"),
                 "a network of images, speech or diffusion"));
}

TEST_CASE("commands: fine-tuning of litgpt recomputes on several GPUs; submitters hold programs") {
  const std::string tune =
      "checkpoint_dir: meta-llama/Llama-3.1-8B\nprecision: bf16-true\ntrain: {global_batch_size: "
      "64, micro_batch_size: 4, max_seq_length: 512}\ndevices: ";
  using sim::program::Recompute;
  CHECK(plan_of(tune + "4\n", "l.yaml", {"model=llama-3.1-8b"}).policy.recompute ==
        Recompute::full);
  CHECK(plan_of(tune + "1\n", "l.yaml", {"model=llama-3.1-8b"}).policy.recompute ==
        Recompute::none);
  CHECK(contains(refused(trainer + "--bf16 --offload --zero_stage 3", "c.sh"), "on the CPU"));
  const std::string submitted =
      "python mason.py --gpus 8 -- accelerate launch open_instruct/dpo_tune_cache.py "
      "--model_name_or_path m --per_device_train_batch_size 1 --max_seq_length 512 --bf16";
  CHECK(contains(refused(submitted, "m.sh"), "by preferences"));
}
