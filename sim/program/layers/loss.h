// loss.h — cross entropy over the vocabulary's shards, of Megatron-LM, of one fused kernel or of
// PyTorch, and what follows from it: the report that stalls the CPU, metrics for a log.
//
// L = 2 S b v / t bytes, the 16-bit logits: Megatron-LM's holds 3 L at its top in both directions
// and 2 L (the fp32 softmax) from forward to backward. INVENTORY.md sections 6 and 7.
#pragma once

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

std::int64_t logits_bytes(const Dimensions& dim);
// In fp32: what `.float()` makes of the logits. It makes nothing where they are in fp32 already.
std::int64_t wide_bytes(const Dimensions& dim);
bool widens(const Writer& w);
void widen(Writer& w);
// The gradient of the logits from that of the wide ones, which goes.
Value narrow(Writer& w, Value wide);
// From the logits to the losses of the tokens, which the caller drops; the way back leads to the
// gradient of the logits.
Value cross_entropy(Writer& w, Value logits);
// Masked mean of the losses, what the ranks report to each other, and the reads that stall the CPU
// [pretrain_gpt.py:loss_func].
void report_loss(Writer& w);
// Where replicas do unlike numbers of microbatches (replicas.h) they report once, behind them all.
void report_step(Rank& rank, Emitter& e);
// Cross entropies of the microbatch's logits without gradients: cast, log-softmax, loss
// [mosaicml/composer 0.16 metrics/nlp.py, trainer/trainer.py].
void logit_metrics(Writer& w);

// One memory-bound kernel of a softmax that reads and writes `bytes`.
void softmax_pass(Writer& w, std::string_view name, std::int64_t bytes);
// All-reduce of `numbers` fp32 values per token over the tensor-parallel group.
void reduce_rows(Writer& w, std::string_view label, std::int64_t numbers = 1);

}  // namespace sim::program
