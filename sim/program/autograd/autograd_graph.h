// autograd_graph.h — one block while it is written: tensors that are counted as Python counts them,
// and the graph of what autograd will run.
//
// A module is written once, forward. Its operations make tensors and launch kernels; each records a
// node that knows its way back and holds what that needs. A tensor goes when nobody holds it any
// more: not the variable that named it (drop), not a node (save). So the same code, run without
// saving, is the first pass of a recomputed layer, and run again inside a backward pass it is the
// recomputation.
//
//     forward   module(writer)             block "layer forward",  leaves AutogradGraph{tensors,
//     nodes} backward  writer.backward()         block "layer backward", leaves
//     AutogradGraph{deferred} weight    each deferred product      block "layer weight gradients"
//
// The blocks of a layer are written from copies of one graph, so each may be written many times
// (first microbatch, last microbatch, ...) and all find the same tensors in the same slots.
//
// Invariants
//  (1) Slots are given out when a block is done: what outlives it gets a slot of its layer (or of
//      the frame), in the order in which it was made; everything else shares the local slots.
//  (2) A node's way back sees values, never slots, and captures nothing of the block it was
//      recorded in.
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

// A tensor of a graph. 0: none, which may be dropped, held and saved like any other.
using Value = std::uint32_t;
// What flows back from node to node: one gradient, or those of the query, the key and the value.
using Gradients = std::array<Value, 3>;

struct Tensor {
  Slot slot;            // where it is, once `placed`
  bool placed = false;  // other blocks know it
  std::int32_t holders = 0;
  std::int64_t bytes = 0;
  Category category = Category::other;
  std::string_view label;
  std::int32_t away = 0;  // of the holders, groups with a copy on the CPU (module_offload.h)
  bool fp32 = false;      // whatever the plan's precision is
};

class Writer;
enum class Visit : std::uint8_t;

struct AutogradGraph {
  using Work = std::function<void(Writer&)>;
  // Tensors that are made again in front of the backward pass, and how; `keep` makes what stays in
  // their place until then.
  struct Again {
    std::vector<Value> tensors;
    Work make;
    std::function<std::vector<Value>(Writer&)> keep;
    std::vector<Value> kept;
  };

  std::vector<Tensor> tensors{1};
  std::vector<std::function<Gradients(Writer&, Gradients)>> nodes;
  std::vector<Work> deferred;  // weight gradients that have a pass of their own
  std::vector<Again> again;
  // What modules saved, each as often as it was, that may wait on the CPU.
  std::array<std::vector<Value>, offload_module_count> groups;
  std::uint32_t placed = 0;  // how many tensors outlived the blocks so far
};

class Writer {
 public:
  // What outlives the block is the layer's or the frame's (`ends`, Rank::end_slots).
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
  bool keep;               // nodes are recorded and save what they need
  bool forward;            // a forward pass's own block: libraries make their workspaces
  std::uint8_t flags = 0;  // of the kernels of forward operations
  // Where a layer has fewer norms than halves (model::InputNorms): what the half at hand reads, and
  // on the way back the gradient of what both read, as far as the second half has it.
  Value normed = 0, other_gradient = 0;
  std::vector<Value>* group = nullptr;  // what is saved is added to it (OffloadGroup)
  // The layer's input, which the norm of its first half saves.
  Value stream_input = 0;
  bool held;                         // Python holds the gradient stream that the block was given
  int depth = 0;                     // of the parameters at hand (Unit::depth)
  Stream current = Stream::compute;  // where kernels are launched and tensors allocated

