#include "sim/program/parallel/deepspeed/deepspeed_zero1.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/program/parallel/deepspeed/deepspeed_zero3.h"
#include "sim/program/parallel/offload/host_memory.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

enum : std::uint32_t { bucket, scratch, flat_bucket, gathered };

// Elements of a bucket, of gradients and of parameters
// [DeepSpeed 0.6 runtime/zero/constants.py: reduce_bucket_size, allgather_bucket_size].
constexpr std::int64_t bucket_elements = 500'000'000;

// Norms and biases form a group of their own [Megatron-LM
// model/utils.py:get_params_for_weight_decay_optimization].
bool decays(const Parameter& p) {
  return p.name.find("norm") == std::string_view::npos && !p.name.ends_with("bias");
}

}  // namespace

DeepspeedZero1::DeepspeedZero1(Rank& rank) : Sharding(rank), groups_(2) {
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk) {
    std::vector<Member>& members = members_.emplace_back();
    for (const Parameter& p : parameters(chunk).all()) {
      members.push_back({p.elements, rank_.new_fixed(), rank_.new_fixed()});
      groups_[decays(p) ? 0 : 1].members.push_back(members.back());
    }
  }
  averaged_ = rank_.new_fixed();
  for (Group& group : groups_) {
    for (const Member& m : group.members) group.elements += m.elements;
    group.elements = round_up(group.elements, 2 * ranks());
    group.part = group.elements / ranks();
    std::int64_t left = group.part;
    for (const Member& m : group.members) {
      if (left <= 0) break;
      group.pieces.push_back(std::min(left, m.elements));
      left -= m.elements;
    }
    group.flat = rank_.new_fixed();
    group.gradient = rank_.new_fixed();
  }
}

std::int64_t DeepspeedZero1::ranks() const {
  return std::int64_t{plan_.mesh.dp} * plan_.mesh.cp;
}

void DeepspeedZero1::add_communicators(std::vector<Stream>& to) const {
  if (plan_.mesh.dp > 1) to.push_back(Stream::dp);
  if (ranks() > 1) to.push_back(Stream::dp_cp);
}

void DeepspeedZero1::set_up(Emitter& e) {
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk) {
    auto member = members_[static_cast<std::size_t>(chunk)].begin();
    for (const Parameter& p : parameters(chunk).all())
      e.alloc(fixed_slot((member++)->parameter), rank_.dim.element * p.elements, Category::weights,
              p.name);
  }
  for (const Group& group : groups_) make_flat(e, group);
  if (offloads()) {
    std::int64_t largest = 0;
    for (const Group& group : groups_)
      for (const Member& m : group.members) largest = std::max(largest, m.elements);
    e.alloc(fixed_slot(rank_.new_fixed()), rank_.dim.element * largest, Category::gradients,
            "buffer of offloaded gradients");
  } else {
    first_update(e);
  }
  wait_for_all(rank_, e, "set-up", "barrier");
}

void DeepspeedZero1::make_flat(Emitter& e, const Group& group) {
  if (group.elements == 0) return;
  for (const Member& m : group.members) e.free(fixed_slot(m.parameter));
  e.alloc(fixed_slot(group.flat), rank_.dim.element * group.elements, Category::weights,
          "flat parameters");
  if (offloads()) return;
  const std::uint32_t clone = rank_.new_fixed();
  e.alloc(fixed_slot(clone), rank_.dim.element * group.part, Category::temporaries, "shard clone");
  e.alloc(fixed_slot(rank_.new_fixed()), 4 * group.part, Category::master_weights,
          "fp32 main parameter");
  e.free(fixed_slot(clone));
}

// Creates the optimizer state by a first step.
void DeepspeedZero1::first_update(Emitter& e) {
  for (const Group& group : groups_)
    if (group.part > 0)
      e.alloc(fixed_slot(group.gradient), 4 * group.part, Category::gradients,
              "fp32 gradient of the part");
  for (const Group& group : groups_) {
    if (group.part == 0) continue;
    for (const char* moment : {"exp_avg", "exp_avg_sq"})
      e.alloc(fixed_slot(rank_.new_fixed()), 4 * group.part, Category::optimizer, moment);
  }
  for (const Group& group : groups_)
    if (group.part > 0) e.free(fixed_slot(group.gradient));
}

void DeepspeedZero1::begin_step(Emitter& e, bool) {
  e.host(HostWork::step);
}

void DeepspeedZero1::begin(schedule::Pass pass, int chunk, const Moment& moment) {
  Sharding::begin(pass, chunk, moment);
  arrived_.clear();
}

