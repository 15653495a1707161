// data_parallel.h — parameters, buffers, buckets and the traffic of the data-parallel group, as
// Megatron-LM core 0.8 builds them (DistributedDataParallel, ParamAndGradBuffer,
// DistributedOptimizer).
//
// Bucket rules: parameters are walked from the last to the first; each starts on a multiple of 64
// elements and each bucket ends on a multiple of lcm(D c, 128) (distributed optimizer only); a
// bucket is closed by the parameter that reaches max(40 M, 1 M x D) elements. Without
// overlap_grad_reduce, on pipeline ranks > 0 and for chunks > 0 there is one bucket.
// [Megatron-LM core 0.8 distributed_data_parallel.py, param_and_grad_buffer.py]
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/workload/rank.h"

namespace sim::workload {

// In the order of registration inside a layer.
enum class LayerParameter : std::uint8_t {
  projection,
  projection_bias,
  qkv_norm,
  qkv_norm_bias,
  qkv,
  qkv_bias,
  fc1_norm,
  fc1_norm_bias,
  fc1,
  fc1_bias,
  fc2,
  fc2_bias,
  // Adapters (lora.cpp): down to the rank, and up.
  qkv_down,
  qkv_up,
  projection_down,
  projection_up,
  fc1_down,
  fc1_up,
  fc2_down,
  fc2_up,
  count_,
};
enum class EndParameter : std::uint8_t {
  word_embedding,
  position_embedding,
  final_norm,
  final_norm_bias,
  output,
  count_,
};

struct Parameter {
  std::string_view name;
  std::int64_t elements = 0;       // of this tensor-parallel rank
  bool sequence_parallel = false;  // norms and biases: gradients are summed over tp
  int bucket = -1;
  bool fp8 = false;     // held in fp8
  bool frozen = false;  // beside adapters: no gradient, no state, not in the buffers
};

// One model chunk of one rank.
class DataParallel {
 public:
  DataParallel(Rank& rank, int chunk);

  std::int64_t parameters() const { return elements_; }     // without padding
  std::int64_t buffer_elements() const { return padded_; }  // with padding

  // Every bucket waits for its gradients and its gather again.
  void begin_step();

  // nullptr: the chunk has no such parameter.
  const Parameter* find(int layer, LayerParameter p) const;
  const Parameter* find(EndParameter p) const;

  // Before the gradients of a parameter are ready in the last microbatch: counts down its bucket
  // and issues norm check, scaling and reduction when the bucket is complete.
  void gradient_ready(Emitter& e, int layer, LayerParameter p);
  void gradient_ready(Emitter& e, EndParameter p);

  // First microbatch of a step: a module's pre-hook waits for its bucket and dispatches the next.
  void start_gather(Emitter& e);
  void before_use(Emitter& e, int layer, LayerParameter p);
  void before_use(Emitter& e, EndParameter p);

  // Set-up: parameters, buffers, optimizer shards. Step: moments, update.
  void allocate_parameters(Emitter& e);
  void allocate_buffers(Emitter& e);
  void allocate_masters(Emitter& e);
  void allocate_moments(Emitter& e);
  // fp8: the layers' weights cast, and cast transposed, once a step.
  void allocate_fp8_weights(Emitter& e);
  void cast_fp8_weights(Emitter& e);
  void finish_reduction(Emitter& e);  // what was not overlapped, and the wait for what was
  // Where the buffer holds bf16 gradients: their fp32 copies, from the step to the next zero_grad.
  void copy_gradients(Emitter& e);
  void drop_copied_gradients(Emitter& e);
  void zero_gradients(Emitter& e);
  void sum_norm_gradients(Emitter& e);
  void update(Emitter& e);      // Adam and the copies into the model's parameters
  void gather_all(Emitter& e);  // without overlap_param_gather
  std::int64_t shard_elements() const;
  int shard_pieces() const { return static_cast<int>(shards_.size()); }
  bool copies_gradients() const {
    return !rank_.plan.numerics.fp32_gradients &&
           rank_.plan.numerics.precision != model::Precision::fp32 &&
           !rank_.plan.optimizer.precision_aware;
  }
  std::int64_t bytes_of_gradient() const {
    return rank_.plan.numerics.fp32_gradients ||
                   rank_.plan.numerics.precision == model::Precision::fp32
               ? 4
               : 2;
  }

 private:
  struct Bucket {
    std::int64_t elements = 0;  // padded
    std::int64_t in_fp8 = 0;    // of them
    int parameters = 0;
    int pending = 0;
    bool gathered = false;
  };

  void ready(Emitter& e, const Parameter& p);
  void use(Emitter& e, const Parameter& p);
  void reduce(Emitter& e, Bucket& bucket, bool overlapped_with_backward);
  void dispatch_gather(Emitter& e, std::size_t bucket);
  std::int64_t parameter_bytes(const Bucket& bucket) const {
    return rank_.dim.element * bucket.elements - bucket.in_fp8 * (rank_.dim.element - 1);
  }
  void assign_buckets();
  void assign_shards();

  Rank& rank_;
  int chunk_;
  std::vector<Parameter> parameters_;          // in order of registration
  std::vector<std::vector<int>> layer_index_;  // [layer][LayerParameter] -> parameter, -1: none
  std::vector<int> end_index_;                 // [EndParameter] -> parameter, -1: none
  std::vector<Bucket> buckets_;                // in order of creation: the last layers first
  std::vector<std::int64_t> shards_;           // elements of each parameter piece this rank owns
  std::int64_t elements_ = 0, padded_ = 0;
  std::vector<std::uint32_t> parameter_slots_;
  std::uint32_t parameter_buffer_ = 0, gradient_buffer_ = 0;
  std::vector<std::uint32_t> master_slots_, first_moment_slots_, second_moment_slots_;
  std::vector<std::uint32_t> copied_gradient_slots_;
  std::int64_t layer_weights(int layer) const;
  // Whether the optimizer keeps the state of a piece on the CPU: the first ones, up to its share.
  bool offloaded(std::size_t piece) const;
};

}  // namespace sim::workload
