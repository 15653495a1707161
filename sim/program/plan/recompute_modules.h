// recompute_modules.h — names of the modules that selective recomputation runs again: Megatron-LM's
// (--recompute-modules) and torchtitan's operators.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

inline constexpr std::array<std::pair<std::string_view, bool RecomputeModules::*>, 8>
    recompute_module_names = {{{"core_attn", &RecomputeModules::core_attention},
                               {"mlp", &RecomputeModules::mlp},
                               {"moe", &RecomputeModules::moe},
                               {"moe_act", &RecomputeModules::moe_activation},
                               {"shared_experts", &RecomputeModules::shared_experts},
                               {"layernorm", &RecomputeModules::norms},
                               {"mla_up_proj", &RecomputeModules::latent},
                               {"operators", &RecomputeModules::operators}}};

// Selects the module with this name. False: the name is unknown.
constexpr bool add_recompute_module(RecomputeModules& to, std::string_view name) {
  for (const auto& [known, module] : recompute_module_names)
    if (known == name) return to.*module = true;
  return false;
}

// Reports each selected module that no layer of the network has, with the reason and valid modules.
std::vector<std::string> absent_modules(const RecomputeModules& modules,
                                        const model::Architecture& network);

}  // namespace sim::program
