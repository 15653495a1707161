// rank.h — one pipeline rank while its program is being written: its dimensions, its named slots
// and events, what its blocks share.
//
// Letters in comments: S local sequence (s/c), b microbatch, h hidden, f FFN width, a heads, d head
// size, k = query groups x d, v padded vocabulary, t c p D = tensor, context, pipeline, data
// degree, U = 2 S b h bytes. "shard" = tokens of this rank between tensor-parallel regions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/program/build/build.h"
#include "sim/program/ir/emit.h"
#include "sim/program/ir/parameter.h"
#include "sim/program/layers/experts/routes.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

struct Dimensions {
  // Of a slice of the sequence, where the schedule has any.
  explicit Dimensions(const Plan& plan, int slice = 0);
  // Of layers: a rank has some columns of the residual stream (MeshPlan::tensor_columns).
  Dimensions of_layers(const Plan& plan) const;

  std::int64_t element;        // bytes of an activation
  std::int64_t batch;          // b
  std::int64_t sequence;       // s, whole, or that of the slice
  std::int64_t prefix;         // tokens of the slices in front, which this one attends to
  std::int64_t local;          // S
  std::int64_t tokens;         // S b
  std::int64_t shard;          // tokens / t with sequence parallel, else tokens
  std::int64_t hidden;         // h
  std::int64_t query;          // a d / t; with tensor_columns t is the rest of the tp ranks
  std::int64_t attended;       // width of attention's output: a d / t, unless values have their own
  std::int64_t key_value;      // k / t
  std::int64_t value;          // width of the values: k / t, unless they have their own
  std::int64_t heads, groups;  // per tensor-parallel rank
  std::int64_t head_dim;       // d
  std::int64_t value_dim;      // of a value: d, unless they have their own
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

// Slots of a frame outside the layers that have a name; graphs are given those behind them.
enum FrameSlot : std::uint32_t {
  ids,
  position_ids,
  labels,
  loss_mask,
  attention_mask,
  rotary,
  gradient,
  incoming_gradient,
  output_stub,
  frame_slot_count,
};

// Slots of one layer in a frame that have a name. `input` is the residual stream; the next layer's
// `input` is this layer's output.
enum LayerSlot : std::uint32_t {
  input,
  weight_copy,  // autocast's
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

// Local slots that blocks without a graph number themselves.
constexpr std::uint32_t local_slot_count = 16;

inline Slot frame_slot(FrameSlot s) {
  return {Space::microbatch, s};
}
// Of this layer or one so many layers on; how many slots a layer has is known when all blocks are
// written (Rank::settle).
constexpr std::uint32_t layers_on_bits = 16;
inline Slot layer_slot(std::uint32_t s, std::uint32_t layers_on = 0) {
  return {Space::layer, s | layers_on << layers_on_bits};
}
// A layer's slot from so many layers above.
constexpr std::uint32_t most_layers_back = 256;
inline Slot seen_from_above(Slot slot, int layers) {
  return {slot.space, slot.index - (static_cast<std::uint32_t>(layers) << layers_on_bits)};
}
inline Slot fixed_slot(std::uint32_t s) {
  return {Space::fixed, s};
}
inline Slot local_slot(std::uint32_t s) {
  return {Space::local, s};
}
// Of a layer's slots in a frame, until Rank::settle.
constexpr std::uint32_t layer_base(int layer) {
  return frame_slot_count + static_cast<std::uint32_t>(layer);
}

// Events: a stream waits for the end of what recorded them last.
enum Event : std::uint16_t {
  no_event,
  parameter_event,
  bucket_event,
  send_forward_event,
  receive_forward_event,
  send_backward_event,
  receive_backward_event,
  // Parameters in shards: FSDP1's free events of both passes, gathers in flight, and one each.
  free_forward_event,
  free_backward_event = free_forward_event + 5,
  unit_event = free_backward_event + 6,
  order_event = unit_event + 8,
  copied_event,
  reduced_event,
  send_forward_up_event,
  receive_forward_up_event,
  send_backward_up_event,
  receive_backward_up_event,
  offload_event,  // activations on their way to the CPU, and back
  reload_event,
  computed_event,       // what is copied has been computed
  expert_bucket_event,  // of the buffers of experts
  expert_parameter_event,
  hidden_exchange_event,  // tokens that travel beside another microbatch
  shared_event,           // a vocabulary over all stages: the output layer's input, its sums,
  summed_event,
  rows_event,  // rows of the model's input, their gradient
  row_gradient_event,
  group_event,  // a group of a module's tensors is back (module_offload.h), one for each module
  // Parameters of a chunk that is gathered as a whole: of even and odd chunks, then of experts.
  chunk_event = group_event + offload_module_count,
  graph_event = chunk_event + 32,  // from here on: a graph's own, until its block ends
};
constexpr int chunk_events = (graph_event - chunk_event) / 4;  // a chunk's
constexpr int free_forward_events = free_backward_event - free_forward_event;
constexpr int free_backward_events = unit_event - free_backward_event;
constexpr int unit_events = order_event - unit_event;

// Products that may have an adapter.
enum class Module : std::uint8_t { qkv, projection, fc1, fc2 };

class Sharding;
struct AutogradGraph;

// What tells layers apart whose programs differ. `load`: 0 where routes are balanced, else the
// number of the route (Rank::route).
struct LayerKind {
  bool mixture = false;  // has experts
  bool whole = false;    // attends to all tokens where others have a window
  int load = 0;
  int slice = 0;  // of a sequence; routes are drawn for whole ones

