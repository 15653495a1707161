#include "sim/input/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "sim/allocator/options.h"
#include "sim/base/text.h"
#include "sim/input/fields/fields.h"
#include "sim/input/models/network.h"
#include "sim/input/resolve/dependent_settings.h"
#include "sim/input/resolve/plan_lists.h"
#include "sim/input/tables/router_load.h"
#include "sim/job/mesh/axes.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/cuda_graphs.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/recompute_modules.h"
#include "sim/program/plan/shards.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using program::AttentionBackend;

// Bytes per element of an optimizer state type; 4 with a problem for an unknown name.
int state_bytes(const char* field, const std::string& name, bool moment, Diagnostics& problems) {
  if (name.empty() || name == "fp32") return 4;
  if (name == "fp16" || (moment && name == "bf16")) return 2;
  if (moment && name == "fp8") return 1;
  problems.push_back({field, fmt::format("{} '{}' is none of {}", field, name.substr(0, 40),
                                         moment ? "fp32, fp16, bf16, fp8" : "fp32, fp16")});
  return 4;
}

void optimizer(const v1::Plan& from, program::Plan& to, Diagnostics& problems) {
  program::OptimizerOptions& o = to.optimizer;
  o.main_parameter_bytes =
      state_bytes("main_params_dtype", from.main_params_dtype(), false, problems);
  o.exp_avg_bytes = state_bytes("exp_avg_dtype", from.exp_avg_dtype(), true, problems);
  o.exp_avg_sq_bytes = state_bytes("exp_avg_sq_dtype", from.exp_avg_sq_dtype(), true, problems);
  if (from.optimizer_cpu_offload())
    o.offload_fraction =
        from.has_optimizer_offload_fraction() ? from.optimizer_offload_fraction() : 1.0;
}

// Calls add(name) for each name of a list with commas. A name for which it returns false is a
// problem of the field: "'<name>' <what is wrong with it>".
template <class Add>
void add_names(const char* field, std::string_view list, std::string_view wrong,
               Diagnostics& problems, Add add) {
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    if (!add(name)) problems.push_back({field, fmt::format("'{}' {}", name.substr(0, 40), wrong)});
  }
}

void recompute_modules(const v1::Plan& from, program::Plan& to, Diagnostics& problems) {
  if (!from.has_recompute_modules()) return;
  to.policy.recompute_modules = {};
  to.policy.recompute_modules.core_attention = false;
  add_names("recompute_modules", from.recompute_modules(),
            "is no module that can be recomputed; write core_attn, mlp, moe, moe_act, "
            "shared_experts, layernorm, mla_up_proj or operators",
            problems, [&](std::string_view name) {
              return program::add_recompute_module(to.policy.recompute_modules, name);
            });
}

void offload_modules(const v1::Plan& from, program::Plan& to, Diagnostics& problems) {
  add_names("offload_modules", from.offload_modules(),
            "is no module that can be offloaded; write attn_norm, qkv_linear, core_attn, "
            "attn_proj, mlp_norm, expert_fc1 or moe_act",
            problems, [&](std::string_view name) {
              const auto& names = program::offload_module_names;
              const auto* const found = std::ranges::find(names, name);
              if (found == names.end()) return false;
              to.policy.offload_modules |=
                  program::bit_of(static_cast<program::OffloadModule>(found - names.begin()));
              return true;
            });
}

void cuda_graphs(const v1::Plan& from, program::Plan& to, Diagnostics& problems) {
  add_names("cuda_graph_modules", from.cuda_graph_modules(),
            "is no part that a CUDA graph can launch; write attn, mlp, moe, moe_router, "
            "moe_preprocess or full_iteration",
            problems, [&](std::string_view name) {
              return name == "none" || program::add_cuda_graph(to.stack.cuda_graphs, name);
            });
}

void adapters(const v1::Plan& from, program::Plan& to, Diagnostics& problems) {
  if (from.adapters() && to.lora.rank == 0)
    problems.push_back({"adapters", "the rank of the adapters is missing; write lora_rank"});
  if (from.lora_all_to_all() && to.lora.rank == 0)
    problems.push_back(
        {"lora_all_to_all", "'lora_all_to_all' is for adapters; write lora_rank too"});
  if (from.lora_dropout() && to.lora.rank == 0)
    problems.push_back({"lora_dropout", "'lora_dropout' is for adapters; write lora_rank too"});
  if (!from.has_lora_modules()) return;
  if (to.lora.rank == 0)
    problems.push_back({"lora_modules", "'lora_modules' is for adapters; write lora_rank too"});
  program::LoraOptions& lora = to.lora;
  lora.qkv = lora.projection = lora.fc1 = lora.fc2 = false;
  const auto select = [&](std::string_view name) {
    if (name == "linear_qkv") return lora.qkv = true;
    if (name == "linear_proj") return lora.projection = true;
    if (name == "linear_fc1") return lora.fc1 = true;
    if (name == "linear_fc2") return lora.fc2 = true;
    return false;
  };
  add_names("lora_modules", from.lora_modules(),
            "has no adapter; write linear_qkv, linear_proj, "
            "linear_fc1, linear_fc2 or several of them",
            problems, select);
}

