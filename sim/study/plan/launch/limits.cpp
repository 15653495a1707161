#include "sim/study/plan/launch/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/input/frameworks/framework.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/plan/context_plan.h"

namespace sim::planner {

namespace {

using program::LayerSplit;
using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

bool has_schedule(const Plan& plan, std::initializer_list<std::string_view> names) {
  return plan.mesh.pp == 1 || std::ranges::find(names, plan.pipeline.schedule) != names.end();
}

bool splits_layers_evenly(const Plan& plan) {
  const program::PipelinePlan& p = plan.pipeline;
  return p.layer_split == LayerSplit::even && p.layers_of_parts.empty() &&
         p.first_stage_layers == 0 && p.last_stage_layers == 0 && !p.account_for_embedding &&
         !p.account_for_loss;
}

bool recomputes_selected(const Plan& plan) {
  return plan.policy.recompute == Recompute::selective;
}

// With a number of layers above one, or up to a number of layers.
bool recomputes_some_layers(const Plan& plan) {
  return plan.policy.recompute == Recompute::full &&
         (plan.policy.recompute_method == RecomputeMethod::block ||
          plan.policy.recompute_layers > 1);
}

// Megatron Core's pipelines [NVIDIA/Megatron-LM core_v0.19.0
// megatron/core/pipeline_parallel/schedules.py:get_forward_backward_func], contexts [cp_comm_type]
// and offloaded layers [megatron/core/transformer/transformer_config.py:__post_init__].
constexpr std::array core_limits = {
    Limit{"schedule",
          [](const Plan& plan) {
            return !has_schedule(plan, {"1f1b", "interleaved-1f1b"});
          },
          [](const Plan& plan) {
            return fmt::format("Megatron-LM has no schedule {}", plan.pipeline.schedule);
          }},
    Limit{"context",
          [](const Plan& plan) {
            return plan.mesh.cp > 1 && program::context_method(plan).megatron.empty();
          },
          [](const Plan& plan) {
            return fmt::format("Megatron-LM has no context {}", plan.mesh.context);
          }},
    Limit{"recompute recompute_modules",
          [](const Plan& plan) {
            return recomputes_selected(plan) && plan.policy.recompute_modules.operators;
          },
          [](const Plan&) { return std::string("Megatron-LM recomputes modules, not operators"); }},
    Limit{"offload_layers pp",
          [](const Plan& plan) { return plan.policy.offload_layers > 0 && plan.mesh.pp > 1; },
          [](const Plan&) {
            return std::string("--cpu-offloading-num-layers goes with one stage (pp 1)");
          }},
    Limit{"offload_layers recompute",
          [](const Plan& plan) {
            return plan.policy.offload_layers > 0 && plan.policy.recompute != Recompute::none;
          },
          [](const Plan&) {
            return std::string("--cpu-offloading-num-layers goes without recomputation");
          }},
    Limit{"offload_layers",
          [](const Plan& plan) {
            return plan.policy.offload_layers > 0 &&
                   plan.policy.offload_layers >= plan.architecture.layers;
          },
          [](const Plan&) {
            return std::string("--cpu-offloading-num-layers keeps at least one layer on the GPU");
          }},
};

// Megatron-LM shards parameters by --use-torch-fsdp2 [core_v0.19.0
// megatron/training/arguments.py:validate_args].
constexpr std::array fsdp2_limits = {
    Limit{"zero",
          [](const Plan& plan) {
            return plan.shards_parameters() &&
                   plan.sharding.data_parallel != program::DataParallelism::fsdp2;
          },
          [](const Plan&) {
            return std::string(
                "Megatron-LM shards parameters by --use-torch-fsdp2 (data_parallel fsdp2)");
          }},
    Limit{"zero pp", [](const Plan& plan) { return plan.shards_parameters() && plan.mesh.pp > 1; },
          [](const Plan&) { return std::string("--use-torch-fsdp2 goes with one stage (pp 1)"); }},
    Limit{"zero ep", [](const Plan& plan) { return plan.shards_parameters() && plan.mesh.ep > 1; },
          [](const Plan&) {
            return std::string("--use-torch-fsdp2 goes without expert parallelism (ep 1)");
          }},
    Limit{"zero",
          [](const Plan& plan) {
            return plan.shards_parameters() && plan.numerics.precision == model::Precision::fp16;
          },
          [](const Plan&) { return std::string("--use-torch-fsdp2 goes without fp16"); }},
    Limit{"zero",
          [](const Plan& plan) {
            return plan.shards_parameters() && plan.architecture.tied_embeddings;
          },
          [](const Plan&) {
            return std::string("--use-torch-fsdp2 needs --untie-embeddings-and-output-weights");
          }},
    Limit{"zero",
          [](const Plan& plan) {
            return plan.shards_parameters() && plan.stack.gradient_accumulation_fusion;
          },
          [](const Plan&) {
            return std::string("--use-torch-fsdp2 needs gradient_accumulation_fusion false");
          }},
};

// [NVIDIA/NeMo v1.23.0 megatron_gpt_config.yaml]
constexpr std::array nemo_1_limits = {
    Limit{"zero", [](const Plan& plan) { return plan.shards_parameters(); },
          [](const Plan&) { return std::string("NeMo 1 shards no parameters"); }},
    Limit{"layer_split", [](const Plan& plan) { return !splits_layers_evenly(plan); },
          [](const Plan&) { return std::string("NeMo 1 splits layers evenly"); }},
    Limit{"recompute recompute_modules",
          [](const Plan& plan) {
            return recomputes_selected(plan) && (plan.policy.recompute_modules.mlp ||
                                                 !plan.policy.recompute_modules.core_attention);
          },
          [](const Plan&) { return std::string("NeMo 1 recomputes attention or whole layers"); }},
    Limit{"offload_layers", [](const Plan& plan) { return plan.policy.offloads(); },
          [](const Plan&) { return std::string("offload of activations is said in code there"); }},
};

// [NVIDIA/NeMo v2.4.0 nemo/lightning/pytorch/strategies/megatron_strategy.py]
constexpr std::array nemo_2_limits = {
    Limit{"zero", [](const Plan& plan) { return plan.shards_parameters(); },
          [](const Plan&) {
            return std::string(
                "NeMo 2 shards parameters with Megatron-FSDP alone, which is another plan");
          }},
    Limit{"context",
          [](const Plan& plan) { return plan.mesh.cp > 1 && program::has_two_levels(plan); },
          [](const Plan&) {
            return std::string("NeMo 2 makes no groups of two levels for context");
          }},
    Limit{"offload_modules", [](const Plan& plan) { return plan.policy.offload_modules != 0; },
          [](const Plan&) { return std::string("NeMo 2 has no offload of single activations"); }},
};

// [pytorch/torchtitan v0.2.0 torchtitan/config/job_config.py]
constexpr std::array torchtitan_limits = {
    Limit{"zero",
          [](const Plan& plan) {
            return plan.sharding.data_parallel != program::DataParallelism::fsdp2;
          },
          [](const Plan&) {
            return std::string("torchtitan's data parallelism is FSDP2 (zero=2, zero=3)");
          }},
    Limit{"context",
          [](const Plan& plan) {
            return plan.mesh.cp > 1 && program::context_method(plan).torch.empty();
          },
          [](const Plan&) {
            return std::string(
                "torchtitan shares sequences by PyTorch's context_parallel (context "
                "torch-allgather)");
          }},
    Limit{"schedule",
          [](const Plan& plan) {
            return plan.mesh.pp > 1 && schedule::find(plan.pipeline.schedule)->torch.empty();
          },
          [](const Plan& plan) {
            return fmt::format("PyTorch has no schedule {}", plan.pipeline.schedule);
          }},
    Limit{"layer_split",
          [](const Plan& plan) {
            return plan.mesh.pp > 1 && plan.pipeline.layer_split != LayerSplit::weighted &&
                   !splits_layers_evenly(plan);
          },
          [](const Plan&) {
            return std::string("torchtitan deals out layers by a rule of its own");
          }},
    Limit{"virtual_stages schedule",
          [](const Plan& plan) {
            return plan.mesh.pp > 1 && plan.pipeline.virtual_stages == 1 &&
                   schedule::find(plan.pipeline.schedule)->chunks > 1;
          },
          [](const Plan& plan) {
            return fmt::format("{} of PyTorch needs two chunks a stage or more",
                               plan.pipeline.schedule);
          }},
    Limit{"virtual_stages layer_split",
          [](const Plan& plan) {
            return plan.mesh.pp > 1 && plan.pipeline.virtual_stages > 1 &&
                   torch_layers_per_stage(plan) == 0;
          },
          [](const Plan& plan) {
            return fmt::format("no pipeline_parallel_layers_per_stage gives {} chunks a stage",
                               plan.pipeline.virtual_stages);
          }},
    Limit{"recompute recompute_method recompute_layers", recomputes_some_layers,
          [](const Plan&) {
            return std::string(
                "torchtitan recomputes all layers or operators, not a number of layers");
          }},
    Limit{"recompute recompute_modules",
          [](const Plan& plan) {
            return recomputes_selected(plan) && !plan.policy.recompute_modules.operators;
          },
          [](const Plan&) { return std::string("torchtitan recomputes operators, not modules"); }},
};

// [huggingface/nanotron src/nanotron/config/config.py]
constexpr std::array nanotron_limits = {
    Limit{"zero", [](const Plan& plan) { return plan.shards_parameters(); },
          [](const Plan&) { return std::string("nanotron shards no parameters"); }},
    Limit{"cp", [](const Plan& plan) { return plan.mesh.cp > 1; },
          [](const Plan&) {
            return std::string("context parallelism of nanotron is not simulated");
          }},
    Limit{"schedule",
          [](const Plan& plan) {
            return !has_schedule(plan, {"1f1b", "gpipe"});
          },
          [](const Plan& plan) {
            return fmt::format("nanotron has no schedule {}", plan.pipeline.schedule);
          }},
    Limit{"virtual_stages", [](const Plan& plan) { return plan.pipeline.virtual_stages > 1; },
          [](const Plan&) { return std::string("nanotron has one chunk a stage"); }},
    Limit{
        "layer_split", [](const Plan& plan) { return !splits_layers_evenly(plan); },
        [](const Plan&) { return std::string("nanotron deals out layers by a rule of its own"); }},
    Limit{"recompute recompute_modules offload_layers",
          [](const Plan& plan) {
            return recomputes_selected(plan) || plan.policy.offloads() ||
                   plan.policy.offload_modules != 0;
          },
          [](const Plan&) {
            return std::string("nanotron recomputes whole layers, and nothing waits on the CPU");
          }},
    Limit{
        "recompute recompute_method recompute_layers", recomputes_some_layers,
        [](const Plan&) { return std::string("nanotron recomputes all layers, each by itself"); }},
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(words.back().size() + 1, text.size()));
  }
  return words;
}

