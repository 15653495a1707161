// needs_test.cpp — settings and flags whose feature is off. A setting is refused at its place. A
// flag that its own program ignores gets a note.
#include <catch2/catch.hpp>

#include "sim/input/launch/launch.h"
#include "sim/input/plan/plan.h"
#include "support.h"

using namespace sim;
using support::contains;
using support::problems;

namespace {

const std::string plan =
    "model: \"llama-2-7b\"\ncluster: \"dgx-h100\"\ngpus: 64\nglobal_batch: 512\nsequence: 4096\n"
    "tp: 2\n";

std::string refused(const std::string& line) {
  support::Scratch scratch;
  return problems(input::load_plan(scratch.write("plan.textproto", plan + line), {}));
}

const std::string gpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 1 --bf16 --vocab-size 50257 --transformer-impl transformer_engine "
    "--global-batch-size 64 --tensor-model-parallel-size 2 ";

input::PlanFile read(const std::string& flags) {
  support::Scratch scratch;
  const auto file = input::load_megatron(scratch.write("t.sh", gpt + flags), {"cluster=dgx-h100"});
  INFO(problems(file));
  REQUIRE(file);
  return *file;
}

// Whether a note names the flag.
bool notes(const input::PlanFile& file, const std::string& flag) {
  for (const std::string& note : file.notes)
    if (contains(note, flag)) return true;
  return false;
}

}  // namespace

TEST_CASE("input: a setting of what the plan does not have names its place and the way out") {
  CHECK(refused("overlap_cpu_optimizer: true") ==
        "plan.textproto:7:24: overlap_cpu_optimizer is of an optimizer on the CPU; write "
        "optimizer_cpu_offload true too, or leave it out\n");
  CHECK(refused("activation_offload_fraction: 0.5") ==
        "plan.textproto:7:30: activation_offload_fraction is of modules whose saved tensors go to "
        "the CPU; write offload_modules too, or leave it out\n");
  CHECK(refused("recompute: selective\nrecompute_modules: \"moe\"") ==
        "plan.textproto:8:20: moe cannot be recomputed: the model is no mixture of experts; write "
        "mlp\n");
  CHECK(refused("recompute_modules: \"mlp\"") ==
        "plan.textproto:7:20: recompute_modules is of recompute selective; write recompute "
        "selective too, or leave it out\n");
  CHECK(refused("recompute: full recompute_layers: 1 recompute_method: uniform "
                "recompute_modules: \"mlp\"")
            .empty());
  for (const std::string setting :
       {"etp: 2", "dispatcher: flex", "router: random", "router_skew: 1", "router_seed: 3",
        "capacity_factor: 1.5", "pad_to_capacity: true", "grouped_gemm: true",
        "permute_fusion: true", "fp32_router: true", "late_probabilities: true",
        "overlap_expert_all_to_all: true"}) {
    const std::string name = setting.substr(0, setting.find(':'));
    CHECK(refused(setting) ==
          "plan.textproto:7:" + std::to_string(name.size() + 3) + ": " + name +
              " is of a mixture of experts, which the model is not; write num_experts too, or "
              "leave it out\n");
  }
  CHECK(refused("pad_to_capacity: false").empty());  // that it is not
  CHECK(
      refused("architecture { num_experts: 8 } dispatcher: alltoall capacity_factor: 1.5").empty());
  CHECK(refused("attention: flash precision: fp32") ==
        "plan.textproto:7:12: flash-attention-2 multiplies in 16 bits or less, not in fp32; write "
        "attention unfused, or precision bf16\n");
  CHECK(contains(refused("sequence_parallel: false tp_comm_overlap: true"),
                 "plan.textproto:7:43: tp_comm_overlap cuts the messages of sequence parallelism"));
  CHECK(contains(refused("architecture { q_lora_rank: 512 v_head_dim: 64 }"),
                 "q_lora_rank and v_head_dim are of latent attention"));
  CHECK(refused("optimizer_offload_fraction: 0.5 optimizer_cpu_offload: true "
                "precision_aware_optimizer: true offload_modules: \"core_attn\" "
                "offload_min_elements: 1 recompute: selective recompute_modules: \"mlp\"")
            .empty());
}

