#include "sim/program/parallel/offload/offload.h"

#include <vector>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {
namespace {

// The tensors that a layer's forward pass saves in its slots, and its input residual; for a
// recomputed layer only the residual.
std::vector<Tensor> saved(const Rank& rank, bool runs_again) {
  if (runs_again)
    return {{layer_slot(LayerSlot::input), true, 1, rank.dim.residual(), Category::activations,
             "residual stream"}};
  const AutogradGraph& graph = *rank.graphs.layer.at(0);
  std::vector<bool> dropped(graph.tensors.size(), false);
  for (const AutogradGraph::Rematerialized& one : graph.rematerialized)
    for (const Value v : one.tensors) dropped[v] = true;
  std::vector<Tensor> saved;
  for (Value v = 1; v < graph.tensors.size(); ++v) {
    const Tensor& t = graph.tensors[v];
    if (t.holders > 0 && !dropped[v] && t.slot.space == Space::layer &&
        t.slot.index >> layers_on_bits == 0)
      saved.push_back(t);
  }
  return saved;
}

}  // namespace

std::optional<int> Offload::behind(int chunk, int layer) const {
  if (layer < 0 || layer >= rank_.layers(chunk) - 1) return {};
  const bool recomputes = rank_.recomputes(layer);
  if (recomputes && !rank_.ends_recomputed_group(chunk, layer)) return {};
  const int first =
      recomputes ? layer / rank_.recomputed_group() * rank_.recomputed_group() : layer;
  return rank_.plan.policy.swaps(first) ? std::optional(first) : std::nullopt;
}

std::optional<int> Offload::swapped_below(int chunk, int layer) const {
  for (int below = layer - 1; below >= 0; --below)
    if (behind(chunk, below)) return below;
  return {};
}

std::optional<int> Offload::before(int chunk, int layer) const {
  if (rank_.plan.policy.choices.empty()) return behind(chunk, layer - 1);
  if (behind(chunk, layer) || layer + 1 == rank_.layers(chunk)) return swapped_below(chunk, layer);
  return {};
}

template <class Write>
std::uint32_t Offload::block(Move move, int layer, const char* name, Write write) {
  const bool recomputes = rank_.recomputes(layer);
  const auto [it, added] = blocks_.try_emplace({move, recomputes}, 0);
  if (!added) return it->second;
  Emitter e(rank_.tables, name);
  write(e, saved(rank_, recomputes));
  return it->second = e.finish();
}

namespace {

// Copies all tensors of a layer, after all work that the GPU has received so far.
void copy(Emitter& e, const std::vector<Tensor>& tensors, Stream way, std::uint16_t event) {
  std::int64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += t.bytes;
  e.record(computed_event);
  e.wait(computed_event, way);
  e.memory_bound(model::OperationKind::host_copy,
                 way == Stream::pcie_up ? "activations up" : "activations down", bytes, 0, way);
  e.record(event, way);
}

}  // namespace

std::uint32_t Offload::down(int layer) {
  return block(down_, layer, "copy of a layer to the CPU",
               [](Emitter& e, const std::vector<Tensor>& tensors) {
                 copy(e, tensors, Stream::pcie_down, offload_event);
               });
}

std::uint32_t Offload::wait_down(int layer) {
  return block(wait_down_, layer, "offload of a layer",
               [](Emitter& e, const std::vector<Tensor>& tensors) {
                 e.wait(offload_event);
                 for (const Tensor& t : tensors) e.free(t.slot);
               });
}

std::uint32_t Offload::up(int layer) {
  return block(up_, layer, "reload of a layer", [](Emitter& e, const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors) e.alloc(t.slot, t.bytes, t.category, t.label);
    copy(e, tensors, Stream::pcie_up, reload_event);
  });
}

std::uint32_t Offload::there(int layer) {
  return block(there_, layer, "layer is back",
               [](Emitter& e, const std::vector<Tensor>&) { e.wait(reload_event); });
}

}  // namespace sim::program