// Sharded parameters: turns off the options of Megatron-LM's data parallelism.
void sharding(const v1::Plan& from, program::Plan& to, Diagnostics& problems) {
  using program::DataParallelism;
  if (from.has_zero() && from.has_data_parallel()) {
    problems.push_back(
        {"zero", "'zero' and 'data_parallel' both say what is shared; leave one out"});
    return;
  }
  if (from.data_parallel() == v1::Plan::fsdp1) to.sharding.data_parallel = DataParallelism::fsdp1;
  if (from.data_parallel() == v1::Plan::fsdp2) to.sharding.data_parallel = DataParallelism::fsdp2;
  if (from.has_zero() && from.zero() < 2) to.sharding.distributed_optimizer = from.zero() == 1;
  if (from.zero() >= 2) {
    to.sharding.data_parallel = DataParallelism::fsdp2;
    to.sharding.fsdp.reshard_after_forward = from.zero() == 3;
  }
  if (!to.shards_parameters()) {
    if (from.has_fsdp())
      problems.push_back(
          {"fsdp", "'fsdp' is for parameters in shards; write data_parallel: fsdp2"});
    return;
  }
  // With pipeline parallelism, users of fully_shard keep parameters unsharded after the forward
  // pass [pytorch/torchtitan distributed/fsdp.py:get_fsdp_reshard_after_forward_policy, "default"].
  const bool said = from.has_fsdp() && from.fsdp().has_reshard_after_forward();
  if (from.data_parallel() == v1::Plan::fsdp2 && from.pp() > 1 && !said)
    to.sharding.fsdp.reshard_after_forward = false;
  program::shard_parameters(to, to.sharding.data_parallel, to.sharding.fsdp.reshard_after_forward);
}

// The CPU optimizer of sharded parameters is DeepSpeed's ZeRO-3. It sums gradients in the type of
// the model, during the backward pass [DeepSpeed runtime/engine.py: communication_data_type,
// get_data_types; runtime/zero/config.py: overlap_comm].
void deepspeed_shards(const v1::Plan& from, program::Plan& to) {
  if (!from.has_deepspeed_optimizer())
    to.sharding.deepspeed_optimizer = from.optimizer_cpu_offload();
  if (!to.sharding.deepspeed_optimizer) return;
  if (!from.has_fp32_gradients()) to.numerics.fp32_gradients = false;
  if (!from.has_overlap_grad_reduce()) to.sharding.overlap_grad_reduce = true;
  // ZeRO-3 prefetches parameters, not layers [runtime/zero/partitioned_param_coordinator.py:
  // fetch_sub_module; runtime/zero/config.py: prefetch_bucket_size].
  if (!from.fsdp().has_backward_prefetch()) to.sharding.fsdp.backward_prefetch = 0;
}

// Copies the fields with a FieldAccess, and sets the defaults that depend on them.
void copied(const v1::Plan& from, const Machine* machine, program::Plan& to) {
  copy_fields(from, to);
  if (!from.has_overlap_param_gather())
    to.sharding.overlap_param_gather =
        to.sharding.distributed_optimizer && to.sharding.overlap_grad_reduce;
  if (to.shards_parameters()) deepspeed_shards(from, to);
  if (from.attention() != v1::Plan::attention_unset) return;
  // Fused attention needs 16 bits or less. TransformerEngine prefers cuDNN's kernels on Hopper and
  // Blackwell [pytorch/attention/dot_product_attention/utils.py: get_attention_backend].
  const bool hopper = machine != nullptr && machine->gpu.compute_capability >= 90;
  to.stack.attention = to.numerics.precision == model::Precision::fp32 ? AttentionBackend::unfused
                       : hopper                                        ? AttentionBackend::cudnn
                                                                       : AttentionBackend::flash;
}

