// launch_mapped_test.cpp — flags that map to simulated behaviour, and files that a script reads
// from its own folder.
#include <catch2/catch.hpp>

#include "sim/input/launch/launch.h"
#include "sim/input/launch/megatron_flags.h"
#include "sim/input/plan/plan.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "support.h"

using sim::input::flag_meaning;
using sim::input::FlagEffect;
using sim::input::load_megatron;
using support::problems;

namespace {

const std::string gpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 1 --bf16 --vocab-size 50257 --transformer-impl transformer_engine ";

sim::program::Plan plan_of(const std::string& flags) {
  support::Scratch scratch;
  const auto file = load_megatron(scratch.write("t.sh", gpt + flags), {"cluster=dgx-h100"});
  INFO(problems(file));
  REQUIRE(file);
  return file->plan;
}

}  // namespace

TEST_CASE("input: deterministic mode fills tensors") {
  CHECK_FALSE(plan_of("").stack.deterministic);
  CHECK(plan_of("--deterministic-mode").stack.deterministic);
}

TEST_CASE("launch: what is simulated is taken from the script, not only said") {
  using namespace sim::program;
  const std::string batch = "--global-batch-size 64 ";
  CHECK(plan_of(batch + "--embed-layernorm").architecture.embedding_norm);
  const Plan windows = plan_of(batch + "--window-size 511,0 --window-attn-skip-freq 4");
  CHECK(windows.architecture.sliding_window == 512);
  CHECK(windows.architecture.whole_attention == 4);
  CHECK(plan_of(batch + "--window-size '(1023, 0)'").architecture.sliding_window == 1024);
  CHECK(plan_of(batch + "--cpu-offloading --cpu-offloading-num-layers 4").policy.offload_layers ==
        4);
  const Plan groups = plan_of(
      "--global-batch-size 40 --pipeline-model-parallel-size 4 --tensor-model-parallel-size 2 "
      "--num-layers-per-virtual-pipeline-stage 1 "
      "--microbatch-group-size-per-virtual-pipeline-stage 4");
  CHECK(groups.pipeline.microbatch_group == 4);
  const Plan both = plan_of(batch +
                            "--context-parallel-size 4 --cp-comm-type a2a+p2p "
                            "--hierarchical-context-parallel-sizes '[2 2]'");
  CHECK(both.mesh.context == "hierarchical");
  CHECK(both.mesh.ulysses == 2);
  CHECK(plan_of("--step-batch-size-schedule '0:32 200B:64 400B:128'").batch.global_batch == 128);
  CHECK(plan_of(batch + "--num-distributed-optimizer-instances 2 --use-distributed-optimizer")
            .sharding.optimizer_replicas == 2);
  const sim::program::Plan modules =
      plan_of(batch +
              "--fine-grained-activation-offloading --offload-modules core_attn attn_proj "
              "--min-offloaded-tensor-size 4096 --activation-offload-fraction 0.5 "
              "--delta-offload-bytes-across-pp-ranks 1073741824");
  CHECK(sim::program::offload_modules_text(modules.policy, " ") == "core_attn attn_proj");
  CHECK(modules.policy.offload_min_elements == 4096);
  CHECK(modules.policy.activation_offload_fraction == 0.5);
  CHECK(modules.policy.offload_delta_bytes == 1073741824);
  CHECK(plan_of(batch + "--offload-modules core_attn").policy.offload_modules == 0);
  CHECK(plan_of(batch + "--optimizer-cpu-offload --use-precision-aware-optimizer "
                        "--use-distributed-optimizer")
            .optimizer.offload_fraction > 0);
  for (const char* flag :
       {"num-distributed-optimizer-instances", "pipeline-model-parallel-layout",
        "optimizer-cpu-offload", "microbatch-group-size-per-virtual-pipeline-stage",
        "microbatch-group-size-per-vp-stage", "embed-layernorm", "cpu-offloading-num-layers"})
    CHECK(flag_meaning(flag).effect == FlagEffect::mapped);
}

TEST_CASE("launch: SynerFuse's replicas do unlike numbers of microbatches of one size") {
  support::Scratch scratch;
  const std::string batch = "--global-batch-size 20 --use-tp-pp-dp-mapping ";
  const auto read = [&](const std::string& flags) {
    return load_megatron(scratch.write("t.sh", gpt + batch + flags), {"cluster=dgx-h100"});
  };
  const auto file = read("--num-micro-batches-per-dp 2 4 6 2 --micro-batch-size-per-dp 4 1 4 1");
  INFO(problems(file));
  REQUIRE(file);
  CHECK(file->plan->batch.replica_microbatches == std::vector{4, 4, 2, 2, 2, 2, 2, 2});
  CHECK(file->plan->batch.micro_batch == 1);
  CHECK(problems(read("--micro-batch-size-per-dp 4 1 4 2")).find("unlike sizes") !=
        std::string::npos);
  CHECK(problems(read("--num-micro-batches-per-dp 2 4 6")).find("takes pairs") !=
        std::string::npos);
}

