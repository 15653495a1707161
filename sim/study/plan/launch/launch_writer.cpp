#include "sim/study/plan/launch/launch_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "sim/input/fields/fields.h"
#include "sim/input/plan/plan.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/recompute_modules.h"
#include "sim/study/plan/launch/launch_configs.h"
#include "sim/study/plan/launch/launch_megatron.h"
#include "sim/study/plan/launch/launch_nemo.h"
#include "sim/study/plan/launch/launch_network.h"

namespace sim::planner {

namespace {

using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

// The comment above the user's command: which flags of it are other ones now.
std::string comment_on(const OwnScript& own, const std::vector<ScriptChange>& changes) {
  std::string text;
  for (const ScriptChange& change : changes)
    text += (text.empty() ? "" : ", ") + change_text(change);
  return fmt::format("# {} with this plan: {}\n", own.path,
                     text.empty() ? "no flag changes" : text);
}

// The user's script with the plan.
std::string megatron_script(const OwnScript& own, const Plan& plan, const std::string& model,
                            const LaunchNodes& nodes) {
  const ChangedScript script = with_plan(own, plan, model);
  std::string text =
      shell_script(script.environment, nodes, comment_on(own, script.changes), own.words.program);
  for (const std::string& flag : script.flags) text += " \\\n  " + flag;
  return text + "\n";
}

LaunchText megatron(const Plan& plan, const std::string& model, const LaunchNodes& nodes,
                    const OwnScript* own) {
  LaunchText out{"Megatron-LM", "launch.sh", "", megatron_left(plan)};
  if (!out.left.empty()) return out;
  if (own != nullptr) {
    out.text = megatron_script(*own, plan, model, nodes);
    return out;
  }
  std::vector<std::string> flags = {"--mock-data", "--train-iters 10", "--eval-iters 0",
                                    "--log-interval 1", "--lr 0.0001"};
  const MegatronFlags of_plan = megatron_flags(plan, model);
  flags.insert(flags.end(), of_plan.flags.begin(), of_plan.flags.end());
  out.left = of_plan.left;
  out.text = shell_script(
      plan, nodes,
      "# ten steps on made-up tokens: put your data, tokenizer and learning rate in their place "
      "(--vocab-size is one less because NullTokenizer adds a token)\n",
      "pretrain_gpt.py");
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
// Reason why torchtitan cannot run the plan; "" if it can.
std::string torchtitan_left(const Plan& plan) {
  if (rounds(plan)) return "torchtitan trains without rounded operands";
  if (std::string reason = first_broken(Program::torchtitan, plan); !reason.empty()) return reason;
  if (plan.sharding.deepspeed_optimizer)
    return "ZeRO-3 of torchtitan is PyTorch's, not DeepSpeed's";
  if (plan.pipeline.account_for_embedding || plan.pipeline.account_for_loss)
    return "torchtitan deals out layers by a rule of its own";
  return "";
}

// torchtitan's flavor of the network; nothing: it has none. A model with changed fields has another
// name.
const TitanModel* titan_flavor(const Plan& plan, const std::string& model) {
  const auto known = std::ranges::find(titan_models, model, &TitanModel::ours);
  return plan.architecture.name == model && known != titan_models.end() ? &*known : nullptr;
}

// torchtitan's lines on the layers of its stages.
std::string titan_stages(const program::PipelinePlan& pipeline, int layers_per_stage) {
  const bool weighted = pipeline.layer_split == program::LayerSplit::weighted;
  std::string text = fmt::format(
      "pipeline_parallel_first_stage_less_layers = {}\n"
      "pipeline_parallel_last_stage_less_layers = {}\n",
      weighted ? pipeline.embedding_layers : 0, weighted ? pipeline.head_layers : 0);
  if (pipeline.virtual_stages > 1)
    text += fmt::format("pipeline_parallel_layers_per_stage = {}\n", layers_per_stage);
  return text;
}

LaunchText torchtitan(const Plan& plan, const std::string& model, const LaunchNodes& nodes) {
  LaunchText out{"torchtitan", "train.toml", "", ""};
  const TitanModel* known = titan_flavor(plan, model);
  const std::string beyond = beyond_torchtitan_llama(plan.architecture);
  out.left = known == nullptr && !beyond.empty()
                 ? fmt::format(
                       "we write torchtitan's llama3 alone, which does not have this "
                       "model's {}",
                       beyond)
                 : torchtitan_left(plan);
  if (!out.left.empty()) return out;
  const program::LayerPolicy& policy = plan.policy;
  out.text = environment_comment(plan) +
             command_comment(nodes, "-m torchtitan.train --job.config_file train.toml");
  if (known == nullptr) out.text += "# the flavor is in custom_flavor.py, which Python must find\n";
  out.text += fmt::format(
      "[model]\nname = \"{}\"\nflavor = \"{}\"\n{}\n[training]\ndataset = \"c4_test\"\nsteps = 10\n"
      "local_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n\n[optimizer]\nlr = 0.0001\n\n"
      "[parallelism]\n"
      "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = -1\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
      "context_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      known != nullptr ? known->name : "llama3", known != nullptr ? known->flavor : "custom",
      plan.numerics.fp8 ? "converters = [\"float8\"]\n" : "", plan.batch.micro_batch,
      plan.batch.global_batch, plan.batch.sequence, plan.sharding.fsdp.replicas,
      plan.sharding.fsdp.reshard_after_forward ? "always" : "never", plan.mesh.tp, plan.mesh.cp,
      plan.mesh.pp);
  if (plan.mesh.cp > 1)
    out.text += fmt::format("context_parallel_rotate_method = \"{}\"\n",
                            program::context_method(plan).torch);
  if (plan.mesh.pp > 1)
    out.text += fmt::format("pipeline_parallel_schedule = \"{}\"\n",
                            schedule::find(plan.pipeline.schedule)->torch);
  if (plan.mesh.pp > 1) out.text += titan_stages(plan.pipeline, torch_layers_per_stage(plan));
  out.text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                          policy.recompute == Recompute::none   ? "none"
                          : policy.recompute == Recompute::full ? "full"
                                                                : "selective");
  if (policy.recompute == Recompute::selective) out.text += "selective_ac_option = \"op\"\n";
  if (plan.stack.layer_kernels == program::LayerKernels::compiled)
    out.text += "\n[compile]\nenable = true\n";
  else if (plan.stack.checkpoint_early_stop)
    out.text += "early_stop = true\n";
  if (known == nullptr) out.text += "\n[experimental]\ncustom_import = \"custom_flavor\"\n";
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

// How experts run. The network is that of the recipe.
std::string bridge_experts(const Plan& plan, const std::string& model) {
  if (!plan.architecture.is_mixture()) return "";
  constexpr std::array<std::string_view, 12> of_plan = {"expert-model-parallel-size",
                                                        "expert-tensor-parallel-size",
                                                        "moe-token-dispatcher-type",
                                                        "moe-grouped-gemm",
                                                        "moe-use-legacy-grouped-gemm",
                                                        "moe-permute-fusion",
                                                        "moe-router-dtype",
                                                        "moe-shared-expert-overlap",
                                                        "moe-expert-capacity-factor",
                                                        "moe-pad-expert-input-to-capacity",
                                                        "moe-router-force-load-balancing",
                                                        "overlap-moe-expert-parallel-comm"};
  std::string text;
  for (const std::string& flag : megatron_flags(plan, model).flags) {
    const std::size_t blank = std::min(flag.find(' '), flag.size());
    std::string name = flag.substr(2, blank - 2);
    if (std::ranges::count(of_plan, name) == 0) continue;
    std::ranges::replace(name, '-', '_');
    text += fmt::format("  {}: {}\n", name, blank == flag.size() ? "true" : flag.substr(blank + 1));
  }
  return text;
}

LaunchText bridge(const Plan& plan, const std::string& model, const LaunchNodes& nodes) {
  LaunchText out{"Megatron-Bridge", "bridge.yaml", "", megatron_left(plan, Program::megatron_core)};
  if (out.left.empty() && plan.shards_parameters())
    out.left = "parameters in shards are said in code there";
  if (!out.left.empty()) return out;
  out.text =
      "# pretrain.py: examples/recipes/llama/pretrain_llama3_8b.py with your model's recipe\n" +
      environment_comment(plan) + command_comment(nodes, "pretrain.py --config-file bridge.yaml");
  out.text += fmt::format(
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
  else  // recipes have values of their own
    out.text += fmt::format(
        "  virtual_pipeline_model_parallel_size: {}\n",
        plan.pipeline.virtual_stages > 1 ? std::to_string(plan.pipeline.virtual_stages) : "null");
  if (plan.pipeline.account_for_embedding)
    out.text += "  account_for_embedding_in_pipeline_split: true\n";
  if (plan.pipeline.account_for_loss) out.text += "  account_for_loss_in_pipeline_split: true\n";
  out.text += fmt::format("  sequence_parallel: {}\n  seq_length: {}\n",
                          plan.mesh.sequence_parallel, plan.batch.sequence);
  if (const std::string backend = backend_of(plan); !backend.empty())
    out.text += fmt::format("  attention_backend: {}\n", backend);
  out.text += bridge_policy(plan.policy) + bridge_experts(plan, model);
  out.text += fmt::format(
      "train:\n  train_iters: 10\n  eval_iters: 0\n  micro_batch_size: {}\n"
      "  global_batch_size: {}\nscheduler:\n  lr_warmup_iters: 0\nlogger:\n  log_interval: 1\n"
      "checkpoint:\n  save: null\ndataset:\n  sequence_length: {}\n",
      plan.batch.micro_batch, plan.batch.global_batch, plan.batch.sequence);
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

// Copies fields without effect from the plan: for one stage, one chunk, no context parallelism,
// sharded parameters, or no tensor parallelism.
// If both plans have equal layers per part, it also copies the form of that split.
void settle(const Plan& plan, Plan& back) {
  if (plan.mesh.pp == 1) back.pipeline.schedule = plan.pipeline.schedule;
  if (plan.pipeline.virtual_stages == 1) back.pipeline.interleaving = plan.pipeline.interleaving;
  if (plan.mesh.cp == 1) back.mesh.context = plan.mesh.context;
  if (plan.architecture.position != model::Position::learned)
    back.architecture.max_positions = plan.architecture.max_positions;
  // Buckets of gradients and parameters, which fully_shard has not.
  if (plan.shards_parameters() && !plan.sharding.deepspeed_optimizer) {
    back.sharding.overlap_grad_reduce = plan.sharding.overlap_grad_reduce;
    back.sharding.overlap_param_gather = plan.sharding.overlap_param_gather;
  }
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

// Adds to `left` the settings of the plan that reading the text back does not give: "fp8=true,
// tp=2", and keeps the plan that it gives. `beside` holds the cluster, and the network if the model
// has no name. Only the scripts of Megatron-LM and NeMo 2 describe the model.
void read_back(LaunchText& one, const Plan& plan, const std::string& model,
               std::vector<std::string> beside, bool takes_model) {
  const bool is_whole = one.program == "Megatron-LM" || one.program == "NeMo 2";
  if (is_whole)
    std::erase_if(beside, [](const auto& word) { return word.starts_with("architecture."); });
  if ((!is_whole || (takes_model && one.program == "Megatron-LM")) && !model.empty())
    beside.push_back("model=" + model);
  if (!is_whole) beside.push_back(fmt::format("gpus={}", plan.world()));
  if (one.program == "DeepSpeed") beside.push_back(fmt::format("sequence={}", plan.batch.sequence));
  const Result<input::PlanFile> read = input::read_megatron(one.text, one.file, beside);
  std::vector<std::string> differ;
  if (!read) differ.push_back(read.errors().front().message);
  Plan back = read ? read->plan : plan;
  settle(plan, back);
  if (one.program != "DeepSpeed") {  // JSON has no comments for the environment
    back.environment.allocator_options = plan.environment.allocator_options;
    back.environment.avoid_record_streams = plan.environment.avoid_record_streams;
    back.environment.launch_blocking = plan.environment.launch_blocking;
  }
  for (const input::Field& field : input::plan_fields()) {
    if (!field.place || field.name == "architecture.name") continue;
    if (!is_whole && field.name.starts_with("architecture.")) continue;
    const std::string value = input::text_of(field.place.get(plan));
    if (value != input::text_of(field.place.get(back)))
      differ.push_back(fmt::format("{}={}", field.name, value.empty() ? "\"\"" : value));
  }
  if (differ.empty()) return;
  one.left += fmt::format("{}{}", one.left.empty() ? "" : ", ", fmt::join(differ, ", "));
  if (read && program::problems(back).empty()) one.gives = back;
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

// The texts of all programs, not read back. Those that cannot run the plan have none.
std::vector<LaunchText> written(const Plan& plan, const std::string& model,
                                const LaunchNodes& nodes, const OwnScript* own) {
  std::vector<LaunchText> all = {megatron(plan, model, nodes, own),
                                 torchtitan(plan, model, nodes),
                                 bridge(plan, model, nodes),
                                 nemo_script(plan, model, nodes),
                                 nemo(plan, megatron_left(plan, Program::nemo_1), nodes),
                                 nanotron(plan, nodes)};
  if (plan.sharding.deepspeed_optimizer) all.push_back(deepspeed(plan));
  return all;
}

}  // namespace

std::vector<std::string> launch_programs(const Plan& plan, const std::string& model,
                                         const input::Machine& machine) {
  const LaunchNodes nodes =
      launch_nodes(plan, model, machine.cluster.node.gpus, Launcher::torchrun);
  std::vector<std::string> programs;
  for (LaunchText& one : written(plan, model, nodes, nullptr))
    if (!one.text.empty()) programs.push_back(std::move(one.program));
  return programs;
}

std::vector<LaunchText> launches(const Plan& plan, const std::string& model,
                                 const std::string& cluster, const input::Machine& machine,
                                 const std::vector<std::string>& settings, Launcher launcher,
                                 const OwnScript* own) {
  LaunchNodes nodes = launch_nodes(plan, model, machine.cluster.node.gpus, launcher);
  nodes.cores = machine.cluster.node.cpu_cores;
  std::vector<LaunchText> all = written(plan, model, nodes, own);
  std::vector<std::string> beside = settings;
  beside.push_back("cluster=" + cluster);
  const bool takes_model = own != nullptr && !model.empty();  // the script may not describe it
  for (LaunchText& one : all)
    if (!one.text.empty()) read_back(one, plan, model, beside, takes_model);
  const auto has_titan = std::ranges::find(all, "train.toml", &LaunchText::file);
  if (!has_titan->text.empty() && titan_flavor(plan, model) == nullptr)
    all.push_back({"torchtitan's flavor", "custom_flavor.py",
                   torchtitan_flavor(plan.architecture, model), ""});
  if (!machine.cluster.hosts.empty()) all.push_back(hostfile(plan, machine.cluster));
  return all;
}

}  // namespace sim::planner
