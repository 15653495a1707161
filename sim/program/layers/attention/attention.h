// attention.h — self-attention of a layer: the module, and its attention cores.
//
//     norm, qkv | rotary embedding | core | projection, reduction
//
// layer.cpp calls self_attention or latent_attention for the first half of every layer. A core goes
// from query, key and value to the attention output. It records a node for its backward pass. The
// plan selects one core:
//
//     fused_core        attention.cpp    one fused kernel (FlashAttention, cuDNN)
//     unfused_core      unfused.cpp      scores and softmax in memory
//     ring_core         ring.cpp         context parallel: TransformerEngine's ring
//     torch_ring_core   torch_ring.cpp   context parallel: PyTorch's ring
//     gathered_core     gathered.cpp     context parallel: all-gather of keys and values
//     ulysses_core      ulysses.cpp      context parallel: all-to-all of sequence for heads
//     usp_core          usp.cpp          context parallel: yunchang's two levels
//
// All cores allocate the attention output, and leave it to their caller. INVENTORY.md sections 1 to
// 4, 14, 30 and 31 list every tensor with its source.
#pragma once

#include <cstdint>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// Inputs of a core. `mixed`: the output of the qkv product. query, key, value: separate tensors, or
// 0 for views of `mixed`.
struct CoreInputs {
  Value mixed, query, key, value = 0;
};

// Cost of masked_fill with a mask of [1, 1, s, s], in bytes of memory traffic per score. The kernel
// computes the address in the mask for each element. It takes as long as a softmax pass over 13
// bytes on GH200. On A100 it takes as long as 11 bytes forward and 16 backward.
// [eth-easl/sailor Aceso/profiler/{A100-40,GH-96}/profiled-data-fp32: enc-attention-softmax, less
// the passes of scaling, softmax and the clone].
inline constexpr std::int64_t masking_bytes = 13;

// Properties of a plan that decide which tensors attention makes and saves.
struct CoreTraits {
  explicit CoreTraits(const Rank& rank);

  bool unfused;        // scores and softmax in memory
  bool selective;      // the core is recomputed in the backward pass; its arguments are saved
  bool repeats;        // unfused with grouped queries: keys and values are copied for every head
  bool own_query;      // rotated, or copied because the groups interleave
  bool own_key;        // rotated
  bool saves_view;     // the core itself saves views of qkv's output
  bool value_is_view;  // the value alone is a view of qkv's output, which therefore stays
  bool turns;          // core output is batch-first, projection input is sequence-first
  bool copies_output;  // the projection saves a copy of attention's output
  bool fused_softmax;  // apex' kernel: works in place in the backward pass and needs no mask
  bool saves_mixed() const { return selective || saves_view || value_is_view; }
};

// The first half of a layer: returns the projection's output, summed over the tensor-parallel
// ranks. latent_attention: multi-head latent attention (MLA).
Value self_attention(Writer& w);
Value latent_attention(Writer& w);  // latent.cpp

// The cores. Each returns the attention output. Its node goes from the gradient of the output to
// the gradients of query, key and value.
Value fused_core(Writer& w, const CoreInputs& in);
Value ring_core(Writer& w, const CoreInputs& in);  // of one level or two
Value gathered_core(Writer& w, const CoreInputs& in);
Value ulysses_core(Writer& w, const CoreInputs& in);
Value usp_core(Writer& w, const CoreInputs& in);
Value torch_ring_core(Writer& w, const CoreInputs& in);
// The core of the plan's context-parallel method. REQUIRES: cp > 1.
Value shared_core(Writer& w, const CoreInputs& in);
Value unfused_core(Writer& w, const CoreInputs& in);

// Shared steps of the cores.
//
// Query, key and value in the layout of the kernel, as TransformerEngine's module makes them.
// make_layouts allocates those that `in` lacks. The core drops `value` in either case; it drops
// query and key only if they were made.
struct Layouts {
  Value query, key, value;
  bool made_query, made_key;
};
Layouts make_layouts(Writer& w, const CoreInputs& in);
// Keys and values of grouped heads are copied for every query head (Plan::repeat_kv).
bool repeats_heads(const Rank& rank);
// Makes the copies. Returns the tensor from which recomputation makes them again, saved for that;
// 0 if operators are not recomputed. The core's node drops it.
Value repeat_heads(Writer& w, Layouts& layouts);
// The gradients of keys and values, summed over the copies.
Gradients sum_repeated(Writer& w, Gradients gradients);
// Shape of one fused attention kernel: numbers of queries, keys, heads and query groups.
struct Scores {
  std::int64_t query, key;
  bool causal;
  std::int64_t heads, groups;
};
// All tokens and heads of a rank. The keys of a slice include those of the earlier slices.
inline Scores own_scores(const Dimensions& dim) {
  return {dim.local, dim.local + dim.prefix, true, dim.heads, dim.groups};
}
// Writes only the kernel; the caller has allocated its tensors.
void attention_kernel(Writer& w, bool backward, const Scores& scores,
                      Stream stream = Stream::compute);
// Number of copies of dQ in a backward kernel. FlashAttention-2 without atomics
// (StackPlan::deterministic) runs as many blocks per head as fill the GPU, each with its own dQ.
// All other cases return 1.
// [flash_bwd_launch_template.h: run_flash_bwd_seqk_parallel; flash_api.cpp: mha_varlen_bwd,
// nsplits]
std::int64_t dq_splits(const Writer& w, std::int64_t heads);
// Sets the number of blocks of a backward operation according to dq_splits.
void split_dq(const Writer& w, model::Operation& backward);
// The kernel that sums the copies of dQ. `bytes`: one copy; the first is counted in the kernel.
void sum_of_splits(Writer& w, std::int64_t splits, std::int64_t bytes, Stream stream);
// The backward kernel, with the fp32 accumulators and row sums that live only during its call.
void backward_kernel(Writer& w, const Scores& scores, Stream stream = Stream::compute);
// Bytes of the keys of `tokens` tokens of each sequence, on this rank.
std::int64_t key_bytes(const Dimensions& dim, std::int64_t tokens);
// Bytes of the row statistics (log-sum-exp): one fp32 number per query and head.
std::int64_t statistics_bytes(const Dimensions& dim);

}  // namespace sim::program
