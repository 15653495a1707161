#include "sim/workload/data_parallel.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "sim/workload/lora.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::OperationKind;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

void pass(Emitter& e, OperationKind kind, std::string_view name, std::int64_t bytes,
          std::uint8_t flags = 0) {
  e.kernel(model::pass(kind, name, Bytes{bytes}), flags);
}

}  // namespace

DataParallel::DataParallel(Rank& rank, int chunk) : rank_(rank), chunk_(chunk) {
  const model::Architecture& a = rank.plan.architecture;
  const Dimensions& dim = rank.dim;
  const bool layer_norm = a.norm == model::Norm::layer;
  const bool sp = rank.plan.uses_sequence_parallel();
  const bool frozen = rank.plan.trains_adapters();
  const auto add = [&](std::string_view name, std::int64_t elements, bool shared) {
    parameters_.push_back({name, elements, shared && !frozen, -1, false, frozen});
    return static_cast<int>(parameters_.size()) - 1;
  };
  const auto add_end = [&](EndParameter p, std::string_view name, std::int64_t elements,
                           bool shared = false) {
    end_index_[static_cast<std::size_t>(p)] = add(name, elements, shared);
  };
  end_index_.assign(static_cast<std::size_t>(EndParameter::count_), -1);
  const bool last = rank.is_last_part(chunk);
  if (rank.is_first_part(chunk)) {
    add_end(EndParameter::word_embedding, "word embedding", dim.vocab * dim.hidden);
    if (a.position == model::Position::learned)
      add_end(EndParameter::position_embedding, "position embedding", a.max_positions * dim.hidden);
  }
  for (int layer = 0; layer < rank.layers(chunk); ++layer) {
    std::vector<int> index(static_cast<std::size_t>(LayerParameter::count_), -1);
    const auto set = [&](LayerParameter p, bool present, std::string_view name, std::int64_t n,
                         bool shared = false) {
      if (!present) return;
      index[static_cast<std::size_t>(p)] = add(name, n, shared);
      parameters_.back().fp8 = rank.plan.numerics.fp8_parameters &&
                               (p == LayerParameter::projection || p == LayerParameter::qkv ||
                                p == LayerParameter::fc1 || p == LayerParameter::fc2);
    };
    set(LayerParameter::projection, true, "linear_proj.weight", dim.hidden * dim.query);
    set(LayerParameter::projection_bias, a.linear_bias, "linear_proj.bias", dim.hidden, sp);
    set(LayerParameter::qkv_norm, true, "linear_qkv.layer_norm_weight", dim.hidden, sp);
    set(LayerParameter::qkv_norm_bias, layer_norm, "linear_qkv.layer_norm_bias", dim.hidden, sp);
    set(LayerParameter::qkv, true, "linear_qkv.weight", dim.mixed_width() * dim.hidden);
    set(LayerParameter::qkv_bias, a.qkv_bias, "linear_qkv.bias", dim.mixed_width());
    set(LayerParameter::fc1_norm, true, "linear_fc1.layer_norm_weight", dim.hidden, sp);
    set(LayerParameter::fc1_norm_bias, layer_norm, "linear_fc1.layer_norm_bias", dim.hidden, sp);
    set(LayerParameter::fc1, true, "linear_fc1.weight", dim.up * dim.hidden);
    set(LayerParameter::fc1_bias, a.linear_bias, "linear_fc1.bias", dim.up);
    set(LayerParameter::fc2, true, "linear_fc2.weight", dim.hidden * dim.ffn);
    set(LayerParameter::fc2_bias, a.linear_bias, "linear_fc2.bias", dim.hidden, sp);
    for (const Module module : {Module::qkv, Module::projection, Module::fc1, Module::fc2}) {
      if (!rank.adapts(module)) continue;
      const AdapterShape shape = adapter_shape(rank, module);
      const auto at =
          static_cast<std::size_t>(LayerParameter::qkv_down) + 2 * static_cast<std::size_t>(module);
      index[at] = add("adapter.linear_in", shape.down(), false);
      parameters_.back().frozen = false;
      index[at + 1] = add("adapter.linear_out", shape.up(), false);
      parameters_.back().frozen = false;
    }
    layer_index_.push_back(std::move(index));
  }
  if (last) {
    add_end(EndParameter::final_norm, "final norm", dim.hidden, sp);
    if (layer_norm) add_end(EndParameter::final_norm_bias, "final norm bias", dim.hidden, sp);
    // A tied output shares the first stage's table only where that is on the same rank.
    if (!a.tied_embeddings || !rank.is_first_part(chunk))
      add_end(EndParameter::output, "output layer", dim.vocab * dim.hidden);
  }
  for (const Parameter& p : parameters_) elements_ += p.elements;
  assign_buckets();
  if (rank.plan.sharding.distributed_optimizer) {
    assign_shards();
  } else {
    for (const Parameter& p : parameters_)
      if (!p.frozen) shards_.push_back(p.elements);
  }
}

