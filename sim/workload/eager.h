// eager.h — PyTorch's own kernels, where a plan runs no fused ones (Plan::layer_kernels): norms,
// the optimizer tensor by tensor, cross entropies that only a log wants.
//
// [PyTorch 2.1 aten/src/ATen/native/cuda/layer_norm_kernel.cu, torch/nn/functional.py;
// mosaicml/composer 0.16 optim/decoupled_weight_decay.py, metrics/nlp.py, trainer/trainer.py]
#pragma once

#include <cstdint>

#include "sim/workload/rank.h"

namespace sim::workload {

// Kernels of one norm over the residual stream; the output has `output_bytes`.
void norm_forward_kernels(Rank& rank, Emitter& e, std::int64_t output_bytes, std::uint8_t flags);
void norm_backward_kernels(Rank& rank, Emitter& e);

// Adam as PyTorch's operators on one tensor of `elements` fp32 numbers.
void adam_by_operators(Emitter& e, std::int64_t elements);

// Cross entropies of the microbatch's logits without gradients: cast, log-softmax, loss.
void logit_metrics(Rank& rank, Emitter& e);

}  // namespace sim::workload
