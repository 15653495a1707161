// zero1.h — Megatron-LM core 0.8's data parallelism: whole parameters and gradients on every rank,
// gradients in one contiguous buffer a model chunk, reduced bucket by bucket behind the backward
// pass that completes them (buckets.h).
//
// Replicated: all-reduce, and every rank keeps the optimizer's state of all parameters. Zero1 (the
// distributed optimizer): reduce-scatter, each rank updates its part of each bucket, and parameters
// are views of a second buffer that is gathered, bucket by bucket in front of the modules of the
// next step's first pass (overlap_param_gather), or all at the end of a step. The hook of a module
// waits for its bucket and dispatches the next one, chunk after chunk; where the schedule's loop
// gathers chunks (Schedule::gathers_chunks) it does so a whole chunk ahead of the one that runs. Of
// several copies of the optimizer each has its own group of ranks; what a group has reduced is then
// summed over the copies.
//
//     optimizer_replicas     buckets                             behind the update
//     1                      reduce-scatter                      all-gather
//     > 1                    reduce-scatter, then all-reduce     all-gather inside of a group
//     whole_parameters       all-reduce over all ranks           broadcasts inside of a group
//
// Where a part is there twice (DualPipe), each of two stages that mirror each other updates one of
// their two parts: behind the reductions a rank sends the mirror what it has of the gradients of
// the mirror's part, and behind the update gets its parameters. DeepSeek does not say how it adds
// the two; the bytes are those of one group of twice as many ranks.
//
// [Megatron-LM core 0.8 distributed_data_parallel.py, param_and_grad_buffer.py,
// distrib_optimizer.py (_get_model_param_buffer_dp_views, _finish_param_sync_helper),
// finalize_model_grads.py; sail-sg/zero-bubble-pipeline-parallelism, core 0.9,
// pipeline_parallel/zerobubble/runtime.py: "Param sync func is not supported yet"; core 0.10
// param_and_grad_buffer.py: num_distributed_optimizer_instances; InternLM/InternEvo
// internlm/solver/optimizer/ hybrid_zero_optim.py: broadcast_params; INVENTORY.md sections 10 to
// 12]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/program/parallel/ddp/buckets.h"
#include "sim/program/parallel/sharding.h"

namespace sim::program {

class Replicated : public Sharding {
 public:
  explicit Replicated(Rank& rank) : Replicated(rank, false) {}

  std::vector<Stream> communicators() const override;
  void set_up(Emitter& e) override;
  void begin_step(Emitter& e, bool first) override;
  void end_step(Emitter& e, bool first) override;
  bool hooks() const override {
    return moment_.last && pass_ != schedule::Pass::forward && plan_.sharding.overlap_grad_reduce;
  }

 protected:
  Replicated(Rank& rank, bool in_shards);

  // A contiguous buffer of a chunk: its parameters', or those of its experts, which other ranks
  // share [core 0.14 distributed_data_parallel.py: expert_parallel_buffers].
  struct Buffer {
    bool experts = false;
    BufferLayout layout;
    std::vector<int> pending;               // by bucket: gradients that it waits for
    std::vector<char> gathered;             // by bucket: waited for in this step
    std::vector<std::uint32_t> parameters;  // slots, one a parameter of the chunk
    std::vector<std::uint32_t> copied_gradients;
  };
  Buffer& buffer(int chunk, bool experts = false) {
    return buffers_[static_cast<std::size_t>(chunk + experts * plan_.pipeline.virtual_stages)];
  }
  Buffer& buffer_of(int chunk, int parameter) {
    return buffer(chunk, parameters(chunk)[parameter].expert);
  }
  // The buffers of a chunk, those of experts behind the others.
  std::vector<Buffer*> buffers(int chunk);
  // That share a buffer, their queue, and the events behind its reductions and gathers.
  std::int64_t ranks(const Buffer& b) const;
  Stream group(const Buffer& b) const {
    if (b.experts) return Stream::edp;
    return plan_.mesh.tensor_depth > 1 ? Stream::replicate : Stream::dp_cp;
  }
  // That share one copy of the optimizer's state, and their queue.
  std::int64_t sharers(const Buffer& b) const;
  Stream shards(const Buffer& b) const { return copies(b) ? Stream::shard : group(b); }
  bool copies(const Buffer& b) const {
    return !b.experts && plan_.mesh.tensor_depth == 1 && plan_.replicas() > 1;
  }
  static std::uint16_t reduced(const Buffer& b) {
    return b.experts ? std::uint16_t{expert_bucket_event} : std::uint16_t{bucket_event};
  }
  static std::uint16_t gathered(const Buffer& b) {
    return b.experts ? std::uint16_t{expert_parameter_event} : std::uint16_t{parameter_event};
  }
  bool has_experts() const { return plan_.architecture.is_mixture(); }
  std::int64_t bytes_of_gradient() const;
  std::int64_t bytes_of(const Parameter& p) const;  // of an element

