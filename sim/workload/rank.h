// rank.h — one pipeline rank while its program is being written: its dimensions, its slots, its
// parameters. forward.cpp, backward.cpp, ends.cpp, sharding.cpp and pipeline.cpp add to it.
//
// Letters in comments: S local sequence (s/c), b microbatch, h hidden, f FFN width, a heads, d head
// size, k = query groups x d, v padded vocabulary, t c p D = tensor, context, pipeline, data
// degree, U = 2 S b h bytes. "shard" = tokens of this rank between tensor-parallel regions.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/build.h"
#include "sim/workload/emit.h"
#include "sim/workload/parameter.h"
#include "sim/workload/plan.h"

namespace sim::workload {

struct Dimensions {
  explicit Dimensions(const Plan& plan);

  std::int64_t element;        // bytes of an activation
  std::int64_t batch;          // b
  std::int64_t sequence;       // s, whole
  std::int64_t local;          // S
  std::int64_t tokens;         // S b
  std::int64_t shard;          // tokens / t with sequence parallel, else tokens
  std::int64_t hidden;         // h
  std::int64_t query;          // a d / t
  std::int64_t key_value;      // k / t
  std::int64_t heads, groups;  // per tensor-parallel rank
  std::int64_t head_dim;       // d
  std::int64_t ffn;            // f / t
  std::int64_t up;             // width of fc1's output: 2 f / t with SwiGLU, else f / t
  std::int64_t vocab;          // v / t
  std::int64_t tp, cp, pp, dp;

  std::int64_t full() const { return element * tokens * hidden; }     // U
  std::int64_t residual() const { return element * shard * hidden; }  // U/t with SP
  std::int64_t mixed_width() const { return query + 2 * key_value; }  // of qkv's output
  std::int64_t rows(std::int64_t width) const { return element * tokens * width; }
  std::int64_t scores() const { return element * batch * heads * local * local; }
};

// Slots of a frame outside the layers.
enum FrameSlot : std::uint32_t {
  ids,
  position_ids,
  labels,
  loss_mask,
  attention_mask,
  rotary,
  embedding_mask,
  embedding_ids,
  embedding_dropout,
  final_norm_out,
  final_norm_rsigma,
  final_norm_mu,
  softmax,
  target_mask,
  target_ids,
  gradient,
  incoming_gradient,
  output_stub,
  loss,
  frame_slot_count,
};

// Slots of one layer in a frame. `input` is the residual stream; the next layer's `input` is this
// layer's output.
enum LayerSlot : std::uint32_t {
  input,
  norm1,
  rsigma1,
  mu1,
  query_rotated,
  key_rotated,
  value_copy,
  mixed_saved,    // qkv's output, where a view of it is saved
  keys_of_heads,  // keys repeated for the heads of a group
  key_value_ring,
  rope_tables,
  scores_softmax,
  scores_mask,
  scores_dropped,
  attention_out,
  log_sum_exp,
  rng_state,
  projection_input,
  dropout1,
  middle,
  norm2,
  rsigma2,
  mu2,
  fc1_out,
  swiglu_gate,
  fc2_in,
  dropout2,
  weight_copy,  // autocast's
  // Kept from B to W where the schedule splits the backward pass.
  weight_fc2,
  weight_fc1,
  weight_projection,
  weight_qkv,
  // Adapters: their inputs where those are tensors of their own, and their narrow outputs.
  adapter_qkv_in,
  adapter_fc1_in,
  adapter_qkv_down,
  adapter_projection_down,
  adapter_fc1_down,
  adapter_fc2_down,
  layer_slot_count,
};

// Fixed slots with a name; parameters, buffers and optimizer state follow them.
enum FixedSlot : std::uint32_t {
  output,
  sent_gradient,
  received_gradient,
  engine_workspace,
  blas_workspace_forward,
  blas_workspace_backward,
  global_buffer,
  // TransformerEngine 2's dummy gradients.
  handle_fc2,
  handle_fc1,
  handle_projection,
  handle_qkv,
  fixed_slot_count,
};

// Attention uses the upper ones, five for each step of the ring.
constexpr std::uint32_t local_slot_count = 320;

inline Slot frame_slot(FrameSlot s) {
  return {Space::microbatch, s};
}
inline Slot layer_slot(LayerSlot s, std::uint32_t layers_on = 0) {
  return {Space::layer, s + layers_on * layer_slot_count};
}
inline Slot fixed_slot(std::uint32_t s) {
  return {Space::fixed, s};
}
inline Slot local_slot(std::uint32_t s) {
  return {Space::local, s};
}

// Events: a stream waits for the end of what recorded them last.
enum Event : std::uint8_t {
  no_event,
  gather_event,
  scatter_event,
  parameter_event,
  bucket_event,
  send_forward_event,
  receive_forward_event,
  send_backward_event,
  receive_backward_event,
  cp_ring_event,  // + step of the ring
  // Parameters in shards: FSDP1's free events of both passes, gathers in flight, and one each.
  free_forward_event = cp_ring_event + max_context_parallel + 1,
  free_backward_event = free_forward_event + 5,
  unit_event = free_backward_event + 6,
  order_event = unit_event + 8,
  copied_event,
  reduced_event,
};
constexpr int free_forward_events = free_backward_event - free_forward_event;
constexpr int free_backward_events = unit_event - free_backward_event;
constexpr int unit_events = order_event - unit_event;

// Local slots of adapters, beside those of the passes and below those of attention.
constexpr std::uint32_t adapter_local_slot = 40;

// Products that may have an adapter.
enum class Module : std::uint8_t { qkv, projection, fc1, fc2 };

class Sharding;

// What the rank's blocks share while they are written.
struct Rank {
  Rank(const Plan& plan, const Environment& environment, Program& program);

