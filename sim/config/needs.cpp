#include "sim/config/needs.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "sim/workload/recompute_modules.h"

namespace sim::config {
namespace {

namespace v1 = rehearse::v1;
using Problems = std::vector<PlanProblem>;

// "q_lora_rank and v_head_dim are ...".
void refuse(const std::vector<const char*>& names, const char* field, const char* rule,
            Problems& problems) {
  if (names.empty()) return;
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += fmt::format("{}{}", i == 0 ? "" : i + 1 < names.size() ? ", " : " and ", names[i]);
  problems.push_back({field, fmt::format("{} {} {}", list, names.size() > 1 ? "are" : "is", rule)});
}

std::vector<const char*> given_of(std::initializer_list<std::pair<bool, const char*>> fields) {
  std::vector<const char*> names;
  for (const auto& [given, name] : fields)
    if (given) names.push_back(name);
  return names;
}

void of_latent_attention(const v1::Architecture& a, Problems& problems) {
  refuse(given_of({{a.has_q_lora_rank(), "q_lora_rank"},
                   {a.has_qk_head_dim(), "qk_head_dim"},
                   {a.has_qk_pos_emb_head_dim(), "qk_pos_emb_head_dim"},
                   {a.has_v_head_dim(), "v_head_dim"}}),
         "architecture",
         "of latent attention, which the model does not have; write kv_lora_rank too, or leave "
         "it out",
         problems);
}

void of_experts(const v1::Architecture& a, Problems& problems) {
  refuse(given_of({{a.has_experts_per_token(), "experts_per_token"},
                   {a.has_expert_ffn(), "expert_ffn"},
                   {a.has_shared_expert_ffn(), "shared_expert_ffn"},
                   {a.has_expert_layers(), "expert_layers"},
                   {a.has_router_score(), "router_score"},
                   {a.has_router_pre_softmax(), "router_pre_softmax"},
                   {a.has_router_groups(), "router_groups"},
                   {a.has_router_top_groups(), "router_top_groups"},
                   {a.has_expert_bias(), "expert_bias"},
                   {a.has_auxiliary_loss(), "auxiliary_loss"},
                   {a.has_router_bias(), "router_bias"}}),
         "architecture",
         "of a mixture of experts, which the model is not; write num_experts too, or leave it out",
         problems);
}

void of_offload(const v1::Plan& given, const workload::Plan& plan, Problems& problems) {
  if (plan.policy.offload_modules == 0)
    for (const char* name :
         given_of({{given.has_offload_min_elements(), "offload_min_elements"},
                   {given.has_activation_offload_fraction(), "activation_offload_fraction"},
                   {given.has_offload_delta_bytes(), "offload_delta_bytes"}}))
      refuse({name}, name,
             "of modules whose saved tensors go to the CPU; write offload_modules too, or leave it "
             "out",
             problems);
  if (!given.optimizer_cpu_offload())
    for (const char* name :
         given_of({{given.overlap_cpu_optimizer(), "overlap_cpu_optimizer"},
                   {given.has_optimizer_offload_fraction(), "optimizer_offload_fraction"}}))
      refuse({name}, name,
             "of an optimizer on the CPU; write optimizer_cpu_offload true too, or leave it out",
             problems);
}

}  // namespace

std::vector<PlanProblem> needs(const v1::Plan& given, const workload::Plan& plan) {
  Problems problems;
  if (!plan.architecture.is_latent()) of_latent_attention(given.architecture(), problems);
  if (!plan.architecture.is_mixture()) of_experts(given.architecture(), problems);
  of_offload(given, plan, problems);
  // [Megatron-LM training/arguments.py: validate_args, "only when sequence parallelism is enabled"]
  if (given.tp_comm_overlap() && plan.mesh.tp > 1 && !plan.mesh.sequence_parallel)
    problems.push_back({"tp_comm_overlap",
                        "tp_comm_overlap cuts the messages of sequence parallelism into pieces; "
                        "turn sequence_parallel on, or leave tp_comm_overlap out"});
  if (given.has_recompute_modules())
    for (std::string& problem :
         workload::absent_modules(plan.policy.recompute_modules, plan.architecture))
      problems.push_back({"recompute_modules", std::move(problem)});
  return problems;
}

}  // namespace sim::config
