// rank.h — the state of one rank while its program is written: dimensions, slots, events, graphs.
//
// builder.cpp makes one Rank per rank class and passes it to every function that writes a block.
// Named slots and events never change their numbers. Slots of layers get their final numbers in
// settle(), after the last block.
//
// Symbols in comments:
//
//     s        sequence length               S     local sequence, s / c
//     b        microbatch size               h     hidden size
//     f        FFN width                     a     attention heads
//     d        head size                     k     query groups x d
//     v        padded vocabulary             U     2 S b h bytes
//     t c p D  tensor, context, pipeline and data parallel degree
//     shard    tokens of this rank outside the tensor-parallel regions (sequence parallelism)
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/program/ir/emit.h"
#include "sim/program/ir/environment.h"
#include "sim/program/ir/parameter.h"
#include "sim/program/ir/routes.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/plan.h"

namespace sim::program {

// Tensor dimensions of one rank, in elements or tokens.
struct Dimensions {
  // Dimensions of one slice of the sequence; slice 0 is the whole sequence if there are no slices.
  explicit Dimensions(const Plan& plan, int slice = 0);
  // Dimensions inside layers: a rank has h / tensor_columns columns of the residual stream.
  Dimensions of_layers(const Plan& plan) const;

  std::int64_t element;        // bytes of an activation
  std::int64_t batch;          // b
  std::int64_t sequence;       // s, or the length of the slice
  std::int64_t prefix;         // tokens of the earlier slices, to which this slice attends
  std::int64_t local;          // S
  std::int64_t tokens;         // S b
  std::int64_t shard;          // tokens / t with sequence parallel, else tokens
  std::int64_t hidden;         // h
  std::int64_t query;          // a d / t; with tensor_columns t is the number of grid rows
  std::int64_t attended;       // width of attention's output: heads x value_dim
  std::int64_t key_value;      // k / t
  std::int64_t value;          // width of the values: groups x value_dim
  std::int64_t heads, groups;  // per tensor-parallel rank
  std::int64_t head_dim;       // d
  std::int64_t value_dim;      // size of a value: d; its own size in latent attention (MLA)
  std::int64_t ffn;            // f / t
  std::int64_t up;             // width of fc1's output: 2 f / t with SwiGLU, else f / t
  std::int64_t vocab;          // v / t
  std::int64_t tp, cp, pp, dp;

