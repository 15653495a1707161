#include "sim/study/plan/launch/launch_megatron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/input/fields/fields.h"
#include "sim/input/plan/plan.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/recompute_modules.h"
#include "sim/study/plan/launch/launch_network.h"

namespace sim::planner {

using program::AttentionBackend;
using program::Plan;
using program::Recompute;

std::string modules_of(const program::RecomputeModules& modules, const char* separator) {
  std::string text;
  for (const auto& [name, module] : program::recompute_module_names)
    if (modules.*module) text += (text.empty() ? "" : separator) + std::string(name);
  return text;
}

std::string backend_of(const Plan& plan) {
  switch (plan.stack.attention) {
    case AttentionBackend::flash:
      return "flash";
    case AttentionBackend::cudnn:
      return "fused";
    case AttentionBackend::unfused:
      return "unfused";
    case AttentionBackend::flash1:
    case AttentionBackend::triton:
      break;
  }
  return "";
}

ContextWords context_of(const Plan& plan) {
  if (plan.mesh.cp == 1 || plan.mesh.context == "ring") return {};
  ContextWords words{program::context_method(plan).megatron, {}};
  if (program::has_two_levels(plan)) {
    const context::AttentionShape shape = program::context_shape(plan);
    words.sizes = {shape.ulysses, shape.ring()};
  }
  return words;
}

bool rounds(const Plan& plan) {
  return plan.numerics.fake_quantization != program::FakeQuantization::none;
}

std::string megatron_left(const Plan& plan, Program program) {
  if (rounds(plan)) return "what is rounded is said in code (modelopt.torch.quantization.quantize)";
  if (std::string reason = first_broken(program, plan); !reason.empty()) return reason;
  if (plan.sharding.deepspeed_optimizer) return "DeepSpeed's optimizer is Megatron-DeepSpeed's";
  if (plan.mesh.tensor_columns > 1 || plan.mesh.tensor_depth > 1)
    return "tensors in rows, columns and depth are Megatron-AxoNN's";
  if (plan.stack.deterministic && (plan.stack.cross_entropy == program::CrossEntropy::native ||
                                   (plan.stack.tp_comm_overlap && plan.mesh.tp > 1)))
    return "--deterministic-mode goes without tp_comm_overlap and fused cross entropy";
  const model::Architecture& a = plan.architecture;
  if (a.input_norms != model::InputNorms::each || a.output_norms || a.norms_by_head ||
      a.norm == model::Norm::layer_without_bias || a.norm == model::Norm::layer_without_weights ||
      a.embedding_norm || a.head_bias || !a.projection_bias || !a.mlp_bias)
    return "the norms and biases of this model have no flags in Megatron-LM";
  return "";
}

std::string layout_of(const Plan& plan) {
  const bool listed = plan.pipeline.layer_split != program::LayerSplit::even ||
                      !plan.pipeline.layers_of_parts.empty();
  return listed ? program::layout_text(program::layers_of_parts(plan),
                                       plan.architecture.predicted_tokens)
                : "";
}

namespace {

// A value as one word of a shell: '([0]*3+[1]*58)' in quotes.
std::string word_of(const std::string& value) {
  const bool plain = value.find_first_of("()[]*|&;<> $'\"\\`?#~") == std::string::npos;
  return plain ? value : "'" + value + "'";
}

// "--name value" or "--name" for every field with a flag in the table of fields.
std::vector<std::string> flags_of(const Plan& plan) {
  std::vector<std::string> flags;
  for (const input::Field& field : input::plan_fields()) {
    if (!field.place || field.flags.empty()) continue;
    const std::string value = input::text_of(field.place.get(plan));
    std::string_view rest = field.flags;
    bool said = false;
    while (!rest.empty() && !said) {
      const std::string_view flag = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(flag.size() + 1, rest.size()));
      const std::size_t colon = flag.find(':');
      if (flag.ends_with('=')) {
        said = true;
        if (value != "0" && !value.empty())
          flags.push_back(fmt::format("--{} {}", flag.substr(0, flag.size() - 1), word_of(value)));
      } else if (colon != std::string_view::npos && flag.substr(colon + 1) == value) {
        said = true;
        flags.push_back(fmt::format("--{}", flag.substr(0, colon)));
      }
    }
  }
  return flags;
}

void add_low_precision(const program::NumericsPlan& numerics, std::vector<std::string>& flags) {
  if (!numerics.fp8) return;
  if (numerics.fp8_recipe == program::Fp8Recipe::nvfp4)
    return flags.emplace_back("--fp4-format e2m1"), void();
  flags.emplace_back("--fp8-format hybrid");
  if (numerics.fp8_recipe == program::Fp8Recipe::tensorwise)
    flags.emplace_back("--fp8-recipe tensorwise");
  if (numerics.fp8_recipe == program::Fp8Recipe::mxfp8) flags.emplace_back("--fp8-recipe mxfp8");
}

// Adds fields of how layers run that need several flags together.
void add_joined_flags(const Plan& plan, std::vector<std::string>& flags) {
  flags.emplace_back("--transformer-impl transformer_engine");
  if (const std::string backend = backend_of(plan); !backend.empty())
    flags.push_back("--attention-backend " + backend);
  if (const ContextWords way = context_of(plan); !way.type.empty()) {
    flags.push_back(fmt::format("--cp-comm-type {}", way.type));
    if (!way.sizes.empty())
      flags.push_back(
          fmt::format("--hierarchical-context-parallel-sizes {}", fmt::join(way.sizes, " ")));
  }
  const program::LayerPolicy& policy = plan.policy;
  if (policy.recompute == Recompute::selective)
    flags.insert(flags.end(), {"--recompute-granularity selective",
                               "--recompute-modules " + modules_of(policy.recompute_modules, " ")});
  if (policy.recompute == Recompute::full)
    flags.insert(flags.end(), {"--recompute-granularity full",
                               fmt::format("--recompute-num-layers {}", policy.recompute_layers)});
  if (policy.offload_modules != 0)
    flags.insert(flags.end(), {"--fine-grained-activation-offloading",
                               "--offload-modules " + offload_modules_text(policy, " ")});
  if (const double share = plan.optimizer.offload_fraction; share > 0) {
    flags.emplace_back("--optimizer-cpu-offload");
    if (share < 1) flags.push_back(fmt::format("--optimizer-offload-fraction {}", share));
  }
  add_low_precision(plan.numerics, flags);
  if (plan.stack.cross_entropy == program::CrossEntropy::native)
    flags.emplace_back("--cross-entropy-loss-fusion");
  if (!plan.stack.gradient_clipping) flags.emplace_back("--clip-grad 0.0");
  if (plan.experts.fp32_router) flags.emplace_back("--moe-router-dtype fp32");
}

// Whether a flag has no effect without another flag.
bool superfluous(const Plan& plan, const std::string& flag) {
  if (flag.starts_with("--recompute-method")) return plan.policy.recompute != Recompute::full;
  if (flag.starts_with("--num-virtual-stages-per-pipeline-rank"))
    return plan.pipeline.virtual_stages == 1 || !layout_of(plan).empty();
  for (const char* of_modules : {"--min-offloaded-tensor-size", "--activation-offload-fraction",
                                 "--delta-offload-bytes-across-pp-ranks"})
    if (flag.starts_with(of_modules)) return plan.policy.offload_modules == 0;
  // Flags of another repository, and of older versions.
  for (const char* absent : {"--allow-padding-num-layers", "--moe-use-legacy-grouped-gemm",
                             "--no-async-tensor-model-parallel-allreduce"})
    if (flag == absent) return true;
  // Added with the other flags of the network and of recomputation.
  if (flag == "--swiglu" || flag == "--recompute-activations" || flag == "--fp8-hybrid")
    return true;
  // Megatron-LM's defaults.
  if (flag == "--num-distributed-optimizer-instances 1" || flag == "--num-workers 2") return true;
  if (flag == "--sequence-parallel" || flag == "--tp-comm-overlap") return plan.mesh.tp == 1;
  // Megatron-LM's own data parallelism.
  for (const char* of_buffers : {"--overlap-grad-reduce", "--overlap-param-gather",
                                 "--use-distributed-optimizer", "--num-distributed-optimizer"})
    if (flag.starts_with(of_buffers) && plan.shards_parameters()) return true;
  if (flag == "--fp8-param-gather")
    return plan.numerics.fp8_recipe == program::Fp8Recipe::nvfp4 ||
           (!plan.sharding.distributed_optimizer && !plan.shards_parameters());
  if (flag.starts_with("--moe-") || flag.starts_with("--expert-"))
    return !plan.architecture.is_mixture();
  if (flag.find("attention-dropout") != std::string::npos ||
      flag.find("hidden-dropout") != std::string::npos)
    return false;
  return flag.starts_with("--torch-fsdp2") && !plan.shards_parameters();
}

}  // namespace

