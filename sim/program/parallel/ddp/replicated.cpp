// replicated.cpp — see zero1.h.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "sim/program/layers/linear/fp8.h"
#include "sim/program/parallel/ddp/zero1.h"
#include "sim/program/parallel/deepspeed/deepspeed_zero3.h"
#include "sim/program/parallel/offload/host_memory.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

enum : std::uint32_t { flat_norms, mirrored };

// Events for gradient copies to the CPU. They are used only at the end of a step, when no graph is
// open.
std::uint16_t gradient_is_down(std::size_t tensor) {
  assert(tensor < 60'000);
  return static_cast<std::uint16_t>(graph_event + tensor);
}

// Parameters of the other kind are marked as frozen, so that the buffer leaves them out.
ParameterList only(ParameterList list, bool experts) {
  for (Parameter& p : list) p.frozen = p.frozen || p.expert != experts;
  return list;
}

}  // namespace

Replicated::Replicated(Rank& rank, bool in_shards) : Sharding(rank) {
  for (const bool experts : {false, true})
    for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk) {
      if (experts && !has_experts()) continue;
      const bool one = !plan_.sharding.overlap_grad_reduce || rank.part(chunk) > 0;
      Buffer& b = buffers_.emplace_back();
      b.experts = experts;
      b.layout = lay_out(only(parameters(chunk).all(), experts),
                         {sharers(b), plan_.mesh.dp, in_shards, one,
                          plan_.sharding.whole_parameters ? sharers(b) : 0});
    }
}

std::vector<Replicated::Buffer*> Replicated::buffers(int chunk) {
  std::vector<Buffer*> both{&buffer(chunk)};
  if (has_experts()) both.push_back(&buffer(chunk, true));
  return both;
}

std::int64_t Replicated::ranks(const Buffer& b) const {
  const std::int64_t whole = std::int64_t{plan_.mesh.dp} * plan_.mesh.cp / plan_.mesh.tensor_depth;
  return b.experts ? whole * plan_.mesh.tp / (std::int64_t{plan_.mesh.ep} * plan_.expert_tp())
                   : whole;
}

std::int64_t Replicated::sharers(const Buffer& b) const {
  return copies(b) ? ranks(b) / plan_.replicas() : ranks(b);
}

void Replicated::add_communicators(std::vector<Stream>& to) const {
  if (plan_.mesh.dp > 1) to.push_back(Stream::dp);
  if (ranks(buffers_.front()) > 1) to.push_back(group(buffers_.front()));
  if (copies(buffers_.front())) {
    if (sharers(buffers_.front()) > 1) to.push_back(Stream::shard);
    if (!plan_.sharding.whole_parameters) to.push_back(Stream::replicate);
  }
  if (has_experts() && ranks(buffers_.back()) > 1) to.push_back(Stream::edp);
}

std::int64_t Replicated::bytes_of_gradient() const {
  return plan_.numerics.fp32_gradients || plan_.numerics.precision == model::Precision::fp32 ? 4
                                                                                             : 2;
}

std::int64_t Replicated::bytes_of(const Parameter& p) const {
  return p.fp8 ? 1 : rank_.dim.element;
}

void Replicated::set_up(Emitter& e) {
  const int chunks = plan_.pipeline.virtual_stages;
  for (int chunk = 0; chunk < chunks; ++chunk) allocate_parameters(e, chunk);
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (Buffer* b : buffers(chunk)) allocate_buffers(e, chunk, *b);
  for (const Buffer* b : updated()) allocate_masters(e, b->layout);
  wait_for_all(rank_, e, "set-up", "barrier");
}

void Replicated::allocate_parameters(Emitter& e, int chunk) {
  for (const Parameter& p : parameters(chunk).all()) {
    buffer(chunk).parameters.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(buffer(chunk).parameters.back()), bytes_of(p) * p.elements,
            Category::weights, p.name);
  }
}

void Replicated::allocate_buffers(Emitter& e, int, Buffer& b) {
  const std::int64_t bytes = bytes_of_gradient() * b.layout.elements;
  if (bytes == 0) return;  // all parameters are frozen
  e.alloc(fixed_slot(rank_.new_fixed()), bytes, Category::gradients, "gradient buffer");
  e.memory_bound(OperationKind::copy, "clear buffers", bytes);
}

