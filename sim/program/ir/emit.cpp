#include "sim/program/ir/emit.h"

#include <cassert>

namespace sim::program {
namespace {

std::uint64_t hash(const model::Operation& o) {
  std::uint64_t h = 1469598103934665603ull;
  const auto mix = [&h](std::int64_t v) {
    h = (h ^ static_cast<std::uint64_t>(v)) * 1099511628211ull;
    h ^= h >> 29;
  };
  for (const std::int64_t v : {static_cast<std::int64_t>(o.kind), o.m, o.n, o.k, o.batch, o.heads,
                               o.query, o.key, o.bytes.n, static_cast<std::int64_t>(o.role)})
    mix(v);
  return h;
}

// Communicators whose collectives belong to a layer's own work.
bool of_layers(Stream communicator) {
  return communicator == Stream::tp || communicator == Stream::cp || communicator == Stream::ep ||
         communicator == Stream::etp || communicator == Stream::etp_ep;
}

}  // namespace

std::uint32_t Tables::operation(const model::Operation& operation) {
  std::int32_t& last = last_operation_[hash(operation) % last_operation_.size()];
  for (std::int32_t i = last; i >= 0; i = operation_before_[static_cast<std::size_t>(i)])
    if (program_.operations[static_cast<std::size_t>(i)] == operation)
      return static_cast<std::uint32_t>(i);
  const auto index = static_cast<std::int32_t>(program_.operations.size());
  program_.operations.push_back(operation);
  operation_before_.push_back(std::exchange(last, index));
  return static_cast<std::uint32_t>(index);
}

std::uint32_t Tables::transfer(const Transfer& transfer) {
  for (std::uint32_t i = 0; i < program_.transfers.size(); ++i)
    if (program_.transfers[i] == transfer) return i;
  program_.transfers.push_back(transfer);
  return static_cast<std::uint32_t>(program_.transfers.size() - 1);
}

std::uint16_t Tables::label(std::string_view text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text.data());
  Known& last = last_labels_[(address ^ address >> 8) % last_labels_.size()];
  if (last.text.data() == text.data() && last.text.size() == text.size()) return last.number;
  const auto [it, added] = labels_.try_emplace(text, static_cast<std::uint16_t>(labels_.size()));
  if (added) program_.labels.emplace_back(text);
  last = {text, it->second};
  return it->second;
}

Instruction Emitter::instruction(Op op) const {
  Instruction i{};
  i.op = op;
  if (graphs_ > 0) i.flags = graphed;
  return i;
}

void Emitter::begin_graph() {
  if (graphs_ == 0) host(HostWork::graph);
  ++graphs_;
}

void Emitter::end_graph() {
  assert(graphs_ > 0);
  --graphs_;
}

void Emitter::alloc(Slot slot, std::int64_t bytes, Category category, std::string_view label,
                    Stream pool) {
  assert(bytes > 0);
  Instruction i = instruction(Op::alloc);
  i.stream = pool;
  i.category = category;
  i.space = slot.space;
  i.index = slot.index;
  i.label = tables_.label(label);
  i.value = bytes;
  block_.code.push_back(i);
  if (tables_.fills()) memory_bound(model::OperationKind::copy, "fill", bytes, 0, pool);
}

void Emitter::free(Slot slot, std::uint8_t flags) {
  Instruction i = instruction(Op::free);
  i.space = slot.space;
  i.index = slot.index;
  i.flags |= flags;
  block_.code.push_back(i);
}

void Emitter::move(Slot from, Slot to) {
  Instruction i = instruction(Op::move);
  i.space = from.space;
  i.index = from.index;
  i.value = packed(to);
  block_.code.push_back(i);
}

void Emitter::record_stream(Slot slot, Stream stream) {
  Instruction i = instruction(Op::record_stream);
  i.stream = stream;
  i.space = slot.space;
  i.index = slot.index;
  block_.code.push_back(i);
}

