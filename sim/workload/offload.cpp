#include "sim/workload/offload.h"

#include <vector>

#include "sim/workload/tape.h"

namespace sim::workload {
namespace {

// What a layer's forward pass leaves in the layer's slots, and the residual that it was given; of
// one that runs again the residual alone.
std::vector<Tensor> saved(const Rank& rank, bool runs_again) {
  if (runs_again)
    return {{layer_slot(LayerSlot::input), true, 1, rank.dim.residual(), Category::activations,
             "residual stream"}};
  const Tape& tape = *rank.layer_tapes.at(0);
  std::vector<bool> dropped(tape.tensors.size(), false);
  for (const Tape::Again& again : tape.again)
    for (const Value v : again.tensors) dropped[v] = true;
  std::vector<Tensor> saved;
  for (Value v = 1; v < tape.tensors.size(); ++v) {
    const Tensor& t = tape.tensors[v];
    if (t.holders > 0 && !dropped[v] && t.slot.space == Space::layer &&
        t.slot.index >> layers_on_bits == 0)
      saved.push_back(t);
  }
  return saved;
}

}  // namespace

std::optional<int> Offload::behind(int chunk, int layer) const {
  if (layer < 0 || layer >= rank_.layers(chunk) - 1) return {};
  const bool again = rank_.recomputes(layer);
  if (again && !rank_.ends_recomputed_group(chunk, layer)) return {};
  const int first = again ? layer / rank_.recomputed_group() * rank_.recomputed_group() : layer;
  return first < rank_.plan.policy.offload_layers ? std::optional(first) : std::nullopt;
}

std::uint32_t Offload::away(int layer) {
  const bool again = rank_.recomputes(layer);
  const auto [it, added] = blocks_.try_emplace({true, again}, 0);
  if (!added) return it->second;
  Emitter e(rank_.tables, "offload of a layer");
  for (const Tensor& t : saved(rank_, again)) e.free(t.slot);
  return it->second = e.finish();
}

std::uint32_t Offload::back(int layer) {
  const bool again = rank_.recomputes(layer);
  const auto [it, added] = blocks_.try_emplace({false, again}, 0);
  if (!added) return it->second;
  Emitter e(rank_.tables, "reload of a layer");
  for (const Tensor& t : saved(rank_, again)) e.alloc(t.slot, t.bytes, t.category, t.label);
  return it->second = e.finish();
}

}  // namespace sim::workload