  // Bytes, except mixed_width(), a number of columns.
  std::int64_t full() const { return element * tokens * hidden; }     // U
  std::int64_t residual() const { return element * shard * hidden; }  // U/t with SP
  std::int64_t mixed_width() const { return query + 2 * key_value; }  // of qkv's output
  std::int64_t rows(std::int64_t width) const { return element * tokens * width; }
  std::int64_t scores() const { return element * batch * heads * local * local; }
};

// Named slots of a frame outside the layers. Tensors that outlive a graph's block follow them.
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

// Named slots of one layer in a frame. `input` is the residual stream. The output of a layer is the
// `input` slot of the next layer.
enum LayerSlot : std::uint32_t {
  input,
  weight_copy,  // the 16-bit copy that autocast makes
  layer_slot_count,
};

// Named fixed slots. Parameters, buffers and optimizer state follow them.
enum FixedSlot : std::uint32_t {
  output,
  sent_gradient,
  received_gradient,
  engine_workspace,
  blas_workspace_forward,
  blas_workspace_backward,
  global_buffer,
  // Dummy weight gradients of TransformerEngine 2.
  handle_fc2,
  handle_fc1,
  handle_projection,
  handle_qkv,
  fixed_slot_count,
};

// Number of local slots for blocks without a graph, which choose their slots by hand.
constexpr std::uint32_t local_slot_count = 16;

inline Slot frame_slot(FrameSlot s) {
  return {Space::microbatch, s};
}
// A slot of the current layer, or of the layer `layers_on` layers later. The number of slots per
// layer is known after all blocks are written, so Rank::settle gives the final index.
constexpr std::uint32_t layers_on_bits = 16;
inline Slot layer_slot(std::uint32_t s, std::uint32_t layers_on = 0) {
  return {Space::layer, s | layers_on << layers_on_bits};
}
// The same slot named from a block of the layer `layers` layers later.
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
// Provisional base of a layer's slots in a frame; Rank::settle replaces it.
constexpr std::uint32_t layer_base(int layer) {
  return frame_slot_count + static_cast<std::uint32_t>(layer);
}

// The events that have a name, and how many each has. A wait refers to the most recent record of
// its event, as in CUDA.
enum class EventName : std::uint8_t {
  none,
  parameter,
  bucket,
  send_forward,  // pipeline messages
  receive_forward,
  send_backward,
  receive_backward,
  free_forward,  // FSDP1's free events of both passes
  free_backward,
  unit,  // FSDP: the gathers in flight, one event per unit
  order,
  copied,
  reduced,
  // Messages of chunks whose activations travel to the first stage.
  send_forward_up,
  receive_forward_up,
  send_backward_up,
  receive_backward_up,
  offload,   // activations are on the CPU
  reload,    // ... and back on the GPU
  computed,  // the tensor to copy has been computed
  expert_bucket,
  expert_parameter,
  hidden_exchange,  // token exchange that overlaps with another microbatch
  shared,           // vocabulary split over all stages: input of the output layer,
  summed,           // ... its sums,
  rows,             // ... embedding rows, and their gradient
  row_gradient,
  group,  // an offloaded group is back (module_offload.h); one event per module
  // Chunks with parameters gathered as a whole: even chunks, odd chunks, then their experts.
  chunk,
  count_,
};

// Number of events of each name.
constexpr int events_of(EventName name) {
  switch (name) {
    case EventName::free_forward:
      return 5;
    case EventName::free_backward:
      return 6;
    case EventName::unit:
      return 8;
    case EventName::group:
      return offload_module_count;
    case EventName::chunk:
      return 32;
    default:
      return 1;
  }
}

// The first event of each name. Events of one name follow each other, in the order of the names.
constexpr std::uint16_t first_event(EventName name) {
  int number = 0;
  for (int before = 0; before < static_cast<int>(name); ++before)
    number += events_of(static_cast<EventName>(before));
  return static_cast<std::uint16_t>(number);
}

constexpr std::uint16_t no_event = first_event(EventName::none),
                        parameter_event = first_event(EventName::parameter),
                        bucket_event = first_event(EventName::bucket),
                        send_forward_event = first_event(EventName::send_forward),
                        receive_forward_event = first_event(EventName::receive_forward),
                        send_backward_event = first_event(EventName::send_backward),
                        receive_backward_event = first_event(EventName::receive_backward),
                        send_forward_up_event = first_event(EventName::send_forward_up),
                        receive_forward_up_event = first_event(EventName::receive_forward_up),
                        send_backward_up_event = first_event(EventName::send_backward_up),
                        receive_backward_up_event = first_event(EventName::receive_backward_up),
                        free_forward_event = first_event(EventName::free_forward),
                        free_backward_event = first_event(EventName::free_backward),
                        unit_event = first_event(EventName::unit),
                        order_event = first_event(EventName::order),
                        copied_event = first_event(EventName::copied),
                        reduced_event = first_event(EventName::reduced),
                        offload_event = first_event(EventName::offload),
                        reload_event = first_event(EventName::reload),
                        computed_event = first_event(EventName::computed),
                        expert_bucket_event = first_event(EventName::expert_bucket),
                        expert_parameter_event = first_event(EventName::expert_parameter),
                        hidden_exchange_event = first_event(EventName::hidden_exchange),
                        shared_event = first_event(EventName::shared),
                        summed_event = first_event(EventName::summed),
                        rows_event = first_event(EventName::rows),
                        row_gradient_event = first_event(EventName::row_gradient),
                        group_event = first_event(EventName::group),
                        chunk_event = first_event(EventName::chunk),
                        // Events from here on belong to one graph, until its block ends.
    graph_event = first_event(EventName::count_);
constexpr int free_forward_events = events_of(EventName::free_forward);
constexpr int free_backward_events = events_of(EventName::free_backward);
constexpr int unit_events = events_of(EventName::unit);
constexpr int chunk_events = events_of(EventName::chunk) / 4;  // events per chunk

// The matrix products of a layer; each may have a LoRA adapter.
enum class Module : std::uint8_t { qkv, projection, fc1, fc2 };

class Sharding;
struct AutogradGraph;

// Layers of one kind share their blocks. `load`: 0 if routes are balanced, else 1 + the index in
// Program::routes.
struct LayerKind {
  bool mixture = false;  // has experts
  bool whole = false;    // attends to all tokens, in a model with sliding windows
  int load = 0;
  int slice = 0;  // slice of the sequence; 0 if routes are drawn