void add(std::span<const Limit> limits, std::vector<const Limit*>& to) {
  for (const Limit& one : limits) to.push_back(&one);
}

}  // namespace

int torch_layers_per_stage(const Plan& plan) {
  const program::PipelinePlan& pipeline = plan.pipeline;
  const bool weighted = pipeline.layer_split == LayerSplit::weighted;
  const std::int64_t layers =
      plan.architecture.layers + (weighted ? pipeline.embedding_layers + pipeline.head_layers : 0);
  const std::int64_t stages = std::int64_t{plan.mesh.pp} * pipeline.virtual_stages;
  const std::int64_t of_stage = (layers + stages - 1) / stages;
  return (layers + of_stage - 1) / of_stage == stages ? static_cast<int>(of_stage) : 0;
}

std::vector<const Limit*> limits_of(Program program) {
  std::vector<const Limit*> all;
  const bool runs_core = program == Program::megatron_lm || program == Program::megatron_core ||
                         program == Program::nemo_1 || program == Program::nemo_2;
  if (runs_core) add(core_limits, all);
  if (program == Program::megatron_lm) add(fsdp2_limits, all);
  if (program == Program::nemo_1) add(nemo_1_limits, all);
  if (program == Program::nemo_2) add(nemo_2_limits, all);
  if (program == Program::torchtitan) add(torchtitan_limits, all);
  if (program == Program::nanotron) add(nanotron_limits, all);
  return all;
}