void DataParallel::assign_buckets() {
  const Plan& plan = rank_.plan;
  const std::int64_t shards = static_cast<std::int64_t>(plan.mesh.dp) * plan.mesh.cp;
  const bool one = !plan.sharding.overlap_grad_reduce || rank_.program.stage > 0 || chunk_ > 0;
  const std::int64_t limit = std::max<std::int64_t>(40'000'000, 1'000'000LL * plan.mesh.dp);
  const std::int64_t end_unit = std::lcm<std::int64_t>(shards, 128);
  const bool pads = plan.sharding.distributed_optimizer;
  std::int64_t at = 0, start = 0;
  Bucket open;
  const auto close = [&] {
    if (pads) at = round_up(at, end_unit);
    open.elements = at - start;
    buckets_.push_back(open);
    open = {};
    start = at;
  };
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    Parameter& p = parameters_[i];
    if (p.frozen) continue;
    if (pads) at = round_up(at, 64);
    // A table that the first and the last stage share is a bucket of its own on both, so that both
    // cut it into the same shards.
    const auto is = [&](EndParameter which) {
      return static_cast<int>(i) == end_index_[static_cast<std::size_t>(which)];
    };
    const bool alone = pads && plan.architecture.tied_embeddings && plan.mesh.pp > 1 &&
                       (is(EndParameter::word_embedding) || is(EndParameter::output));
    if (alone && open.parameters > 0) close();
    at += p.elements;
    if (p.fp8) open.in_fp8 += p.elements;
    p.bucket = static_cast<int>(buckets_.size());
    ++open.parameters;
    if (alone || (!one && at - start >= limit)) close();
  }
  if (open.parameters > 0) close();
  padded_ = at;
}

// Pieces of parameters inside the first data-parallel rank's slice of each bucket.
void DataParallel::assign_shards() {
  const std::int64_t ranks = static_cast<std::int64_t>(rank_.plan.mesh.dp) * rank_.plan.mesh.cp;
  std::int64_t at = 0;
  int bucket = -1;
  std::int64_t bucket_start = 0, slice_end = 0;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const Parameter& p = parameters_[i];
    if (p.frozen) continue;
    if (p.bucket != bucket) {
      bucket_start = 0;
      for (int b = 0; b < p.bucket; ++b)
        bucket_start += buckets_[static_cast<std::size_t>(b)].elements;
      bucket = p.bucket;
      at = bucket_start;
      slice_end = bucket_start + buckets_[static_cast<std::size_t>(bucket)].elements / ranks;
    }
    at = round_up(at, 64);
    const std::int64_t piece = std::min(at + p.elements, slice_end) - at;
    if (piece > 0) shards_.push_back(piece);
    at += p.elements;
  }
}

void DataParallel::begin_step() {
  for (Bucket& bucket : buckets_) {
    bucket.pending = bucket.parameters;
    bucket.gathered = false;
  }
}

std::int64_t DataParallel::shard_elements() const {
  return std::accumulate(shards_.begin(), shards_.end(), std::int64_t{0});
}

const Parameter* DataParallel::find(int layer, LayerParameter p) const {
  const int index = layer_index_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(p)];
  return index < 0 ? nullptr : &parameters_[static_cast<std::size_t>(index)];
}

const Parameter* DataParallel::find(EndParameter p) const {
  const int index = end_index_[static_cast<std::size_t>(p)];
  return index < 0 ? nullptr : &parameters_[static_cast<std::size_t>(index)];
}

void DataParallel::gradient_ready(Emitter& e, int layer, LayerParameter p) {
  if (const Parameter* parameter = find(layer, p)) ready(e, *parameter);
}

void DataParallel::gradient_ready(Emitter& e, EndParameter p) {
  if (const Parameter* parameter = find(p)) ready(e, *parameter);
}

void DataParallel::ready(Emitter& e, const Parameter& p) {
  if (p.frozen) return;
  Bucket& bucket = buckets_[static_cast<std::size_t>(p.bucket)];
  assert(bucket.pending > 0);
  if (--bucket.pending == 0 && rank_.plan.sharding.overlap_grad_reduce) reduce(e, bucket, true);
}

void DataParallel::reduce(Emitter& e, Bucket& bucket, bool overlapped_with_backward) {
  const std::int64_t bytes = bucket.elements * bytes_of_gradient();
  if (rank_.plan.stack.check_for_nan) {
    pass(e, OperationKind::reduction, "bucket norm", bytes);
    e.sync_stream(Stream::compute, "gradient nan check");
    e.host(HostWork::blocking_read);
  }
  pass(e, OperationKind::elementwise, "bucket scale", 2 * bytes);
  if (rank_.plan.mesh.dp * rank_.plan.mesh.cp == 1) return;
  e.collective(rank_.plan.sharding.distributed_optimizer ? Kind::reduce_scatter : Kind::all_reduce,
               Stream::dp_cp, bytes, "gradient reduction",
               overlapped_with_backward ? overlapped : joins, bucket_event);
}

