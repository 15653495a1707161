// launch_accelerate_test.cpp — configurations of Hugging Face accelerate, key by key.
#include <catch2/catch.hpp>

#include "sim/input/plan/plan.h"
#include "support.h"

namespace {

sim::Result<sim::input::PlanFile> accelerate(const std::string& text) {
  return sim::input::read_megatron(
      text, "default_config.yaml",
      {"model=llama-2-7b", "sequence=4096", "global_batch=16", "gpus=16", "cluster=dgx-h100"});
}

sim::program::Plan plan_of(const std::string& text) {
  const auto file = accelerate(text);
  CAPTURE(text, support::problems(file));
  REQUIRE(file);
  return file->plan;
}

sim::program::Plan fsdp(const std::string& rest) {
  return plan_of("distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n" + rest);
}

sim::program::Plan deepspeed(const std::string& rest) {
  return plan_of("distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n" + rest);
}

}  // namespace

TEST_CASE("launch: accelerate says how parameters are sharded and gathered") {
  using sim::program::DataParallelism;
  const sim::program::Plan full = fsdp("  fsdp_sharding_strategy: FULL_SHARD\n");
  CHECK(full.sharding.data_parallel == DataParallelism::fsdp1);
  CHECK(full.sharding.fsdp.reshard_after_forward);
  CHECK(full.sharding.fsdp.forward_prefetch == 0);
  CHECK(full.sharding.fsdp.backward_prefetch == 0);  // a missing key is None
  CHECK(full.policy.recompute == sim::program::Recompute::none);
  for (const char* keeps :
       {"  fsdp_sharding_strategy: SHARD_GRAD_OP\n", "  fsdp_sharding_strategy: 2\n",
        "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n",
        "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"})
    CHECK_FALSE(fsdp(keeps).sharding.fsdp.reshard_after_forward);
  const sim::program::Plan second = fsdp("  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n");
  CHECK(second.sharding.data_parallel == DataParallelism::fsdp2);
  CHECK(second.sharding.fsdp.reshard_after_forward);
  CHECK(fsdp("  fsdp_activation_checkpointing: true\n").policy.recompute ==
        sim::program::Recompute::full);
  CHECK(fsdp("  fsdp_forward_prefetch: true\n").sharding.fsdp.forward_prefetch == 1);
  CHECK(fsdp("  fsdp_backward_prefetch: NO_PREFETCH\n").sharding.fsdp.backward_prefetch == 0);
  CHECK(fsdp("  fsdp_backward_prefetch: BACKWARD_PRE\n").sharding.fsdp.backward_prefetch == 1);
}

TEST_CASE("launch: accelerate's hybrid shards have a copy on each node") {
  const auto copies = [](const std::string& strategy) {
    return plan_of(
               "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n"
               "  fsdp_sharding_strategy: " +
               strategy + "\n")
        .sharding.fsdp.replicas;
  };
  CHECK(copies("HYBRID_SHARD") == 2);  // 16 GPUs in nodes of 8
  CHECK(copies("FULL_SHARD") == 1);
}

TEST_CASE("launch: accelerate's DeepSpeed has a stage, and an optimizer on the CPU or not") {
  const sim::program::Plan first = deepspeed("  zero_stage: 1\n");
  CHECK(first.sharding.distributed_optimizer);
  CHECK_FALSE(first.shards_parameters());
  CHECK_FALSE(first.sharding.deepspeed_optimizer);
  CHECK(first.optimizer.offload_fraction == 0);
  const sim::program::Plan third = deepspeed("  zero_stage: 3\n");
  CHECK(third.shards_parameters());
  CHECK(third.sharding.deepspeed_optimizer);
  CHECK(third.optimizer.offload_fraction == 0);
  for (const char* off : {"none", "null", "false"})
    CHECK(deepspeed("  zero_stage: 3\n  offload_optimizer_device: " + std::string(off) + "\n")
              .optimizer.offload_fraction == 0);
  const sim::program::Plan below = deepspeed("  zero_stage: 3\n  offload_optimizer_device: cpu\n");
  CHECK(below.optimizer.offload_fraction == 1);
  CHECK_FALSE(below.optimizer.precision_aware);
  const sim::program::Plan shared = deepspeed("  zero_stage: 1\n  offload_optimizer_device: cpu\n");
  CHECK(shared.optimizer.offload_fraction == 1);
  CHECK(shared.optimizer.precision_aware);
}

TEST_CASE("launch: accelerate's types and kinds of jobs") {
  using sim::model::Precision;
  const auto precision = [](const char* mixed) {
    return plan_of("distributed_type: MULTI_GPU\nmixed_precision: " + std::string(mixed) + "\n")
        .numerics.precision;
  };
  CHECK(precision("bf16") == Precision::bf16);
  CHECK(precision("fp16") == Precision::fp16);
  // The Trainer's own bf16 or fp16 replaces 'no' and a missing key.
  for (const char* open :
       {"distributed_type: MULTI_GPU\nmixed_precision: 'no'\n", "distributed_type: MULTI_GPU\n"})
    CHECK(support::contains(support::problems(accelerate(open)), "write precision="));
  const sim::program::Plan many =
      plan_of("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 16\n");
  CHECK_FALSE(many.sharding.distributed_optimizer);
  CHECK_FALSE(many.numerics.fp32_gradients);
  for (const auto& [text, said] :
       {std::pair{"distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: NO_SHARD\n",
                  "write distributed_type: MULTI_GPU"},
        std::pair{"distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\n",
                  "fsdp_offload_params: parameters on the CPU are not simulated"},
        std::pair{"distributed_type: TPU\n", "distributed_type TPU is not read"}}) {
    const auto file = accelerate(text);
    CAPTURE(text);
    CHECK_FALSE(file);
    CHECK(support::contains(support::problems(file), said));
  }
}

TEST_CASE("launch: what is no YAML is said with its place") {
  const auto file = accelerate("distributed_type: FSDP\nfsdp_config:\n  a: [1\nb: 2\n");
  CHECK_FALSE(file);
  CHECK(support::contains(support::problems(file), "default_config.yaml:4:2"));
  CHECK(support::contains(support::problems(file), "not YAML"));
}
