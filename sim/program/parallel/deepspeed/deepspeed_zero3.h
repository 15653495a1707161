// deepspeed_zero3.h — ZeRO-3 as DeepSpeed has it, and with the optimizer's state on the CPU its
// fork of Deep Optimizer States: what becomes of a unit's reduced gradients, and the step.
// Parameters are cut into sub-groups in the order of the model, norms among them, as logs of such
// runs list them.
//
// State on the GPU
//
//     reduced   into a buffer of 16 bits, or added to what is there
//     step      norm of all, in double; sub-group by sub-group its gradients become one tensor, in
//               fp32, are scaled and used, and the 16 bits of the parameters written
//
// State on the CPU
//
//     reduced   the first microbatch's shard goes down to a buffer in the CPUs' memory and comes
//               back; a later one's is added to what comes up, and goes down
//     last one  norm, in double; then by the tensor's home (offload::Place):
//                 cpu       down, by a blocking copy of what it is or, asynchronous, in fp32
//                 fetched   into the gradients of its sub-group, on the GPU
//                 gpu       into fp32 gradients, which stay there
//     step      the catalog's work (offload.h), on the CPU, the GPU and both ways of PCIe. A copy
//               that draws on the CPUs' memory has its turn in the CPU's queue and is under way
//               meanwhile
//
// Copies are ordered with the reductions, which are beside the passes or (overlap_comm false, here
// overlap_grad_reduce) before the kernels behind them.
//
// GPU memory: 2 bytes of each parameter's shard. State on the GPU: 14 more, and 4 to 6 of one
// sub-group in the step. On the CPU: 16 of what stays on the GPU; of what is fetched the gradients
// from the last backward pass to their update, and 12 for the parameters of one sub-group.
//
// [DeepSpeed runtime/zero/stage3.py: partition_grads, initialize_optimizer_states, step,
// get_grad_norm_direct, _prepare_fp32_grad_for_sub_group, unscale_and_clip_grads;
// DataStates/DeepSpeed @d18d6f8, the same and opt_transfers, downsample_fp32_fp16; PyTorch
// aten/native/cuda/Copy.cu: where types are converted]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/job/offload/offload.h"
#include "sim/program/parallel/sharding.h"

namespace sim::program {

// What a plan with shards and DeepSpeed's optimizer cannot be, and what of the fields needs it.
Diagnostics deepspeed_zero3_problems(const Plan& plan);

// One copy over PCIe, behind what the stream was given so far.
void copy_behind(Emitter& e, Stream behind, Stream way, std::string_view label, std::int64_t bytes);
// Adam on the CPU, which draws so much on its memory.
void update_on_cpu(Emitter& e, std::int64_t bytes);

class DeepspeedZero3 {
 public:
  // `tensors`: elements of this rank's shard of each, in the order of the model; 0: it is frozen
  // and in no sub-group [stage3.py: _get_trainable_parameter_groups].
  DeepspeedZero3(Rank& rank, std::vector<std::int64_t> tensors);

  void set_up(Emitter& e);
  void begin_pass() { arrived_.assign(gradients_.size(), false); }
  // The gradients of some tensors are reduced into `shard`.
  void take(Emitter& e, std::span<const int> tensors, Slot shard, const Moment& moment);
  void step(Emitter& e, bool first);

 private:
  bool offloads() const { return plan_.optimizer.offload_fraction > 0; }
  void add_on_gpu(Emitter& e, Slot shard, std::int64_t bytes, bool first);
  void add_on_cpu(Emitter& e, Slot shard, std::int64_t bytes, bool first);
  void place(Emitter& e, std::span<const int> tensors);
  void bring_down(Emitter& e, std::int64_t elements);
  void keep_on_gpu(Emitter& e, std::size_t group, std::int64_t elements);
  void agree(Emitter& e, std::string_view label);
  void step_on_gpu(Emitter& e);
  void step_from_cpu(Emitter& e, bool first);
  void issue(Emitter& e, const offload::Work& work, std::size_t number);
  void copy_in_turn(Emitter& e, const offload::Work& work, Stream way);
  void receive(Emitter& e, std::size_t group);
  void update_on_gpu(Emitter& e, std::int64_t elements);

  Rank& rank_;
  const Plan& plan_;
  const offload::Method* method_;
  std::int64_t width_;  // bytes of a gradient's element
  offload::Shape shape_;
  std::vector<std::int64_t> groups_;      // elements
  std::vector<offload::Home> homes_;      // by tensor
  std::int64_t rest_ = 0;                 // elements whose state stays on the GPU
  bool comes_down_ = false;               // any gradient does
  std::vector<std::uint32_t> gradients_;  // slots, by sub-group
  std::vector<char> arrived_;             // by sub-group: any of its gradients, in this pass
  std::vector<std::uint32_t> state_;      // slots: parameters and moments of what is fetched,
  std::uint32_t wide_gradient_ = 0;       // ... and its gradient in fp32
  std::int64_t held_ = 0;                 // elements in `state_`
  std::size_t fetched_ = 0;               // sub-groups up to the one that came up last
};

}  // namespace sim::program