// Megatron-LM's pipeline layout: the layers of each part. It also gives the number of chunks per
// stage.
void layout(const v1::Plan& from, Resolved& out) {
  if (!from.has_pipeline_layout()) return;
  program::Plan& plan = out.plan;
  const program::Layout read = program::read_layout(from.pipeline_layout());
  const auto problem = [&](std::string message) {
    out.problems.push_back({"pipeline_layout", std::move(message)});
  };
  const auto count = static_cast<int>(read.layers.size());
  if (!read.problem.empty()) return problem(fmt::format("the layout has {}", read.problem));
  if (read.predicted != plan.architecture.predicted_tokens)
    return problem(fmt::format("the layout has {} m; the model predicts {} further tokens",
                               read.predicted, plan.architecture.predicted_tokens));
  if (count % plan.mesh.pp != 0)
    return problem(
        fmt::format("the layout has {} parts, which {} stages do not share evenly; "
                    "write {}, an empty one between two '|' is one too",
                    count, plan.mesh.pp, (count + plan.mesh.pp - 1) / plan.mesh.pp * plan.mesh.pp));
  const int chunks = count / plan.mesh.pp;
  if (from.has_virtual_stages() && from.virtual_stages() != chunks)
    return problem(
        fmt::format("the layout has {} parts, {} a stage, and virtual_stages is {}; "
                    "leave that out",
                    count, chunks, from.virtual_stages()));
  plan.pipeline.layers_of_parts = read.layers;
  plan.pipeline.virtual_stages = chunks;
}

// Model chunks per stage, given as a count or as layers per chunk.
void chunks(const v1::Plan& from, Resolved& out) {
  program::Plan& plan = out.plan;
  if (from.has_layers_per_virtual_stage()) {
    const std::int64_t layers = plan.architecture.layers;
    const std::int64_t part = std::int64_t{from.layers_per_virtual_stage()} * plan.mesh.pp;
    if (layers % part != 0) {
      out.problems.push_back({"layers_per_virtual_stage",
                              fmt::format("{} layers do not split into chunks of {} on {} stages",
                                          layers, from.layers_per_virtual_stage(), plan.mesh.pp)});
    } else if (from.has_virtual_stages() && layers / part != from.virtual_stages()) {
      out.problems.push_back(
          {"virtual_stages", fmt::format("virtual_stages {} and layers_per_virtual_stage {} "
                                         "disagree; leave one out",
                                         from.virtual_stages(), from.layers_per_virtual_stage())});
    } else {
      plan.pipeline.virtual_stages = static_cast<int>(layers / part);
    }
  }
  layout(from, out);
  if (!from.has_schedule())
    plan.pipeline.schedule = schedule::default_schedule(plan.pipeline.virtual_stages).name;
  // A schedule without virtual_stages uses its default number of chunks.
  const schedule::Schedule* row = schedule::find(plan.pipeline.schedule);
  if (row != nullptr && from.has_schedule() && !from.has_virtual_stages() &&
      !from.has_pipeline_layout() && !from.has_layers_per_virtual_stage())
    plan.pipeline.virtual_stages = row->chunks;
}

// The number of GPUs that the plan states; 0 if it states none.
std::int64_t stated_world(const v1::Plan& from, const Machine* machine, Resolved& out) {
  if (machine == nullptr) return from.gpus();
  const std::int64_t by_nodes = std::int64_t{from.nodes()} * machine->cluster.node.gpus;
  if (from.has_gpus() && from.has_nodes() && from.gpus() != by_nodes)
    out.problems.push_back(
        {"gpus", fmt::format("gpus {} and nodes {} (of {} GPUs each) disagree; leave one out",
                             from.gpus(), from.nodes(), machine->cluster.node.gpus)});
  if (from.has_gpus()) return from.gpus();
  return from.has_nodes() ? by_nodes : 0;
}

std::string factors(std::int64_t model_parallel) {
  return fmt::format("tp x cp x pp = {}; write a multiple of {}", model_parallel, model_parallel);
}