  // Tensors.
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
  // In a slot that other blocks know; `given`: it is there already, and nobody here holds it yet.
  Value make_in(Slot slot, std::int64_t bytes, std::string_view label, Category category,
                Stream pool = Stream::compute);
  Value given(Slot slot, std::int64_t bytes, std::string_view label, Category category);
  void hold(Value v) { ++graph.tensors[v].holders; }
  void save(Value v) {
    if (!keep) return;
    hold(v);
    if (group != nullptr && v != 0) group->push_back(v);
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

  // Local variables of the layer's functions that nobody reads any more (LayerCode).
  bool names(LayerCode since) const { return plan.stack.layer_code >= since; }
  void name(std::vector<Value>& locals, Value v) {
    hold(v);
    locals.push_back(v);
  }
  void unname(std::vector<Value>& locals) {
    for (const Value v : locals) drop(v);
    locals.clear();
  }
  // The layer, or the part of it that ran again, returns.
  void unname_all() {
    drop(norm_output);
    norm_output = 0;
    unname(attention_locals);
    unname(layer_locals);
  }
  Value norm_output = 0;  // of the norm that ran last
  std::vector<Value> attention_locals, layer_locals;

  // Work, on the current stream unless one is given.
  void memory_bound(model::OperationKind kind, std::string_view name, std::int64_t bytes,
                    Stream stream = Stream::compute);
  // A forward product of this rank's tokens.
  void product(std::string_view name, std::int64_t n, std::int64_t k);
  std::uint16_t event();  // a new one
  // `waits` goes on behind what `behind` was given so far.
  void order(Stream waits, Stream behind);

  // The graph.
  void node(std::function<Gradients(Writer&, Gradients)> back) {
    if (keep) graph.nodes.push_back(std::move(back));
  }
  Gradients backward(Gradients gradients, std::size_t first = 0);
  void defer(AutogradGraph::Work work) { graph.deferred.push_back(std::move(work)); }
  // Inductor puts weight gradients behind what the backward pass goes on with: fc2's behind the
  // activation's, attention's behind its norm's. Seen without tensor parallelism
  // (results/captured-steps). What is put off is done when the pass has caught up, at its end at
  // the latest.
  bool puts_off() const {
    return plan.stack.layer_kernels == LayerKernels::compiled && dim.tp == 1 && !frozen();
  }
  void put_off(AutogradGraph::Work work) { put_off_.push_back(std::move(work)); }
  void catch_up();
  // Where operators are recomputed: how these tensors, as far as they are saved, are made again;
  // `refill` allocates those that are.
  void again(std::vector<Value> tensors, AutogradGraph::Work make,
             std::function<std::vector<Value>(Writer&)> keep = {});
  void refill(std::initializer_list<Value> values);

  // Parameters, of the product beside which an adapter stands if they are its own: about to be
  // read; whether data parallelism takes a gradient; a gradient is added.
  void use(std::initializer_list<std::string_view> parameters, std::string_view owner = {});
  bool keep_gradient(Value gradient, std::string_view parameter, std::string_view owner = {});
  void ready(std::string_view parameter, std::string_view owner = {});
  // Around the products of a layer's weight, which may lie over several ranks.
  void open(std::string_view weight);
  void close(std::string_view weight);
  // DTensor's parallel products: collectives are operators of their own, and what they gathered is
  // what a product saves [torch/distributed/tensor/parallel/style.py].
  bool distributes_tensors() const {
    return plan.stack.layer_kernels != LayerKernels::fused && rank.batch_first() &&
           sequence_parallel();
  }
  // ... which keeps it until its backward pass, unless it is gathered again.
  bool keeps_gathered() const { return distributes_tensors() && !rank.recomputes_operators(); }
  // Products are cut beside their messages (tp_comm_overlap): those of layers, for the embedding
  // and the head are neither TransformerEngine's [core/tensor_parallel/layers.py] nor compiled
  // [torchtitan parallelize_llama.py:apply_compile, each TransformerBlock].
  bool cuts_products() const {
    return owner_ == Owner::layer && plan.stack.tp_comm_overlap && sequence_parallel();
  }
  // Tensors have the batch first (DTensor): pieces of sequences are put in order behind a gather
  // and in front of a scatter, unless a gather's are of one sequence. The value is what they lie in
  // then, a copy but where products are cut beside their messages
  // [torch/distributed/_functional_collectives.py:all_gather_tensor, reduce_scatter_tensor].
  enum class Order : std::uint8_t { gathered, to_scatter };
  Value reorder(Value v, Order order, std::int64_t bytes);

  bool makes_workspaces() const { return forward && variant.first_use; }
  // A library's workspace comes before the first product's output.
  void first_product();
  bool sequence_parallel() const { return plan.uses_sequence_parallel(); }
  bool frozen() const { return plan.trains_adapters(); }
  bool records() const { return !plan.environment.avoid_record_streams; }

  // Gives out the slots, adds the block to the program and returns its index.
  std::uint32_t finish();

 private:
  Unit unit() const { return {variant.unit.chunk, variant.unit.layer, depth}; }
  Visit visit() const;

  Owner owner_;
  std::uint16_t events_ = 0;
  bool had_product_ = false;
  std::vector<AutogradGraph::Work> put_off_;
};

// Runs `region` without saving and again in front of its backward pass, keeping its arguments
// [torch.utils.checkpoint; Megatron-LM random.py:CheckpointFunction].
Value checkpoint(Writer& w, const std::vector<Value>& arguments,
                 const std::function<Value(Writer&)>& region);

}  // namespace sim::program
