// autograd_graph.h — one block being written: reference-counted tensors and backward nodes.
//
// A module (attention, MLP, embedding) is written once, as its forward pass. Each operation makes
// tensors, launches kernels and records a node. A node is a closure that writes the backward pass
// of its operation. `save` keeps a tensor for a node, as PyTorch's save_for_backward does. A tensor
// is freed when its last holder drops it, as Python's reference count does.
//
// A forward pass without saving is the first pass of a recomputed layer. The same code, run inside
// a backward pass, is the recomputation.
//
//     pass      what writes it          block                     result
//     forward   module(writer)          "layer forward"           graph: tensors and nodes
//     backward  writer.backward()       "layer backward"          graph: deferred products
//     weight    each deferred product   "layer weight gradients"  nothing
//
// Every block function of sim/program/layers opens one Writer, writes one block and closes it with
// finish(). Blocks of a layer start from copies of one graph. So a block may have several variants
// (first microbatch, last microbatch), and all variants find the same tensors in the same slots.
//
// Invariants
//  (1) finish() assigns slots. A tensor that outlives its block gets a slot of its layer or of the
//      frame, in order of creation. All other tensors share the local slots of the rank.
//  (2) The closure of a node names values, never slots. It captures no reference to the block that
//      recorded it.
//
// Lifetimes follow PyTorch autograd and Python [torch/csrc/autograd; torch.utils.checkpoint].
// INVENTORY.md lists every tensor with its source.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program/ir/emit.h"
#include "sim/program/ir/rank.h"

namespace sim::program {

// Index of a tensor in AutogradGraph::tensors. 0 is "no tensor": it may be held, saved and dropped.
using Value = std::uint32_t;
// Gradients that one node hands to the next: one, or three for query, key and value.
using Gradients = std::array<Value, 3>;

struct Tensor {
  Slot slot;                 // valid if `placed`
  bool placed = false;       // has a slot that other blocks use too
  std::int32_t holders = 0;  // reference count
  std::int64_t bytes = 0;
  Category category = Category::other;
  std::string_view label;
  std::int32_t on_cpu = 0;  // holders that are groups copied to the CPU (module_offload.h)
  bool fp32 = false;        // fp32 in every plan
};

class Writer;
enum class Visit : std::uint8_t;

struct AutogradGraph {
  using Work = std::function<void(Writer&)>;
  // Tensors that are freed after the forward pass and rematerialized before the backward pass.
  // `make` writes the recomputation. `keep` makes smaller tensors that stay until then: `kept`.
  struct Rematerialized {
    std::vector<Value> tensors;
    Work make;
    std::function<std::vector<Value>(Writer&)> keep;
    std::vector<Value> kept;
  };

  std::vector<Tensor> tensors{1};
  std::vector<std::function<Gradients(Writer&, Gradients)>> nodes;
  std::vector<Work> deferred;  // weight gradients that a separate weight pass computes
  std::vector<Rematerialized> rematerialized;
  // Tensors saved by each offloaded module, once per save. They may be copied to the CPU.
  std::array<std::vector<Value>, offload_module_count> groups;
  std::uint32_t placed = 0;  // number of tensors that outlived the blocks so far
};

class Writer {
 public:
  // Owner of the surviving tensors: a layer, or one part of the frame (Rank::slot_of_survivor).
  enum class Owner : std::uint8_t { layer, embedding, head, output, rows };
  Writer(Rank& rank, const Variant& variant, std::string name, AutogradGraph graph = {},
         Owner owner = Owner::layer);

  Rank& rank;
  const Variant& variant;
  const Plan& plan;
  const model::Architecture& a;
  const Dimensions& dim;
  Emitter e;
  AutogradGraph graph;
  bool keep;     // true: nodes are recorded and save their tensors
  bool forward;  // true in a forward pass, false in a recomputation or backward pass
  bool held;     // Python still holds the gradient that the block received
  // Applies to everything that is written from now on.
  struct Setting {
    std::uint8_t flags = 0;               // instruction flags of the kernels of forward operations
    std::vector<Value>* group = nullptr;  // saved tensors are also added here (OffloadGroup)
    int depth = 0;                        // Unit::depth of the parameters in use
    Stream current = Stream::compute;     // stream of kernels and of new tensors
  };
  Setting set;
  // The current half of a layer. For layers with fewer norms than halves (model::InputNorms).
  struct Half {
    Value normed = 0;          // its input
    Value stream_input = 0;    // the same, saved by the norm of the half
    Value other_gradient = 0;  // in the backward pass, the second half's gradient of that input
  };
  Half half;

