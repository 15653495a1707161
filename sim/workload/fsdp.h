// fsdp.h — parameters sharded over the data-parallel group (ZeRO-2, ZeRO-3, hybrid shards), as
// PyTorch's FullyShardedDataParallel (FSDP1) and fully_shard (FSDP2) do it.
//
// Units are the transformer layers and the root, which holds what is left: embeddings, final norm
// and head. The passes call a block of this class around each layer:
//
//     forward   [gather u] wait u  layer u  reshard u
//     backward  [gather u] wait u  gather u-1  layer u  reduce u
//
// Gathers are issued on the unshard stream and reductions on the reduce stream; both use the one
// communicator of the shard group, so NCCL runs them in the order of issue. FSDP1 gathers into
// one flat tensor, of which the parameters are views; its blocks come back when the main stream
// has passed (record_stream), so the CPU waits for the second-last free event before it gathers
// (limit_all_gathers). FSDP2 copies out of the gathered tensor into parameters of their own.
//
// [PyTorch 2.3-2.6 torch/distributed/fsdp/_runtime_utils.py, _flat_param.py, _limiter_utils.py;
// torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py, _fsdp_state.py]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/workload/data_parallel.h"

namespace sim::workload {

class Fsdp {
 public:
  // REQUIRES: the plan shards parameters (Plan::shards_parameters) and has one stage.
  Fsdp(Rank& rank, const DataParallel& parameters);

  // Where layer_backward and the ends leave the gradient of a parameter until its unit is reduced.
  Slot gradient_slot(LayerParameter p) const {
    return fixed_slot(layer_gradients_[static_cast<std::size_t>(p)]);
  }
  Slot gradient_slot(EndParameter p) const {
    return fixed_slot(end_gradients_[static_cast<std::size_t>(p)]);
  }

  // Blocks around the layers of a pass. `first` and `last`: microbatch of the step.
  std::uint32_t begin_forward();
  std::uint32_t before_forward(int layer);
  std::uint32_t after_forward(int layer, bool again);
  std::uint32_t end_forward();
  std::uint32_t begin_backward();
  std::uint32_t before_backward(int layer, bool again);
  std::uint32_t after_backward(int layer, bool first, bool last);
  std::uint32_t end_backward(bool first, bool last);

  // Set-up and step.
  void allocate_shards(Emitter& e);
  void zero_gradients(Emitter& e);
  void allocate_moments(Emitter& e);
  void update(Emitter& e);
  std::int64_t shard_elements() const;

 private:
  struct Unit {
    std::vector<std::int64_t> parameters;  // elements of each
    std::vector<std::uint32_t> gradients;  // slots, one a parameter
    std::vector<std::uint32_t> unsharded;  // FSDP1: one, flat; FSDP2: one a parameter
    std::vector<std::uint32_t> shards, first_moments, second_moments;
    std::uint32_t gathered = 0;     // FSDP2: what the all-gather fills
    std::uint32_t reduction = 0;    // FSDP2: what the reduce-scatter reads
    std::uint32_t accumulated = 0;  // without reduction: whole gradients of earlier microbatches
    std::uint32_t gradient = 0;     // sharded, fp32
    std::int64_t elements = 0;      // padded to the shard group
    std::int64_t shard = 0;         // of this rank
  };

  int root() const { return static_cast<int>(units_.size()) - 1; }
  Unit& unit(int u) { return units_[static_cast<std::size_t>(u)]; }
  bool flat() const { return plan_.sharding.data_parallel == DataParallelism::fsdp1; }
  bool reshards(int u) const { return plan_.sharding.fsdp.reshard_after_forward && u != root(); }
  bool reduces(bool last) const { return last || !plan_.sharding.fsdp.no_sync; }
  std::int64_t parameter_bytes() const;  // of an element while it is gathered
  std::int64_t reduce_bytes() const {
    return plan_.numerics.fp32_gradients ? 4 : rank_.dim.element;
  }
  std::uint8_t gather_event(int u) const;

  void add_unit(std::span<const Parameter* const> parameters,
                std::span<const std::uint32_t> gradients);
  void plan_limiter();
  void gather(Emitter& e, int u, bool forward);
  void prefetch(Emitter& e, int from, bool forward);
  void wait(Emitter& e, int u, bool forward, int previous);
  void reshard(Emitter& e, int u, bool forward);
  void cast_weights(Emitter& e, int layer);
  void reduce(Emitter& e, int u, bool first, bool last);
  void accumulate(Emitter& e, Unit& u, bool first, bool last);
  void reduce_flat(Emitter& e, Unit& u, bool creates, bool from_accumulated);
  void reduce_copied(Emitter& e, int u, bool creates, bool from_accumulated);
  void communicate(Emitter& e, const Unit& u);
  void keep_shard(Emitter& e, Unit& u, bool creates);
  void pass(Emitter& e, model::OperationKind kind, std::string_view name, std::int64_t bytes,
            Stream stream = Stream::compute);

  Rank& rank_;
  const Plan& plan_;
  std::int64_t shards_;      // ranks that share one copy
  std::vector<Unit> units_;  // layers, then the root
  std::vector<std::uint32_t> layer_gradients_, end_gradients_;
  // FSDP1's queue of free events in its steady state: which event the gather of a unit waits for
  // and which its reshard records; 0: none. [forward][unit]
  std::vector<std::uint8_t> limit_[2], freed_[2];
};

}  // namespace sim::workload
