#include <array>
#include <cassert>
#include <utility>

#include "sim/program/plan/rules/rules.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::program {

namespace rules {

namespace {

constexpr std::string_view transformer =
    "Megatron-LM core 0.8-0.14, core/transformer/transformer_config.py";

constexpr std::array groups = {
    RuleGroup{"ranges", "limits of this program", Holds::nothing, Holds::ranges, ranges},
    RuleGroup{"experts and latent attention",
              "Megatron-LM core 0.14, transformer_config.py, moe/ and parallel_state.py",
              Holds::ranges, Holds::mesh, experts},
    RuleGroup{"tensor-parallel grid", "axonn-ai/Megatron-AxoNN; arXiv:2305.13525, section V",
              Holds::ranges, Holds::mesh, tensor_grid},
    RuleGroup{"tensor parallelism", "Megatron-LM core 0.8, core/tensor_parallel/utils.py",
              Holds::mesh, Holds::nothing, tensor_parallel},
    RuleGroup{"joined halves", "limits of this program", Holds::mesh, Holds::nothing,
              joined_halves},
    RuleGroup{"sequence", "Megatron-LM arguments.py; TransformerEngine attention.py", Holds::mesh,
              Holds::nothing, sequence_split},
    RuleGroup{"context parallelism", "TransformerEngine 2.9, context_parallel.py", Holds::mesh,
              Holds::nothing, context_parallel},
    RuleGroup{"batch", "Megatron-LM core/num_microbatches_calculator.py; SynerFuse USAGE.md",
              Holds::mesh, Holds::nothing, batch},
    RuleGroup{"layers of stages", "Megatron-LM core/transformer/transformer_block.py", Holds::mesh,
              Holds::layers, layer_partition},
    RuleGroup{"pipeline schedule", "the authors of each schedule (job/schedule)", Holds::mesh,
              Holds::nothing, pipeline_schedule},
    RuleGroup{"recomputation", transformer, Holds::layers, Holds::nothing, recompute},
    RuleGroup{"offloaded layers", transformer, Holds::layers, Holds::nothing, offload},
    RuleGroup{"layer choices", "limits of this program", Holds::layers, Holds::nothing, choices},
    RuleGroup{"offloaded modules", transformer, Holds::mesh, Holds::nothing, module_offload},
    RuleGroup{"data parallelism",
              "Megatron-LM arguments.py; torch.distributed.fsdp; DeepSpeed runtime/zero",
              Holds::mesh, Holds::nothing, data_parallel},
    RuleGroup{"optimizer", "Megatron-LM arguments.py; DeepSpeed runtime/zero/stage3.py",
              Holds::mesh, Holds::nothing, optimizer},
    RuleGroup{"precision", "flash_attn_interface.py; torchao float8/fsdp_utils.py", Holds::mesh,
              Holds::nothing, precision},
    RuleGroup{"fake quantisation", "nvidia-modelopt, tensor_quant.py", Holds::mesh, Holds::nothing,
              fake_quantization},
    RuleGroup{"adapters", "NeMo and Megatron-Bridge, peft/lora", Holds::mesh, Holds::nothing,
              adapters},
    RuleGroup{"CUDA graphs", transformer, Holds::layers, Holds::nothing, cuda_graphs},
    RuleGroup{"sizes of tensors", "limits of this program", Holds::mesh, Holds::nothing, sizes},
};

}  // namespace

std::span<const RuleGroup> rule_groups() {
  return groups;
}

}  // namespace rules

Diagnostics problems(const Plan& plan) {
  using rules::Holds;
  Diagnostics problems;
  std::array<bool, 4> holds = {true, true, true, true};
  const auto level = [](Holds what) { return static_cast<std::size_t>(what); };
  for (const rules::RuleGroup& group : rules::rule_groups()) {
    bool ready = true;
    for (std::size_t i = 0; i <= level(group.needs); ++i) ready = ready && holds[i];
    if (!ready) continue;
    const std::size_t before = problems.size();
    group.find(plan, problems);
    if (problems.size() > before && group.gives != Holds::nothing)
      holds[level(group.gives)] = false;
  }
  return problems;
}

Result<ValidPlan> validate(Plan plan) {
  if (Diagnostics found = problems(plan); !found.empty()) return found;
  return ValidPlan(std::move(plan));
}

ValidPlan valid(Plan plan) {
  const Result<ValidPlan> valid = validate(std::move(plan));
  assert(valid);
  return *valid;
}

}  // namespace sim::program