  int number() const { return 4 * (load + slice) + 2 * whole + mixture; }
  friend auto operator<=>(const LayerKind&, const LayerKind&) = default;
};

// What fine-grained offload does around the modules of one layer (module_offload.h).
struct LayerOffload {
  // The group that comes up where a module's way back is done, so many layers below.
  struct Next {
    int layers_down = 0;
    OffloadModule module{};
    LayerKind kind;
    std::uint8_t kept = 0;  // modules of that layer whose groups stay on the GPU
    friend auto operator<=>(const Next&, const Next&) = default;
  };
  std::uint8_t kept = 0;        // modules whose groups stay on the GPU, a bit each
  std::uint8_t late = 0;        // ... that nothing has brought up before they are needed
  bool behind_forward = false;  // the backward pass follows its forward pass: copies may still go
  std::array<std::optional<Next>, offload_module_count> next;
  friend auto operator<=>(const LayerOffload&, const LayerOffload&) = default;
};

// What the rank's blocks share while they are written.
struct Rank {
  Rank(const Plan& plan, const Environment& environment, Program& program);

  const Plan& plan;
  const Environment& environment;
  Dimensions dim;        // of the ends
  Dimensions layer_dim;  // of the layers, whose rows may lie over several ranks
  Program& program;
  Tables tables;
  Sharding* sharding = nullptr;