// A tied table on this rank receives a second gradient, which is added to the first.
bool DeepspeedZero1::kept(Emitter& e, int chunk, int parameter, Slot gradient) {
  if (!hooks()) return false;
  const std::vector<int>& of_ends = parameters(chunk).of(ends);
  if (std::ranges::count(of_ends, parameter) > 0) {
    if (std::ranges::count(arrived_, parameter) > 0) return false;
    arrived_.push_back(parameter);
  }
  const std::vector<Member>& members = members_[static_cast<std::size_t>(chunk)];
  e.move(gradient, fixed_slot(members[static_cast<std::size_t>(parameter)].gradient));
  return true;
}

// Gradients go through a bucket, group by group; a gradient larger than a bucket is reduced in
// place.
void DeepspeedZero1::reduce(Emitter& e) {
  const std::int64_t element = rank_.dim.element;
  e.alloc(local_slot(bucket), element * bucket_elements, Category::communication, "reduce bucket");
  std::int64_t owned = 0;
  for (const Group& group : groups_)
    for (std::size_t i = 0; i < group.pieces.size(); ++i) owned += group.members[i].elements;
  if (!offloads())
    e.alloc(fixed_slot(averaged_), element * owned, Category::gradients, "gradients of the part");
  Bucket filled;
  for (const Group& group : groups_) {
    std::int64_t offset = 0;
    for (const Member& m : group.members) {
      if (filled.elements + m.elements > bucket_elements) reduce_bucket(e, filled);
      const bool copied = m.elements <= bucket_elements;
      if (copied)
        e.memory_bound(OperationKind::copy, "gradient to bucket", 2 * element * m.elements);
      filled.add(offset, m.elements, group.part);
      if (!copied) reduce_bucket(e, filled);
      e.free(fixed_slot(m.gradient));
      offset += m.elements;
    }
  }
  reduce_bucket(e, filled);
  copy_part_out(e, owned);
  e.free(local_slot(bucket));
}

// Copies gradients out of the bucket: into one tensor each, or to the CPU.
void DeepspeedZero1::copy_part_out(Emitter& e, std::int64_t owned) {
  if (!offloads())
    return e.memory_bound(OperationKind::copy, "gradients of the part out of the bucket",
                          2 * rank_.dim.element * owned);
  for (const Group& group : groups_)
    for (const std::int64_t piece : group.pieces) gradient_down(e, piece);
}

// Copies a gradient into pinned memory, on the compute stream.
void DeepspeedZero1::gradient_down(Emitter& e, std::int64_t piece) {
  check(e, "gradient in fp64", piece, 8);
  check(e, "gradient in fp32", piece, 4);
  e.host(HostWork::blocking_read);
  e.alloc(local_slot(scratch), 4 * piece, Category::temporaries, "gradient to the CPU");
  e.memory_bound(OperationKind::copy, "gradient to fp32", (rank_.dim.element + 4) * piece);
  copy_behind(e, Stream::compute, Stream::pcie_down, "gradient down", 4 * piece);
  e.record(reload_event, Stream::pcie_down);
  e.wait(reload_event);
  e.free(local_slot(scratch));
}

// Adjacent slices of the same rank are merged and reduced together.
void DeepspeedZero1::Bucket::add(std::int64_t offset, std::int64_t count, std::int64_t part) {
  elements += count;
  while (count > 0) {
    const std::int64_t to = offset / part;
    const std::int64_t here = std::min(count, (to + 1) * part - offset);
    if (to == rank)
      slices.back() += here;
    else
      slices.push_back(here);
    rank = to;
    offset += here;
    count -= here;
  }
}

// The whole bucket is scaled, even if partly filled. A reduction to one rank costs as much as a
// broadcast from it, its mirror image.
void DeepspeedZero1::reduce_bucket(Emitter& e, Bucket& filled) {
  if (filled.elements == 0) return;
  const std::int64_t element = rank_.dim.element;
  e.memory_bound(OperationKind::elementwise, "bucket scale",
                 2 * element * std::max(filled.elements, bucket_elements));
  if (ranks() > 1 && plan_.sharding.deepspeed_all_reduce) {
    const std::int64_t bytes = element * filled.elements;
    e.alloc(local_slot(flat_bucket), bytes, Category::communication, "flattened bucket");
    e.memory_bound(OperationKind::copy, "bucket to one tensor", 2 * bytes);
    e.collective(Kind::all_reduce, Stream::dp_cp, bytes, "gradient sum", joins);
    e.free(local_slot(flat_bucket));
    filled = {};
    return;
  }
  for (const std::int64_t slice : filled.slices)
    if (ranks() > 1)
      e.collective(Kind::broadcast, Stream::dp_cp, element * slice, "gradient reduction", joins);
  filled = {};
}

