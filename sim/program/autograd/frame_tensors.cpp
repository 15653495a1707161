#include "sim/program/autograd/frame_tensors.h"

namespace sim::program {

void FrameTensors::run(const Call& call) {
  for (const Instruction& i : program_.blocks[call.block].code) {
    const Slot slot{i.space, i.index};
    if (i.op == Op::alloc) put(call, slot, i.value);
    if (i.op == Op::free) put(call, slot, 0);
    if (i.op == Op::move) put(call, destination(i), put(call, slot, 0));
  }
}

void FrameTensors::run(const Template& pattern) {
  for (const Call& call : pattern.calls) run(call);
}

std::int64_t FrameTensors::put(const Call& call, Slot slot, std::int64_t bytes) {
  if (slot.space == Space::layer) slot = {Space::microbatch, call.layer_base + slot.index};
  std::int64_t& there = held_[{slot.space, slot.index}];
  if (slot.space == Space::microbatch) bytes_ += bytes - there;
  return std::exchange(there, bytes);
}

}  // namespace sim::program