void Replicated::allocate_masters(Emitter& e, const BufferLayout& layout) {
  if (plan_.numerics.precision == model::Precision::fp32) return;
  for (std::size_t i = pieces_on_cpu(layout); i < layout.pieces.size(); ++i) {
    const std::uint32_t clone = rank_.new_fixed();
    e.alloc(fixed_slot(clone), rank_.dim.element * layout.pieces[i], Category::temporaries,
            "shard clone");
    e.alloc(fixed_slot(rank_.new_fixed()), plan_.optimizer.main_parameter_bytes * layout.pieces[i],
            Category::master_weights, "fp32 main parameter");
    e.free(fixed_slot(clone));
  }
}

void Replicated::allocate_moments(Emitter& e, const BufferLayout& layout) {
  const OptimizerOptions& o = plan_.optimizer;
  for (std::size_t i = pieces_on_cpu(layout); i < layout.pieces.size(); ++i) {
    const std::int64_t piece = layout.pieces[i];
    e.alloc(fixed_slot(rank_.new_fixed()), o.exp_avg_bytes * piece, Category::optimizer, "exp_avg");
    e.alloc(fixed_slot(rank_.new_fixed()), o.exp_avg_sq_bytes * piece, Category::optimizer,
            "exp_avg_sq");
    e.memory_bound(OperationKind::copy, "clear moments",
                   (o.exp_avg_bytes + o.exp_avg_sq_bytes) * piece, optimizer_work);
  }
}

void Replicated::begin_step(Emitter& e, bool first) {
  for (Buffer& b : buffers_) {
    b.pending.clear();
    for (const Bucket& bucket : b.layout.buckets) b.pending.push_back(bucket.parameters);
    b.gathered.assign(b.layout.buckets.size(), false);
  }
  e.host(HostWork::step);
  for (const Buffer& b : buffers_)
    if (b.layout.elements > 0)
      e.memory_bound(OperationKind::copy, "zero gradients", bytes_of_gradient() * b.layout.elements,
                     optimizer_work);
  for (const Buffer& b : buffers_)
    for (const std::uint32_t slot : b.copied_gradients) e.free(fixed_slot(slot));
  // Frozen matrices in fp8 are transposed where they are used.
  if (!plan_.numerics.fp8 || (plan_.numerics.fp8_parameters && !plan_.keeps_transposed_weights()))
    return;
  for (int chunk = 0; first && chunk < plan_.pipeline.virtual_stages; ++chunk)
    allocate_fp8_weights(e, chunk);
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk) cast_fp8_weights(e, chunk);
}

std::int64_t Replicated::layer_matrices(int chunk, int layer) const {
  std::int64_t elements = 0;
  for (const int i : parameters(chunk).of(layer))
    if (parameters(chunk)[i].matrix) elements += parameters(chunk)[i].elements;
  return elements;
}

// fp8: casts the layers' matrices, and their transposes, once a step.
void Replicated::allocate_fp8_weights(Emitter& e, int chunk) {
  const bool transposed = plan_.keeps_transposed_weights();
  for (int layer = 0; layer < parameters(chunk).layers(); ++layer)
    e.alloc(fixed_slot(rank_.new_fixed()), (transposed ? 1 : 2) * layer_matrices(chunk, layer),
            Category::weights, transposed ? "transposed weights in fp8" : "weights in fp8");
}

void Replicated::cast_fp8_weights(Emitter& e, int chunk) {
  const bool transposed = plan_.keeps_transposed_weights();
  for (int layer = 0; layer < parameters(chunk).layers(); ++layer) {
    if (finds_scales(plan_) && !transposed)
      e.memory_bound(OperationKind::reduction, "largest magnitude of weights",
                     rank_.dim.element * layer_matrices(chunk, layer));
    e.memory_bound(OperationKind::copy, transposed ? "transpose weights" : "weights to fp8",
                   (transposed ? 2 : rank_.dim.element + 2) * layer_matrices(chunk, layer));
  }
}

void Replicated::is_ready(Emitter& e, int chunk, int parameter) {
  if (!Replicated::hooks()) return;
  Buffer& b = buffer_of(chunk, parameter);
  const int bucket = b.layout.bucket_of[static_cast<std::size_t>(parameter)];
  if (bucket < 0) return;
  int& pending = b.pending[static_cast<std::size_t>(bucket)];
  assert(pending > 0);
  if (--pending == 0) reduce(e, b, b.layout.buckets[static_cast<std::size_t>(bucket)], true);
}

