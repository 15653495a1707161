#include <fmt/format.h>

#include <cstdint>

#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

// DeepSpeed's engine runs its own 1F1B, and only dense models.
void deepspeed_zero1(const Plan& plan, Diagnostics& problems) {
  const ShardingPlan& s = plan.sharding;
  if (s.deepspeed_all_reduce && !s.deepspeed_optimizer)
    problems.push_back({"deepspeed_all_reduce",
                        "deepspeed_all_reduce says how deepspeed_optimizer sums gradients; turn "
                        "deepspeed_optimizer on"});
  if (!s.deepspeed_optimizer) return;
  const auto problem = [&](const char* field, const char* rule) {
    problems.push_back({field, fmt::format("deepspeed_optimizer {}", rule)});
  };
  if (!s.distributed_optimizer)
    problem("distributed_optimizer", "is ZeRO-1; turn distributed_optimizer on");
  if (s.overlap_grad_reduce || s.overlap_param_gather)
    problem("overlap_grad_reduce",
            "reduces and gathers at the end of a step; turn overlap_grad_reduce and "
            "overlap_param_gather off");
  if (s.optimizer_replicas > 1 || s.whole_parameters)
    problem(s.whole_parameters ? "whole_parameters" : "optimizer_replicas",
            "has one copy of its state, in equal parts; leave optimizer_replicas and "
            "whole_parameters out");
  if (plan.numerics.fp32_gradients || plan.accumulates_in_product())
    problem("fp32_gradients",
            "has autograd's gradients, of the parameters' type; turn fp32_gradients and "
            "gradient_accumulation_fusion off");
  if (plan.numerics.fp8 || plan.numerics.precision == model::Precision::fp32)
    problem("precision", "is simulated with 16 bits; write precision bf16 or fp16, without fp8");
  if (plan.trains_adapters() || plan.architecture.is_mixture())
    problem("architecture", "is simulated with dense models that are trained whole");
  if (plan.pipeline.schedule != "1f1b" || plan.pipeline.virtual_stages > 1)
    problem("schedule", "comes with DeepSpeed's pipeline engine; write schedule 1f1b");
  if (plan.optimizer.precision_aware)
    problem("precision_aware_optimizer", "keeps its state in fp32; leave it out");
  if (plan.optimizer.offload_fraction > 0 && plan.optimizer.offload_fraction < 1)
    problem("optimizer_offload_fraction",
            "has all of its state on the CPU or none; write optimizer_offload_fraction 1 or 0");
  if (plan.optimizer.overlap_offload)
    problem("overlap_cpu_optimizer", "updates on the CPU behind all copies; leave it out");
}

void deepspeed_zero3(const Plan& plan, Diagnostics& problems) {
  const std::size_t before = problems.size();
  const OptimizerOptions& o = plan.optimizer;
  const OptimizerOptions usual;
  const bool own = plan.shards_parameters() && plan.sharding.deepspeed_optimizer;
  const bool offloads = o.offload_fraction > 0;
  const auto needs = [&](bool said, const char* field, const char* rule) {
    if (said) problems.push_back({field, fmt::format("{} {}", field, rule)});
  };
  if (!own)
    needs(o.sub_group != usual.sub_group, "optimizer_sub_group",
          "says how DeepSpeed's ZeRO-3 cuts its optimizer; write zero 3 and deepspeed_optimizer, "
          "or leave it out");
  if (!own && plan.shards_parameters())
    needs(plan.sharding.deepspeed_all_reduce, "deepspeed_all_reduce",
          "says how deepspeed_optimizer sums gradients; turn deepspeed_optimizer on");
  if (!own || !offloads) {
    constexpr const char* rule =
        "says how ZeRO-3 keeps its optimizer on the CPU; write zero 3 and "
        "optimizer_cpu_offload, or leave it out";
    needs(o.gpu_stride != 0, "optimizer_gpu_stride", rule);
    needs(o.async_gradient_copy, "async_gradient_copy", rule);
  }
  if (!own) {
    needs(plan.shards_parameters() && offloads, "optimizer_cpu_offload",
          "of parameters in shards is DeepSpeed's; turn deepspeed_optimizer on");
    return;
  }
  const auto refuse = [&](bool fault, const char* field, const char* rule) {
    if (fault) problems.push_back({field, fmt::format("DeepSpeed's ZeRO-3 {}", rule)});
  };
  const FsdpOptions& fsdp = plan.sharding.fsdp;
  refuse(plan.sharding.data_parallel != DataParallelism::fsdp2, "data_parallel",
         "cuts each parameter by itself; write data_parallel fsdp2");
  // DeepSpeed runtime/pipe/engine.py: "ZeRO-2 and ZeRO-3 are incompatible with pipeline
  // parallelism"
  refuse(plan.mesh.pp * plan.pipeline.virtual_stages > 1, "pp",
         "does not run with stages; write pp 1");
  refuse(schedule::find(plan.pipeline.schedule)->splits != schedule::Splits::none, "schedule",
         "has whole backward passes; write schedule 1f1b");
  refuse(plan.numerics.precision == model::Precision::fp32 || plan.numerics.fp8 ||
             fsdp.fp32_parameters,
         "precision", "has shards of 16 bits; write precision bf16 or fp16, without fp8");
  refuse(fsdp.no_sync || fsdp.replicas > 1, "fsdp",
         "reduces every microbatch over all ranks; leave fsdp.no_sync and fsdp.replicas out");
  refuse(o.overlap_offload, "overlap_cpu_optimizer",
         "updates sub-group by sub-group; leave overlap_cpu_optimizer out, or write "
         "async_gradient_copy or optimizer_gpu_stride");
  if (problems.size() > before || o.offload_fraction > 1) return;
  constexpr std::int64_t least = 1 << 16;
  refuse(o.sub_group < least, "optimizer_sub_group",
         "would take very many sub-groups; write optimizer_sub_group 65536 or more");
  refuse(o.gpu_stride == 1 || o.gpu_stride < 0, "optimizer_gpu_stride",
         "updates every so many sub-groups on the GPU; write optimizer_gpu_stride 2 or more, or 0 "
         "for none");
}

}  // namespace sim::program::rules
