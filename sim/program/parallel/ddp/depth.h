// depth.h — AxoNN's third dimension of tensors: of the data-parallel ranks, `tensor_depth`
// neighbours share the weights of the layers' products, each a part of the flattened tensor, and
// have sequences of their own. What is no factor of a product is whole on each.
//
//     forward, again   [gather this] gather next   wait   product   free or save
//     backward         gather or saved   input gradient, weight gradient, scatter   free
//     microbatch's end synchronise, add what was scattered to main_grad
//     step's end       gradients of what is whole are summed over the neighbours, one by one
//
// Gathers of a forward pass go one product ahead, over all layers; where layers run again, over
// those of one layer. A backward pass finds nothing that was gathered: it gathers into a list of
// tensors, which it joins, and waits; to June 2024 autograd kept what the product had gathered
// (saved_depth_weights; commit c5ef65d of axonn). The copies of a weight are then Megatron-LM's
// data-parallel replicas (zero1.h: Replicated).
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

  std::array<std::uint32_t, products> gathered_{};  // slots: of each layer where they are saved
  std::uint32_t parts_, flat_;
  std::vector<std::uint32_t> scattered_slots_;  // by parameter of the one chunk
  std::vector<Scattered> scattered_;            // in this pass
};

}  // namespace sim::program
