// deepspeed_zero1.h — DeepSpeed's ZeRO-1 under Megatron-DeepSpeed. Gradients are autograd's own
// tensors, of the parameters' type, from a step's first backward pass to its end.
//
//     set-up    the parameters of a group (with weight decay, without) move to the CPU while one
//               flat tensor is built; an fp32 copy of this rank's equal part; Adam's moments by a
//               first step with zero gradients
//     step      gradients are copied into a bucket; each rank's part of the bucket is reduced to
//               that rank, which copies its gradients out
//               (deepspeed_all_reduce: the bucket is summed on all ranks)
//     update    the part is flattened and cast to fp32, Adam, cast back, and gathered bucket by
//               bucket into a list of tensors, which PyTorch flattens
//
// With the state on the CPU (ZeRO-Offload) the GPU holds only 16-bit parameters and gradients:
//
//     step      each gradient of the part, in the bucket: norm, infinities, cast to fp32, down
//     update    clipping and Adam on the CPU, then a blocking copy of the 16-bit part up
//
// At set-up the freed weights leave blocks in the allocator's cache, and their gradients fit
// exactly into those blocks. Megatron-LM's buffers leave such blocks unused. [DeepSpeed 0.6
// runtime/zero/stage_1_and_2.py (copy_grads_in_partition, step), offload 0.14;
// runtime/utils.py:all_gather_dp_groups; PyTorch ProcessGroupNCCL.cpp:allgather; INVENTORY.md
// section 10]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/parallel/sharding.h"

namespace sim::program {

class DeepspeedZero1 final : public Sharding {
 public:
  explicit DeepspeedZero1(Rank& rank);

  void add_communicators(std::vector<Stream>& to) const override;
  void set_up(Emitter& e) override;
  void begin_step(Emitter& e, bool first) override;
  void end_step(Emitter& e, bool first) override;
  void begin(schedule::Pass pass, int chunk, const Moment& moment) override;
  // Gradients are kept in a step's first backward pass; later passes add to them.
  bool hooks() const override { return moment_.first && pass_ != schedule::Pass::forward; }

 private:
  struct Member {
    std::int64_t elements = 0;
    std::uint32_t parameter = 0, gradient = 0;  // slots
  };
  struct Group {  // a parameter group of the optimizer
    std::vector<Member> members;
    std::int64_t elements = 0;         // total, padded to a multiple of 2 for each rank
    std::int64_t part = 0;             // elements of one rank
    std::vector<std::int64_t> pieces;  // of the first rank's part, by parameter
    std::uint32_t flat = 0, gradient = 0;
  };

  struct Bucket {
    std::int64_t elements = 0, rank = -1;
    std::vector<std::int64_t> slices;  // each goes to one rank
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
  std::vector<int> arrived_;                  // parameters of the ends with a gradient in this pass
  std::uint32_t averaged_ = 0;                // slot: gradients of this rank's part
};

}  // namespace sim::program