void DataParallel::finish_reduction(Emitter& e) {
  if (!rank_.plan.sharding.overlap_grad_reduce) {
    for (Bucket& bucket : buckets_) reduce(e, bucket, false);
    return;
  }
  for ([[maybe_unused]] const Bucket& bucket : buckets_) assert(bucket.pending == 0);
  if (rank_.plan.mesh.dp * rank_.plan.mesh.cp > 1) e.wait(bucket_event);
}

void DataParallel::dispatch_gather(Emitter& e, std::size_t bucket) {
  e.collective(Kind::all_gather, Stream::dp_cp, parameter_bytes(buckets_[bucket]),
               "parameter gather", overlapped, parameter_event);
}

// Forward order is the reverse of creation: the bucket with the embedding is the last one built.
void DataParallel::start_gather(Emitter& e) {
  if (rank_.plan.mesh.dp * rank_.plan.mesh.cp == 1) return;
  dispatch_gather(e, buckets_.size() - 1);
}

void DataParallel::before_use(Emitter& e, int layer, LayerParameter p) {
  if (const Parameter* parameter = find(layer, p)) use(e, *parameter);
}

void DataParallel::before_use(Emitter& e, EndParameter p) {
  if (const Parameter* parameter = find(p)) use(e, *parameter);
}

void DataParallel::use(Emitter& e, const Parameter& p) {
  if (p.frozen) return;
  const auto index = static_cast<std::size_t>(p.bucket);
  Bucket& bucket = buckets_[index];
  if (bucket.gathered || rank_.plan.mesh.dp * rank_.plan.mesh.cp == 1) return;
  bucket.gathered = true;
  e.wait(parameter_event);
  if (index > 0) dispatch_gather(e, index - 1);
}

void DataParallel::gather_all(Emitter& e) {
  if (rank_.plan.mesh.dp * rank_.plan.mesh.cp == 1) return;
  for (std::size_t i = buckets_.size(); i-- > 0;)
    e.collective(Kind::all_gather, Stream::dp_cp, parameter_bytes(buckets_[i]), "parameter gather");
}

void DataParallel::allocate_parameters(Emitter& e) {
  for (const Parameter& p : parameters_) {
    parameter_slots_.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(parameter_slots_.back()), (p.fp8 ? 1 : rank_.dim.element) * p.elements,
            Category::weights, p.name);
  }
}

void DataParallel::allocate_buffers(Emitter& e) {
  const bool distributed = rank_.plan.sharding.distributed_optimizer;
  if (distributed) {
    parameter_buffer_ = rank_.new_fixed();
    std::int64_t bytes = 0;
    for (const Bucket& bucket : buckets_) bytes += parameter_bytes(bucket);
    e.alloc(fixed_slot(parameter_buffer_), bytes, Category::weights, "parameter buffer");
  }
  gradient_buffer_ = rank_.new_fixed();
  e.alloc(fixed_slot(gradient_buffer_), bytes_of_gradient() * padded_, Category::gradients,
          "gradient buffer");
  pass(e, OperationKind::copy, "clear buffers", bytes_of_gradient() * padded_);
  if (!distributed) return;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (parameters_[i].frozen) continue;
    pass(e, OperationKind::copy, "parameter to buffer",
         2 * (parameters_[i].fp8 ? 1 : rank_.dim.element) * parameters_[i].elements);
    e.free(fixed_slot(parameter_slots_[i]));
  }
}

void DataParallel::allocate_masters(Emitter& e) {
  if (rank_.plan.numerics.precision == model::Precision::fp32) return;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (offloaded(i)) continue;
    const std::uint32_t clone = rank_.new_fixed();
    e.alloc(fixed_slot(clone), rank_.dim.element * shards_[i], Category::temporaries,
            "shard clone");
    master_slots_.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(master_slots_.back()),
            rank_.plan.optimizer.main_parameter_bytes * shards_[i], Category::master_weights,
            "fp32 main parameter");
    e.free(fixed_slot(clone));
  }
}

void DataParallel::allocate_moments(Emitter& e) {
  const OptimizerOptions& o = rank_.plan.optimizer;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (offloaded(i)) continue;
    const std::int64_t piece = shards_[i];
    first_moment_slots_.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(first_moment_slots_.back()), o.exp_avg_bytes * piece, Category::optimizer,
            "exp_avg");
    second_moment_slots_.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(second_moment_slots_.back()), o.exp_avg_sq_bytes * piece,
            Category::optimizer, "exp_avg_sq");
    pass(e, OperationKind::copy, "clear moments", (o.exp_avg_bytes + o.exp_avg_sq_bytes) * piece,
         optimizer_work);
  }
}

