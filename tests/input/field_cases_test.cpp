// field_cases_test.cpp — inputs of users that were once read wrongly: configurations of other
// programs, DeepSpeed's JSON, variables of batch systems, flags that a script hides.
#include <catch2/catch.hpp>

#include "sim/input/cluster/import.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/shell/directives.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/plan/plan.h"
#include "support.h"

using sim::input::read_megatron;
using support::contains;
using support::problems;

namespace {

const std::vector<std::string> llama = {"cluster=dgx-h100", "gpus=8", "model=llama-3.1-8b",
                                        "sequence=4096"};

std::vector<std::string> with(std::vector<std::string> settings,
                              std::initializer_list<const char*> more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

sim::input::PlanFile loaded(const std::string& text, const std::string& name,
                            const std::vector<std::string>& settings) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto file = read_megatron(text, name, settings);
  INFO(problems(file));
  REQUIRE(file);
  return *file;
}

std::string refused(const std::string& text, const std::string& name,
                    const std::vector<std::string>& settings) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto file = read_megatron(text, name, settings);
  CHECK_FALSE(file);
  return problems(file);
}

std::string notes(const sim::input::PlanFile& file) {
  std::string all;
  for (const std::string& note : file.notes) all += note + "\n";
  return all;
}

const std::string gpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 50257 ";

}  // namespace

TEST_CASE("cases: FlagScale keeps parallelism in its block system") {
  const auto file = loaded(
      "system:\n  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 2\n"
      "  precision: {bf16: true}\n  use_distributed_optimizer: true\n"
      "model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
      "  seq_length: 4096\n  max_position_embeddings: 4096\n  micro_batch_size: 1\n"
      "  global_batch_size: 64\n",
      "train.yaml", {"cluster=dgx-h100", "gpus=32", "vocab=32000"});
  CHECK(file.plan->mesh.tp == 4);
  CHECK(file.plan->mesh.pp == 2);
  CHECK(file.plan->numerics.precision == sim::model::Precision::bf16);
}

TEST_CASE("cases: nanotron's YAML gives mesh, batch, precision and network") {
  const auto file = loaded(
      "parallelism: {dp: 4, tp: 2, pp: 1, tp_mode: REDUCE_SCATTER}\n"
      "tokens: {micro_batch_size: 2, batch_accumulation_per_replica: 8, sequence_length: 4096}\n"
      "optimizer: {zero_stage: 1, accumulate_grad_in_fp32: true}\n"
      "model:\n  dtype: bfloat16\n  model_config: {hidden_size: 4096, intermediate_size: 14336,\n"
      "    num_attention_heads: 32, num_hidden_layers: 32, num_key_value_heads: 8,\n"
      "    vocab_size: 128256, is_llama_config: true}\n",
      "config.yaml", {"cluster=dgx-h100"});
  const sim::program::Plan& plan = *file.plan;
  CHECK(plan.mesh.tp == 2);
  CHECK(plan.world() == 8);
  CHECK(plan.architecture.layers == 32);
  CHECK(plan.numerics.precision == sim::model::Precision::bf16);
}

TEST_CASE("cases: NeMo AutoModel's YAML gives mesh and micro batch") {
  const auto file = loaded(
      "step_scheduler: {global_batch_size: 32, local_batch_size: 2}\n"
      "model: {pretrained_model_name_or_path: meta-llama/Llama-3.3-70B, torch_dtype: bf16}\n"
      "distributed: {strategy: fsdp2, dp_size: none, tp_size: 4, pp_size: 2}\n"
      "packed_sequence: {packed_sequence_size: 1024}\n",
      "recipe.yaml", {"cluster=dgx-h100", "gpus=32", "model=llama-3.1-70b"});
  CHECK(file.plan->mesh.tp == 4);
  CHECK(file.plan->mesh.pp == 2);
  CHECK(file.plan->numerics.precision == sim::model::Precision::bf16);
}

TEST_CASE("cases: a YAML of an unknown program is refused with its keys") {
  const std::string why = refused("runner: {steps: 4}\nnetwork: {depth: 12}\n", "x.yaml", llama);
  CHECK(contains(why, "its keys: network, runner"));
  // The name of the file does not matter.
  CHECK(contains(refused("runner: {steps: 4}\n", "x.txt", llama), "its keys: runner"));
}