// Converts a gradient to a wider type and sums it.
void DeepspeedZero1::check(Emitter& e, std::string_view label, std::int64_t piece,
                           std::int64_t bytes) {
  e.alloc(local_slot(scratch), bytes * piece, Category::temporaries, label);
  e.memory_bound(OperationKind::copy, label, (rank_.dim.element + bytes) * piece, optimizer_work);
  e.memory_bound(OperationKind::reduction, label, bytes * piece, optimizer_work);
  e.free(local_slot(scratch));
}

// Checks the gradients of the part one by one; the CPU reads each result.
void DeepspeedZero1::check_each(Emitter& e, std::string_view label, std::int64_t bytes) {
  for (const Group& group : groups_)
    for (const std::int64_t piece : group.pieces) {
      check(e, label, piece, bytes);
      e.host(HostWork::blocking_read);
    }
}

// Reduces the result over the replicas, then over the ranks that hold the model.
void DeepspeedZero1::agree(Emitter& e, std::string_view label) {
  if (ranks() > 1) e.collective(Kind::all_reduce, Stream::dp_cp, 4, label);
  if (plan_.world() > ranks()) e.collective(Kind::all_reduce, Stream::world, 4, label);
  e.host(HostWork::blocking_read);
}

void DeepspeedZero1::update(Emitter& e, const Group& group) {
  if (group.part == 0) return;
  const std::int64_t element = rank_.dim.element;
  e.memory_bound(OperationKind::elementwise, "clip gradients", 8 * group.part, optimizer_work);
  e.memory_bound(OperationKind::optimizer, "adam", 28 * group.part, optimizer_work);
  e.free(fixed_slot(group.gradient));
  e.memory_bound(OperationKind::copy, "master to model", (4 + element) * group.part,
                 optimizer_work);
}

// The memory traffic includes the blocking copy of the new parameters through pageable memory.
void DeepspeedZero1::update_on_cpu(Emitter& e, const Group& group) {
  if (group.part == 0) return;
  e.wait(reload_event, Stream::cpu);
  program::update_on_cpu(e, blocking_update_bytes * group.part);
  e.sync_stream(Stream::cpu, "adam on the CPU");
}

void DeepspeedZero1::flatten(Emitter& e, const Group& group) {
  if (group.part == 0) return;
  const std::int64_t flat = rank_.dim.element * group.part;
  e.alloc(local_slot(flat_bucket), flat, Category::temporaries, "flat gradient of the part");
  e.memory_bound(OperationKind::copy, "flatten gradients", 2 * flat, optimizer_work);
  e.alloc(fixed_slot(group.gradient), 4 * group.part, Category::gradients,
          "fp32 gradient of the part");
  e.memory_bound(OperationKind::copy, "gradient to fp32", flat + 4 * group.part, optimizer_work);
  e.free(local_slot(flat_bucket));
}

// PyTorch gathers into one tensor and copies from it into the tensors of the list.
void DeepspeedZero1::gather(Emitter& e, const Group& group) {
  if (group.part == 0 || ranks() == 1) return;
  const std::int64_t shards = std::max<std::int64_t>(1, group.elements / bucket_elements);
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::int64_t bytes = rank_.dim.element * (group.elements / shards);
    e.alloc(local_slot(gathered), bytes, Category::communication, "gathered parameters");
    e.collective(Kind::all_gather, Stream::dp_cp, bytes, "parameter gather", joins);
    e.memory_bound(OperationKind::copy, "parameters to their places", 2 * bytes);
    e.free(local_slot(gathered));
  }
}

void DeepspeedZero1::end_step(Emitter& e, bool) {
  e.free(fixed_slot(received_gradient), maybe);
  e.free(fixed_slot(sent_gradient), maybe);
  sum_tied_embeddings(rank_, e, rank_.dim.element * rank_.dim.vocab * rank_.dim.hidden);
  reduce(e);
  if (offloads()) {
    agree(e, "overflow");
    agree(e, "gradient norm");
    for (const Group& group : groups_) update_on_cpu(e, group);
  } else {
    check_each(e, "gradient in fp32", 4);
    agree(e, "overflow");
    check_each(e, "gradient in fp64", 8);
    agree(e, "gradient norm");
    for (const Group& group : groups_) flatten(e, group);
    e.free(fixed_slot(averaged_));
    for (const Group& group : groups_) update(e, group);
  }
  for (const Group& group : groups_) gather(e, group);
  wait_for_all(rank_, e, "interval timer", "loss all-reduce");
}

}  // namespace sim::program
