#include "sim/program/plan/recompute_modules.h"

#include <fmt/format.h>

namespace sim::program {

std::vector<std::string> absent_modules(const RecomputeModules& modules,
                                        const model::Architecture& network) {
  const bool mixture = network.is_mixture(), latent = network.is_latent();
  const bool shared = mixture && network.experts.shared_ffn > 0;
  const bool dense = model::mixture_count(network) < network.layers;
  struct Rule {
    bool RecomputeModules::*module;
    bool there;
    const char* otherwise;
  };
  const Rule rules[] = {
      {&RecomputeModules::mlp, dense, "all layers have experts in place of an MLP; write moe"},
      {&RecomputeModules::moe, mixture, "the model is no mixture of experts; write mlp"},
      {&RecomputeModules::moe_activation, mixture, "the model is no mixture of experts; write mlp"},
      {&RecomputeModules::shared_experts, shared, "the model has no shared expert; leave it out"},
      // TransformerEngine's linear layers include the norms before them.
      {&RecomputeModules::norms, mixture || latent,
       "norms of dense layers are part of the products behind them; leave it out"},
      {&RecomputeModules::latent, latent, "the model has no latent attention; leave it out"}};
  std::vector<std::string> problems;
  for (const Rule& rule : rules) {
    if (!(modules.*rule.module) || rule.there) continue;
    for (const auto& [name, module] : recompute_module_names)
      if (module == rule.module)
        problems.push_back(fmt::format("{} cannot be recomputed: {}", name, rule.otherwise));
  }
  return problems;
}

}  // namespace sim::program
