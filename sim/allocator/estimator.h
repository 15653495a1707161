// estimator.h — the closed-form memory estimate of Fujii et al. for one GPU of the first stage.
//
// The room `answer` prints it next to the replayed memory; neither number influences the other. The
// formula is that of the authors' released estimator with all its quirks: results are equal to the
// bit. It ignores temporary tensors, fragmentation, NCCL and the CUDA context. The authors' 80 %
// rule allows for these.
//
// Source: Fujii, Watanabe, Yokota, "Accelerating Large Language Model Training with 4D Parallelism
// and Memory Consumption Estimator", arXiv:2411.06465, and the authors' estimator of November 2024.
#pragma once

#include <cstdint>
#include <optional>

namespace sim::allocator {

// The inputs, with the paper's symbols at the right.
struct EstimatorInput {
  std::int64_t layers = 0;                   // L
  std::int64_t hidden = 0;                   // h
  std::int64_t heads = 0;                    // a
  std::int64_t kv_heads = 0;                 // k
  std::int64_t ffn = 0;                      // f
  std::int64_t vocabulary = 0;               // v; padded or not is the caller's choice
  std::int64_t sequence = 0;                 // s
  std::int64_t microbatch = 0;               // b
  int tensor_parallel = 1;                   // t
  int context_parallel = 1;                  // c
  int pipeline_parallel = 1;                 // p
  int data_parallel = 1;                     // d
  std::optional<int> virtual_stages;         // model chunks of a rank (interleaved schedule)
  std::optional<std::int64_t> microbatches;  // m, of one pipeline in one step
  int gradient_bytes = 4;                    // per parameter; 4: gradients are fp32
  bool distributed_optimizer = true;         // optimizer state is sharded over d * c ranks
};

// Bytes on one GPU of the first stage.
struct Estimate {
  double params_first_stage = 0.0;      // number of parameters (no bytes)
  double weight_optimizer_bytes = 0.0;  // weights, gradients, optimizer states
  double activation_bytes = 0.0;
  double total = 0.0;
};

// Parameters of the whole model. REQUIRES: every dimension > 0.
double parameter_count(const EstimatorInput& input);

// The estimate. REQUIRES: every dimension and degree > 0.
Estimate estimate(const EstimatorInput& input);

// The authors' rule: the estimate in GiB is at most 80 % of the number in the GPU's product name
// (94 or 40). The rule compares GiB with that number although it means GB.
bool fits_by_80_percent_rule(const Estimate& estimate, double gpu_marketing_gb);

}  // namespace sim::allocator
