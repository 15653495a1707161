// loss.h — cross entropy over the sharded vocabulary, the loss report, and logged metrics.
//
// head.cpp calls it after the logits. The plan selects the form of the loss (CrossEntropy): single
// operators of Megatron-LM or PyTorch, compiled steps, TransformerEngine's kernels, or one kernel.
// Megatron-LM's loss report stalls the CPU until the GPU has finished.
//
// The 16-bit logits have L = 2 S b v / t bytes. Megatron-LM's form needs 3 L at the peak of each
// direction. It keeps 2 L (the fp32 softmax) from forward to backward.
//
// [Megatron-LM core/tensor_parallel/cross_entropy.py; INVENTORY.md sections 6 and 7]
#pragma once

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// Bytes of this rank's logits in the precision of the model, and in fp32.
std::int64_t logits_bytes(const Dimensions& dim);
std::int64_t wide_bytes(const Dimensions& dim);
// `widen` writes the kernel of `logits.float()`. `widens` is false if logits are in fp32 already.
bool widens(const Writer& w);
void widen(Writer& w);
// The gradient of the logits, from the gradient of the fp32 logits, which is dropped.
Value narrow(Writer& w, Value wide);
// Returns the losses of the tokens; the caller drops them. The node returns the gradient of the
// logits.
Value cross_entropy(Writer& w, Value logits);
// Masked mean of the losses, the all-reduce of the report, and the reads that stall the CPU
// [pretrain_gpt.py:loss_func].
void report_loss(Writer& w);
// One report at the end of the step, for replicas with different numbers of microbatches
// (replicas.h).
void report_step(Rank& rank, Emitter& e);
// Metrics of one microbatch, without gradients: cast, log-softmax and loss of its logits
// [mosaicml/composer 0.16 metrics/nlp.py, trainer/trainer.py].
void logit_metrics(Writer& w);

// One memory-bound kernel of a softmax that reads and writes `bytes`.
void softmax_pass(Writer& w, std::string_view name, std::int64_t bytes);
// All-reduce of `numbers` fp32 values per token, over the tensor-parallel group.
void reduce_rows(Writer& w, std::string_view label, std::int64_t numbers = 1);

}  // namespace sim::program