void world(const v1::Plan& from, const Machine* machine, Resolved& out) {
  program::Plan& plan = out.plan;
  const std::int64_t stated = stated_world(from, machine, out);
  const std::string_view stater = from.has_gpus() ? "gpus" : "nodes";
  const __int128 exact = static_cast<__int128>(plan.mesh.tp) * plan.mesh.cp * plan.mesh.pp;
  constexpr std::int64_t most = 1 << 20;
  if (exact > most) {
    out.problems.push_back({"tp", fmt::format("tp x cp x pp is more than {} ranks", most)});
    return;
  }
  const auto model_parallel = static_cast<std::int64_t>(exact);
  if (machine == nullptr && stated == 0 && !from.has_dp() && from.has_nodes()) return;
  if (stated == 0 && !from.has_dp()) {
    out.problems.push_back({"cluster", "say how many GPUs run: gpus, nodes or dp"});
    return;
  }
  if (stated != 0 && stated % model_parallel != 0) {
    out.problems.push_back({std::string(stater), fmt::format("{} GPUs do not factor into {}",
                                                             stated, factors(model_parallel))});
    return;
  }
  if (stated != 0) {
    plan.mesh.dp = static_cast<int>(stated / model_parallel);
    if (from.has_dp() && from.dp() != plan.mesh.dp)
      out.problems.push_back(
          {"dp", fmt::format("dp {} x tp x cp x pp = {} is not the {} GPUs; leave dp out, or write "
                             "dp {}",
                             from.dp(), from.dp() * model_parallel, stated, plan.mesh.dp)});
  } else {
    plan.mesh.dp = from.dp();
  }
}

// Hybrid shards without a number of copies: the ranks of a node share one.
void hybrid_shards(const v1::Plan& from, const Machine* machine, program::Plan& plan) {
  const bool asks = plan.shards_parameters() && plan.sharding.fsdp.hybrid;
  if (!asks || machine == nullptr || from.fsdp().has_replicas()) return;
  const std::int64_t sharers = std::int64_t{plan.mesh.dp} * plan.mesh.cp;
  const std::int64_t near = machine->cluster.node.gpus / plan.mesh.tp;
  if (near > 0 && sharers % near == 0)
    plan.sharding.fsdp.replicas = static_cast<int>(sharers / near);
}

// Jobs on racks often leave some GPUs of each rack idle: the setting that takes equal parts of as
// few racks as possible, with whole tensor-parallel groups; "" for small nodes, or if no such part
// is more than half a rack.
std::string part_of_each(std::int64_t gpus, int tp, const topology::Cluster& cluster) {
  constexpr int small = 16;
  const int whole = cluster.node.gpus;
  for (int part = whole - 1; part > std::max(small, whole / 2); --part)
    if (gpus % part == 0 && part % tp == 0 && gpus / part <= cluster.nodes)
      return fmt::format(
          ", or cluster.node.gpus={0}{1}: {0} of each {2}", part,
          cluster.node.nics == whole ? fmt::format(" cluster.node.nics={}", part) : "", whole);
  return "";
}

// Checks that the cluster has the job's GPUs. A job on several nodes must use whole nodes.
void placement(const v1::Plan& from, const Machine& machine, Resolved& out) {
  const topology::Cluster& cluster = machine.cluster;
  const std::int64_t gpus =
      std::int64_t{out.plan.mesh.tp} * out.plan.mesh.cp * out.plan.mesh.pp * out.plan.mesh.dp;
  const std::string field = from.has_gpus() ? "gpus" : from.has_nodes() ? "nodes" : "dp";
  if (gpus > cluster.gpus())
    out.problems.push_back(
        {field,
         fmt::format("{} GPUs; {} has {} ({} nodes of {}); write at most {}, or cluster.nodes={}",
                     gpus, cluster.name, cluster.gpus(), cluster.nodes, cluster.node.gpus,
                     cluster.gpus(), (gpus - 1) / cluster.node.gpus + 1)});
  if (gpus > cluster.node.gpus && gpus % cluster.node.gpus != 0)
    out.problems.push_back(
        {field, fmt::format("{} GPUs are not whole nodes of {}; write {} or {}{}", gpus,
                            cluster.node.gpus, gpus / cluster.node.gpus * cluster.node.gpus,
                            (gpus / cluster.node.gpus + 1) * cluster.node.gpus,
                            part_of_each(gpus, out.plan.mesh.tp, cluster))});
}

// Checks that rank_order names every degree above 1.
void rank_order(const v1::Plan& from, Resolved& out) {
  if (!from.has_rank_order()) return;
  const auto parsed = mesh::parse_order(from.rank_order());
  if (const auto* problem = std::get_if<std::string>(&parsed)) {
    out.problems.push_back({"rank_order", *problem});
    return;
  }
  const program::Plan& plan = out.plan;
  const std::pair<const char*, int> degrees[] = {
      {"tp", plan.mesh.tp}, {"cp", plan.mesh.cp}, {"dp", plan.mesh.dp}, {"pp", plan.mesh.pp}};
  const std::string order = "-" + from.rank_order() + "-";
  for (const auto& [dimension, degree] : degrees) {
    if (degree > 1 && order.find(fmt::format("-{}-", dimension)) == std::string::npos)
      out.problems.push_back(
          {"rank_order", fmt::format("the order '{}' leaves out {}, which is {}; name all degrees "
                                     "above 1, for example tp-cp-ep-dp-pp",
                                     from.rank_order(), dimension, degree)});
  }
}

