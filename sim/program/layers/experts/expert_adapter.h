// expert_adapter.h — a low-rank adapter beside a product of the local experts: one for all of them,
// over all their rows, whose gradients the ranks of the experts sum before those that hold the same
// experts do:
//
//     a = A x [R, r];  b = B a [R, n];  out + s b
//
// [NVIDIA-NeMo/Megatron-Bridge peft/lora.py: share_expert_adapters; peft/utils.py:
// ParallelLinearAdapter; INVENTORY.md section 19]
#pragma once

#include "sim/program/layers/experts/mixture.h"

namespace sim::program {

struct ExpertAdapter {
  bool up = true;               // beside the product up, else the product down
  Value input = 0, narrow = 0;  // 0: there is none

  // Adds to the product's output, whose name goes to the sum. `input` is saved.
  void forward(Writer& w, std::int64_t rows, Value read, Value& out);
  // From the gradient of the output, which stays, to that of the input, 0 where there is none.
  Value back(Writer& w, std::int64_t rows) const;
};

ParameterList expert_adapter_parameters(const Rank& rank);

}  // namespace sim::program
