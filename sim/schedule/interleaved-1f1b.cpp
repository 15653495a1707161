// interleaved-1f1b.cpp — 1F1B over v model chunks per stage: the bubble is v times smaller.
//
// Microbatches go round in groups of p: a group runs chunk 0, then chunk 1, ... so that a stage is
// busy with chunk c while the group's chunk c results come round the ring. Numbering the m v passes
// of one direction i = 0, 1, ...:
//
//     forward  i: microbatch p (i div pv) + i mod p, chunk (i mod pv) div p
//     backward i: the same microbatch,               chunk v - 1 - (i mod pv) div p
//
// Stage s runs 2(p - s - 1) + (v - 1)p forwards to fill the pipeline (all m v of them when m = p),
// then alternates forward and backward, then drains.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021 (arXiv:2104.04473), section 2.2. The order, including the case m = p, is
// the one that Megatron-LM core 0.8 runs (forward_backward_pipelining_with_interleaving).
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sim/schedule/schedule.h"

namespace sim::schedule {
namespace {

Step nth(const Shape& shape, Pass pass, int i) {
  const int group = shape.stages * shape.chunks;
  const int chunk = i % group / shape.stages;
  return {pass, i / group * shape.stages + i % shape.stages,
          pass == Pass::forward ? chunk : shape.chunks - 1 - chunk};
}

}  // namespace

Order interleaved_one_f_one_b(const Shape& shape, int stage) {
  const int total = shape.microbatches * shape.chunks;
  const int fill = 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages;
  const int warmup = shape.microbatches == shape.stages ? total : std::min(fill, total);

  Order order;
  order.reserve(2 * static_cast<std::size_t>(total));
  for (int i = 0; i < warmup; ++i) order.push_back(nth(shape, Pass::forward, i));
  for (int i = warmup; i < total; ++i) {
    order.push_back(nth(shape, Pass::forward, i));
    order.push_back(nth(shape, Pass::backward, i - warmup));
  }
  for (int i = total - warmup; i < total; ++i) order.push_back(nth(shape, Pass::backward, i));
  return order;
}

}  // namespace sim::schedule