// The optimizer works on fp32: with an fp32 buffer its gradient is a view of it
// [Megatron-LM core 0.8 distrib_optimizer.py:_copy_model_grads_to_main_grads].
void DataParallel::copy_gradients(Emitter& e) {
  if (!copies_gradients()) return;
  const bool first = copied_gradient_slots_.empty();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (first) copied_gradient_slots_.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(copied_gradient_slots_[i]), 4 * shards_[i], Category::gradients,
            "fp32 gradient copy");
    pass(e, OperationKind::copy, "gradient to fp32", (4 + bytes_of_gradient()) * shards_[i],
         optimizer_work);
  }
}

void DataParallel::drop_copied_gradients(Emitter& e) {
  for (const std::uint32_t slot : copied_gradient_slots_) e.free(fixed_slot(slot));
}

void DataParallel::zero_gradients(Emitter& e) {
  pass(e, OperationKind::copy, "zero gradients", bytes_of_gradient() * padded_, optimizer_work);
}

// Norms see only a part of the sequence: their gradients are summed over the tensor-parallel
// group, flattened into one tensor [Megatron-LM core 0.8 finalize_model_grads.py].
void DataParallel::sum_norm_gradients(Emitter& e) {
  std::int64_t elements = 0;
  int tensors = 0;
  for (const Parameter& p : parameters_)
    if (p.sequence_parallel) {
      elements += p.elements;
      ++tensors;
    }
  if (tensors == 0) return;
  const std::int64_t bytes = elements * bytes_of_gradient();
  e.alloc(local_slot(0), bytes, Category::temporaries, "flattened norm gradients");
  pass(e, OperationKind::copy, "flatten norm gradients", 2 * bytes);
  e.collective(Kind::all_reduce, Stream::tp, bytes, "norm gradient all-reduce");
  for (int i = 0; i < tensors; ++i)
    pass(e, OperationKind::copy, "copy norm gradient", 2 * bytes / tensors);
  e.free(local_slot(0));
}

void DataParallel::update(Emitter& e) {
  const OptimizerOptions& o = rank_.plan.optimizer;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i)
    if (!offloaded(i)) elements += shards_[i];
  const bool masters = rank_.plan.numerics.precision != model::Precision::fp32;
  // Reads parameter, both moments and gradient; writes parameter and moments.
  const std::int64_t gradient = o.precision_aware ? bytes_of_gradient() : 4;
  const std::int64_t state = o.main_parameter_bytes + o.exp_avg_bytes + o.exp_avg_sq_bytes;
  if (elements > 0)
    pass(e, OperationKind::optimizer, "adam", (2 * state + gradient) * elements, optimizer_work);
  if (!masters) return;
  for (const std::int64_t piece : shards_)
    pass(e, OperationKind::copy, "master to model", (4 + rank_.dim.element) * piece,
         optimizer_work);
}

bool DataParallel::offloaded(std::size_t piece) const {
  const double limit =
      rank_.plan.optimizer.offload_fraction * static_cast<double>(shard_elements());
  const auto end = shards_.begin() + static_cast<std::ptrdiff_t>(piece);
  return static_cast<double>(std::accumulate(shards_.begin(), end, std::int64_t{0})) < limit;
}

// Elements of the four matrices of a layer.
std::int64_t DataParallel::layer_weights(int layer) const {
  std::int64_t elements = 0;
  for (const LayerParameter p :
       {LayerParameter::projection, LayerParameter::qkv, LayerParameter::fc1, LayerParameter::fc2})
    elements += find(layer, p)->elements;
  return elements;
}

void DataParallel::allocate_fp8_weights(Emitter& e) {
  const bool transposed = rank_.plan.keeps_transposed_weights();
  if (rank_.plan.numerics.fp8_parameters && !transposed) return;
  for (int layer = 0; layer < rank_.layers(chunk_); ++layer)
    e.alloc(fixed_slot(rank_.new_fixed()), (transposed ? 1 : 2) * layer_weights(layer),
            Category::weights, transposed ? "transposed weights in fp8" : "weights in fp8");
}

void DataParallel::cast_fp8_weights(Emitter& e) {
  const bool transposed = rank_.plan.keeps_transposed_weights();
  if (rank_.plan.numerics.fp8_parameters && !transposed) return;
  for (int layer = 0; layer < rank_.layers(chunk_); ++layer) {
    const std::int64_t elements = layer_weights(layer);
    if (transposed) {
      pass(e, OperationKind::copy, "transpose weights", 2 * elements);
    } else {
      pass(e, OperationKind::copy, "weights to fp8", (rank_.dim.element + 2) * elements);
    }
  }
}

}  // namespace sim::workload
