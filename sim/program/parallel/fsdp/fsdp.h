// fsdp.h — parameters sharded over the data-parallel group (ZeRO-2, ZeRO-3, hybrid sharding), as in
// PyTorch's FullyShardedDataParallel (FSDP1) and fully_shard (FSDP2).
//
// Routed experts that expert parallelism distributes are split over the ranks with the same experts
// (FSDP2). Their part of a unit has collectives of its own, on the same streams.
//
// The units are the layers of a model chunk and its root. The root holds the remaining parameters:
// embeddings, final norm and head. Passes call a block of this class around each layer:
//
//     forward   [gather u] wait u  layer u  reshard u
//     backward  [gather u] wait u  gather u-1  layer u  reduce u
//
// A unit is whole while this rank holds its gathered parameters; it is gathered only if it is not
// whole. The set of whole units is the state that one pass leaves for the next.
//
// Gathers are issued on the unshard stream and reductions on the reduce stream. Both use the
// communicator of the shard group, so NCCL runs them in the order of issue. FSDP1 gathers into one
// flat tensor, and the parameters are views of it. The allocator reuses the flat tensor's block
// only after the main stream has passed (record_stream). Therefore the CPU waits for the
// second-last free event before a gather (limit_all_gathers). FSDP2 copies the gathered tensor into
// separate parameters, also on a single rank, where nothing is sent
// [torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:wait_for_unshard].
//
// DeepSpeed's ZeRO-3 (deepspeed_zero3.h) has the same units as FSDP2 and gathers in the same way.
// Its gradients wait in a bucket on the reduce stream. The bucket is reduced when a layer's first
// gradient does not fit.
//
// With pipeline stages, gradients stay whole until the last microbatch of a chunk. FSDP2 then
// reduces all units after the last pass, the root first, and keeps the parameters that a backward
// pass gathered until then. The reason: torch.distributed.pipelining disables gradient sync and
// resharding in every backward pass, and runs the post-backward of all modules at the end. FSDP1
// reduces unit by unit in the last backward pass. In ZeRO-2 it keeps parameters as long as it does
// not reduce.
//
// [PyTorch 2.3-2.6 torch/distributed/fsdp/_runtime_utils.py (_should_free_in_backward),
// _flat_param.py, _limiter_utils.py; torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py,
// _fsdp_collectives.py, _fsdp_state.py; torch/distributed/pipelining/stage.py:
// backward_maybe_with_nosync; INVENTORY.md section 15]
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/program/parallel/deepspeed/deepspeed_zero3.h"
#include "sim/program/parallel/sharding.h"

namespace sim::program {

class Fsdp final : public Sharding {
 public:
  explicit Fsdp(Rank& rank);

  void add_communicators(std::vector<Stream>& to) const override;
  void set_up(Emitter& e) override;
  void begin_step(Emitter& e, bool first) override;
  void end_step(Emitter& e, bool first) override;

  void begin(schedule::Pass pass, int chunk, const Moment& moment) override;
  State state() const override;
  void restore(const State& state) override;
  std::optional<std::uint32_t> before(int layer, Visit visit) override;
  std::optional<std::uint32_t> after(int layer, Visit visit) override;
  std::optional<std::uint32_t> before_gradients(int layer) override;

 private:
  enum class Held : std::uint8_t { shard, gathering, whole };

  struct Member {
    std::int64_t elements = 0;  // padded to the shard group if it is sharded by itself
    std::int64_t stored = 4;    // bytes per element in the shard
    std::int64_t gathered = 4;  // bytes per element while the unit is whole
    int tensor = 0;             // its number among the tensors of the chunk
    std::int64_t shards = 1;    // ranks that split it
    bool apart = false;         // an expert, and Plan::splits_experts_apart()
    bool frozen = false;
    bool matrix = false;         // a factor of a product: its gradient arrives in the weight pass
    std::uint32_t gradient = 0;  // slot of its gradient until the unit is reduced
  };
  struct Group {  // a unit's data on this rank
    std::vector<Member> members;
    std::int64_t elements = 0;    // padded
    std::int64_t reduced = 0;     // elements of gradients
    std::int64_t updated = 0;     // elements with optimizer state on this rank
    std::int64_t bytes = 0;       // while it is whole
    std::int64_t held_share = 0;  // of these bytes, held and sent by this rank
    std::int64_t kept_share = 0;  // of `reduced`, elements on this rank
    std::int64_t expert_bytes = 0, expert_reduced = 0;  // what the experts' group splits of these
    std::int64_t stored_share = 0;  // fsdp1: bytes of the shard
    std::int64_t cast_from = 0, cast_to = 0;            // bytes on this rank that change their type
    // Slots, one for each tensor: FSDP1 has a single flat tensor, FSDP2 one for each member.
    std::vector<std::uint32_t> unsharded, shards, first_moments, second_moments;
    std::uint32_t gathered = 0;     // FSDP2: the output of the all-gather
    std::uint32_t second = 0;       // this rank's part of the neighbours' second copy
    std::uint32_t reduction = 0;    // FSDP2: the input of the reduce-scatter
    std::uint32_t accumulated = 0;  // without reduction: whole gradients of earlier microbatches
    std::uint32_t gradient = 0;     // sharded, in the type of the shard
    Held held = Held::shard;
  };
  struct Chunk {
    std::vector<Group> units;                // layers, then the root
    std::vector<std::uint32_t> gradient_of;  // slot, by parameter
  };