TEST_CASE("cases: OmegaConf's defaults count, and open references are shown whole") {
  const std::string model =
      "model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
      "  encoder_seq_length: 4096\n  micro_batch_size: 1\n  global_batch_size: 64\n"
      "  tensor_model_parallel_size: ";
  const std::vector<std::string> rest = {"cluster=dgx-h100", "vocab=32000"};
  const std::string trainer = "trainer: {precision: bf16, devices: 8, num_nodes: 2}\n";
  CHECK(loaded(trainer + model + "${oc.decode:${oc.env:TP,4}}\n", "n.yaml", rest).plan->mesh.tp ==
        4);
  CHECK(contains(refused(trainer + model + "${oc.decode:${oc.env:TP}}\n", "n.yaml", rest),
                 "${oc.decode:${oc.env:TP}}"));
}

TEST_CASE("cases: DeepSpeed's auto precision is asked for") {
  const std::string text =
      R"({"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3},
 "train_batch_size": "auto"})";
  const std::string why = refused(text, "ds.json", llama);
  CHECK(contains(why, "write precision="));
  CHECK(contains(why, "write global_batch="));
  const auto file = loaded(text, "ds.json", with(llama, {"precision=bf16", "global_batch=64"}));
  CHECK(file.plan->numerics.precision == sim::model::Precision::bf16);
}

TEST_CASE("cases: DeepSpeed's off words are off, and wrong values are refused") {
  const auto json = [](const std::string& zero) {
    return R"({"bf16": {"enabled": true}, "train_batch_size": 64, "zero_optimization": )" + zero +
           "}";
  };
  for (const char* off :
       {R"({"stage": 3, "offload_optimizer": {"device": "none"}})",
        R"({"stage": 3, "cpu_offload": false})", R"({"stage": 3, "offload_optimizer": null})"})
    CHECK(loaded(json(off), "ds.json", llama).plan->optimizer.offload_fraction == 0);
  CHECK(contains(refused(json(R"({"stage": 7})"), "ds.json", llama), "stages 0, 1, 2 and 3"));
  CHECK(contains(refused(json(R"({"stage": "x"})"), "ds.json", llama), "stages 0, 1, 2 and 3"));
  CHECK(contains(
      refused(json(R"({"stage": 2, "offload_optimizer": {"device": "cpu"}})"), "ds.json", llama),
      "ZeRO stage 2 with its optimizer on the CPU is not simulated"));
  CHECK(contains(refused(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})", "ds.json",
                         with(llama, {"global_batch=64"})),
                 "exclude each other"));
}

TEST_CASE("cases: DeepSpeed's file of a script is checked too") {
  const auto script = [](const std::string& config) {
    return "cat > ds.json <<EOT\n" + config + "\nEOT\n" + "deepspeed --num_gpus 8" +
           gpt.substr(gpt.find(" pretrain")) + "--deepspeed --deepspeed_config ds.json\n";
  };
  CHECK(contains(
      refused(script(R"({"zero_optimization": {"stage": 2)"), "t.sh", {"cluster=dgx-h100"}),
      "not a JSON object"));
  const auto file =
      loaded(script(R"({"zero_optimization": {"stage": 0}})"), "t.sh", {"cluster=dgx-h100"});
  CHECK(file.plan->sharding.distributed_optimizer);
  CHECK(contains(notes(file), "BF16_Optimizer"));
}

TEST_CASE("cases: Megatron-DeepSpeed's experts") {
  const auto file = loaded("deepspeed --num_gpus 8" + gpt.substr(gpt.find(" pretrain")) +
                               "--deepspeed --zero-stage 0 --num-experts 8 "
                               "--moe-expert-parallel-size 8\n",
                           "t.sh", {"cluster=dgx-h100"});
  CHECK(file.plan->mesh.ep == 8);
  CHECK(file.plan->architecture.experts.top_k == 1);
  CHECK(sim::model::mixture_count(file.plan->architecture) == 8);
}

