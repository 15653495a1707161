// layer_policy.h — the tensors that a layer keeps for its backward pass, recomputes, or offloads.
//
// Part of a Plan (plan.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sim::program {

enum class Recompute : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };
// The parts of a layer that selective recomputation runs again (--recompute-modules).
struct RecomputeModules {
  bool core_attention = true;
  bool mlp = false;
  // torchtitan's selective op: keeps the outputs of attention and of every second product.
  bool operators = false;
  // Layers with experts: the whole MLP half, the experts' activation, the shared expert; norms that
  // are not part of a product; latent attention's wide projections.
  bool moe = false, moe_activation = false, shared_experts = false, norms = false, latent = false;
};

// How a layer holds its saved tensors until its backward pass.
enum class LayerChoice : std::uint8_t {
  keep,  // they stay on the GPU
  // They wait on the CPU. The copy down may last until the next swapping layer's forward pass ends.
  // The copy back starts when the swapping layer that follows is back.
  swap,
  recompute,  // only its input stays; the layer runs again
};

// Modules of a layer whose saved tensors may wait on the CPU, in the order in which a layer
// finishes them (module_offload.h).
enum class OffloadModule : std::uint8_t {
  qkv_linear,
  core_attn,
  attn_proj,
  attn_norm,  // a norm that is no part of a product
  expert_fc1,
  moe_act,
  mlp_norm,  // a norm before experts
};
inline constexpr int offload_module_count = 7;
constexpr std::uint8_t bit_of(OffloadModule module) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(module));
}

// The tensors that a layer keeps for its backward pass, recomputes, or offloads to the CPU.
struct LayerPolicy {
  Recompute recompute = Recompute::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  RecomputeModules recompute_modules;
  int recompute_layers = 1;  // uniform: layers per chunk; block: layers recomputed per stage
  // --cpu-offloading-num-layers: the saved tensors of the first layers wait on the CPU.
  int offload_layers = 0;
  // Modules whose saved tensors wait on the CPU, one bit each. Tensors of fewer elements stay.
  std::uint8_t offload_modules = 0;
  std::int64_t offload_min_elements = 1048576;
  // The share of a pass's groups that are offloaded; the last ones stay. Each stage keeps
  // `offload_delta_bytes` more on the GPU than the stage before it (module_offload.h).
  double activation_offload_fraction = 1;
  std::int64_t offload_delta_bytes = 0;
  // The choice of each layer of a chunk; empty: the fields above decide. With `plans_choices`,
  // answer/layer_choices.h chooses from the costs of the plan's blocks; until then all layers keep.
  std::vector<LayerChoice> choices;
  bool plans_choices = false;

  bool chooses(LayerChoice choice) const {
    return std::ranges::find(choices, choice) != choices.end();
  }
  bool runs_layers_again() const {
    return recompute == Recompute::full || chooses(LayerChoice::recompute);
  }
  bool offloads() const { return offload_layers > 0 || chooses(LayerChoice::swap); }
  bool offloads(OffloadModule module) const { return (offload_modules & bit_of(module)) != 0; }
  bool swaps(int layer) const {
    if (choices.empty()) return layer < offload_layers;
    const auto at = static_cast<std::size_t>(layer);
    return at < choices.size() && choices[at] == LayerChoice::swap;
  }
};

}  // namespace sim::program
