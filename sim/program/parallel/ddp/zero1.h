// zero1.h — Megatron-LM core 0.8's data parallelism with whole parameters and gradients on every
// rank. Gradients lie in one contiguous buffer for each model chunk. Each bucket is reduced after
// the backward pass that completes it (buckets.h).
//
// Replicated: gradients are all-reduced, and every rank keeps the optimizer state of all
// parameters. Zero1 (the distributed optimizer): gradients are reduce-scattered, and each rank
// updates its shard of each bucket. Parameters are views of a second buffer, which is all-gathered.
// With overlap_param_gather, each bucket is gathered before the modules of the next step's first
// pass need it; otherwise all are gathered at the end of a step. The hook of a module waits for its
// bucket and starts the gather of the next bucket, chunk after chunk. Some schedules gather whole
// chunks, one chunk ahead (Schedule::gathers_chunks). With several copies of the optimizer, each
// copy has its own group of ranks; the reduced gradients are then summed over the copies.
//
//     optimizer_replicas     buckets                             after the update
//     1                      reduce-scatter                      all-gather
//     > 1                    reduce-scatter, then all-reduce     all-gather within a group
//     whole_parameters       all-reduce over all ranks           broadcasts within a group
//
// If each part exists twice (DualPipe), two mirroring stages hold the same two parts, and each
// updates one of them. After the reductions a rank sends the mirror its gradients of the mirror's
// part. After the update it receives that part's parameters. DeepSeek does not publish how it adds
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

  void add_communicators(std::vector<Stream>& to) const override;
  void set_up(Emitter& e) override;
  void begin_step(Emitter& e, bool first) override;
  void end_step(Emitter& e, bool first) override;
  bool hooks() const override {
    return moment_.last && pass_ != schedule::Pass::forward && plan_.sharding.overlap_grad_reduce;
  }

 protected:
  Replicated(Rank& rank, bool in_shards);

  // A contiguous buffer of a chunk: of its dense parameters, or of its experts, which a different
  // group of ranks shares [core 0.14 distributed_data_parallel.py: expert_parallel_buffers].
  struct Buffer {
    bool experts = false;
    BufferLayout layout;
    std::vector<int> pending;               // by bucket: gradients still missing
    std::vector<char> gathered;             // by bucket: already waited for in this step
    std::vector<std::uint32_t> parameters;  // slots, one for each parameter of the chunk
    std::vector<std::uint32_t> copied_gradients;
    std::vector<std::uint32_t> wide_moments;
  };
  Buffer& buffer(int chunk, bool experts = false) {
    return buffers_[static_cast<std::size_t>(chunk + experts * plan_.pipeline.virtual_stages)];
  }
  Buffer& buffer_of(int chunk, int parameter) {
    return buffer(chunk, parameters(chunk)[parameter].expert);
  }
  // The buffers of a chunk; the buffer of experts comes last.
  std::vector<Buffer*> buffers(int chunk);
  // The ranks that share a buffer, their stream, and the events of its reductions and gathers.
  std::int64_t ranks(const Buffer& b) const;
  Stream group(const Buffer& b) const {
    if (b.experts) return Stream::edp;
    return plan_.mesh.tensor_depth > 1 ? Stream::replicate : Stream::dp_cp;
  }
  // The ranks that share one copy of the optimizer state, and their stream.
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
  std::int64_t bytes_of(const Parameter& p) const;  // per element

  // Buffers whose optimizer state this rank holds. With a mirroring stage it is only the first of
  // the two chunks.
  std::vector<Buffer*> updated();
  // Elements of a chunk whose summed gradients this rank holds, in both kinds of buffers.
  std::int64_t shard_of_chunk(int chunk);
  // Channels of the messages to and from the mirroring stage.
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
  bool widens_moments() const;
  void each_wide_moment(Buffer& b, const auto& work);
  void update_widened(Emitter& e, bool experts);
  void update(Emitter& e, const BufferLayout& layout);
  void log_state(Emitter& e, std::int64_t elements);
  std::int64_t layer_matrices(int chunk, int layer) const;
  // The number of leading pieces whose state lies on the CPU, up to its share of the elements.
  std::size_t pieces_on_cpu(const BufferLayout& layout) const;

  std::vector<Buffer> buffers_;  // by chunk, then those of experts by chunk
};

class Zero1 final : public Replicated {
 public:
  explicit Zero1(Rank& rank) : Replicated(rank, !rank.plan.sharding.whole_parameters) {}

  void begin_step(Emitter& e, bool first) override;
  bool hooks() const override { return gathers() || Replicated::hooks(); }

 private:
  // In the first pass of a later step, modules wait for their parameters.
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
