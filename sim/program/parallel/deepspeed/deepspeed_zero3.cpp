#include "sim/program/parallel/deepspeed/deepspeed_zero3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>

#include "sim/program/parallel/eager.h"
#include "sim/program/parallel/offload/host_memory.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

// Slots of the blocks that reduce a unit, and of the step's blocks.
enum Local : std::uint32_t { from_cpu = 11, wide = 12, flattened = 13 };

// Events used only at the end of a step, when no graph is open.
std::uint16_t done(std::size_t work) {
  assert(work < 60'000);
  return static_cast<std::uint16_t>(graph_event + work);
}

const offload::Method& method_of(const OptimizerOptions& o) {
  return *offload::find(o.gpu_stride > 0        ? "deep"
                        : o.async_gradient_copy ? "zero-3-flush"
                                                : "zero-3");
}

Stream stream_of(offload::Queue queue) {
  switch (queue) {
    case offload::Queue::cpu:
      return Stream::cpu;
    case offload::Queue::pcie_up:
      return Stream::pcie_up;
    case offload::Queue::pcie_down:
      return Stream::pcie_down;
    case offload::Queue::gpu:
      break;
  }
  return Stream::compute;
}

}  // namespace

void copy_behind(Emitter& e, Stream behind, Stream way, std::string_view label,
                 std::int64_t bytes) {
  e.record(computed_event, behind);
  e.wait(computed_event, way);
  e.memory_bound(OperationKind::host_copy, label, bytes, optimizer_work, way);
}

void update_on_cpu(Emitter& e, std::int64_t bytes) {
  e.memory_bound(OperationKind::cpu_update, "adam on the CPU", bytes, optimizer_work, Stream::cpu);
}

DeepspeedZero3::DeepspeedZero3(Rank& rank, std::vector<std::int64_t> tensors)
    : rank_(rank),
      plan_(rank.plan),
      method_(&method_of(rank.plan.optimizer)),
      width_(plan_.numerics.fp32_gradients ? 4 : rank.dim.element) {
  const OptimizerOptions& o = plan_.optimizer;
  shape_.tensors = std::move(tensors);
  shape_.parameters = std::reduce(shape_.tensors.begin(), shape_.tensors.end());
  shape_.sub_group = o.sub_group;
  shape_.fraction = o.offload_fraction;
  shape_.stride = o.gpu_stride;
  groups_ = offload::sub_groups(shape_);
  home_devices_ = offload::home_device(shape_);
  rest_ = offload::split(shape_).remainder;
  comes_down_ = std::ranges::any_of(home_devices_, [](const offload::Home& home) {
    return home.place == offload::StateDevice::cpu;
  });
  for (std::size_t i = 0; i < groups_.size(); ++i) gradients_.push_back(rank_.new_fixed());
  for (int i = 0; i < 3; ++i) state_.push_back(rank_.new_fixed());
  wide_gradient_ = rank_.new_fixed();
  begin_pass();
}

void DeepspeedZero3::set_up(Emitter& e) {
  if (rest_ == 0) return;
  e.alloc(fixed_slot(rank_.new_fixed()), 4 * rest_, Category::master_weights,
          "fp32 main parameter");
  const std::int64_t kept = offloads() ? 4 : width_;
  e.alloc(fixed_slot(rank_.new_fixed()), kept * rest_, Category::gradients,
          offloads() ? "fp32 gradient" : "gradient sums");
  for (const char* moment : {"exp_avg", "exp_avg_sq"})
    e.alloc(fixed_slot(rank_.new_fixed()), 4 * rest_, Category::optimizer, moment);
}

void DeepspeedZero3::add_on_gpu(Emitter& e, Slot shard, std::int64_t bytes, bool first) {
  if (first)
    e.memory_bound(OperationKind::copy, "keep gradient", 2 * bytes, beside, Stream::reduce);
  else
    e.memory_bound(OperationKind::elementwise, "add to gradient sum", 3 * bytes, beside,
                   Stream::reduce);
  e.free(shard);
}

// Accumulates in a pinned buffer in CPU memory; the copy that comes back is a separate tensor.
void DeepspeedZero3::add_on_cpu(Emitter& e, Slot shard, std::int64_t bytes, bool first) {
  const auto down = [&] {
    copy_behind(e, Stream::reduce, Stream::pcie_down, "gradient sum down", bytes);
    e.record(offload_event, Stream::pcie_down);
    e.wait(offload_event, Stream::reduce);
  };
  if (first) down();
  e.alloc(local_slot(from_cpu), bytes, Category::gradients, "gradient sum", Stream::reduce);
  copy_behind(e, Stream::reduce, Stream::pcie_up, "gradient sum up", bytes);
  e.record(reload_event, Stream::pcie_up);
  e.wait(reload_event, Stream::reduce);
  if (!first) {
    e.memory_bound(OperationKind::elementwise, "add to gradient sum", 3 * bytes, beside,
                   Stream::reduce);
    down();
  }
  e.free(shard);
}