MegatronFlags megatron_flags(const Plan& plan, const std::string& model) {
  MegatronFlags all;
  std::vector<std::string>& flags = all.flags;
  // Megatron-LM takes no sequence above the number of positions, which changes nothing else of
  // rotary ones.
  Plan whole = plan;
  if (plan.architecture.position != model::Position::learned)
    whole.architecture.max_positions =
        std::max<std::int64_t>(plan.architecture.max_positions, plan.batch.sequence);
  flags = flags_of(whole);
  std::erase_if(flags, [&](const std::string& flag) { return superfluous(plan, flag); });
  // Megatron-LM's default dropout is 0.1, so zero dropout needs a flag.
  if (plan.architecture.attention_dropout == 0) flags.emplace_back("--attention-dropout 0.0");
  if (plan.architecture.hidden_dropout == 0) flags.emplace_back("--hidden-dropout 0.0");
  add_joined_flags(plan, flags);
  // A model with changed fields has another name, but still the numbers of the file.
  const NetworkFlags network = network_flags(plan.architecture, model);
  flags.insert(flags.end(), network.flags.begin(), network.flags.end());
  all.left = network.left;
  if (const std::string layout = layout_of(plan); !layout.empty())
    flags.push_back(fmt::format("--pipeline-model-parallel-layout '{}'", layout));
  return all;
}

}  // namespace sim::planner
