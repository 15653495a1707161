// attention.h — self-attention of a layer: the module, and the cores that it may have.
//
//     norm, qkv | rotary embedding | core | projection, reduction
//
// A core takes query, key and value to the attention output and back: one fused kernel
// (attention.cpp), scores and softmax in memory (unfused.cpp), or what context-parallel ranks do
// together: a ring (ring.cpp), PyTorch's (torch_ring.cpp), gathered keys (gathered.cpp), heads for
// sequence (ulysses.cpp), both levels of yunchang (usp.cpp). INVENTORY.md sections 1 to 4, 14, 30
// and 31 have a line per tensor.
#pragma once

#include <cstdint>

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// What a core is given: tensors of their own, or 0 for views of qkv's output.
struct CoreInputs {
  Value mixed, query, key, value = 0;
};

// Filling scores where a mask of [1, 1, s, s] says so: the mask's address is computed for every
// element, which takes as long as this many bytes of a softmax, on GH200 (13) and on A100 (11 and
// 16, forward and backward) [eth-easl/sailor Aceso/profiler/{A100-40,GH-96}/profiled-data-fp32:
// enc-attention-softmax, less the passes of scaling, softmax and the clone].
inline constexpr std::int64_t masking_bytes = 13;

// Facts of a plan that decide who holds what.
struct CoreTraits {
  explicit CoreTraits(const Rank& rank);

  bool unfused;        // scores and softmax in memory
  bool selective;      // the core runs again in the backward pass; its arguments are saved
  bool repeats;        // unfused with grouped queries: keys and values are copied for every head
  bool own_query;      // rotated, or copied because the groups interleave
  bool own_key;        // rotated
  bool saves_view;     // the core itself saves views of qkv's output
  bool turns;          // the core's output has the batch first, the projection's input has not
  bool copies_output;  // the projection saves a copy of attention's output
  bool fused_softmax;  // apex' kernel: works in place in the backward pass and needs no mask
  bool saves_mixed() const { return selective || saves_view; }
};

// From the residual stream to the projection's sum over the ranks.
Value self_attention(Writer& w);
Value latent_attention(Writer& w);  // latent.cpp

// The cores, from the inputs to the attention output; they record their way back, from its
// gradient to those of query, key and value.
Value fused_core(Writer& w, const CoreInputs& in);
Value ring_core(Writer& w, const CoreInputs& in);  // of one level or two
Value gathered_core(Writer& w, const CoreInputs& in);
Value ulysses_core(Writer& w, const CoreInputs& in);
Value usp_core(Writer& w, const CoreInputs& in);
Value torch_ring_core(Writer& w, const CoreInputs& in);
// The one of the plan's context. REQUIRES: cp > 1.
Value shared_core(Writer& w, const CoreInputs& in);
Value unfused_core(Writer& w, const CoreInputs& in);

// What the cores share.
// TransformerEngine's module: q, k, v with the batch first; those not given are made. The value is
// the core's to drop either way.
struct Layouts {
  Value query, key, value;
  bool made_query, made_key;
};
Layouts make_layouts(Writer& w, const CoreInputs& in);
// Keys and values of grouped heads are copied for every query head (Plan::repeat_kv).
bool repeats_heads(const Rank& rank);
// The value is what a layer whose operators run again makes the copies of, 0 in others; the core
// saves it.
Value repeat_heads(Writer& w, Layouts& layouts);
// Their gradients, where dk is 0 both in one tensor, summed over the copies.
Gradients sum_repeated(Writer& w, Gradients gradients);
// One fused kernel over so many queries and keys, of so many heads.
struct Scores {
  std::int64_t query, key;
  bool causal;
  std::int64_t heads, groups;
};
// All of a rank's own tokens and heads; of a slice, also the tokens in front of it.
inline Scores own_scores(const Dimensions& dim) {
  return {dim.local, dim.local + dim.prefix, true, dim.heads, dim.groups};
}
void attention_kernel(Writer& w, bool backward, const Scores& scores,
                      Stream stream = Stream::compute);
// FlashAttention-2 without atomics (StackPlan::deterministic): as many blocks for each head as fill
// the GPU, each with a dQ of its own; 1 elsewhere [flash_bwd_launch_template.h:
// run_flash_bwd_seqk_parallel; flash_api.cpp: mha_varlen_bwd, nsplits].
std::int64_t dq_splits(const Writer& w, std::int64_t heads);
// That many take a head's place in the kernel's backward pass.
void split_dq(const Writer& w, model::Operation& backward);
// What its conversion of dQ reads besides the first one's bytes, which are the kernel's own.
void sum_of_splits(Writer& w, std::int64_t splits, std::int64_t bytes, Stream stream);
// fp32 accumulators and row sums that live inside one backward kernel call, around `kernel`.
void backward_kernel(Writer& w, const Scores& scores, Stream stream = Stream::compute);
// Of the keys of so many tokens.
std::int64_t key_bytes(const Dimensions& dim, std::int64_t tokens);
// Row statistics: one fp32 number a query and head.
std::int64_t statistics_bytes(const Dimensions& dim);

}  // namespace sim::program