void Replicated::reduce(Emitter& e, const Buffer& b, const Bucket& bucket,
                        bool overlapped_with_backward) {
  const std::int64_t bytes = bucket.elements * bytes_of_gradient();
  if (plan_.stack.check_for_nan) {
    e.memory_bound(OperationKind::reduction, "bucket norm", bytes);
    e.sync_stream(Stream::compute, "gradient nan check");
    e.host(HostWork::blocking_read);
  }
  e.memory_bound(OperationKind::elementwise, "bucket scale", 2 * bytes);
  if (ranks(b) > 1) sum(e, b, bytes, overlapped_with_backward ? overlapped : joins);
}

void Replicated::sum(Emitter& e, const Buffer& b, std::int64_t bytes, std::uint8_t flags) {
  e.collective(Kind::all_reduce, group(b), bytes, "gradient reduction", flags, reduced(b));
}

// Runs the reductions that were not overlapped, and waits for the overlapped ones.
void Replicated::finish_reduction(Emitter& e) {
  for (const Buffer& b : buffers_) {
    if (!plan_.sharding.overlap_grad_reduce) {
      for (const Bucket& bucket : b.layout.buckets) reduce(e, b, bucket, false);
      continue;
    }
    assert(std::all_of(b.pending.begin(), b.pending.end(), [](int n) { return n == 0; }));
    if (ranks(b) > 1 && !(b.experts && b.layout.buckets.empty())) e.wait(reduced(b));
  }
}

std::vector<Replicated::Buffer*> Replicated::updated() {
  std::vector<Buffer*> own;
  const int chunks = has_mirrors(plan_) ? 1 : plan_.pipeline.virtual_stages;
  for (const bool experts : {false, true})
    for (int chunk = 0; chunk < chunks && (has_experts() || !experts); ++chunk)
      own.push_back(&buffer(chunk, experts));
  return own;
}

std::int64_t Replicated::shard_of_chunk(int chunk) {
  std::int64_t elements = 0;
  for (const Buffer* b : buffers(chunk)) elements += b->layout.owned();
  return elements;
}

// Exchanges gradients with the mirroring stage: it receives the gradients of the part that it
// updates, and sends those of the other part.
void Replicated::add_mirror_gradients(Emitter& e) {
  const std::int64_t own = shard_of_chunk(0) * bytes_of_gradient();
  const std::int64_t others = shard_of_chunk(1) * bytes_of_gradient();
  e.alloc(local_slot(mirrored), own, Category::communication, "gradients of the mirror");
  swap_with_mirror(e, others, own, mirror_gradients, "gradients of the mirror");
  e.memory_bound(OperationKind::elementwise, "add the mirror's gradients", 3 * own);
  e.free(local_slot(mirrored));
}

void Replicated::swap_with_mirror(Emitter& e, std::int64_t sent, std::int64_t received,
                                  std::uint8_t channel, std::string_view label) {
  const int away = plan_.mesh.pp - 1 - 2 * rank_.program.stage;
  e.exchange(
      {Stream::pp, {{true, away, channel, Bytes{sent}}, {false, away, channel, Bytes{received}}}},
      label, joins);
}

// Norms see only a part of the sequence, so their gradients are summed over the tensor-parallel
// group, flattened into one tensor [Megatron-LM core 0.8 finalize_model_grads.py].
void Replicated::sum_norm_gradients(Emitter& e, int chunk) {
  std::int64_t elements = 0;
  int tensors = 0;
  for (const Parameter& p : parameters(chunk).all())
    if (p.sequence_parallel) {
      elements += p.elements;
      ++tensors;
    }
  if (tensors == 0) return;
  const std::int64_t bytes = elements * bytes_of_gradient();
  e.alloc(local_slot(flat_norms), bytes, Category::temporaries, "flattened norm gradients");
  e.memory_bound(OperationKind::copy, "flatten norm gradients", 2 * bytes);
  e.collective(Kind::all_reduce, Stream::tp, bytes, "norm gradient all-reduce");
  for (int i = 0; i < tensors; ++i)
    e.memory_bound(OperationKind::copy, "copy norm gradient", 2 * bytes / tensors);
  e.free(local_slot(flat_norms));
}

