// expert_adapter.h — a low-rank adapter (LoRA) on a product of the local experts.
//
//     a = A x [R, r];  b = B a [R, n];  out + s b
//
// All local experts share one adapter, applied to all their rows R. Gradients are summed first over
// the expert-parallel ranks, then over the ranks that hold the same experts. expert_products.cpp
// calls it.
//
// [NVIDIA-NeMo/Megatron-Bridge peft/lora.py: share_expert_adapters; peft/utils.py:
// ParallelLinearAdapter; INVENTORY.md section 19]
#pragma once

#include "sim/program/layers/experts/mixture.h"

namespace sim::program {

struct ExpertAdapter {
  bool up = true;               // extends fc1 of the experts (up); else fc2 (down)
  Value input = 0, narrow = 0;  // tensors saved for the backward pass; 0: no adapter

  // Adds the adapter's output to `out`, which becomes the sum. Saves `read`, the input.
  void forward(Writer& w, std::int64_t rows, Value read, Value& out);
  // Returns the gradient of the input, 0 without an adapter. The gradient of the output stays.
  Value back(Writer& w, std::int64_t rows) const;
};

ParameterList expert_adapter_parameters(const Rank& rank);

}  // namespace sim::program