TEST_CASE("launch: Megatron-AxoNN's rows, columns and depth are a grid and its microbatch") {
  support::Scratch scratch;
  const auto file = load_megatron(
      scratch.write("axonn.sh",
                    "torchrun --nnodes 4 --nproc_per_node 4 pretrain_gpt.py --num-layers 4 "
                    "--hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
                    "--max-position-embeddings 2048 --micro-batch-size 8 --global-batch-size 32 "
                    "--bf16 --use-flash-attn --vocab-size 50257 "
                    "--row-tensor-model-parallel-size 2 --column-tensor-model-parallel-size 2 "
                    "--depth-tensor-model-parallel-size 2 --overlap-axonn-comm "
                    "--overlap-axonn-all-gather"),
      {"cluster=perlmutter"});
  INFO(problems(file));
  REQUIRE(file);
  const sim::program::Plan& plan = file->plan;
  CHECK(plan.mesh.tp == 4);
  CHECK(plan.tensor_rows() == 2);
  CHECK(plan.mesh.tensor_columns == 2);
  CHECK(plan.mesh.tensor_depth == 2);
  CHECK(plan.mesh.dp == 4);
  CHECK(plan.batch.micro_batch == 4);
  CHECK(plan.microbatches() == 2);
  CHECK(plan.stack.overlap_tensor_reduce);
  CHECK(plan.stack.overlap_depth_gather);
  CHECK_FALSE(plan.stack.overlap_depth_scatter);
}

TEST_CASE("launch: cross entropy is fused as its flags say together") {
  support::Scratch scratch;
  const auto of = [&](const std::string& flags) {
    const auto file =
        load_megatron(scratch.write("t.sh", gpt + "--global-batch-size 64 " + flags + "\n"),
                      {"cluster=dgx-h100"});
    INFO(problems(file));
    REQUIRE(file);
    return file->plan->stack.cross_entropy;
  };
  using sim::program::CrossEntropy;
  CHECK(of("") == CrossEntropy::stepwise);
  CHECK(of("--cross-entropy-loss-fusion") == CrossEntropy::native);
  CHECK(of("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te") == CrossEntropy::te);
  CHECK(of("--cross-entropy-fusion-impl te") == CrossEntropy::stepwise);
}

TEST_CASE("launch: files that a script reads from beside it are read") {
  support::Scratch scratch;
  const std::string config =
      "export PARAMS=\" --num-layers ${LAYERS} --hidden-size 1024 --num-attention-heads 16 \\\n"
      "  --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 \\\n"
      "  --global-batch-size 64 --bf16 --vocab-size 50257 \"\n";
  scratch.write("CONFIG.sh", config);
  scratch.write("RUN.sh", "CMD=\"python pretrain_gpt.py ${PARAMS}\"\nsrun -l sh -c \"${CMD}\"\n");
  for (const char* folder : {"`pwd`/", "./", ""}) {
    const std::string script =
        std::string("LAYERS=24\n. ") + folder + "CONFIG.sh\n. " + folder + "RUN.sh\n";
    INFO(script);
    const auto file = load_megatron(scratch.write("t.sh", script), {"cluster=dgx-h100", "gpus=8"});
    INFO(problems(file));
    REQUIRE(file);
    CHECK(file->plan->architecture.layers == 24);
  }
  // A job that the script submits.
  scratch.write("SUBMIT.sh", "sbatch -p main --nodes=4 --export=PARAMS RUN.sh\n\nexit 0\n");
  const auto submitted = load_megatron(
      scratch.write("t.sh", "LAYERS=24\n. `pwd`/CONFIG.sh\n. `pwd`/SUBMIT.sh\nexit 0\n"),
      {"cluster=dgx-h100", "gpus=8"});
  INFO(problems(submitted));
  REQUIRE(submitted);
  CHECK(submitted->plan->architecture.layers == 24);
  // What is said to sbatch and in front of it reaches the job, and no other job.
  scratch.write("job.sh",
                "#SBATCH --nodes=9 --gpus-per-node=8\n. ./CONFIG.sh\npython pretrain_gpt.py "
                "${PARAMS} --tensor-model-parallel-size ${TP:-1}\n");
  for (const char* script : {"LAYERS=24 TP=4 sbatch --nodes=2 job.sh\n",
                             "sbatch --nodes=2 --export=ALL,TP=4,LAYERS=24 job.sh\n"}) {
    INFO(script);
    const auto job = load_megatron(scratch.write("t.sh", script), {"cluster=dgx-h100"});
    INFO(problems(job));
    REQUIRE(job);
    CHECK(job->plan->mesh.tp == 4);
    CHECK(job->plan->mesh.dp == 4);
    CHECK(job->plan->architecture.layers == 24);
  }
  const auto gone = load_megatron(scratch.write("t.sh", "\n sbatch --nodes=2 gone.sh\n"),
                                  {"cluster=dgx-h100", "gpus=8"});
  REQUIRE_FALSE(gone);
  INFO(problems(gone));
  CHECK(problems(gone).find("t.sh:2:19") != std::string::npos);
  CHECK(problems(gone).find("gone.sh is not read") != std::string::npos);
  // Reading a file that sources itself ends. A missing file is reported.
  scratch.write("self.sh", ". ./self.sh\n");
  const auto file = load_megatron(
      scratch.write("t.sh", ". ./self.sh\n. ./none.sh\n" + gpt + "--global-batch-size 64\n"),
      {"cluster=dgx-h100"});
  INFO(problems(file));
  REQUIRE(file);
  std::string notes;
  for (const std::string& note : file->notes) notes += note + "\n";
  CHECK(notes.find("none.sh is not read") != std::string::npos);
}

TEST_CASE("launch: a value may stand behind an equals sign, and another may not follow") {
  const std::string batch = "--global-batch-size=64 ";
  CHECK(plan_of(batch).batch.global_batch == 64);
  CHECK(plan_of(batch + "--tensor-model-parallel-size=2").mesh.tp == 2);
  CHECK(
      plan_of(batch + "--tensor-model-parallel-size=2 --sequence-parallel").mesh.sequence_parallel);
  CHECK(plan_of(batch + "--pipeline-model-parallel-size=4").mesh.pp == 4);
  // The last occurrence of a flag counts.
  CHECK(plan_of(batch + "--tensor-model-parallel-size=2 --tensor-model-parallel-size 4").mesh.tp ==
        4);
}
