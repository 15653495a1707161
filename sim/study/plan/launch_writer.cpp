#include "sim/study/plan/launch_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "sim/input/fields/fields.h"
#include "sim/input/plan/plan.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/recompute_modules.h"
#include "sim/study/plan/launch_configs.h"
#include "sim/study/plan/launch_network.h"

namespace sim::planner {

namespace {

using program::AttentionBackend;
using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

std::string modules_of(const program::RecomputeModules& modules, const char* separator) {
  std::string text;
  for (const auto& [name, module] : program::recompute_module_names)
    if (modules.*module) text += (text.empty() ? "" : separator) + std::string(name);
  return text;
}

// TransformerEngine's name of the attention backend; "" for backends of other programs.
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

// Context parallelism in Megatron-LM's terms, if not its default: the method and the sizes of two
// levels.
struct ContextWords {
  std::string_view type;
  std::vector<int> sizes;
};

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

// Reason why Megatron-LM cannot run the plan; "" if it can. With chunks Megatron-LM interleaves.
std::string megatron_left(const Plan& plan) {
  const bool own = plan.pipeline.schedule == "1f1b" || plan.pipeline.schedule == "interleaved-1f1b";
  if (!own && plan.mesh.pp > 1)
    return fmt::format("Megatron-LM has no schedule {}", plan.pipeline.schedule);
  if (plan.mesh.cp > 1 && program::context_method(plan).megatron.empty())
    return fmt::format("Megatron-LM has no context {}", plan.mesh.context);
  if (rounds(plan)) return "what is rounded is said in code (modelopt.torch.quantization.quantize)";
  if (plan.sharding.deepspeed_optimizer) return "DeepSpeed's optimizer is Megatron-DeepSpeed's";
  if (plan.mesh.tensor_columns > 1 || plan.mesh.tensor_depth > 1)
    return "tensors in rows, columns and depth are Megatron-AxoNN's";
  if (plan.policy.recompute_modules.operators && plan.policy.recompute == Recompute::selective)
    return "Megatron-LM recomputes modules, not operators";
  if (plan.shards_parameters() && plan.mesh.pp > 1 && plan.sharding.fsdp.reshard_after_forward)
    return "with a pipeline fully_shard keeps parameters whole behind a forward pass";
  const model::Architecture& a = plan.architecture;
  if (a.input_norms != model::InputNorms::each || a.output_norms || a.norms_by_head ||
      a.norm == model::Norm::layer_without_bias || a.norm == model::Norm::layer_without_weights ||
      a.embedding_norm || a.head_bias || !a.projection_bias || !a.mlp_bias)
    return "the norms and biases of this model have no flags in Megatron-LM";
  return "";
}

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

// The layout of layers in stages, if no other flag of Megatron-LM expresses it; otherwise "".
std::string layout_of(const Plan& plan) {
  const bool listed = plan.pipeline.layer_split != program::LayerSplit::even ||
                      !plan.pipeline.layers_of_parts.empty();
  return listed ? program::layout_text(program::layers_of_parts(plan),
                                       plan.architecture.predicted_tokens)
                : "";
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
    flags.push_back(fmt::format("--recompute-granularity selective --recompute-modules {}",
                                modules_of(policy.recompute_modules, " ")));
  if (policy.recompute == Recompute::full)
    flags.push_back(fmt::format("--recompute-granularity full --recompute-num-layers {}",
                                policy.recompute_layers));
  if (policy.offload_modules != 0)
    flags.push_back("--fine-grained-activation-offloading --offload-modules " +
                    offload_modules_text(policy, " "));
  if (plan.numerics.fp8_recipe == program::Fp8Recipe::tensorwise)
    flags.emplace_back("--fp8-recipe tensorwise");
  if (plan.numerics.fp8_recipe == program::Fp8Recipe::mxfp8)
    flags.emplace_back("--fp8-recipe mxfp8");
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
  if (flag == "--allow-padding-num-layers") return true;  // a flag of another repository
  // Added with the other flags of the network and of recomputation.
  if (flag == "--swiglu" || flag == "--recompute-activations") return true;
  // Megatron-LM's defaults.
  if (flag == "--num-distributed-optimizer-instances 1" || flag == "--num-workers 2") return true;
  if (flag == "--sequence-parallel") return plan.mesh.tp == 1;
  if (flag.starts_with("--moe-") || flag.starts_with("--expert-"))
    return !plan.architecture.is_mixture();
  if (flag.find("attention-dropout") != std::string::npos ||
      flag.find("hidden-dropout") != std::string::npos)
    return false;
  return flag.starts_with("--torch-fsdp2") && !plan.shards_parameters();
}

// The environment of the training processes as lines of a shell.
std::string environment_of(const Plan& plan) {
  std::string text;
  const bool one_queue = plan.mesh.tp > 1 || plan.mesh.cp > 1;
  if (one_queue && !plan.shards_parameters()) text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  if (!plan.environment.allocator_options.empty())
    text += "export PYTORCH_CUDA_ALLOC_CONF=" + plan.environment.allocator_options + "\n";
  if (plan.environment.avoid_record_streams) text += "export TORCH_NCCL_AVOID_RECORD_STREAMS=1\n";
  if (plan.environment.launch_blocking) text += "export CUDA_LAUNCH_BLOCKING=1\n";
  return text;
}

// The launcher of the processes of each node [pytorch/pytorch torch/distributed/run.py].
std::string torchrun(int nodes, int per_node) {
  if (nodes == 1) return fmt::format("torchrun --nproc_per_node {}", per_node);
  return fmt::format(
      "# on every node: MASTER_ADDR is the node of rank 0, NODE_RANK counts the nodes from 0\n"
      "torchrun --nnodes {} --nproc_per_node {} --node_rank \"${{NODE_RANK:?}}\" "
      "--master_addr \"${{MASTER_ADDR:?}}\" --master_port \"${{MASTER_PORT:-29500}}\"",
      nodes, per_node);
}

// The head of a batch script. Each node runs one torchrun; the nodes meet at the first one.
std::string slurm_head(const std::string& model, int nodes, int per_node) {
  return fmt::format(
      "#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n#SBATCH --time=00:30:00\n"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n",
      model.substr(model.find_last_of('/') + 1), nodes, per_node);
}

std::string srun(int nodes, int per_node) {
  return fmt::format(
      "srun torchrun --nnodes {} --nproc_per_node {} --rdzv_id \"$SLURM_JOB_ID\" --rdzv_backend "
      "c10d --rdzv_endpoint \"$MASTER_ADDR:29500\"",
      nodes, per_node);
}

LaunchText megatron(const Plan& plan, const std::string& model, const input::Machine& machine,
                    Launcher launcher) {
  LaunchText out{"Megatron-LM", "launch.sh", "", megatron_left(plan)};
  if (!out.left.empty()) return out;
  const int per_node = std::min(machine.cluster.node.gpus, plan.world());
  const int nodes = plan.world() / per_node;
  const bool slurm = launcher == Launcher::slurm;
  out.text = (slurm ? slurm_head(model, nodes, per_node) : "") + environment_of(plan) +
             "# ten steps on made-up tokens: put your data and learning rate in their place\n" +
             (slurm ? srun(nodes, per_node) : torchrun(nodes, per_node)) + " pretrain_gpt.py";
  std::vector<std::string> flags = {"--mock-data", "--train-iters 10", "--eval-iters 0",
                                    "--log-interval 1", "--lr 0.0001"};
  for (const std::string& flag : flags_of(plan)) flags.push_back(flag);
  std::erase_if(flags, [&](const std::string& flag) { return superfluous(plan, flag); });
  // Megatron-LM's default dropout is 0.1, so zero dropout needs a flag.
  if (plan.architecture.attention_dropout == 0) flags.emplace_back("--attention-dropout 0.0");
  if (plan.architecture.hidden_dropout == 0) flags.emplace_back("--hidden-dropout 0.0");
  add_joined_flags(plan, flags);
  // A model with changed fields has another name, but still the numbers of the file.
  const NetworkFlags network = network_flags(plan.architecture, model);
  flags.insert(flags.end(), network.flags.begin(), network.flags.end());
  out.left = network.left;
  if (const std::string layout = layout_of(plan); !layout.empty())
    flags.push_back(fmt::format("--pipeline-model-parallel-layout '{}'", layout));
  for (const std::string& flag : flags) out.text += " \\\n  " + flag;
  out.text += "\n";
  return out;
}

// torchtitan's name of a model.
struct TitanModel {
  std::string_view ours, name, flavor;
};
constexpr std::array titan_models{TitanModel{"llama-3.1-8b", "llama3", "8B"},
                                  TitanModel{"llama-3.1-70b", "llama3", "70B"},
                                  TitanModel{"llama-3.1-405b", "llama3", "405B"}};
// PyTorch's name of a schedule.
struct TitanSchedule {
  std::string_view ours, theirs;
};
constexpr std::array titan_schedules{TitanSchedule{"1f1b", "1F1B"}, TitanSchedule{"gpipe", "GPipe"},
                                     TitanSchedule{"interleaved-1f1b", "Interleaved1F1B"}};

// Reason why torchtitan cannot run the plan; "" if it can.
std::string torchtitan_left(const Plan& plan) {
  if (rounds(plan)) return "torchtitan trains without rounded operands";
  if (plan.sharding.data_parallel != program::DataParallelism::fsdp2)
    return "torchtitan's data parallelism is FSDP2 (zero=2, zero=3)";
  if (plan.sharding.deepspeed_optimizer)
    return "ZeRO-3 of torchtitan is PyTorch's, not DeepSpeed's";
  if (plan.mesh.cp > 1 && program::context_method(plan).torch.empty())
    return "torchtitan shares sequences by PyTorch's context_parallel (context torch-allgather)";
  const std::string& schedule = plan.pipeline.schedule;
  if (std::ranges::find(titan_schedules, schedule, &TitanSchedule::ours) == titan_schedules.end())
    return fmt::format("PyTorch has no schedule {}", schedule);
  if (plan.pipeline.account_for_embedding || plan.pipeline.account_for_loss ||
      (plan.pipeline.layer_split != program::LayerSplit::weighted && !layout_of(plan).empty()))
    return "torchtitan deals out layers by a rule of its own";
  if (plan.pipeline.virtual_stages > 1)
    return "chunks of stages are said there by pipeline_parallel_layers_per_stage";
  const program::LayerPolicy& policy = plan.policy;
  if (policy.recompute == Recompute::full &&
      (policy.recompute_method == RecomputeMethod::block || policy.recompute_layers > 1))
    return "torchtitan recomputes all layers or operators, not a number of layers";
  if (policy.recompute == Recompute::selective && !policy.recompute_modules.operators)
    return "torchtitan recomputes operators, not modules";
  return "";
}

LaunchText torchtitan(const Plan& plan, const std::string& model) {
  LaunchText out{"torchtitan", "train.toml", "", ""};
  // A model with changed fields has another name.
  const auto known = plan.architecture.name == model
                         ? std::ranges::find(titan_models, model, &TitanModel::ours)
                         : titan_models.end();
  out.left = known == titan_models.end() ? "torchtitan has no flavor of this model"
                                         : torchtitan_left(plan);
  if (!out.left.empty()) return out;
  const program::LayerPolicy& policy = plan.policy;
  out.text = fmt::format(
      "# torchrun --nproc_per_node GPUS -m torchtitan.train --job.config_file train.toml\n"
      "[model]\nname = \"{}\"\nflavor = \"{}\"\n{}\n[training]\ndataset = \"c4_test\"\nsteps = 10\n"
      "local_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n\n[optimizer]\nlr = 0.0001\n\n"
      "[parallelism]\n"
      "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = -1\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
      "context_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      known->name, known->flavor, plan.numerics.fp8 ? "converters = [\"float8\"]\n" : "",
      plan.batch.micro_batch, plan.batch.global_batch, plan.batch.sequence,
      plan.sharding.fsdp.replicas, plan.sharding.fsdp.reshard_after_forward ? "always" : "never",
      plan.mesh.tp, plan.mesh.cp, plan.mesh.pp);
  if (plan.mesh.cp > 1)
    out.text += fmt::format("context_parallel_rotate_method = \"{}\"\n",
                            program::context_method(plan).torch);
  if (plan.mesh.pp > 1)
    out.text += fmt::format(
        "pipeline_parallel_schedule = \"{}\"\n",
        std::ranges::find(titan_schedules, plan.pipeline.schedule, &TitanSchedule::ours)->theirs);
  if (plan.mesh.pp > 1 && plan.pipeline.layer_split == program::LayerSplit::weighted)
    out.text += fmt::format(
        "pipeline_parallel_first_stage_less_layers = {}\n"
        "pipeline_parallel_last_stage_less_layers = {}\n",
        plan.pipeline.embedding_layers, plan.pipeline.head_layers);
  out.text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                          policy.recompute == Recompute::none   ? "none"
                          : policy.recompute == Recompute::full ? "full"
                                                                : "selective");
  if (policy.recompute == Recompute::selective) out.text += "selective_ac_option = \"op\"\n";
  if (plan.stack.layer_kernels == program::LayerKernels::compiled)
    out.text += "\n[compile]\nenable = true\n";
  else if (plan.stack.checkpoint_early_stop)
    out.text += "early_stop = true\n";
  return out;
}

// Megatron-Bridge's lines of recomputed and of offloaded tensors.
std::string bridge_policy(const program::LayerPolicy& policy) {
  std::string text;
  if (policy.recompute == Recompute::selective)
    text += fmt::format("  recompute_granularity: selective\n  recompute_modules: [{}]\n",
                        modules_of(policy.recompute_modules, ", "));
  if (policy.recompute == Recompute::full)
    text += fmt::format(
        "  recompute_granularity: full\n  recompute_method: {}\n  recompute_num_layers: {}\n",
        policy.recompute_method == RecomputeMethod::block ? "block" : "uniform",
        policy.recompute_layers);
  if (policy.offload_modules != 0)
    text += fmt::format(
        "  fine_grained_activation_offloading: true\n  offload_modules: [{}]\n"
        "  min_offloaded_tensor_size: {}\n  activation_offload_fraction: {}\n"
        "  delta_offload_bytes_across_pp_ranks: {}\n",
        offload_modules_text(policy, ", "), policy.offload_min_elements,
        policy.activation_offload_fraction, policy.offload_delta_bytes);
  return text;
}

LaunchText bridge(const Plan& plan) {
  LaunchText out{"Megatron-Bridge", "bridge.yaml", "", megatron_left(plan)};
  if (out.left.empty() && plan.shards_parameters())
    out.left = "parameters in shards are said in code there";
  if (!out.left.empty()) return out;
  out.text = fmt::format(
      "# torchrun --nproc_per_node GPUS pretrain_MODEL.py --config-file bridge.yaml\n"
      "model:\n  tensor_model_parallel_size: {}\n  context_parallel_size: {}\n"
      "  pipeline_model_parallel_size: {}\n",
      plan.mesh.tp, plan.mesh.cp, plan.mesh.pp);
  if (const ContextWords way = context_of(plan); !way.type.empty()) {
    out.text += fmt::format("  cp_comm_type: {}\n", way.type);
    if (!way.sizes.empty())
      out.text +=
          fmt::format("  hierarchical_context_parallel_sizes: [{}]\n", fmt::join(way.sizes, ", "));
  }
  const std::string layout = layout_of(plan);
  if (!layout.empty())
    out.text += fmt::format("  pipeline_model_parallel_layout: \"{}\"\n", layout);
  else if (plan.pipeline.virtual_stages > 1)
    out.text +=
        fmt::format("  virtual_pipeline_model_parallel_size: {}\n", plan.pipeline.virtual_stages);
  if (plan.pipeline.account_for_embedding)
    out.text += "  account_for_embedding_in_pipeline_split: true\n";
  if (plan.pipeline.account_for_loss) out.text += "  account_for_loss_in_pipeline_split: true\n";
  out.text += fmt::format("  sequence_parallel: {}\n  seq_length: {}\n",
                          plan.mesh.sequence_parallel, plan.batch.sequence);
  if (const std::string backend = backend_of(plan); !backend.empty())
    out.text += fmt::format("  attention_backend: {}\n", backend);
  out.text += bridge_policy(plan.policy);
  out.text +=
      fmt::format("train:\n  train_iters: 10\n  micro_batch_size: {}\n  global_batch_size: {}\n",
                  plan.batch.micro_batch, plan.batch.global_batch);
  out.text += fmt::format(
      "ddp:\n  use_distributed_optimizer: {}\n  overlap_grad_reduce: {}\n"
      "  overlap_param_gather: {}\n  grad_reduce_in_fp32: {}\n",
      plan.sharding.distributed_optimizer, plan.sharding.overlap_grad_reduce,
      plan.sharding.overlap_param_gather, plan.numerics.fp32_gradients);
  constexpr std::array scalings{"_with_fp8_delayed_scaling", "_with_fp8_current_scaling",
                                "_with_mxfp8", "_with_nvfp4"};
  const std::string_view scaling =
      plan.numerics.fp8 ? scalings[static_cast<std::size_t>(plan.numerics.fp8_recipe)] : "";
  out.text +=
      fmt::format("mixed_precision: {}{}_mixed\n",
                  plan.numerics.precision == model::Precision::fp16 ? "fp16" : "bf16", scaling);
  return out;
}

// Copies fields without effect from the plan: for one stage, one chunk, no context parallelism, or
// no tensor parallelism.
// If both plans have equal layers per part, it also copies the form of that split.
void settle(const Plan& plan, Plan& back) {
  if (plan.mesh.pp == 1) back.pipeline.schedule = plan.pipeline.schedule;
  if (plan.pipeline.virtual_stages == 1) back.pipeline.interleaving = plan.pipeline.interleaving;
  if (plan.mesh.cp == 1) back.mesh.context = plan.mesh.context;
  if (plan.mesh.tp == 1) {
    back.mesh.sequence_parallel = plan.mesh.sequence_parallel;
    back.stack.tp_comm_overlap = plan.stack.tp_comm_overlap;
  }
  if (!program::problems(back).empty() ||
      program::layers_of_parts(back) != program::layers_of_parts(plan))
    return;
  back.pipeline.layer_split = plan.pipeline.layer_split;
  back.pipeline.layers_of_parts = plan.pipeline.layers_of_parts;
  back.pipeline.embedding_layers = plan.pipeline.embedding_layers;
  back.pipeline.head_layers = plan.pipeline.head_layers;
  back.pipeline.account_for_embedding = plan.pipeline.account_for_embedding;
  back.pipeline.account_for_loss = plan.pipeline.account_for_loss;
}

// Settings of the plan that reading the text back does not give: "fp8=true, tp=2". Extends the
// known list. `beside` holds the cluster, and the network if the model has no name. Only
// Megatron-LM's script describes the model.
std::string read_back_otherwise(const LaunchText& one, const Plan& plan, const std::string& model,
                                std::vector<std::string> beside) {
  const bool is_whole = one.program == "Megatron-LM";
  if (is_whole)
    std::erase_if(beside, [](const auto& word) { return word.starts_with("architecture."); });
  if (!is_whole && !model.empty()) beside.push_back("model=" + model);
  if (!is_whole) beside.push_back(fmt::format("gpus={}", plan.world()));
  if (one.program == "DeepSpeed") beside.push_back(fmt::format("sequence={}", plan.batch.sequence));
  const Result<input::PlanFile> read = input::read_megatron(one.text, one.file, beside);
  std::vector<std::string> differ;
  if (!read) differ.push_back(read.errors().front().message);
  Plan back = read ? read->plan : plan;
  settle(plan, back);
  for (const input::Field& field : input::plan_fields()) {
    if (!field.place || field.name == "architecture.name") continue;
    if (!is_whole && field.name.starts_with("architecture.")) continue;
    const std::string value = input::text_of(field.place.get(plan));
    if (value != input::text_of(field.place.get(back)))
      differ.push_back(fmt::format("{}={}", field.name, value.empty() ? "\"\"" : value));
  }
  return fmt::format("{}{}", one.left.empty() || differ.empty() ? "" : ", ",
                     fmt::join(differ, ", "));
}

// The job's nodes in their order, under the names of `topo place`.
LaunchText hostfile(const Plan& plan, const topology::Cluster& cluster) {
  LaunchText out{"order of nodes", "hostfile", "", ""};
  const int slots = cluster.node.gpus;
  const auto nodes = static_cast<std::size_t>(topology::nodes_of(plan.world(), slots));
  const std::span<const int> hosts = cluster.hosts;
  out.text =
      "# rank 0 is on the first: mpirun --hostfile, or --node_rank of torchrun in this order\n";
  for (const int host : hosts.first(std::min(nodes, hosts.size())))
    out.text += fmt::format("node-{:02} slots={}\n", host, slots);
  return out;
}

}  // namespace

std::vector<LaunchText> launches(const Plan& plan, const std::string& model,
                                 const std::string& cluster, const input::Machine& machine,
                                 const std::vector<std::string>& settings, Launcher launcher) {
  const int per_node = std::min(machine.cluster.node.gpus, plan.world());
  std::vector<LaunchText> all = {megatron(plan, model, machine, launcher), torchtitan(plan, model),
                                 bridge(plan), nemo(plan, megatron_left(plan), per_node),
                                 nanotron(plan)};
  if (plan.sharding.deepspeed_optimizer) all.push_back(deepspeed(plan));
  std::vector<std::string> beside = settings;
  beside.push_back("cluster=" + cluster);
  for (LaunchText& one : all)
    if (!one.text.empty()) one.left += read_back_otherwise(one, plan, model, beside);
  if (!machine.cluster.hosts.empty()) all.push_back(hostfile(plan, machine.cluster));
  return all;
}

}  // namespace sim::planner
