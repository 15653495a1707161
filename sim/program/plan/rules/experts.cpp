#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "sim/job/context/context.h"
#include "sim/program/build/build.h"
#include "sim/program/ir/routes.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

namespace {

// Whether each rank has the same stage in the attention mesh and in the expert mesh, if experts are
// not split (etp x ep = 1). mesh::problem checks the other cases [core 0.14 parallel_state.py:
// "When not using pp-last rank ordering"].
bool stages_stay(const mesh::Degrees& degrees, const mesh::Order& order) {
  if (degrees.etp * degrees.ep > 1 || degrees.pp == 1) return true;
  int attention = 1, experts = 1;
  for (const mesh::Axis axis : order) {
    if (axis == mesh::Axis::pp) return attention == experts;
    if (axis == mesh::Axis::tp) attention *= degrees.tp;
    if (axis == mesh::Axis::cp) attention *= degrees.cp;
    if (axis != mesh::Axis::dp) continue;
    attention *= degrees.dp;
    experts = degrees.tp * degrees.cp * degrees.dp;
  }
  return true;
}

void shapes(const Plan& plan, Diagnostics& problems) {
  const model::Experts& e = plan.architecture.experts;
  const std::string pattern = model::read_layer_pattern(e.layers, plan.architecture.layers).problem;
  if (!pattern.empty()) problems.push_back({"architecture", "expert_layers " + pattern});
  if (e.top_k < 1 || e.top_k > e.count)
    problems.push_back({"model", fmt::format("each token goes to {} of {} experts; there may be 1 "
                                             "to {}",
                                             e.top_k, e.count, e.count)});
  if (e.ffn < 1)
    problems.push_back(
        {"model", fmt::format("the width of an expert is {}; it must be 1 or more", e.ffn)});
  if (e.groups > 0 && e.count % e.groups != 0)
    problems.push_back({"architecture",
                        fmt::format("router_groups {} does not divide the {} experts; it may be {}",
                                    e.groups, e.count, divisors(e.count))});
  if (e.top_groups > 0 && e.groups == 0)
    problems.push_back(
        {"architecture", fmt::format("router_top_groups {} chooses among groups of experts, and "
                                     "there are none; write router_groups too, or leave it out",
                                     e.top_groups)});
  else if (e.top_groups > e.groups)
    problems.push_back(
        {"architecture", fmt::format("router_top_groups {} is more than router_groups {}; write at "
                                     "most {}",
                                     e.top_groups, e.groups, e.groups)});
}

void degrees(const Plan& plan, Diagnostics& problems) {
  const model::Experts& e = plan.architecture.experts;
  if (e.count % plan.mesh.ep != 0)
    problems.push_back({"ep", fmt::format("ep {} does not divide the {} experts; ep may be {}",
                                          plan.mesh.ep, e.count, divisors(e.count))});
  if (e.ffn % plan.expert_tp() != 0)
    problems.push_back(
        {"etp", fmt::format("etp {} does not divide the {} columns of an expert; etp may be {}",
                            plan.expert_tp(), e.ffn, divisors(e.ffn))});
  if (e.shared_ffn % plan.mesh.tp != 0)
    problems.push_back(
        {"tp", fmt::format("tp {} does not divide the {} columns of the shared expert; tp may be "
                           "{}",
                           plan.mesh.tp, e.shared_ffn, divisors(e.shared_ffn))});
  mesh::Degrees degrees;
  degrees.tp = plan.mesh.tp;
  degrees.cp = plan.mesh.cp;
  degrees.dp = plan.mesh.dp;
  degrees.pp = plan.mesh.pp;
  degrees.ep = plan.mesh.ep;
  degrees.etp = plan.expert_tp();
  const auto order = plan.mesh.rank_order.empty() ? Parsed<mesh::Order>(mesh::megatron_order)
                                                  : mesh::parse_order(plan.mesh.rank_order);
  if (const auto* parsed = std::get_if<mesh::Order>(&order)) {
    if (!stages_stay(degrees, *parsed))
      problems.push_back(
          {"rank_order",
           "the rank order puts pp before axes that attention counts and experts (ep "
           "1, etp 1) do not; put pp last"});
    if (const std::string why = mesh::problem(degrees, *parsed); !why.empty())
      problems.push_back(
          {"ep", why + (plan.mesh.etp == 0 && plan.mesh.tp > 1 ? " (etp is tp where it is left out)"
                                                               : "")});
  }
  // [core 0.14 moe_layer.py: "MoE and tensor parallelism need sequence parallelism"]
  if (plan.mesh.tp > 1 && !plan.mesh.sequence_parallel)
    problems.push_back({"sequence_parallel",
                        "experts with tensor parallelism need sequence_parallel; turn it on"});
}

void routes(const Plan& plan, Diagnostics& problems) {
  const model::Experts& e = plan.architecture.experts;
  const ExpertsPlan& how = plan.experts;
  const std::int64_t tokens = plan.local_sequence() * plan.batch.micro_batch /
                              (plan.uses_sequence_parallel() ? plan.mesh.tp : 1);
  const double share =
      static_cast<double>(tokens * e.top_k) * how.capacity_factor / static_cast<double>(e.count);
  if (how.capacity_factor > 0 && share < 1)
    problems.push_back(
        {"capacity_factor",
         fmt::format(
             "capacity_factor {} leaves an expert {:.3g} of {} tokens; write {:.3g} or more",
             how.capacity_factor, share, tokens, how.capacity_factor / share)});
  if (how.capacity_factor < 0)
    problems.push_back({"capacity_factor", "capacity_factor must be 0 (dropless) or more"});
  if (how.pads_to_capacity && how.capacity_factor <= 0)
    problems.push_back({"pad_to_capacity", "pad_to_capacity needs capacity_factor"});
  if (how.dispatcher == Dispatcher::allgather && plan.draws_routes())
    problems.push_back({"router",
                        "the allgather dispatcher is simulated with router balanced; "
                        "write dispatcher alltoall"});
  if (how.dispatcher == Dispatcher::allgather && how.late_probabilities)
    problems.push_back(
        {"late_probabilities", "late_probabilities is of the alltoall dispatcher; leave it out"});
}

// Rules of adapters on the experts' products: each rank must hold whole weights, in 16 bits.
void expert_adapters(const Plan& plan, Diagnostics& problems) {
  const auto refuse = [&](const std::string& what) {
    problems.push_back(
        {"lora_modules", fmt::format("adapters of experts are simulated {}, or write lora_modules "
                                     "without linear_fc1 and linear_fc2",
                                     what)});
  };
  const RecomputeModules& modules = plan.policy.recompute_modules;
  if (plan.expert_tp() > 1) refuse("where one rank has the whole of each; write etp 1");
  if (plan.architecture.experts.shared_ffn > 0) refuse("in models without a shared expert");
  if (plan.numerics.fp8) refuse("in 16 bits; write fp8 false");
  if (plan.policy.recompute == Recompute::selective && modules.moe_activation)
    refuse("with their activation kept; leave moe_act out of recompute_modules");
}

// [core 0.13 moe/experts.py: GroupedMLP; extensions/transformer_engine.py]
void legacy_products(const Plan& plan, Diagnostics& problems) {
  const auto refuse = [&](const char* message) {
    problems.push_back({"legacy_grouped_gemm", message});
  };
  if (!plan.experts.grouped_gemm)
    refuse("legacy_grouped_gemm multiplies all experts in one call; write grouped_gemm true");
  if (plan.architecture.linear_bias)
    refuse("legacy_grouped_gemm has no biases; write architecture.linear_bias false");
  if (plan.numerics.fp8) refuse("legacy_grouped_gemm multiplies in 16 bits; write fp8 false");
  if (plan.trains_adapters() && (plan.lora.fc1 || plan.lora.fc2))
    refuse(
        "legacy_grouped_gemm has no adapters of experts; write lora_modules without linear_fc1 and "
        "linear_fc2");
}

// Experts with parameters in shards [torchtitan distributed/parallel_dims.py: efsdp, models/moe;
// DeepSpeed runtime/zero: ZeRO-3 has no expert parallelism].
void experts_in_shards(const Plan& plan, Diagnostics& problems) {
  const auto refuse = [&](const char* field, const char* message) {
    problems.push_back({field, message});
  };
  const bool apart = plan.splits_experts_apart();
  if (apart && plan.sharding.data_parallel != DataParallelism::fsdp2)
    refuse("ep",
           "experts in shards of their own are of fully_shard; write data_parallel fsdp2, or "
           "ep 1 without etp");
  if (apart && plan.sharding.deepspeed_optimizer)
    refuse("ep", "DeepSpeed's ZeRO-3 shards whole experts; write ep 1");
  if (apart && plan.sharding.fsdp.replicas > 1)
    refuse("fsdp.replicas",
           "experts in shards of their own are simulated with one copy of the "
           "parameters; leave fsdp.replicas out");
  if (plan.trains_adapters() && plan.architecture.is_mixture() && (plan.lora.fc1 || plan.lora.fc2))
    refuse("lora_modules",
           "adapters of experts are simulated with data_parallel ddp; write "
           "lora_modules without linear_fc1 and linear_fc2");
  if (plan.numerics.fp8 && plan.numerics.fp8_parameters)
    refuse("fp8_parameters",
           "experts in shards are gathered in 16 bits; write fp8_parameters false");
  if (plan.experts.legacy_grouped_gemm)
    refuse("legacy_grouped_gemm",
           "legacy_grouped_gemm is of Megatron-LM, whose experts are whole; "
           "leave it out");
}

// Combinations with mixtures of experts or latent attention that are not implemented.
void mixture_combinations(const Plan& plan, Diagnostics& problems) {
  const auto refuse = [&](const char* field, std::string message) {
    problems.push_back({field, std::move(message)});
  };
  if (plan.shards_parameters()) experts_in_shards(plan, problems);
  if (plan.trains_adapters() && plan.architecture.is_mixture() && (plan.lora.fc1 || plan.lora.fc2))
    expert_adapters(plan, problems);
  if (plan.trains_adapters() && plan.architecture.is_latent() && plan.lora.qkv)
    refuse("lora_modules",
           "latent attention has no linear_qkv, and adapters of its narrow and wide products are "
           "not simulated; write lora_modules linear_proj");
  if (plan.policy.offloads())
    refuse(plan.policy.offload_layers > 0 ? "offload_layers" : "layer_choices",
           "activations of layers with experts stay on the GPU; write "
           "offload_layers 0 and swap no layer");
}

void latent(const Plan& plan, Diagnostics& problems) {
  if (plan.stack.attention == AttentionBackend::unfused)
    problems.push_back({"attention",
                        "latent attention is simulated with fused attention; write "
                        "attention flash or cudnn"});
  // [TransformerEngine 2.5 has unequal heads in its ring, 2.15 in each of its contexts]
  const context::Method* method = context::find(plan.mesh.context);
  if (plan.mesh.cp > 1 && method != nullptr && method->megatron.empty())
    problems.push_back(
        {"context", fmt::format("context {} has one size for keys and values, which latent "
                                "attention has not; write context ring, all-gather, ulysses or "
                                "hierarchical",
                                plan.mesh.context)});
}

// [core 0.14 transformer_config.py: moe_shared_expert_overlap]
void shared_overlap(const Plan& plan, Diagnostics& problems) {
  const auto refuse = [&](const char* message) {
    problems.push_back({"shared_expert_overlap", message});
  };
  if (plan.architecture.experts.shared_ffn == 0)
    refuse("shared_expert_overlap needs a shared expert, which the model has not; leave it out");
  if (plan.experts.dispatcher != Dispatcher::alltoall)
    refuse("shared_expert_overlap goes with the alltoall dispatcher; write dispatcher alltoall");
  if (plan.experts.overlaps_all_to_all)
    refuse(
        "shared_expert_overlap does not go with overlap_expert_all_to_all, which hides the same "
        "exchanges; turn one of them off");
  if (plan.policy.recompute == Recompute::selective && plan.policy.recompute_modules.shared_experts)
    refuse(
        "a shared expert on a stream of its own is not recomputed by itself; leave shared_experts "
        "out of recompute_modules");
}

}  // namespace

