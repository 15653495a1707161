#include "sim/workload/host_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>

#include "sim/workload/eager.h"
#include "sim/workload/host_memory.h"

namespace sim::workload {

using collective::Kind;
using model::OperationKind;

namespace {

// Slots of the blocks in which a unit is reduced, and of the step's.
enum Local : std::uint32_t { from_cpu = 11, wide = 12 };

// Of the step's end alone, where no tape is open.
std::uint16_t done(std::size_t work) {
  assert(work < 60'000);
  return static_cast<std::uint16_t>(tape_event + work);
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

HostStep::HostStep(Rank& rank, std::vector<std::int64_t> tensors)
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
  homes_ = offload::homes(shape_);
  rest_ = offload::split(shape_).rest;
  comes_down_ = std::ranges::any_of(
      homes_, [](const offload::Home& home) { return home.place == offload::Place::cpu; });
  for (std::size_t i = 0; i < groups_.size(); ++i) gradients_.push_back(rank_.new_fixed());
  for (int i = 0; i < 3; ++i) state_.push_back(rank_.new_fixed());
  wide_gradient_ = rank_.new_fixed();
  begin_pass();
}

void HostStep::set_up(Emitter& e) {
  if (rest_ == 0) return;
  e.alloc(fixed_slot(rank_.new_fixed()), 4 * rest_, Category::master_weights,
          "fp32 main parameter");
  e.alloc(fixed_slot(rank_.new_fixed()), 4 * rest_, Category::gradients, "fp32 gradient");
  for (const char* moment : {"exp_avg", "exp_avg_sq"})
    e.alloc(fixed_slot(rank_.new_fixed()), 4 * rest_, Category::optimizer, moment);
}

// In a pinned buffer of the CPUs' memory; what comes back is a tensor of its own.
void HostStep::accumulate(Emitter& e, Slot shard, std::int64_t bytes, bool first) {
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

void HostStep::take(Emitter& e, std::span<const int> tensors, Slot shard, const Moment& moment) {
  std::int64_t elements = 0;
  for (const int t : tensors) elements += shape_.tensors[static_cast<std::size_t>(t)];
  accumulate(e, shard, width_ * elements, moment.first);
  if (moment.last) {
    // In double: converted, then squared and summed (stage3.py: _constant_buffered_norm2).
    e.memory_bound(OperationKind::reduction, "gradient norm", (width_ + 16) * elements, beside,
                   Stream::reduce);
    std::int64_t down = 0;
    for (const int t : tensors) {
      const std::int64_t size = shape_.tensors[static_cast<std::size_t>(t)];
      if (size == 0) continue;
      const offload::Home& home = homes_[static_cast<std::size_t>(t)];
      if (home.place == offload::Place::cpu)
        down += size;
      else if (home.place == offload::Place::fetched)
        keep_on_gpu(e, home.group, size);
      else
        e.memory_bound(OperationKind::copy, "gradient to fp32", (width_ + 4) * size, beside,
                       Stream::reduce);
    }
    if (down > 0) bring_down(e, down);
  }
  e.free(local_slot(from_cpu));
  if (plan_.sharding.overlap_grad_reduce) return;
  e.record(order_event, Stream::reduce);
  e.wait(order_event);
}

void HostStep::keep_on_gpu(Emitter& e, std::size_t group, std::int64_t elements) {
  const Slot all = fixed_slot(gradients_[group]);
  if (!arrived_[group])
    e.alloc(all, width_ * groups_[group], Category::gradients, "gradients of a sub-group",
            Stream::reduce);
  arrived_[group] = true;
  e.memory_bound(OperationKind::copy, "gradient to its sub-group", 2 * width_ * elements, beside,
                 Stream::reduce);
}

// 16 bits of a blocking copy go through pageable memory, where the CPU widens them; for another the
// GPU does.
void HostStep::bring_down(Emitter& e, std::int64_t elements) {
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

void HostStep::agree(Emitter& e, std::string_view label) {
  if (plan_.world() > 1) e.collective(Kind::all_reduce, Stream::world, 4, label);
  e.host(HostWork::blocking_read);
}

void HostStep::step(Emitter& e, bool first) {
  e.sync_stream(Stream::compute, "gradients");
  agree(e, "overflow");
  if (plan_.stack.gradient_clipping) agree(e, "gradient norm all-reduce");
  if (comes_down_) e.wait(offload_event, Stream::cpu);
  const std::vector<offload::Work> all = method_->step(shape_);
  const auto stride = static_cast<std::size_t>(shape_.stride);
  const std::size_t away = offload::split(shape_).away.size();
  held_ = first || stride == 0 || away < stride ? 0 : groups_[away / stride * stride - 1];
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

void HostStep::issue(Emitter& e, const offload::Work& work, std::size_t number) {
  const Stream own = stream_of(work.queue);
  if (work.label == "state up") {
    fetched_ += static_cast<std::size_t>(shape_.stride);
    receive(e, fetched_ - 1);
  }
  for (const std::size_t earlier : work.after) e.wait(done(earlier), own);
  if (work.queue == offload::Queue::cpu)
    update_on_cpu(e, work.memory);
  else if (work.queue == offload::Queue::gpu)
    update_on_gpu(e, work);
  else
    copy_in_turn(e, work, own);
  e.record(done(number), own);
}

// Under way from the start of its turn on, and not done before the turn is.
void HostStep::copy_in_turn(Emitter& e, const offload::Work& work, Stream way) {
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

// Tensors of another size are made anew, each before the one that it replaces goes.
void HostStep::receive(Emitter& e, std::size_t group) {
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

void HostStep::update_on_gpu(Emitter& e, const offload::Work& work) {
  if (plan_.stack.fused_optimizer)
    e.memory_bound(OperationKind::optimizer, "adam", 28 * work.parameters, optimizer_work);
  else
    adam_by_operators(e, work.parameters);
  e.memory_bound(OperationKind::copy, "master to model", (4 + rank_.dim.element) * work.parameters,
                 optimizer_work);
  const bool fetched = !work.after.empty();
  if (fetched) e.free(fixed_slot(wide_gradient_));
}

std::vector<Problem> host_step_problems(const Plan& plan) {
  std::vector<Problem> problems;
  const OptimizerOptions& o = plan.optimizer;
  const bool offloads = plan.shards_parameters() && o.offload_fraction > 0;
  const auto problem = [&](const char* field, std::string rule) {
    problems.push_back({field, std::move(rule)});
  };
  if (!offloads) {
    constexpr const char* rule =
        "says how ZeRO-3 keeps its optimizer on the CPU; write zero 3 and "
        "optimizer_cpu_offload, or leave it out";
    const OptimizerOptions usual;
    if (o.sub_group != usual.sub_group)
      problem("optimizer_sub_group", fmt::format("optimizer_sub_group {}", rule));
    if (o.gpu_stride != 0)
      problem("optimizer_gpu_stride", fmt::format("optimizer_gpu_stride {}", rule));
    if (o.async_gradient_copy)
      problem("async_gradient_copy", fmt::format("async_gradient_copy {}", rule));
    return problems;
  }
  const auto refuse = [&](bool fault, const char* field, const char* rule) {
    if (fault)
      problem(field, fmt::format("optimizer_cpu_offload of parameters in shards {}", rule));
  };
  const FsdpOptions& fsdp = plan.sharding.fsdp;
  refuse(plan.sharding.data_parallel != DataParallelism::fsdp2, "data_parallel",
         "is DeepSpeed's ZeRO-3, which cuts each parameter by itself; write data_parallel fsdp2");
  // DeepSpeed runtime/pipe/engine.py: "ZeRO-2 and ZeRO-3 are incompatible with pipeline
  // parallelism"
  refuse(plan.mesh.pp * plan.pipeline.virtual_stages > 1, "pp",
         "does not run with stages, as DeepSpeed's ZeRO-3 does not; write pp 1");
  refuse(schedule::find(plan.pipeline.schedule)->splits != schedule::Splits::none, "schedule",
         "has whole backward passes; write schedule 1f1b");
  refuse(plan.numerics.precision == model::Precision::fp32 || plan.numerics.fp8 ||
             fsdp.fp32_parameters,
         "precision", "has shards of 16 bits; write precision bf16 or fp16, without fp8");
  refuse(fsdp.no_sync || fsdp.replicas > 1, "fsdp",
         "reduces every microbatch over all ranks; leave fsdp.no_sync and fsdp.replicas out");
  refuse(o.overlap_offload, "overlap_cpu_optimizer",
         "updates sub-group by sub-group; leave overlap_cpu_optimizer out, or write "
         "async_gradient_copy or optimizer_gpu_stride");
  if (!problems.empty() || o.offload_fraction > 1) return problems;
  constexpr std::int64_t least = 1 << 16;
  refuse(o.sub_group < least, "optimizer_sub_group",
         "would take very many sub-groups; write optimizer_sub_group 65536 or more");
  refuse(o.gpu_stride == 1 || o.gpu_stride < 0, "optimizer_gpu_stride",
         "updates every so many sub-groups on the GPU; write optimizer_gpu_stride 2 or more, or 0 "
         "for none");
  return problems;
}

}  // namespace sim::workload