  int number() const { return 4 * (load + slice) + 2 * whole + mixture; }
  friend auto operator<=>(const LayerKind&, const LayerKind&) = default;
};

// Fine-grained activation offload in one layer (module_offload.h). A group is the set of tensors
// that one module saved.
struct LayerOffload {
  // The group that is copied back to the GPU after the backward pass of a module. It belongs to the
  // layer `layers_down` layers earlier.
  struct Next {
    int layers_down = 0;
    OffloadModule module{};
    LayerKind kind;
    std::uint8_t kept = 0;  // modules of that layer with groups that stay on the GPU
    friend auto operator<=>(const Next&, const Next&) = default;
  };
  std::uint8_t kept = 0;        // modules with groups that stay on the GPU, one bit each
  std::uint8_t late = 0;        // modules with groups that are copied back only when needed
  bool behind_forward = false;  // backward follows forward at once: copies may still be in flight
  std::array<std::optional<Next>, offload_module_count> next;
  friend auto operator<=>(const LayerOffload&, const LayerOffload&) = default;
};

// Shared state of all blocks of a rank while they are written.
struct Rank {
  Rank(const Plan& plan, const Environment& environment, Program& program);

  const Plan& plan;
  const Environment& environment;
  Dimensions dim;        // dimensions in the ends: embedding and head
  Dimensions layer_dim;  // dimensions in layers, with columns split over ranks (tensor_grid.h)
  Program& program;
  Tables tables;
  Sharding* sharding = nullptr;

  const schedule::Schedule& pipeline_schedule() const { return *schedule_; }
  // Selects the slice of the sequence for the blocks that are written next.
  void turn_to(int slice);
  int slice() const { return slice_; }
  bool is_first_part(int chunk) const { return part(chunk) == 0; }
  bool is_last_part(int chunk) const { return part(chunk) == layout_.parts - 1; }
  // The chunk ends with a head and a loss: the last part, or every part if gradients do not travel
  // between parts.
  bool has_loss(int chunk) const { return is_last_part(chunk) || !schedule_->gradients_travel; }
  bool has_first_part() const;
  bool has_last_part() const;
  int part(int chunk) const { return layout_.chunks[static_cast<std::size_t>(chunk)].part; }
  int layers(int chunk) const { return layout_.chunks[static_cast<std::size_t>(chunk)].layers; }
  // Number in the model of the first layer of a chunk.
  int first_layer(int chunk) const {
    return layout_.chunks[static_cast<std::size_t>(chunk)].first_layer;
  }
  // Every stage has a share of the embedding and of the output layer.
  bool cuts_vocabulary() const { return plan.cuts_vocabulary(); }
  // The last stage holds a copy of the word embedding: tied to the output layer, or read by
  // multi-token prediction. False if one rank has both the first and the last part.
  bool shares_table() const {
    const bool one = plan.architecture.tied_embeddings || plan.architecture.predicted_tokens > 0;
    return one && has_first_part() != has_last_part() && !cuts_vocabulary();
  }
  // The parts are stages of torch.distributed.pipelining (stage_tensors.h).
  bool in_torch_stages() const {
    return plan.shards_parameters() && plan.mesh.pp > 1 && schedule_->gradients_travel;
  }
  // Outputs of this chunk stay until the next step (PipelinePlan::kept_outputs).
  bool keeps_output(int chunk) const;
  // Tensors have layout [batch, sequence, ...], as in FSDP; Megatron-LM has the sequence first.
  bool batch_first() const { return plan.shards_parameters(); }
  // Whether layer `layer` of a chunk is recomputed in the backward pass. Layers are recomputed in
  // groups of recomputed_group(); ends_recomputed_group: the layer is the last of its group.
  bool recomputes(int layer) const;
  int recomputed_group() const;
  bool ends_recomputed_group(int chunk, int layer) const {
    return layer == layers(chunk) - 1 || (layer + 1) % recomputed_group() == 0;
  }
  // Whether the recomputation of a dense layer stops before its last product
  // (StackPlan::checkpoint_early_stop). It requires that no later operation saves a tensor. It does
  // not apply to fp8, where PyTorch sees the saved operands only after the kernel has run.
  bool stops_early() const;
  // Whether both halves of a layer share one all-reduce over the tensor-parallel ranks.
  bool joins_halves() const {
    return plan.stack.joined_halves && plan.architecture.input_norms == model::InputNorms::shared;
  }
  // The kind of a layer. `key.layer` is its index in the chunk.
  LayerKind kind(int chunk, RouteKey key) const;
  Load load(const LayerKind& kind) const;
  bool adapts(Module module) const;
  bool recomputes_mlp() const {
    return plan.policy.recompute == Recompute::selective && plan.policy.recompute_modules.mlp;
  }
  bool recomputes_operators() const {
    return plan.policy.recompute == Recompute::selective && plan.policy.recompute_modules.operators;
  }
  // Bytes of an operand of a product, from the bytes of the activation: one byte per element in
  // fp8, else unchanged.
  std::int64_t operand(std::int64_t bytes) const {
    return plan.numerics.fp8 ? bytes / dim.element : bytes;
  }
  std::uint32_t new_fixed() { return program.fixed_slots++; }
  // Adds a named slot to every layer. REQUIRES: no block is written yet.
  std::uint32_t new_of_layer() {
    slots_.of_layer = slots_.named_of_layer + 1;
    return slots_.named_of_layer++;
  }

