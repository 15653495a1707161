#include "sim/workload/offload.h"

#include <vector>

#include "sim/workload/tape.h"

namespace sim::workload {
namespace {

// What a layer's forward pass leaves in the layer's slots, and the residual that it was given.
std::vector<Tensor> saved(const Rank& rank) {
  std::vector<Tensor> saved;
  for (const Tensor& t : rank.layer_tape->tensors)
    if (t.holders > 0 && t.slot.space == Space::layer && t.slot.index >> layers_on_bits == 0)
      saved.push_back(t);
  return saved;
}

}  // namespace

std::uint32_t Offload::away() {
  if (away_ < 0) {
    Emitter e(rank_.tables, "offload of a layer");
    for (const Tensor& t : saved(rank_)) e.free(t.slot);
    away_ = e.finish();
  }
  return static_cast<std::uint32_t>(away_);
}

std::uint32_t Offload::back() {
  if (back_ < 0) {
    Emitter e(rank_.tables, "reload of a layer");
    for (const Tensor& t : saved(rank_)) e.alloc(t.slot, t.bytes, t.category, t.label);
    back_ = e.finish();
  }
  return static_cast<std::uint32_t>(back_);
}

}  // namespace sim::workload