TEST_CASE("launch: flags that their program looks past are noted and change nothing") {
  const program::Plan plain = read("--sequence-parallel").plan;
  for (const std::string flag :
       {"--q-lora-rank 512", "--qk-head-dim 64", "--v-head-dim 64", "--moe-router-topk 2",
        "--moe-ffn-hidden-size 512", "--min-offloaded-tensor-size 4096",
        "--activation-offload-fraction 0.5", "--delta-offload-bytes-across-pp-ranks 1000000",
        "--overlap-cpu-optimizer-d2h-h2d", "--optimizer-offload-fraction 0.5",
        "--moe-token-dispatcher-type flex", "--moe-expert-capacity-factor 1.5",
        "--moe-pad-expert-input-to-capacity", "--moe-permute-fusion", "--moe-grouped-gemm",
        "--overlap-moe-expert-parallel-comm", "--expert-tensor-parallel-size 2",
        "--recompute-modules mlp"}) {
    const input::PlanFile file = read("--sequence-parallel " + flag);
    INFO(flag);
    CHECK(notes(file, flag.substr(0, flag.find(' '))));
    CHECK(file.plan->experts.dispatcher == plain.experts.dispatcher);
    CHECK(file.plan->experts.capacity_factor == 0);
    CHECK(file.plan->policy.recompute_modules.core_attention);
    CHECK(file.plan->architecture.latent.q_rank == plain.architecture.latent.q_rank);
    CHECK_FALSE(file.plan->architecture.is_mixture());
    CHECK(file.plan->policy.offload_min_elements == plain.policy.offload_min_elements);
    CHECK(file.plan->policy.activation_offload_fraction == 1);
    CHECK(file.plan->policy.offload_delta_bytes == 0);
    CHECK_FALSE(file.plan->optimizer.overlap_offload);
  }
  CHECK(read("--sequence-parallel --tp-comm-overlap").plan->stack.tp_comm_overlap);
  const input::PlanFile whole = read("--tp-comm-overlap");
  CHECK(notes(whole, "--tp-comm-overlap is not simulated: it needs --sequence-parallel"));
  CHECK_FALSE(whole.plan->stack.tp_comm_overlap);
  CHECK(read("--optimizer-cpu-offload --overlap-cpu-optimizer-d2h-h2d --use-distributed-optimizer "
             "--use-precision-aware-optimizer --optimizer-offload-fraction 0.5")
            .plan->optimizer.overlap_offload);
}

TEST_CASE("launch: modules to recompute that the model does not have are left out") {
  const std::string again = "--recompute-granularity selective --recompute-modules ";
  const input::PlanFile some = read(again + "mlp moe moe_act shared_experts mla_up_proj layernorm");
  CHECK(some.plan->policy.recompute_modules.mlp);
  CHECK_FALSE(some.plan->policy.recompute_modules.moe);
  CHECK_FALSE(some.plan->policy.recompute_modules.norms);
  CHECK_FALSE(some.plan->policy.recompute_modules.core_attention);
  for (const char* name : {"moe", "moe_act", "shared_experts", "mla_up_proj", "layernorm"})
    CHECK(notes(some, std::string("the model has no ") + name));
  CHECK(read(again + "moe").plan->policy.recompute == program::Recompute::none);
  const std::string experts =
      "--num-experts 8 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --sequence-parallel "
      "--moe-router-topk 2 ";
  const input::PlanFile mixture = read(experts + again + "moe_act mlp layernorm");
  CHECK(mixture.plan->policy.recompute_modules.moe_activation);
  CHECK(mixture.plan->policy.recompute_modules.norms);
  CHECK_FALSE(mixture.plan->policy.recompute_modules.mlp);
  CHECK(notes(mixture, "the model has no mlp"));
  CHECK(read(experts + "--moe-layer-freq 2 " + again + "mlp").plan->policy.recompute_modules.mlp);
}