  // Graphs that a forward pass leaves for the backward pass, and the backward pass of a layer for
  // its weight pass. Each slice of the sequence has its own graphs of the ends.
  struct Graphs {
    using Graph = std::shared_ptr<const AutogradGraph>;
    std::map<int, Graph> layer, weight;  // by LayerKind::number
    Graph embedding, head;
    // Of a vocabulary split over all stages: final norm, output pass, embedding rows.
    Graph share, output, row;
    Slot shared_input;               // on the last stage: the output of the final norm
    std::uint32_t shared_value = 0;  // value in `share`: the tensor sent to all stages
    std::uint32_t summed_value = 0;  // value in `output`: the gradient summed over stages
  };
  Graphs graphs;
  // Fixed slots of the dummy gradients of TransformerEngine 2, by shape of the weight.
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> handles;
  // The slot of the n-th tensor that outlives its block; `owner` is a Writer::Owner, 0: the layer.
  Slot slot_of_survivor(std::size_t owner, std::uint32_t n);
  // Gives layer slots and their bases their final numbers, for frames of `most_layers` layers.
  // REQUIRES: every block is written.
  void settle(int most_layers);

 private:
  // Numbers of the slots of layers and frames.
  struct SlotNumbers {
    std::uint32_t named_of_layer = layer_slot_count;  // slots of survivors follow these
    std::uint32_t of_layer = layer_slot_count, of_frame = frame_slot_count;
    std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> survivors;
  };
  SlotNumbers slots_;

  int slice_ = 0;
  struct Ends {
    std::shared_ptr<const AutogradGraph> embedding, head;
  };
  std::map<int, Ends> ends_of_slices_;

  struct Chunk {
    int part = 0, layers = 0, first_layer = 0;
  };
  const schedule::Schedule* schedule_;
  struct Layout {
    int parts = 0;  // of the model
    std::vector<Chunk> chunks;
    std::vector<std::uint8_t> mixture;  // by layer of the model: 1 if it has experts
  };
  Layout layout_;
};

// Variant of a block.
struct Variant {
  bool keep = true;               // forward: tensors are saved for the backward pass
  bool first_use = false;         // first call: library workspaces and dummy gradients are made
  bool recompute = false;         // forward: recomputation inside a backward pass
  bool stops_early = false;       // recomputation without the last product
  bool holds_gradient = false;    // backward: Python also holds the incoming gradient
  bool split = false;             // backward: a separate pass computes weight gradients
  bool first_microbatch = false;  // weight gradients overwrite main_grad instead of adding to it
  bool hooks = false;             // use() and ready() write instructions (Sharding::hooks)
  LayerKind kind;
  LayerOffload offload;
  Unit unit;
};

// The functions below write one block and return its index.
//
// layer.cpp: one layer, from its slot `input` to the next layer's slot `input`. Backward: the
// gradient of the residual stream is in the frame's slot `gradient`.
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
std::uint32_t microbatch_end(Rank& rank, int chunk);  // frees the rest of a frame after backward

}  // namespace sim::program