std::vector<const Limit*> limits_of(const std::string& framework) {
  if (!input::frameworks()) return {};
  const input::Framework* found = input::find_framework(framework);
  if (found == nullptr) return {};
  const auto is = [&](const char* name) {
    return found->name == name || std::ranges::find(found->bases, name) != found->bases.end();
  };
  if (is("nemo-1")) return limits_of(Program::nemo_1);
  if (is("nemo")) return limits_of(Program::nemo_2);
  if (is("megatron-bridge") || is("megatron-fsdp") || is("ms-swift-megatron"))
    return limits_of(Program::megatron_core);
  if (found->family == "Megatron-LM") return limits_of(Program::megatron_lm);
  if (is("torchtitan")) return limits_of(Program::torchtitan);
  if (is("nanotron")) return limits_of(Program::nanotron);
  return {};
}

std::vector<const Limit*> limits_of(const std::string& framework,
                                    const std::set<std::string, std::less<>>& stated) {
  std::vector<const Limit*> limits = limits_of(framework);
  std::erase_if(limits, [&](const Limit* one) {
    return std::ranges::all_of(words_of(one->fields),
                               [&](const std::string& field) { return stated.contains(field); });
  });
  return limits;
}

std::vector<std::string> fields_beyond(const std::string& framework, const Plan& plan) {
  std::vector<std::string> fields;
  for (const Limit* one : limits_of(framework))
    if (one->breaks(plan))
      for (std::string& field : words_of(one->fields)) fields.push_back(std::move(field));
  return fields;
}

std::string first_broken(Program program, const Plan& plan) {
  for (const Limit* one : limits_of(program))
    if (one->breaks(plan)) return one->reason(plan);
  return "";
}

}  // namespace sim::planner