void DeepspeedZero3::take(Emitter& e, std::span<const int> tensors, Slot shard,
                          const Moment& moment) {
  std::int64_t elements = 0;
  for (const int t : tensors) elements += shape_.tensors[static_cast<std::size_t>(t)];
  if (offloads()) {
    add_on_cpu(e, shard, width_ * elements, moment.first);
    // The norm is computed in double: converted, then squared and summed (stage3.py:
    // _constant_buffered_norm2).
    if (moment.last) {
      e.memory_bound(OperationKind::reduction, "gradient norm", (width_ + 16) * elements, beside,
                     Stream::reduce);
      place(e, tensors);
    }
    e.free(local_slot(from_cpu));
  } else {
    add_on_gpu(e, shard, width_ * elements, moment.first);
  }
  if (plan_.sharding.overlap_grad_reduce) return;
  e.record(order_event, Stream::reduce);
  e.wait(order_event);
}

// Moves each gradient to the home of its state.
void DeepspeedZero3::place(Emitter& e, std::span<const int> tensors) {
  std::int64_t down = 0;
  for (const int t : tensors) {
    const std::int64_t size = shape_.tensors[static_cast<std::size_t>(t)];
    if (size == 0) continue;
    const offload::Home& home = home_devices_[static_cast<std::size_t>(t)];
    if (home.place == offload::StateDevice::cpu)
      down += size;
    else if (home.place == offload::StateDevice::fetched)
      keep_on_gpu(e, home.group, size);
    else
      e.memory_bound(OperationKind::copy, "gradient to fp32", (width_ + 4) * size, beside,
                     Stream::reduce);
  }
  if (down > 0) bring_down(e, down);
}

void DeepspeedZero3::keep_on_gpu(Emitter& e, std::size_t group, std::int64_t elements) {
  const Slot all = fixed_slot(gradients_[group]);
  if (!arrived_[group])
    e.alloc(all, width_ * groups_[group], Category::gradients, "gradients of a sub-group",
            Stream::reduce);
  arrived_[group] = true;
  e.memory_bound(OperationKind::copy, "gradient to its sub-group", 2 * width_ * elements, beside,
                 Stream::reduce);
}

// A blocking copy moves 16-bit data through pageable memory, where the CPU widens it. Otherwise the
// GPU widens it.
void DeepspeedZero3::bring_down(Emitter& e, std::int64_t elements) {
  if (!plan_.optimizer.async_gradient_copy) {
    e.record(computed_event, Stream::reduce);
    e.wait(computed_event, Stream::pcie_down);
    e.memory_bound(width_ == 4 ? OperationKind::host_copy : OperationKind::pageable_copy,
                   "gradient down", width_ * elements, optimizer_work, Stream::pcie_down);
    e.record(offload_event, Stream::pcie_down);
    return e.sync_event(offload_event, "gradient down");
  }
  if (width_ != 4) {
    e.alloc(local_slot(wide), 4 * elements, Category::gradients, "shard gradient in fp32",
            Stream::reduce);
    e.memory_bound(OperationKind::copy, "gradient to fp32", (width_ + 4) * elements, beside,
                   Stream::reduce);
  }
  copy_behind(e, Stream::reduce, Stream::pcie_down, "gradient down", 4 * elements);
  e.record(offload_event, Stream::pcie_down);
  e.wait(offload_event, Stream::reduce);
  if (width_ != 4) e.free(local_slot(wide));
}

void DeepspeedZero3::agree(Emitter& e, std::string_view label) {
  if (plan_.world() > 1) e.collective(Kind::all_reduce, Stream::world, 4, label);
  e.host(HostWork::blocking_read);
}

void DeepspeedZero3::step(Emitter& e, bool first) {
  e.sync_stream(Stream::compute, "gradients");
  if (!offloads())
    e.memory_bound(OperationKind::reduction, "gradient norm", (width_ + 16) * rest_,
                   optimizer_work);
  agree(e, "overflow");
  if (plan_.stack.gradient_clipping) agree(e, "gradient norm all-reduce");
  if (offloads())
    step_from_cpu(e, first);
  else
    step_on_gpu(e);
}