  // fsdp.cpp: units and the state that a rank holds between steps.
  void add_chunk(int chunk);
  void add_unit(Chunk& chunk, const Parameters& all, int layer);
  void measure(Group& u) const;
  void measure_flat(Group& u) const;
  void give_slots(Group& u);
  void each_unit(const auto& work);
  void allocate_moments(Emitter& e, const Group& u);
  std::int64_t updated_elements() const;
  void scale_matrices(Emitter& e);
  bool kept(Emitter& e, int chunk, int parameter, Slot gradient) override;

  std::vector<Group>& units() { return chunks_[static_cast<std::size_t>(chunk_)].units; }
  const std::vector<Group>& units() const {
    return chunks_[static_cast<std::size_t>(chunk_)].units;
  }
  int root() const { return static_cast<int>(units().size()) - 1; }
  Group& unit(int u) { return units()[static_cast<std::size_t>(u)]; }
  bool flat() const {
    return plan_.sharding.data_parallel == DataParallelism::fsdp1 && !keeps_parameters();
  }
  // One GPU that computes with the parameters that it holds: nothing is gathered or reduced.
  bool keeps_parameters() const {
    return plan_.mesh.dp * plan_.mesh.cp == 1 && !staged_ && !plan_.sharding.deepspeed_optimizer &&
           parameter_bytes() == held_bytes();
  }
  // A unit is resharded after its forward pass, except the root, whose backward pass follows
  // immediately.
  bool reshards(int u) const { return plan_.sharding.fsdp.reshard_after_forward && u != root(); }
  // Bytes per element of a held parameter and its gradient and moments, of a gathered parameter,
  // and of a reduced gradient.
  std::int64_t held_bytes() const {
    return plan_.sharding.fsdp.low_precision_parameters ? rank_.dim.element : 4;
  }
  std::int64_t parameter_bytes() const {
    return plan_.sharding.fsdp.fp32_parameters ? 4 : rank_.dim.element;
  }
  std::int64_t reduce_bytes() const {
    return plan_.numerics.fp32_gradients ? 4 : rank_.dim.element;
  }
  Category of_parameters() const {
    return held_bytes() == 4 ? Category::master_weights : Category::weights;
  }
  void memory_bound(Emitter& e, model::OperationKind kind, std::string_view name,
                    std::int64_t bytes, Stream stream = Stream::compute);

  // ZeRO++: bytes of a rank's part of the neighbours' second copy.
  std::int64_t second_bytes(const Group& u) const {
    return (u.bytes + plan_.sharding.fsdp.secondary - 1) / plan_.sharding.fsdp.secondary;
  }
  void warm_limiter();
  std::uint8_t take_free_event();
  std::uint8_t give_free_event(bool forward);
  void gather(Emitter& e, int u);
  void send_shards(Emitter& e, const Group& u);
  bool gathers_second() const {
    return plan_.sharding.fsdp.secondary > 1 && pass_ != schedule::Pass::forward;
  }
  void copy_out(Emitter& e, Group& u);
  void prefetch(Emitter& e, int from, bool forward);
  void obtain(Emitter& e, int u, bool forward);
  void reshard(Emitter& e, int u, bool forward);
  void cast_weights(Emitter& e, int layer);
  std::uint32_t enter_root(Visit visit);
  std::uint32_t enter_layer(int layer, Visit visit);
  void drop_gathered(Emitter& e, int u);

  // fsdp_reduce.cpp
  std::uint32_t leave_root(Visit visit);
  std::uint32_t leave_layer(int layer, Visit visit);
  bool syncs() const { return moment_.last || !accumulates_; }
  void finish_unit(Emitter& e, int u);
  void flatten(Emitter& e, const Group& u);
  void accumulate(Emitter& e, Group& u);
  void accumulate_flat(Emitter& e, Group& u);
  bool completes_layers() const { return moment_.last && pass_ != schedule::Pass::input; }
  void reduce_flat(Emitter& e, Group& u, bool from_accumulated);
  void reduce_copied(Emitter& e, int u, bool from_accumulated);
  void ready_in_deepspeed(Emitter& e, const Group& u);
  void put_in_bucket(Emitter& e, int u);
  void reduce_bucket(Emitter& e);
  void communicate(Emitter& e, const Group& u);
  void exchange_quantized(Emitter& e, const Group& u);
  void keep_shard(Emitter& e, Group& u);
  void keep_whole(Emitter& e, Group& u);
  void reduce_all(Emitter& e);
  void end_reduction(Emitter& e);

  std::optional<DeepspeedZero3> deepspeed_;
  std::vector<int> bucket_;     // DeepSpeed: units whose gradients wait in the bucket, in this pass
  int reductions_ = 0;          // of buckets, in this pass
  std::int64_t shards_;         // ranks that share one copy of the parameters
  std::int64_t expert_shards_;  // ... of the experts of this rank
  bool splits_;                 // weight gradients may have a pass of their own
  bool staged_;                 // run by torch.distributed.pipelining, or its equivalent for FSDP1
  bool accumulates_;            // gradients are reduced in the last microbatch only
  bool at_end_;                 // ... after its last pass, all units together
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> layer_gradients_;  // slots that all layers use, by place in the unit
  // Parameters of the ends that received a gradient in this pass.
  std::vector<int> arrived_;
  // In this pass: the unit whose gathered tensor FSDP2 still holds, and the unit that it is
  // reducing; -1: none.
  int gathered_ = -1, reduced_ = -1;
  // FSDP1's queue of free events, now and at the begin of a microbatch.
  std::vector<std::uint8_t> free_events_, warm_events_;
  std::array<int, 2> frees_{};  // number in this pass, [forward]
};

}  // namespace sim::program
