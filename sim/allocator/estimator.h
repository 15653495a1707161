// estimator.h — the closed-form memory estimate of the paper, for one GPU of the first stage.
//
// It is the formula of the authors' released estimator, quirks kept, so that its numbers are
// theirs to the bit. It knows nothing of temporaries, fragmentation, NCCL or the CUDA context; the
// 80 % rule is the authors' allowance for those. It stands beside the replay and is never mixed
// with it.
//
// Source: Fujii, Watanabe, Yokota, "Accelerating Large Language Model Training with 4D Parallelism
// and Memory Consumption Estimator", arXiv:2411.06465, and the authors' estimator of November 2024.
#pragma once

#include <cstdint>
#include <optional>

namespace sim::allocator {

struct EstimatorInput {
  // The paper's symbols: L h a k f v s b, t c p d.
  std::int64_t layers = 0;                   // L
  std::int64_t hidden = 0;                   // h
  std::int64_t heads = 0;                    // a
  std::int64_t kv_heads = 0;                 // k
  std::int64_t ffn = 0;                      // f
  std::int64_t vocabulary = 0;               // v, padded or not, as the authors pass it
  std::int64_t sequence = 0;                 // s
  std::int64_t microbatch = 0;               // b
  int tensor_parallel = 1;                   // t
  int context_parallel = 1;                  // c
  int pipeline_parallel = 1;                 // p
  int data_parallel = 1;                     // d
  std::optional<int> virtual_stages;         // chunks a rank holds under interleaving
  std::optional<std::int64_t> microbatches;  // m, per pipeline
  int gradient_bytes = 4;                    // 4 when gradients are accumulated in fp32
  bool distributed_optimizer = true;         // sharded over d * c
};

struct Estimate {
  double params_first_stage = 0.0;      // parameters on one GPU of the first stage
  double weight_optimizer_bytes = 0.0;  // weights, gradients, optimizer states
  double activation_bytes = 0.0;
  double total = 0.0;
};

// All parameters of the model. REQUIRES: every dimension > 0.
double parameter_count(const EstimatorInput& input);

// REQUIRES: every dimension and degree > 0.
Estimate estimate(const EstimatorInput& input);

// The authors' rule: the estimate in GiB against 80 % of the number in the GPU's name, "94" or
// "40", as plain numbers.
bool fits_by_80_percent_rule(const Estimate& estimate, double gpu_marketing_gb);

}  // namespace sim::allocator