// The optimizer works on fp32 gradients. With an fp32 buffer a gradient is a view of the buffer;
// otherwise it is a copy, from the step to the next zero_grad [Megatron-LM core 0.8
// distrib_optimizer.py:_copy_model_grads_to_main_grads].
void Replicated::copy_gradients(Emitter& e, Buffer& b) {
  if (bytes_of_gradient() == 4 || plan_.optimizer.precision_aware) return;
  const bool first = b.copied_gradients.empty();
  for (std::size_t i = 0; i < b.layout.pieces.size(); ++i) {
    if (first) b.copied_gradients.push_back(rank_.new_fixed());
    e.alloc(fixed_slot(b.copied_gradients[i]), 4 * b.layout.pieces[i], Category::gradients,
            "fp32 gradient copy");
    e.memory_bound(OperationKind::copy, "gradient to fp32",
                   (4 + bytes_of_gradient()) * b.layout.pieces[i], optimizer_work);
  }
}

// The update on the CPU, tensor by tensor or all at once, in fp32: gradients down, Adam, parameters
// up. The copies down are queued before the GPU receives its own share. The issuing thread itself
// runs the update [Megatron-LM core 0.14 optimizer/cpu_offloading/hybrid_optimizer.py:step].
std::vector<std::int64_t> Replicated::tensors_of_cpu(const BufferLayout& layout) const {
  const auto end = static_cast<std::ptrdiff_t>(pieces_on_cpu(layout));
  std::vector<std::int64_t> on_cpu(layout.pieces.begin(), layout.pieces.begin() + end);
  if (!on_cpu.empty() && !plan_.optimizer.overlap_offload)
    on_cpu = {std::accumulate(on_cpu.begin(), on_cpu.end(), std::int64_t{0})};
  return on_cpu;
}

void Replicated::gradients_down(Emitter& e, const std::vector<std::int64_t>& tensors) {
  e.record(computed_event);
  e.wait(computed_event, Stream::pcie_down);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    e.memory_bound(OperationKind::host_copy, "gradient down", 4 * tensors[i], optimizer_work,
                   Stream::pcie_down);
    e.record(gradient_is_down(i), Stream::pcie_down);
  }
  std::uint32_t& events = rank_.program.events;
  events = std::max(events, std::uint32_t{gradient_is_down(tensors.size())});
}

void Replicated::update_on_cpu(Emitter& e, const std::vector<std::int64_t>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = tensors[i];
    e.wait(gradient_is_down(i), Stream::cpu);
    program::update_on_cpu(e, fused_update_bytes * elements);
    copy_behind(e, Stream::cpu, Stream::pcie_up, "parameter up", 4 * elements);
  }
  e.sync_stream(Stream::cpu, "adam on the CPU");
  e.record(reload_event, Stream::pcie_up);
  e.wait(reload_event);
}

// Whether Adam computes on fp32 copies of its narrow moments [NVIDIA/TransformerEngine
// pytorch/optimizers/fused_adam.py:get_unscaled_state; pull request 2632, in version 2.13: the
// kernel casts bf16 moments].
bool Replicated::widens_moments() const {
  const OptimizerOptions& o = plan_.optimizer;
  const bool in_kernel = !o.separate_casts && o.exp_avg_bytes == 2 && o.exp_avg_sq_bytes == 2;
  return o.precision_aware && !in_kernel && std::min(o.exp_avg_bytes, o.exp_avg_sq_bytes) < 4;
}

// Calls work(slot, elements, bytes of the moment) for each narrow moment on this GPU.
void Replicated::each_wide_moment(Buffer& b, const auto& work) {
  std::size_t slot = 0;
  for (std::size_t i = pieces_on_cpu(b.layout); i < b.layout.pieces.size(); ++i)
    for (const int bytes : {plan_.optimizer.exp_avg_bytes, plan_.optimizer.exp_avg_sq_bytes}) {
      if (bytes == 4) continue;
      if (slot == b.wide_moments.size()) b.wide_moments.push_back(rank_.new_fixed());
      work(b.wide_moments[slot++], b.layout.pieces[i], bytes);
    }
}

