// loader.h — the time that a step waits for its data loaders.
//
// The engines call it in every step of a job whose loaders take time.
//
// The model. Every rank that reads data has worker processes of its own (PyTorch's DataLoader).
// Worker i mod `workers` makes batch i. It starts when the training process has taken the batch
// that is workers x prefetch_factor earlier. The CPU requests the next batch while the GPU runs the
// backward pass. All replicas synchronize in every microbatch, because the ranks of Megatron-LM
// report each loss to each other. A microbatch therefore starts when the slowest replica has its
// data. With samples of different cost, more replicas wait longer, even if the mean loader is
// faster than the GPU.
//
// The cost of a sample. With --reset-attention-mask a worker writes a mask of sequence x sequence
// numbers for each sample. It then clears one rectangle for each document that ends in the sample.
// Without that option the mask is made once and kept. [Megatron-LM core 0.8,
// megatron/core/datasets/gpt_dataset.py:_get_ltor_masks_and_position_ids]
//
// Invariants: the same loaders and step give the same wait. Without loaders there is no wait. A
// wait is never negative.
#pragma once

#include <map>
#include <mutex>

#include "sim/base/units.h"

namespace sim::engine {

// The loaders of a job.
struct LoaderTimes {
  Duration sequence{};  // a worker's time for one typical sequence; 0: data is never late
  // Sequences of many short documents: their share of all sequences, and the mean of their extra
  // time. The extra time has an exponential distribution, in units of `sequence`.
  double many_documents = 0, many_documents_extra = 0;
  int workers = 1;       // of one rank
  int sequences = 1;     // of one microbatch
  int microbatches = 1;  // of one step
  int replicas = 1;
  int in_flight = 1;  // microbatches by which a replica may be ahead of the slowest
};

// The extra time of a step of length `step` because its data is late. A simulation with a fixed
// seed; its sampling error is 1 to 2 %.
Duration wait_for_data(const LoaderTimes& loaders, Duration step);

// The same with a cache by step length: ranks with equal steps share the result. Thread-safe.
class DataWaits {
 public:
  explicit DataWaits(const LoaderTimes& loaders) : loaders_(loaders) {}
  Duration operator()(Duration step);

 private:
  const LoaderTimes& loaders_;
  std::mutex mutex_;
  std::map<Duration, Duration> known_;  // wait by step length
};

}  // namespace sim::engine