  const Plan& plan;
  const Environment& environment;
  Dimensions dim;
  Program& program;
  Tables tables;
  Sharding* sharding = nullptr;

  bool is_first_part(int chunk) const { return program.stage == 0 && chunk == 0; }
  bool is_last_part(int chunk) const {
    return program.stage == plan.pp - 1 && chunk == plan.virtual_stages - 1;
  }
  int layers(int chunk) const { return plan.chunk_layers(program.stage, chunk); }
  // Tensors have the batch first, as DTensor's have.
  bool batch_first() const { return plan.shards_parameters(); }
  // Whether layer `layer` of a chunk is run again in the backward pass, and whether a group of
  // layers that are run again together ends with it.
  bool recomputes(int layer) const;
  int recomputed_group() const;
  bool ends_recomputed_group(int chunk, int layer) const {
    return layer == layers(chunk) - 1 || (layer + 1) % recomputed_group() == 0;
  }
  bool adapts(Module module) const;
  // The adapter of a column-parallel product reads the norm's output itself, which then is kept.
  bool adapter_reads_norm(Module module) const {
    return adapts(module) && !plan.uses_sequence_parallel() && !plan.fp8;
  }
  // Whether the projection saves its input: a frozen one saves none, its adapter 16-bit rows, which
  // in fp8 with one sequence are attention's own.
  bool keeps_projection_input() const {
    return !plan.trains_adapters() ||
           (adapts(Module::projection) && !(plan.fp8 && plan.micro_batch == 1));
  }
  bool recomputes_mlp() const {
    return plan.recompute == Recompute::selective && plan.recompute_modules.mlp;
  }
  bool recomputes_operators() const {
    return plan.recompute == Recompute::selective && plan.recompute_modules.operators;
  }
  // Bytes of what the layers' products read: of a tensor of activations, one byte an element in
  // fp8.
  std::int64_t operand(std::int64_t bytes) const { return plan.fp8 ? bytes / dim.element : bytes; }
  std::uint32_t new_fixed() { return program.fixed_slots++; }
};

// What the core of attention is given, tensors of their own or views of qkv's output, and what is
// saved for its backward pass.
struct CoreInputs {
  explicit CoreInputs(const Rank& rank);