// The fp32 copies of all moments of an optimizer live at the same time. Experts have an optimizer
// of their own [Megatron-LM optimizer/__init__.py:get_megatron_optimizer].
void Replicated::update_widened(Emitter& e, bool experts) {
  std::vector<Buffer*> all;
  for (Buffer* b : updated())
    if (b->experts == experts) all.push_back(b);
  for (Buffer* b : all)
    each_wide_moment(*b, [&](std::uint32_t slot, std::int64_t elements, int bytes) {
      e.alloc(fixed_slot(slot), 4 * elements, Category::temporaries, "fp32 moment");
      e.memory_bound(OperationKind::copy, "moment to fp32", (4 + bytes) * elements,
                     optimizer_work);
    });
  for (const Buffer* b : all) update(e, b->layout);
  for (Buffer* b : all)
    each_wide_moment(*b, [&](std::uint32_t, std::int64_t elements, int bytes) {
      e.memory_bound(OperationKind::copy, "moment from fp32", (4 + 3 * bytes) * elements,
                     optimizer_work);
    });
  for (Buffer* b : all)
    for (const std::uint32_t slot : b->wide_moments) e.free(fixed_slot(slot));
}

// Runs Adam, and copies the result into the model's parameters.
void Replicated::update(Emitter& e, const BufferLayout& layout) {
  const OptimizerOptions& o = plan_.optimizer;
  const std::int64_t elements =
      std::accumulate(layout.pieces.begin() + static_cast<std::ptrdiff_t>(pieces_on_cpu(layout)),
                      layout.pieces.end(), std::int64_t{0});
  const std::vector<std::int64_t> on_cpu = tensors_of_cpu(layout);
  if (!on_cpu.empty()) gradients_down(e, on_cpu);
  // Adam reads the parameter, both moments and the gradient; it writes the parameter and the
  // moments.
  const std::int64_t gradient = o.precision_aware ? bytes_of_gradient() : 4;
  const std::int64_t moments = widens_moments() ? 8 : o.exp_avg_bytes + o.exp_avg_sq_bytes;
  const std::int64_t state = o.main_parameter_bytes + moments;
  if (elements > 0)
    e.memory_bound(OperationKind::optimizer, "adam", (2 * state + gradient) * elements,
                   optimizer_work);
  if (!on_cpu.empty()) update_on_cpu(e, on_cpu);
  if (plan_.numerics.precision == model::Precision::fp32) return;
  for (const std::int64_t piece : layout.pieces)
    e.memory_bound(OperationKind::copy, "master to model", (4 + rank_.dim.element) * piece,
                   optimizer_work);
}

std::size_t Replicated::pieces_on_cpu(const BufferLayout& layout) const {
  const double limit = plan_.optimizer.offload_fraction * static_cast<double>(layout.owned());
  std::size_t count = 0;
  for (std::int64_t before = 0; count < layout.pieces.size() && static_cast<double>(before) < limit;
       ++count)
    before += layout.pieces[count];
  return count;
}

// The authors' fork logs norms and extrema of every optimizer shard: 16 blocking reads each.
void Replicated::log_state(Emitter& e, std::int64_t elements) {
  std::int64_t pieces = 0;
  for (const Buffer& b : buffers_) pieces += static_cast<std::int64_t>(b.layout.pieces.size());
  e.memory_bound(OperationKind::reduction, "optimizer state logging", 64 * elements,
                 optimizer_work);
  e.host(HostWork::blocking_read, 16 * pieces);
}

void Replicated::end_step(Emitter& e, bool first) {
  e.free(fixed_slot(received_gradient), maybe);
  e.free(fixed_slot(sent_gradient), maybe);
  finish_reduction(e);
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk) sum_norm_gradients(e, chunk);
  sum_tied_embeddings(rank_, e,
                      (plan_.numerics.fp32_gradients ? 4 : 2) * rank_.dim.vocab * rank_.dim.hidden);
  std::int64_t elements = 0;
  if (has_mirrors(plan_)) add_mirror_gradients(e);
  for (Buffer* b : updated()) {
    copy_gradients(e, *b);
    elements += b->layout.owned();
  }
  clip_gradients(rank_, e, elements, true);
  for (const Buffer* b : updated())
    if (first) allocate_moments(e, b->layout);
  if (widens_moments()) {
    for (const bool experts : {false, true}) update_widened(e, experts);
  } else {
    for (const Buffer* b : updated()) update(e, b->layout);
  }
  gather_updated(e);
  if (plan_.stack.logs_optimizer_state) log_state(e, elements);
  if (plan_.optimizer.post_validation) return e.sync_stream(Stream::compute, "interval timer");
  wait_for_all(rank_, e, "interval timer", "barrier");
}

}  // namespace sim::program