void Emitter::kernel(const model::Operation& operation, std::uint8_t flags, Stream stream) {
  Instruction i = instruction(Op::kernel);
  i.stream = stream;
  i.flags |= flags;
  i.index = tables_.operation(operation);
  i.label = tables_.label(operation.name);
  block_.code.push_back(i);
}

void Emitter::memory_bound(model::OperationKind kind, std::string_view name, std::int64_t bytes,
                           std::uint8_t flags, Stream stream) {
  kernel(model::memory_bound(kind, name, Bytes{bytes}), flags, stream);
}

int Emitter::pieces(collective::Kind kind, Stream communicator) const {
  const bool activations =
      kind == collective::Kind::all_gather || kind == collective::Kind::reduce_scatter;
  return communicator == Stream::tp && activations ? pieces_ : 1;
}

void Emitter::collective(collective::Kind kind, Stream communicator, std::int64_t bytes,
                         std::string_view label, std::uint8_t flags, std::uint16_t event,
                         Stream stream) {
  send({kind, communicator, Bytes{bytes}, pieces(kind, communicator)}, label, flags, event, stream);
}

void Emitter::agree(Stream communicator, std::string_view label, bool followed) {
  Transfer transfer{collective::Kind::all_reduce, communicator, Bytes{4}};
  transfer.followed = followed;
  send(transfer, label, joins, 0, Stream::compute);
}

void Emitter::dispatch(Stream communicator, std::int64_t bytes, const Choices& choices, int route,
                       std::string_view label, std::uint8_t flags, std::uint16_t event) {
  send({collective::Kind::all_to_all, communicator, Bytes{bytes}, 1, choices, route}, label, flags,
       event, Stream::compute);
}

void Emitter::send(const Transfer& transfer, std::string_view label, std::uint8_t flags,
                   std::uint16_t event, Stream stream) {
  assert(transfer.bytes.n > 0);
  Instruction i = instruction(Op::collective);
  if (!of_layers(transfer.communicator)) i.flags = 0;
  i.stream = stream;
  i.flags |= flags;
  i.event = event;
  i.index = tables_.transfer(transfer);
  i.label = tables_.label(label);
  block_.code.push_back(i);
}

void Emitter::exchange(Exchange exchange, std::string_view label, std::uint8_t flags,
                       std::uint16_t event) {
  assert(!exchange.messages.empty());
  Instruction i = instruction(Op::exchange);
  i.flags = flags;
  i.event = event;
  i.index = static_cast<std::uint32_t>(tables_.program().exchanges.size());
  i.label = tables_.label(label);
  tables_.program().exchanges.push_back(std::move(exchange));
  block_.code.push_back(i);
}

void Emitter::wait(std::uint16_t event, Stream stream) {
  Instruction i = instruction(Op::wait);
  i.stream = stream;
  i.event = event;
  block_.code.push_back(i);
}

void Emitter::record(std::uint16_t event, Stream stream) {
  assert(event != 0);
  Instruction i = instruction(Op::record);
  i.stream = stream;
  i.event = event;
  block_.code.push_back(i);
}

void Emitter::sync_event(std::uint16_t event, std::string_view label) {
  assert(event != 0);
  Instruction i = instruction(Op::sync_event);
  i.event = event;
  i.label = tables_.label(label);
  block_.code.push_back(i);
}

void Emitter::sync_stream(Stream stream, std::string_view label) {
  Instruction i = instruction(Op::sync_stream);
  i.stream = stream;
  i.label = tables_.label(label);
  block_.code.push_back(i);
}

void Emitter::sync_device(std::string_view label) {
  Instruction i = instruction(Op::sync_device);
  i.label = tables_.label(label);
  block_.code.push_back(i);
}

void Emitter::host(HostWork work, std::int64_t amount) {
  if (graphs_ > 0) return;
  Instruction i = instruction(Op::host);
  i.index = static_cast<std::uint32_t>(work);
  i.value = amount;
  block_.code.push_back(i);
}

std::uint32_t Emitter::finish() {
  tables_.program().blocks.push_back(std::move(block_));
  block_ = {};
  return static_cast<std::uint32_t>(tables_.program().blocks.size() - 1);
}

}  // namespace sim::program
