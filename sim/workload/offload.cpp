#include "sim/workload/offload.h"

#include <utility>

namespace sim::workload {

void Offload::find_saved(std::uint32_t forward_block) {
  if (!saved_.empty()) return;
  std::map<std::pair<Space, std::uint32_t>, Instruction> live;
  for (const Instruction& i : rank_.program.blocks[forward_block].code) {
    if (i.op == Op::alloc) live[{i.space, i.index}] = i;
    if (i.op == Op::free) live.erase({i.space, i.index});
    if (i.op != Op::move) continue;
    auto tensor = live.extract({i.space, i.index});
    if (tensor.empty()) continue;
    tensor.key() = {static_cast<Space>(i.value >> 32), static_cast<std::uint32_t>(i.value)};
    live.insert(std::move(tensor));
  }
  for (const auto& [slot, made] : live) {
    if (slot.first != Space::layer) continue;
    if (slot.second < layer_slot_count) saved_[slot.second] = made;
    if (slot.second == input + layer_slot_count) saved_[input] = made;  // the next layer's is alike
  }
}

std::uint32_t Offload::away() {
  if (away_ < 0) {
    Emitter e(rank_.tables, "offload of a layer");
    for (const auto& [slot, made] : saved_) e.free({Space::layer, slot});
    away_ = e.finish();
  }
  return static_cast<std::uint32_t>(away_);
}

std::uint32_t Offload::back() {
  if (back_ < 0) {
    Emitter e(rank_.tables, "reload of a layer");
    for (const auto& [slot, made] : saved_)
      e.alloc({Space::layer, slot}, made.value, made.category, rank_.program.labels[made.label]);
    back_ = e.finish();
  }
  return static_cast<std::uint32_t>(back_);
}

}  // namespace sim::workload