TEST_CASE("cases: flags that only the run knows are refused") {
  CHECK(contains(refused(gpt + "$(cat args.txt)\n", "t.sh", {"cluster=dgx-h100"}),
                 "$(cat args.txt) gives flags that only the run knows"));
  // A list of data files is no list of flags.
  loaded(gpt + "--data-path 1.0 $(cat blend.txt)\n", "t.sh", {"cluster=dgx-h100"});
}

TEST_CASE("cases: flags that change a mixture are simulated or refused") {
  const std::string experts =
      "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 --moe-grouped-gemm ";
  const auto file = loaded(gpt + experts + "--moe-layer-recompute\n", "t.sh", {"cluster=dgx-h100"});
  CHECK(file.plan->policy.recompute == sim::program::Recompute::selective);
  for (const char* flag : {"--moe-latent-size 512", "--mhc-num-residual-streams 4", "--moe-topk 2",
                           "--offload-optimizer-states"})
    CHECK_FALSE(refused(gpt + experts + flag + "\n", "t.sh", {"cluster=dgx-h100"}).empty());
}

TEST_CASE("cases: directives of batch systems define variables") {
  using sim::shell::job_variables;
  auto slurm = job_variables({"#SBATCH --nodes=24", "#SBATCH --gres=gpu:a100:4"});
  CHECK(slurm["SLURM_NNODES"] == "24");
  CHECK(slurm["SLURM_JOB_NUM_NODES"] == "24");
  CHECK(slurm["SLURM_GPUS_ON_NODE"] == "4");
  CHECK(job_variables({"#PBS -l select=16:ngpus=8:mpiprocs=8"})["PBS_NP"] == "128");
  CHECK(job_variables({"#$ -l rt_F=16"})["NHOSTS"] == "16");
  CHECK(sim::shell::job_request({"#BSUB -nnodes 4"}).nodes == 4);
  CHECK(sim::shell::job_request({"#PJM -L node=8"}).nodes == 8);
  const std::string script =
      "#!/bin/bash\n#SBATCH --nodes=3\ntorchrun --nnodes $SLURM_NNODES" + gpt.substr(8) + "\n";
  CHECK(loaded(script, "t.sh", {"cluster=dgx-h100", "global_batch=48"}).plan->world() == 24);
}

TEST_CASE("cases: the content of a file says its format") {
  CHECK(sim::input::is_launch_text("#!/bin/sh\n"));
  CHECK(sim::input::is_launch_text("# a comment\nmodel:\n  num_layers: 2\n"));
  CHECK(sim::input::is_launch_text("[training]\nseq_len = 4096\n"));
  CHECK_FALSE(sim::input::is_launch_text("{\"a\": 1}"));
  CHECK_FALSE(sim::input::is_launch_text("iteration 1/ 100 | elapsed"));
  CHECK_FALSE(sim::input::is_launch_text("[ -f x ] && source x\n"));
}

TEST_CASE("cases: GPUs with the same CPUs share a socket, and far NICs are left out") {
  const auto old = sim::input::import_nvidia_smi(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tmlx5_1\tCPU Affinity\n"
      "GPU0\t X \tNV4\tSYS\tSYS\tPIX\tSYS\t0-15\n"
      "GPU1\tNV4\t X \tSYS\tSYS\tPIX\tSYS\t0-15\n"
      "GPU2\tSYS\tSYS\t X \tNV4\tSYS\tPIX\t16-31\n"
      "GPU3\tSYS\tSYS\tNV4\t X \tSYS\tPIX\t16-31\n",
      "topo.txt");
  REQUIRE(old);
  CHECK(old->node->sockets == 2);
  CHECK(old->node->socket_of_gpu == std::vector<int>{0, 0, 1, 1});
  const auto far = sim::input::import_nvidia_smi(
      "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV18\tPIX\tSYS\tSYS\t0-15\t0\n"
      "GPU1\tNV18\t X \tSYS\tPIX\tSYS\t16-31\t1\n",
      "topo.txt");
  REQUIRE(far);
  CHECK(far->node->nics == 2);
  CHECK(far->node->nic_of_gpu == std::vector<int>{0, 1});
  REQUIRE(far->notes.size() == 1);
  CHECK(contains(far->notes.front(), "NIC 2"));
}
