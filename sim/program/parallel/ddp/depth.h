// depth.h — AxoNN's third dimension of tensor parallelism. Groups of `tensor_depth` neighbouring
// data-parallel ranks share the weights of the layers' products: each rank holds a shard of the
// flattened tensor. Each rank has its own sequences. Parameters that are not factors of a product
// are replicated.
//
//     forward, again   [gather this] gather next   wait   product   free or save
//     backward         gather or saved   input gradient, weight gradient, scatter   free
//     microbatch's end synchronise, add what was scattered to main_grad
//     step's end       gradients of replicated parameters are summed over neighbours, one by one
//
// A forward pass gathers one product ahead, across layers; a recomputed layer does so only within
// the layer. A backward pass gathers its weights again: it gathers into a list of tensors, joins
// them, and waits. Until June 2024 autograd kept the gathered weight instead (saved_depth_weights;
// commit c5ef65d of axonn). The copies of a weight are Megatron-LM's data-parallel replicas
// (zero1.h: Replicated).
//
// [axonn-ai/axonn intra_layer/fully_connected.py:AsyncLinear, communication.py:_gather,
// overlap_communication.py, __init__.py:sync_gradients; axonn-ai/Megatron-AxoNN
// core/pipeline_parallel/schedules.py:forward_backward_no_pipelining; INVENTORY.md section 32]
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/layers/linear/linear.h"
#include "sim/program/parallel/ddp/zero1.h"

namespace sim::program {

class Depth final : public Replicated {
 public:
  explicit Depth(Rank& rank);

  std::vector<Stream> communicators() const override;
  void end_step(Emitter& e, bool first) override;
  bool hooks() const override { return true; }
  std::optional<std::uint32_t> after(int layer, Visit visit) override;
  void open(Emitter& e, Unit unit, std::string_view weight, Visit visit) override;
  void close(Emitter& e, Unit unit, std::string_view weight, Visit visit) override;

 private:
  static constexpr int products = 4;  // of a layer, in the order in which they run
  struct Scattered {
    int parameter;
    std::uint32_t slot;
  };

  bool kept(Emitter& e, int chunk, int parameter, Slot gradient) override;
  std::int64_t whole_bytes(int product) const;
  Slot whole(int product, std::uint32_t layers_on = 0) const;
  void gather(Emitter& e, int product, std::uint32_t layers_on = 0);
  void gather_at_once(Emitter& e, int product);
  void add(Emitter& e, int chunk, const Scattered& of);

  // Slots; one for each layer if weights are saved.
  std::array<std::uint32_t, products> gathered_{};
  std::uint32_t parts_, flat_;
  std::vector<std::uint32_t> scattered_slots_;  // by parameter of the one chunk
  std::vector<Scattered> scattered_;            // in this pass
};

}  // namespace sim::program
