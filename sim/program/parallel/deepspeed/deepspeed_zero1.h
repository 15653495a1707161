// deepspeed_zero1.h — ZeRO-1 as DeepSpeed has it under Megatron-DeepSpeed: gradients are autograd's
// own tensors, of the parameters' type, from a step's first backward pass to its end.
//
//     set-up    the parameters of a group (with weight decay, without) wait on the CPU while one
//               flat tensor is made for them; this rank's equal part of it again in fp32, and
//               Adam's moments by a first step on gradients of zero
//     step      gradients copied into a bucket; of each part of it that belongs to one rank a
//               reduction to that rank, whose gradients are then copied out
//               (deepspeed_all_reduce: the bucket's sum on all ranks)
//     update    the part flattened and cast to fp32, Adam, cast back, gathered bucket by bucket
//               into a list of tensors, which PyTorch flattens
//
// With its state on the CPU (ZeRO-Offload) the GPU has 16-bit parameters and gradients alone:
//
//     step      each gradient of the part, in the bucket: norm, infinities, cast to fp32 and down
//     update    clipping and Adam on the CPU, then a blocking copy of the 16-bit part up
//
// So what the weights leave behind in the allocator's cache at set-up is just what their gradients
// ask for, where Megatron-LM's buffers leave it without use.
// [DeepSpeed 0.6 runtime/zero/stage_1_and_2.py (copy_grads_in_partition, step), offload 0.14;
// runtime/utils.py:all_gather_dp_groups; PyTorch
// ProcessGroupNCCL.cpp:allgather; INVENTORY.md section 10]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/parallel/sharding.h"

namespace sim::program {

// What of a plan with `deepspeed_optimizer` cannot be.
Diagnostics deepspeed_problems(const Plan& plan);

class DeepspeedZero1 final : public Sharding {
 public:
  explicit DeepspeedZero1(Rank& rank);

  std::vector<Stream> communicators() const override;
  void set_up(Emitter& e) override;
  void begin_step(Emitter& e, bool first) override;
  void end_step(Emitter& e, bool first) override;
  void begin(schedule::Pass pass, int chunk, const Moment& moment) override;
  // Gradients come to stay in a step's first backward pass; later ones are added to them.
  bool hooks() const override { return moment_.first && pass_ != schedule::Pass::forward; }

 private:
  struct Member {
    std::int64_t elements = 0;
    std::uint32_t parameter = 0, gradient = 0;  // slots
  };
  struct Group {  // one of the optimizer's groups of parameters
    std::vector<Member> members;
    std::int64_t elements = 0;         // of all, padded to a multiple of 2 for each rank
    std::int64_t part = 0;             // of a rank
    std::vector<std::int64_t> pieces;  // of the first rank's part, by parameter
    std::uint32_t flat = 0, gradient = 0;
  };

  struct Bucket {
    std::int64_t elements = 0, rank = -1;
    std::vector<std::int64_t> slices;  // that go to one rank each
    void add(std::int64_t offset, std::int64_t count, std::int64_t part);
  };

  std::int64_t ranks() const;
  bool offloads() const { return plan_.optimizer.offload_fraction > 0; }
  bool kept(Emitter& e, int chunk, int parameter, Slot gradient) override;
  void make_flat(Emitter& e, const Group& group);
  void first_update(Emitter& e);
  void reduce(Emitter& e);
  void reduce_bucket(Emitter& e, Bucket& filled);
  void copy_part_out(Emitter& e, std::int64_t owned);
  void gradient_down(Emitter& e, std::int64_t piece);
  void check(Emitter& e, std::string_view label, std::int64_t piece, std::int64_t bytes);
  void check_each(Emitter& e, std::string_view label, std::int64_t bytes);
  void agree(Emitter& e, std::string_view label);
  void flatten(Emitter& e, const Group& group);
  void update(Emitter& e, const Group& group);
  void update_on_cpu(Emitter& e, const Group& group);
  void gather(Emitter& e, const Group& group);

  std::vector<Group> groups_;
  std::vector<std::vector<Member>> members_;  // by chunk and parameter
  std::vector<int> arrived_;                  // of the ends, in this pass
  std::uint32_t averaged_ = 0;                // gradients of this rank's part
};

}  // namespace sim::program