  // Those whose state this rank has: of two chunks that the mirroring stage has too, the first.
  std::vector<Buffer*> updated();
  // Elements of a chunk whose gradients are summed here, of both kinds of buffers.
  std::int64_t shard_of_chunk(int chunk);
  // Messages of their own channels to and from the stage that mirrors this one.
  static constexpr std::uint8_t mirror_gradients = 4, mirror_parameters = 5;
  void swap_with_mirror(Emitter& e, std::int64_t sent, std::int64_t received, std::uint8_t channel,
                        std::string_view label);

  void is_ready(Emitter& e, int chunk, int parameter) override;
  virtual void sum(Emitter& e, const Buffer& b, std::int64_t bytes, std::uint8_t flags);
  virtual void allocate_buffers(Emitter& e, int chunk, Buffer& b);
  virtual void gather_updated(Emitter&) {}  // at the end of a step

 private:
  void allocate_parameters(Emitter& e, int chunk);
  void allocate_masters(Emitter& e, const BufferLayout& layout);
  void allocate_moments(Emitter& e, const BufferLayout& layout);
  void allocate_fp8_weights(Emitter& e, int chunk);
  void cast_fp8_weights(Emitter& e, int chunk);
  void reduce(Emitter& e, const Buffer& b, const Bucket& bucket, bool overlapped_with_backward);
  void finish_reduction(Emitter& e);
  void add_mirror_gradients(Emitter& e);
  void sum_norm_gradients(Emitter& e, int chunk);
  void copy_gradients(Emitter& e, Buffer& b);
  std::vector<std::int64_t> tensors_of_cpu(const BufferLayout& layout) const;
  void gradients_down(Emitter& e, const std::vector<std::int64_t>& tensors);
  void update_on_cpu(Emitter& e, const std::vector<std::int64_t>& tensors);
  void update(Emitter& e, const BufferLayout& layout);
  void log_state(Emitter& e, std::int64_t elements);
  std::int64_t layer_matrices(int chunk, int layer) const;
  // How many pieces, from the first one on, have their state on the CPU: up to its share.
  std::size_t pieces_on_cpu(const BufferLayout& layout) const;

  std::vector<Buffer> buffers_;  // by chunk, then those of experts by chunk
};

class Zero1 final : public Replicated {
 public:
  explicit Zero1(Rank& rank) : Replicated(rank, !rank.plan.sharding.whole_parameters) {}

  void begin_step(Emitter& e, bool first) override;
  bool hooks() const override { return gathers() || Replicated::hooks(); }

 private:
  // In the first pass of a later step modules wait for their parameters.
  bool gathers() const {
    return plan_.sharding.overlap_param_gather && pass_ == schedule::Pass::forward &&
           moment_.first && !moment_.first_step;
  }
  void used(Emitter& e, int chunk, int parameter) override;
  void sum(Emitter& e, const Buffer& b, std::int64_t bytes, std::uint8_t flags) override;
  void allocate_buffers(Emitter& e, int chunk, Buffer& b) override;
  void gather_updated(Emitter& e) override;
  std::int64_t gathered_bytes(const Bucket& bucket) const;
  void dispatch_gather(Emitter& e, const Buffer& b, const Bucket& bucket, std::uint16_t event);
  bool gathers_chunks() const { return rank_.pipeline_schedule().gathers_chunks; }
  void dispatch_next(Emitter& e, int chunk, bool experts, std::size_t buckets);
  static std::uint16_t chunk_bucket(const Buffer& b, int chunk, std::size_t index);
  void gather_chunk(Emitter& e, int chunk);
  void send_updated(Emitter& e, const Buffer& b);
};

}  // namespace sim::program
