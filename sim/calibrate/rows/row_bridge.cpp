// row_bridge.cpp — settings of Megatron Bridge's performance recipes for mixtures of experts on
// H100. The version of the row's container picks the recipe. The tables beside the recipes name
// degrees too. If a table contradicts the recipe, the recipe's degrees apply and the row lists an
// assumption.
//
// [NVIDIA-NeMo/Megatron-Bridge v0.1.0rc4 (25.09), v0.2.0 (25.11), v0.3.0 (26.02), v0.3.1
// (26.02.01), v0.4.0 (26.04): scripts/performance/configs/*/*workload_base_configs.py,
// run_script.py, utils/overrides.py]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>

#include "sim/calibrate/rows/row_experts.h"

namespace sim::calibrate {

namespace {

using program::Dispatcher;

constexpr int never = 1'000'000;
constexpr Dispatcher alltoall = Dispatcher::alltoall, flex = Dispatcher::flex;

// Applies from container `from` on and before container `before`, both as yymmpp.
struct Recipe {
  std::array<const char*, 2> words;  // both occur in the row's model name
  int from, before;
  Dispatcher dispatcher;
  bool hides;              // --overlap-moe-expert-parallel-comm
  bool drops;              // tokens over an even share; pads to that share
  int pp, vp, ep, mbs;     // 0: the row's own value
  const char* recomputes;  // modules; "": nothing
};
constexpr std::array recipes = {
    Recipe{{"deepseek", "v3"}, 0, 260200, flex, true, false, 8, 4, 64, 1, "mla_up_proj,mlp"},
    Recipe{{"deepseek", "v3"}, 260200, never, flex, false, false, 0, 0, 0, 1, "mla_up_proj,mlp"},
    Recipe{{"qwen3", "235b"}, 0, 251100, alltoall, false, true, 0, 0, 0, 0, ""},
    Recipe{{"qwen3", "235b"}, 251100, never, alltoall, true, false, 8, 4, 32, 1, ""},
    Recipe{{"qwen3", "30b"}, 0, 251100, alltoall, false, true, 2, 12, 8, 0, ""},
    Recipe{{"qwen3", "30b"}, 251100, 260200, alltoall, true, false, 2, 12, 8, 1, ""},
    Recipe{{"qwen3", "30b"}, 260200, 260201, flex, true, false, 2, 12, 8, 1, ""},
    Recipe{{"qwen3", "30b"}, 260201, never, flex, false, false, 1, 1, 16, 1, ""},
    // Before 26.02 the recipe named modules without --recompute-granularity: nothing was
    // recomputed.
    Recipe{{"oss", "120b"}, 0, 260200, alltoall, false, false, 4, 1, 8, 1, ""},
    Recipe{
        {"oss", "120b"}, 260200, never, alltoall, false, false, 4, 1, 8, 1, "layernorm,moe_act"}};

// "26.02.01 NeMo Container" gives 260201.
int container(const Row& row) {
  static const std::regex dotted(R"(^(\d{2})\.(\d{2})(?:\.(\d{2}))?)");
  std::smatch found;
  const std::string& version = cell(row, "version");
  if (!std::regex_search(version, found, dotted)) return never - 1;
  const int patch = found[3].matched ? std::stoi(found[3]) : 0;
  return std::stoi(found[1]) * 10000 + std::stoi(found[2]) * 100 + patch;
}

const Recipe* recipe_of(const Row& row) {
  if (!is_bridge(row) || !starts_with(cell(row, "gpu"), "H100")) return nullptr;
  const int at = container(row);
  const auto found = std::ranges::find_if(recipes, [&](const Recipe& one) {
    return at >= one.from && at < one.before &&
           std::ranges::all_of(
               one.words, [&](const char* word) { return contains(cell(row, "model"), word); });
  });
  return found == recipes.end() ? nullptr : &*found;
}

// Replaces the row's degrees by those of the recipe. Returns the text of the differences.
std::string take_degrees(const Recipe& recipe, const Row& row, program::Plan& plan) {
  std::string other;
  const auto take = [&](const char* column, int said, int value, int& to) {
    if (value == 0) return;
    to = value;
    if (said == value || (said == 0 && value == 1)) return;
    other += fmt::format("{}{} {}", other.empty() ? "" : ", ", column, value);
  };
  take("pp", degree(row, "pp"), recipe.pp, plan.mesh.pp);
  take("vp", degree(row, "vp"), recipe.vp, plan.pipeline.virtual_stages);
  take("ep", degree(row, "ep"), recipe.ep, plan.mesh.ep);
  take("mbs", degree(row, "mbs"), recipe.mbs, plan.batch.micro_batch);
  const int replicas = degree(row, "n_gpus") / (plan.mesh.tp * plan.mesh.cp * plan.mesh.pp);
  take("dp", degree(row, "dp"), replicas, plan.mesh.dp);
  return other;
}

}  // namespace

void read_bridge_degrees(const Row& row, RowPlan& out) {
  const Recipe* recipe = recipe_of(row);
  if (recipe == nullptr) return;
  if (const std::string other = take_degrees(*recipe, row, out.plan); !other.empty())
    out.assumptions.push_back(other + ", as the recipe of its container");
}

void read_bridge_recipe(const Row& row, RowPlan& out) {
  const Recipe* recipe = recipe_of(row);
  if (recipe == nullptr) return;
  program::Plan& plan = out.plan;
  plan.experts.dispatcher = recipe->dispatcher;
  plan.experts.overlaps_all_to_all = recipe->hides;
  if (recipe->drops) {
    plan.experts.capacity_factor = 1;
    plan.experts.pads_to_capacity = true;
  }
  const std::string_view modules = recipe->recomputes;
  plan.policy.recompute =
      modules.empty() ? program::Recompute::none : program::Recompute::selective;
  program::RecomputeModules& again = plan.policy.recompute_modules;
  again = {};
  again.core_attention = false;
  again.norms = again.moe_activation = modules == "layernorm,moe_act";
  again.latent = again.mlp = modules == "mla_up_proj,mlp";
  // Recipes set CommOverlapConfig(tp_comm_overlap=False), except the 25.09 recipe of Qwen3.
  if (!recipe->drops) plan.stack.tp_comm_overlap = false;
  plan.optimizer.precision_aware = !plan.numerics.fp8;
  if (contains(cell(row, "model"), "deepseek")) {
    plan.optimizer.precision_aware = true;
    plan.optimizer.exp_avg_bytes = plan.optimizer.exp_avg_sq_bytes = 2;
    plan.experts.fp32_router = true;
    // Megatron-LM's pipeline layout "Et|(tt|)*30mL".
    if (plan.mesh.pp == 8 && plan.pipeline.virtual_stages == 4 && plan.architecture.layers == 61) {
      plan.pipeline.layers_of_parts.assign(32, 2);
      plan.pipeline.layers_of_parts.front() = 1;
      plan.pipeline.layers_of_parts.back() = 0;
    }
  }
  out.assumptions.emplace_back("dispatcher, overlap and recomputation of its container's recipe");
}

}  // namespace sim::calibrate