void experts(const Plan& plan, Diagnostics& problems) {
  const std::size_t before = problems.size();
  const model::Architecture& a = plan.architecture;
  if (!a.is_mixture() && plan.mesh.ep > 1)
    problems.push_back(
        {"ep", fmt::format("ep {} needs a mixture of experts; {} is dense", plan.mesh.ep, a.name)});
  if (a.is_mixture()) shapes(plan, problems);
  if (a.is_mixture() && plan.experts.legacy_grouped_gemm) legacy_products(plan, problems);
  if (problems.size() > before) return;
  if (a.is_mixture()) {
    degrees(plan, problems);
    routes(plan, problems);
  }
  if (a.is_latent()) latent(plan, problems);
  if (a.is_mixture() || a.is_latent()) mixture_combinations(plan, problems);
  if ((a.is_mixture() || a.is_latent()) && a.input_norms != model::InputNorms::each)
    problems.push_back({"architecture",
                        "layers with experts or latent attention have a norm in front of each "
                        "half; write architecture.input_norms each"});
  if (a.predicted_tokens > 0 && (plan.shards_parameters() || plan.trains_adapters()))
    problems.push_back({"mtp_layers",
                        "modules that predict more tokens are simulated with "
                        "data_parallel ddp and without adapters; write mtp_layers 0"});
  // [core 0.14 transformer_config.py: overlap_moe_expert_parallel_comm]
  if (a.predicted_tokens > 1 && plan.experts.overlaps_all_to_all)
    problems.push_back(
        {"mtp_layers", fmt::format("overlap_expert_all_to_all goes with one module that predicts "
                                   "more tokens, not {}; write mtp_layers 1 or 0",
                                   a.predicted_tokens)});
  if (a.predicted_tokens > 0 && a.head_bias)
    problems.push_back(
        {"architecture.head_bias",
         "a bias of the head is simulated where one token is predicted; write false"});
  if (a.predicted_tokens > 0 && a.tied_embeddings)
    problems.push_back({"mtp_layers",
                        "modules that predict more tokens are simulated with an "
                        "output layer of its own; write mtp_layers 0"});
  if (plan.experts.overlaps_all_to_all && plan.policy.runs_layers_again())
    problems.push_back(
        {"overlap_expert_all_to_all", "overlap_expert_all_to_all does not go with recompute full"});
  if (plan.experts.shared_overlap) shared_overlap(plan, problems);
}

}  // namespace sim::program::rules
