// deepspeed_zero3.h — DeepSpeed's ZeRO-3, and with the optimizer state on the CPU its fork Deep
// Optimizer States: the handling of a unit's reduced gradients, and the step. Parameters are
// grouped into sub-groups in the order of the model. Norms are among them, as logs of such runs
// list them.
//
// State on the GPU
//
//     reduced   stored in a buffer of 16 bits, or added to it
//     step      the global norm, in double; for each sub-group, its gradients become one fp32
//               tensor, are scaled and used, and the 16-bit parameters are written
//
// State on the CPU
//
//     reduced   the first microbatch's shard is copied to a buffer in CPU memory and comes back; a
//               later one is added to the copy that comes up, and goes down again
//     last one  the norm, in double; then by the tensor's home (offload::Home):
//                 cpu       copied down: blocking in its own type, or asynchronous in fp32
//                 fetched   into the gradients of its sub-group, on the GPU
//                 gpu       into fp32 gradients, which stay on the GPU
//     step      the catalog's work (offload.h), on the CPU, the GPU and both directions of PCIe.
//               A copy that uses CPU memory bandwidth takes its turn in the CPU's queue and runs
//               during that turn
//
// Copies are ordered with the reductions. Reductions run beside the passes, or before the kernels
// that follow (overlap_comm false, here overlap_grad_reduce).
//
// GPU memory: 2 bytes for each parameter of the shard. With the state on the GPU: 14 more, and 4 to
// 6 for one sub-group during the step. With the state on the CPU: 16 for parameters whose state
// stays on the GPU. Fetched parameters need their gradients from the last backward pass to the
// update, and 12 for the parameters of one sub-group.
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

// Copies over PCIe on stream `way`, after all work that stream `behind` has received so far.
void copy_behind(Emitter& e, Stream behind, Stream way, std::string_view label, std::int64_t bytes);
// Adam on the CPU, which moves `bytes` through CPU memory.
void update_on_cpu(Emitter& e, std::int64_t bytes);

class DeepspeedZero3 {
 public:
  // `tensors`: elements of this rank's shard of each tensor, in the order of the model; 0: frozen,
  // and in no sub-group [stage3.py: _get_trainable_parameter_groups].
  DeepspeedZero3(Rank& rank, std::vector<std::int64_t> tensors);

  void set_up(Emitter& e);
  void begin_pass() { arrived_.assign(gradients_.size(), false); }
  // The gradients of `tensors` have been reduced into `shard`.
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
  std::int64_t width_;  // bytes of a gradient element
  offload::OptimizerShard shape_;
  std::vector<std::int64_t> groups_;         // elements
  std::vector<offload::Home> home_devices_;  // by tensor
  std::int64_t rest_ = 0;                    // elements whose state stays on the GPU
  bool comes_down_ = false;                  // some gradients are copied to the CPU
  std::vector<std::uint32_t> gradients_;     // slots, by sub-group
  // By sub-group: whether a gradient has arrived in this pass.
  std::vector<char> arrived_;
  std::vector<std::uint32_t> state_;  // slots: the fetched parameters and moments,
  std::uint32_t wide_gradient_ = 0;   // ... and their gradient in fp32
  std::int64_t held_ = 0;             // elements in `state_`
  std::size_t fetched_ = 0;           // sub-groups up to the last fetched one
};

}  // namespace sim::program