// The framework of the plan; nullptr if it names none. An unknown or refused one adds a problem.
const Framework* framework_of(const v1::Plan& from, Diagnostics& problems) {
  if (!from.has_framework()) return nullptr;
  const auto problem = [&](std::string message) {
    problems.push_back({"framework", std::move(message)});
  };
  if (!frameworks()) {
    for (const Diagnostic& one : frameworks().errors())
      problem(fmt::format("{}: {}", one.where, one.message));
    return nullptr;
  }
  const Framework* found = find_framework(from.framework());
  if (found == nullptr) {
    problem(unknown_framework(from.framework()));
  } else if (!found->refused.empty()) {
    problem(fmt::format("'{}' is not simulated: {}", found->name, found->refused));
  }
  return found;
}

// Reads the expert shares of the router_load file.
void router_load(Resolved& out) {
  program::ExpertsPlan& how = out.plan.experts;
  const model::Architecture& a = out.plan.architecture;
  if (how.load.empty()) return;
  const auto refuse = [&](std::string why) {
    out.problems.push_back({"router_load", std::move(why)});
  };
  if (how.routing != program::Routing::skewed) return refuse("router_load needs router skewed");
  if (!a.is_mixture() || !model::read_layer_pattern(a.experts.layers, a.layers).problem.empty())
    return;
  auto read = read_router_load(how.load, a);
  if (const auto* problem = std::get_if<std::string>(&read)) return refuse(*problem);
  how.shares = std::move(std::get<0>(read));
}

// Fills everything except the number of GPUs.
void fill(const v1::Plan& from, const Machine* machine, Resolved& out) {
  sharding(from, out.plan, out.problems);
  copied(from, machine, out.plan);
  adapters(from, out.plan, out.problems);
  optimizer(from, out.plan, out.problems);
  recompute_modules(from, out.plan, out.problems);
  offload_modules(from, out.plan, out.problems);
  cuda_graphs(from, out.plan, out.problems);
  read_lists(from, out.plan, out.problems);
  chunks(from, out);
}

}  // namespace

std::vector<std::string> cluster_settings(const v1::Plan& plan) {
  Diagnostics problems;
  const Framework* framework = framework_of(plan, problems);
  v1::Plan copy = plan;
  std::vector<std::string> all =
      framework ? complete(*framework, copy).cluster : std::vector<std::string>{};
  all.insert(all.end(), plan.cluster_settings().begin(), plan.cluster_settings().end());
  return all;
}

Resolved resolve(const v1::Plan& given, const model::Architecture& architecture,
                 const Machine* machine) {
  Resolved out;
  program::Plan& plan = out.plan;
  plan.architecture = architecture;
  v1::Plan from = given;
  if (const Framework* framework = framework_of(given, out.problems)) {
    const Completion completion = complete(*framework, from);
    out.assumptions = completion.assumptions;
    if (!completion.refused.empty())
      out.problems.push_back(
          {"framework", fmt::format("'{}': {}", framework->name, completion.refused)});
  }
  fill(from, machine, out);
  for (Diagnostic& problem : settings_without_effect(given, plan))
    out.problems.push_back(std::move(problem));
  world(from, machine, out);
  hybrid_shards(from, machine, out.plan);
  if (machine != nullptr && out.problems.empty()) placement(from, *machine, out);
  rank_order(from, out);
  if (plan.numerics.fp8 && machine != nullptr && machine->gpu.fp8_flops == 0)
    out.problems.push_back(
        {"fp8", fmt::format("{} multiplies no fp8; leave fp8 out", machine->gpu.name)});
  // [TransformerEngine transformer_engine/pytorch/quantization.py: check_mxfp8_support]
  constexpr int blackwell = 100;
  if (plan.numerics.fp8 && plan.numerics.fp8_recipe == program::Fp8Recipe::mxfp8 &&
      machine != nullptr && machine->gpu.compute_capability < blackwell)
    out.problems.push_back({"fp8_recipe", fmt::format("{} has no mxfp8, Blackwell has; write "
                                                      "delayed or tensorwise",
                                                      machine->gpu.name)});
  router_load(out);
  if (const auto options = allocator::parse_options(plan.environment.allocator_options); !options) {
    for (const Diagnostic& problem : options.errors())
      out.problems.push_back({"allocator_options", problem.where + ": " + problem.message});
  }
  out.has_world = machine != nullptr || from.has_gpus() || from.has_dp();
  return out;
}

}  // namespace sim::input