  const schedule::Schedule& pipeline_schedule() const { return *schedule_; }
  // What is written from here on is of this slice of the sequence.
  void turn_to(int slice);
  int slice() const { return slice_; }
  bool is_first_part(int chunk) const { return part(chunk) == 0; }
  bool is_last_part(int chunk) const { return part(chunk) == parts_ - 1; }
  // The chunk ends with a head and a loss: the last part, or each where parts are trained alone.
  bool has_loss(int chunk) const { return is_last_part(chunk) || !schedule_->gradients_travel; }
  bool has_first_part() const;
  bool has_last_part() const;
  int part(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)].part; }
  int layers(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)].layers; }
  // The first layer of a chunk, of the model's.
  int first_layer(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)].first_layer; }
  // Every stage has a share of the embedding and of the output layer.
  bool cuts_vocabulary() const { return plan.cuts_vocabulary(); }
  // The word embedding is on the last stage too: tied to the output layer, or read again there.
  bool shares_table() const {
    const bool one = plan.architecture.tied_embeddings || plan.architecture.predicted_tokens > 0;
    return one && has_first_part() != has_last_part() && !cuts_vocabulary();
  }
  // Its parts are stages of torch.distributed.pipelining (stage_tensors.h).
  bool in_torch_stages() const {
    return plan.shards_parameters() && plan.mesh.pp > 1 && schedule_->gradients_travel;
  }
  // ... and outputs of this one stay until the next step (PipelinePlan::kept_outputs).
  bool keeps_output(int chunk) const;
  // Tensors have the batch first, as DTensor's have.
  bool batch_first() const { return plan.shards_parameters(); }
  // Whether layer `layer` of a chunk is run again in the backward pass, and whether a group of
  // layers that are run again together ends with it.
  bool recomputes(int layer) const;
  int recomputed_group() const;
  bool ends_recomputed_group(int chunk, int layer) const {
    return layer == layers(chunk) - 1 || (layer + 1) % recomputed_group() == 0;
  }
  // Whether a dense layer that runs again stops in front of its last product
  // (StackPlan::checkpoint_early_stop): where nothing behind it saves a tensor. A function that
  // saves its operands behind its kernel, as those of fp8 do, has run when that is seen.
  bool stops_early() const;
  // Whether the halves of a layer are summed over the tensor-parallel ranks together.
  bool joins_halves() const {
    return plan.stack.joined_halves && plan.architecture.input_norms == model::InputNorms::shared;
  }
  // `key`: its layer counts in the chunk.
  LayerKind kind(int chunk, RouteKey key) const;
  Load load(const LayerKind& kind) const;
  bool adapts(Module module) const;
  bool recomputes_mlp() const {
    return plan.policy.recompute == Recompute::selective && plan.policy.recompute_modules.mlp;
  }
  bool recomputes_operators() const {
    return plan.policy.recompute == Recompute::selective && plan.policy.recompute_modules.operators;
  }
  // Bytes of what the layers' products read: of a tensor of activations, one byte an element in
  // fp8.
  std::int64_t operand(std::int64_t bytes) const {
    return plan.numerics.fp8 ? bytes / dim.element : bytes;
  }
  std::uint32_t new_fixed() { return program.fixed_slots++; }
  // Of each layer. REQUIRES: no block is written yet.
  std::uint32_t new_of_layer() {
    layer_slots_ = named_layer_slots_ + 1;
    return named_layer_slots_++;
  }

  // What the forward passes of a layer and of the ends leave for their ways back, and a layer's
  // backward pass for its weight pass. Those of the ends are the slice's own.
  std::map<int, std::shared_ptr<const AutogradGraph>> layer_graphs,
      weight_graphs;  // by LayerKind::number
  std::shared_ptr<const AutogradGraph> embedding_graph, head_graph;
  // Where the vocabulary is cut: of its output pass, and of rows of the input.
  std::shared_ptr<const AutogradGraph> share_graph, output_graph, row_graph;
  Slot shared_input;               // of the last stage: the final norm's output
  std::uint32_t shared_value = 0;  // of share_graph: what is shared
  std::uint32_t summed_value = 0;  // of output_graph: the gradient that is summed over stages
  // Gradient handles that are kept, by the shape of their weight.
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> handles;
  // The slot of the n-th tensor of a graph that outlives its block; owner 0: the layer.
  Slot slot_of_survivor(std::size_t owner, std::uint32_t n);
  // Every block is written: slots of layers and their bases get their final numbers, for frames of
  // so many layers.
  void settle(int most_layers);

 private:
  std::uint32_t named_layer_slots_ = layer_slot_count;  // in front of those of survivors
  std::uint32_t layer_slots_ = layer_slot_count, frame_slots_ = frame_slot_count;
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> survivors_;

  int slice_ = 0;
  struct Ends {
    std::shared_ptr<const AutogradGraph> embedding, head;
  };
  std::map<int, Ends> ends_of_slices_;

  struct Chunk {
    int part = 0, layers = 0, first_layer = 0;
  };
  const schedule::Schedule* schedule_;
  int parts_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint8_t> mixture_;  // of the model's layers
};

// Which variant of a block is wanted.
struct Variant {
  bool keep = true;               // forward: tensors for backward are kept
  bool first_use = false;         // library workspaces and gradient handles come into being
  bool recompute = false;         // forward: runs inside a backward pass
  bool stops_early = false;       // ... and without its last product
  bool holds_gradient = false;    // backward: the incoming gradient is also held by Python
  bool split = false;             // backward: weight gradients come in a pass of their own
  bool first_microbatch = false;  // weight gradients overwrite main_grad instead of adding to it
  bool hooks = false;             // parameters are being gathered, or gradients reduced
  LayerKind kind;
  LayerOffload offload;
  Unit unit;
};

// layer.cpp: one layer, from Space::layer's `input` to the next layer's; backward, the gradient
// stream is the frame's `gradient`.
std::uint32_t layer_forward(Rank& rank, const Variant& variant);
std::uint32_t layer_backward(Rank& rank, const Variant& variant);
std::uint32_t layer_weight(Rank& rank, const Variant& variant);

// embedding.cpp
std::uint32_t embedding_forward(Rank& rank, const Variant& variant);
std::uint32_t embedding_backward(Rank& rank, const Variant& variant);

// head.cpp: norm, logits, loss
std::uint32_t head_forward(Rank& rank, const Variant& variant);
std::uint32_t head_backward(Rank& rank, const Variant& variant);

// batch.cpp
std::uint32_t batch_begin(Rank& rank, int chunk);     // data and rotary table
std::uint32_t batch_end(Rank& rank, int chunk);       // forward_step returns
std::uint32_t microbatch_end(Rank& rank, int chunk);  // what a frame still holds after backward

}  // namespace sim::program