  // Tensors. `make` allocates `bytes` bytes; the caller holds the tensor and must drop it.
  Value make(std::int64_t bytes, std::string_view label, Category category,
             Stream pool = Stream::compute);
  Value temporary(std::int64_t bytes, std::string_view label, Stream pool = Stream::compute) {
    return make(bytes, label, Category::temporaries, pool);
  }
  Value activation(std::int64_t bytes, std::string_view label, Stream pool = Stream::compute) {
    return make(bytes, label, Category::activations, pool);
  }
  Value fp32_activation(std::int64_t bytes, std::string_view label, Stream pool = Stream::compute) {
    const Value v = activation(bytes, label, pool);
    graph.tensors[v].fp32 = true;
    return v;
  }
  // `make_in` allocates in a slot that other blocks use too. `given` names a tensor that already
  // lies in that slot, with no holder yet.
  Value make_in(Slot slot, std::int64_t bytes, std::string_view label, Category category,
                Stream pool = Stream::compute);
  Value given(Slot slot, std::int64_t bytes, std::string_view label, Category category);
  void hold(Value v) { ++graph.tensors[v].holders; }
  void save(Value v) {
    if (!keep) return;
    hold(v);
    if (set.group != nullptr && v != 0) set.group->push_back(v);
  }
  void save(std::initializer_list<Value> values) {
    for (const Value v : values) save(v);
  }
  void drop(Value v);
  void drop(std::initializer_list<Value> values) {
    for (const Value v : values) drop(v);
  }
  void record_stream(Value v, Stream stream);
  Slot slot(Value v) const;
  int holders(Value v) const { return graph.tensors[v].holders; }
  bool saved(Value v) const { return v != 0 && holders(v) > 0; }

  // Python variables of the layer's functions that keep a tensor alive after its last reader. How
  // long depends on the age of the layer's source code (LayerCode).
  bool names(LayerCode since) const { return plan.stack.layer_code >= since; }
  void name(std::vector<Value>& variables, Value v) {
    hold(v);
    variables.push_back(v);
  }
  void unname(std::vector<Value>& variables) {
    for (const Value v : variables) drop(v);
    variables.clear();
  }
  // The layer function, or the recomputed part of it, returns: its variables are released.
  void unname_all() {
    drop(locals.norm_output);
    locals.norm_output = 0;
    unname(locals.attention);
    unname(locals.layer);
  }
  struct Locals {
    Value norm_output = 0;  // output of the most recent norm
    std::vector<Value> attention, layer;
  };
  Locals locals;

  // Work, on the current stream by default.
  void memory_bound(model::OperationKind kind, std::string_view name, std::int64_t bytes,
                    Stream stream = Stream::compute);
  // A forward matrix product [tokens, k] x [k, n] over this rank's tokens. `sms_taken`: as
  // Operation::sms_taken.
  void product(std::string_view name, std::int64_t n, std::int64_t k, int sms_taken = 0);
  std::uint16_t event();  // a new event, local to the block
  // Stream `waits` waits for all work issued to stream `behind` so far.
  void order(Stream waits, Stream behind);

  // The graph. `node` records the backward closure of one operation. `backward` runs the closures
  // from the last one down to number `first`. `defer` moves a product to the weight pass.
  void node(std::function<Gradients(Writer&, Gradients)> back) {
    if (keep) graph.nodes.push_back(std::move(back));
  }
  Gradients backward(Gradients gradients, std::size_t first = 0);
  void defer(AutogradGraph::Work work) { graph.deferred.push_back(std::move(work)); }
  // Inductor delays weight gradients: it issues fc2's after the activation's gradient, and
  // attention's after its norm's gradient. Measured without tensor parallelism
  // (results/captured-steps). catch_up() writes the delayed work, at the end of the backward pass
  // at the latest.
  bool puts_off() const {
    return plan.stack.layer_kernels == LayerKernels::compiled && dim.tp == 1 && !frozen();
  }
  void put_off(AutogradGraph::Work work) { block_.put_off.push_back(std::move(work)); }
  void catch_up();
  // Recomputation operator by operator: `make` rematerializes those of `tensors` that are saved,
  // and calls `refill` to allocate them.
  void rematerialize(std::vector<Value> tensors, AutogradGraph::Work make,
                     std::function<std::vector<Value>(Writer&)> keep = {});
  void refill(std::initializer_list<Value> values);