  bool unfused;        // scores and softmax in memory
  bool selective;      // the core runs again in the backward pass; its arguments are saved
  bool repeats;        // unfused with grouped queries: keys and values are copied for every head
  bool own_query;      // rotated, or copied because the groups interleave
  bool own_key;        // rotated
  bool saves_mixed;    // the value (at least) is saved as a view of qkv's output
  bool copies_output;  // the projection saves a copy of attention's output
  bool fused_softmax;  // apex' kernel: works in place in the backward pass and needs no mask
  // The projection alone holds its input in the backward pass and clears it by hand.
  bool projection_holds() const { return copies_output || selective || unfused; }
};

// Which variant of a block is wanted.
struct Variant {
  bool keep = true;               // forward: tensors for backward are kept
  bool first_use = false;         // library workspaces and gradient handles come into being
  bool recompute = false;         // forward: runs inside a backward pass
  bool holds_gradient = false;    // backward: the incoming gradient is also held by Python
  bool split = false;             // backward: weight gradients come in a pass of their own
  bool first_microbatch = false;  // weight gradients overwrite main_grad instead of adding to it
  bool hooks = false;             // parameters are being gathered, or gradients reduced
  Unit unit;
};

// forward.cpp: one layer, from Space::layer's `input` to the next layer's `input`.
std::uint32_t layer_forward(Rank& rank, const Variant& variant);
// The MLP of a layer once more, keeping what its backward pass needs; its output, which nobody
// reads, is left in local slot `output_slot`.
void mlp_recompute(Rank& rank, Emitter& e, std::uint32_t output_slot);
// backward.cpp: one layer; the gradient stream is the frame's `gradient`.
std::uint32_t layer_backward(Rank& rank, const Variant& variant);
std::uint32_t layer_weight(Rank& rank, const Variant& variant);

// operators.cpp: at the end of a layer's forward pass, and at the begin of its backward pass.
void drop_recomputed_operators(Rank& rank, Emitter& e);
void recompute_operators(Rank& rank, Emitter& e);

// lora.cpp: what an adapter adds to the output of its product in `out`, and back: the gradient of
// its input is left in local slot `adapter_gradient`.
void adapter_forward(Rank& rank, Emitter& e, const Variant& variant, Module module, Slot out);
void adapter_backward(Rank& rank, Emitter& e, const Variant& variant, Module module);
constexpr std::uint32_t adapter_gradient = adapter_local_slot;
// The layer's slot of an adapter's input where it is a tensor of the adapter's own.
LayerSlot adapter_input(Module module);

// attention.cpp: from q, k, v in their slots to attention_out, and back.
void attention_forward(Rank& rank, Emitter& e, const Variant& variant);
// From the gradient of attention_out to three local slots dq, dk, dv. `keep_output`: attention_out
// moves to projection_input for the weight pass.
void attention_backward(Rank& rank, Emitter& e, bool keep_output, std::uint32_t dq,
                        std::uint32_t dk, std::uint32_t dv);

// embedding.cpp
std::uint32_t embedding_forward(Rank& rank, const Variant& variant);
std::uint32_t embedding_backward(Rank& rank, const Variant& variant);

// ends.cpp
std::uint32_t batch_begin(Rank& rank, int chunk);                // data and rotary table
std::uint32_t batch_end(Rank& rank, int chunk);                  // forward_step returns
std::uint32_t head_forward(Rank& rank, const Variant& variant);  // norm, logits, loss
std::uint32_t head_backward(Rank& rank, const Variant& variant);
std::uint32_t microbatch_end(Rank& rank, int chunk);  // what a frame still holds after backward

}  // namespace sim::workload