void DeepspeedZero3::step_on_gpu(Emitter& e) {
  for (const std::int64_t elements : groups_) {
    const Slot wide_gradient = local_slot(wide);
    const Slot flat = width_ == 4 ? wide_gradient : local_slot(flattened);
    e.alloc(flat, width_ * elements, Category::gradients, "gradients of a sub-group");
    e.memory_bound(OperationKind::copy, "gradients of a sub-group", 2 * width_ * elements,
                   optimizer_work);
    if (width_ != 4) {
      e.alloc(wide_gradient, 4 * elements, Category::gradients, "gradients in fp32");
      e.memory_bound(OperationKind::copy, "gradients to fp32", (width_ + 4) * elements,
                     optimizer_work);
      e.free(flat);
    }
    e.memory_bound(OperationKind::elementwise, "scale gradients", 8 * elements, optimizer_work);
    update_on_gpu(e, elements);
    e.free(wide_gradient);
  }
}

void DeepspeedZero3::step_from_cpu(Emitter& e, bool first) {
  if (comes_down_) e.wait(offload_event, Stream::cpu);
  const std::vector<offload::Work> all = method_->step(shape_);
  const auto stride = static_cast<std::size_t>(shape_.stride);
  const std::size_t on_cpu = offload::split(shape_).on_cpu.size();
  held_ = first || stride == 0 || on_cpu < stride ? 0 : groups_[on_cpu / stride * stride - 1];
  fetched_ = 0;
  for (std::size_t i = 0; i < all.size(); ++i) issue(e, all[i], i);
  std::uint32_t& events = rank_.program.events;
  events = std::max(events, std::uint32_t{done(all.size())});
  e.sync_stream(Stream::cpu, "adam on the CPU");
  for (const auto& [way, event] :
       {std::pair{Stream::pcie_up, reload_event}, {Stream::pcie_down, offload_event}}) {
    e.record(event, way);
    e.wait(event);
  }
}

void DeepspeedZero3::issue(Emitter& e, const offload::Work& work, std::size_t number) {
  const Stream own = stream_of(work.queue);
  if (work.label == "state up") {
    fetched_ += static_cast<std::size_t>(shape_.stride);
    receive(e, fetched_ - 1);
  }
  for (const std::size_t earlier : work.after) e.wait(done(earlier), own);
  if (work.queue == offload::Queue::cpu)
    update_on_cpu(e, work.memory);
  else if (work.queue == offload::Queue::gpu)
    update_on_gpu(e, work.parameters);
  else
    copy_in_turn(e, work, own);
  const bool fetched = work.queue == offload::Queue::gpu && !work.after.empty();
  if (fetched) e.free(fixed_slot(wide_gradient_));
  e.record(done(number), own);
}

// The copy starts with its turn in the CPU's queue, and ends no earlier than the turn.
void DeepspeedZero3::copy_in_turn(Emitter& e, const offload::Work& work, Stream way) {
  if (work.memory > 0) {
    e.record(computed_event, way);
    e.wait(computed_event, Stream::cpu);
    e.record(order_event, Stream::cpu);
    e.memory_bound(OperationKind::cpu_update, "copy in the CPUs' memory", work.memory,
                   optimizer_work, Stream::cpu);
    e.record(copied_event, Stream::cpu);
    e.wait(order_event, way);
  }
  e.memory_bound(OperationKind::host_copy, work.label, work.bytes, optimizer_work, way);
  if (work.memory > 0) e.wait(copied_event, way);
}

// Tensors of another size are reallocated; each is allocated before the old one is freed.
void DeepspeedZero3::receive(Emitter& e, std::size_t group) {
  const std::int64_t elements = groups_[group];
  constexpr const char* labels[] = {"fetched parameters", "fetched exp_avg", "fetched exp_avg_sq"};
  for (std::size_t i = 0; elements != held_ && i < state_.size(); ++i) {
    e.alloc(local_slot(wide), 4 * elements, i == 0 ? Category::master_weights : Category::optimizer,
            labels[i]);
    e.free(fixed_slot(state_[i]), maybe);
    e.move(local_slot(wide), fixed_slot(state_[i]));
  }
  held_ = elements;
  const Slot gradients = fixed_slot(gradients_[group]);
  if (width_ == 4) return e.move(gradients, fixed_slot(wide_gradient_));
  e.alloc(fixed_slot(wide_gradient_), 4 * elements, Category::gradients, "gradients in fp32");
  e.memory_bound(OperationKind::copy, "gradients to fp32", (width_ + 4) * elements, optimizer_work);
  e.free(gradients);
}

void DeepspeedZero3::update_on_gpu(Emitter& e, std::int64_t elements) {
  if (plan_.stack.fused_optimizer)
    e.memory_bound(OperationKind::optimizer, "adam", 28 * elements, optimizer_work);
  else
    adam_by_operators(e, elements);
  e.memory_bound(OperationKind::copy, "master to model", (4 + rank_.dim.element) * elements,
                 optimizer_work);
}

}  // namespace sim::program