  // Calls to data parallelism (sharding.h). For an adapter's parameters `owner` is the product that
  // it extends. `use`: the parameters are about to be read. `keep_gradient`: returns true if data
  // parallelism takes over the gradient tensor. `ready`: the gradient has been accumulated.
  void use(std::initializer_list<std::string_view> parameters, std::string_view owner = {});
  bool keep_gradient(Value gradient, std::string_view parameter, std::string_view owner = {});
  void ready(std::string_view parameter, std::string_view owner = {});
  // Before and after each product with a layer weight that is split over several ranks.
  void open(std::string_view weight);
  void close(std::string_view weight);
  // DTensor's parallel products: collectives are separate operators, and a product saves the
  // gathered tensor [torch/distributed/tensor/parallel/style.py].
  bool distributes_tensors() const {
    return plan.stack.layer_kernels != LayerKernels::fused && rank.batch_first() &&
           sequence_parallel();
  }
  // The gathered tensor stays until the backward pass, unless operators are recomputed.
  bool keeps_gathered() const { return distributes_tensors() && !rank.recomputes_operators(); }
  // Products are split into pieces that overlap with their collectives (tp_comm_overlap). This
  // holds for layers only. Embedding and head are not TransformerEngine modules
  // [core/tensor_parallel/layers.py] and are not compiled
  // [torchtitan parallelize_llama.py:apply_compile, each TransformerBlock].
  bool cuts_products() const {
    return block_.owner == Owner::layer && plan.stack.tp_comm_overlap && sequence_parallel();
  }
  // The same by TransformerEngine's user buffers, which have three methods
  // [transformer_engine/pytorch/module/base.py:initialize_ub, get_default_config]. Ring exchange
  // cuts the product into one piece a rank: forward column-parallel products, and input gradients
  // of row-parallel ones. Pipeline cuts forward row-parallel products into four, and 16 SMs of the
  // GPU send. Bulk runs a whole collective beside a product that does not need it: the backward
  // pass of column-parallel products.
  bool uses_user_buffers() const {
    return cuts_products() && plan.stack.layer_kernels == LayerKernels::fused;
  }
  static constexpr int pipeline_pieces = 4, pipeline_sms = 16;
  // DTensor's tensors have the batch first, so sequence pieces are reordered after an all-gather
  // and before a reduce-scatter. A gather of one sequence needs no reordering. Returns the
  // reordered tensor: a copy, or `v` itself if cuts_products()
  // [torch/distributed/_functional_collectives.py:all_gather_tensor, reduce_scatter_tensor].
  enum class Order : std::uint8_t { gathered, to_scatter };
  Value reorder(Value v, Order order, std::int64_t bytes);

  bool makes_workspaces() const { return forward && variant.first_use; }
  // Allocates TransformerEngine's workspace, before the output of the first product.
  void first_product();
  bool sequence_parallel() const { return plan.uses_sequence_parallel(); }
  bool frozen() const { return plan.trains_adapters(); }
  bool records() const { return !plan.environment.avoid_record_streams; }

  // Assigns the slots, adds the block to the program and returns its index.
  std::uint32_t finish();

 private:
  Unit unit() const { return {variant.unit.chunk, variant.unit.layer, set.depth}; }
  Visit visit() const;

  struct BlockState {
    Owner owner = Owner::layer;
    std::uint16_t events = 0;  // made so far
    bool had_product = false;
    std::vector<AutogradGraph::Work> put_off;
  };
  BlockState block_;
};

// Activation checkpointing: writes `region` without saving, keeps only its arguments, and writes it
// once more before its backward pass
// [torch.utils.checkpoint; Megatron-LM random.py:CheckpointFunction].
Value checkpoint(Writer& w, const std::vector<Value>& arguments,
                 const std::function<Value(Writer&)>& region);

// If `on`: one CUDA graph launches the work between open_graph and close_graph, and a second graph
// launches its backward pass. Each graph has its own input buffer of `bytes` bytes; the input is
// copied there before the launch. [TransformerEngine pytorch/graph.py:make_graphed_callables]
void open_graph(Writer& w, bool on, std::int64_t bytes);
void close_graph(Writer& w, bool on, std::int64_t bytes);

}  // namespace sim::program
