// loader.h — whether data comes in time: how long a step waits for its data loaders.
//
// Every rank that reads data has worker processes of its own (PyTorch's DataLoader). Worker i mod
// `workers` makes batch i, and starts it when the training process has taken the batch that is
// workers x prefetch before it. The CPU asks for the next batch while the GPU is in the backward
// pass. The replicas meet in every microbatch, because Megatron-LM's ranks report each loss to each
// other: a microbatch begins when the slowest has its data. So samples that differ cost more the
// more replicas there are, long before the loaders are slower than the GPU in the mean.
//
// With --reset-attention-mask a worker writes sequence x sequence numbers for each sample and, for
// each document that ends in it, clears the rectangle behind it [Megatron-LM core 0.8,
// megatron/core/datasets/gpt_dataset.py:_get_ltor_masks_and_position_ids]. Without it the mask is
// made once and kept.
//
// Invariants: the same loaders and step give the same wait; no loaders, no wait; a wait is never
// negative.
#pragma once

#include <map>
#include <mutex>

#include "sim/base/units.h"

namespace sim::engine {

struct LoaderTimes {
  Duration sequence{};  // a worker's, for a sequence of typical documents; 0: data is never late
  // Sequences of many short documents: their share, and what they take beyond `sequence`, in the
  // mean (exponential, in units of `sequence`).
  double many_documents = 0, many_documents_extra = 0;
  int workers = 1;       // of one rank
  int sequences = 1;     // of a microbatch
  int microbatches = 1;  // of a step
  int replicas = 1;
  int in_flight = 1;  // microbatches that a replica may be ahead of the slowest
};

// What a step of `step` takes longer because its data is late.
Duration wait_for_data(const LoaderTimes& loaders, Duration step);

// The same, remembered: ranks that end their steps together ask the same. For several threads.
class DataWaits {
 public:
  explicit DataWaits(const LoaderTimes& loaders) : loaders_(loaders) {}
  Duration operator()(Duration step);

 private:
  const LoaderTimes& loaders_;
  std::mutex mutex_;
  std::map<Duration, Duration> known_;  // by step
};

}  // namespace sim::engine
