#include "sim/program/layers/attention/head_exchange.h"

#include <utility>

namespace sim::program {

using collective::Kind;
using model::OperationKind;

HeadExchange::HeadExchange(const Rank& rank, const context::AttentionShape& shape, QkvLayout layout)
    : layout_(layout) {
  const context::Method& method = context_method(rank.plan);
  degree_ = method.exchanging(shape);
  heads_ = method.heads(shape);
  groups_ = method.groups(shape);
  repeats_ = groups_ * degree_ > shape.groups;
  pipelined_ = !method.megatron.empty() && rank.plan.stack.layer_kernels == LayerKernels::fused;
  whole_ = degree_ == shape.ranks;
  if (degree_ == 1) return;
  const std::vector<context::AttentionStep> steps = method.forward(shape, rank.program.cp_rank);
  const auto& before = steps.front().before;
  bytes_ = {before[0].bytes, before[1].bytes, before[2].bytes};
  output_ = steps.back().after.front().bytes;
}

Stream HeadExchange::ring() const {
  return degree_ == 1 ? Stream::cp : Stream::cp_ring;
}

void HeadExchange::send(Writer& w, Value from, Value to, std::int64_t bytes,
                        std::uint16_t event) const {
  const Stream wire = whole_ ? Stream::cp : Stream::cp_exchange;
  const std::uint8_t flags = pipelined_ ? 0 : joins;
  w.e.collective(Kind::all_to_all, wire, bytes, "head exchange", flags, event);
  if (!w.records()) return;
  w.record_stream(from, wire);
  w.record_stream(to, wire);
}

// Each exchange uses three tensors: laid out for sending, received, and laid out for the kernel.
std::vector<Value> HeadExchange::exchange(Writer& w, std::vector<std::int64_t> bytes,
                                          bool to_heads) const {
  const std::size_t count = bytes.size();
  const Stream second = pipelined_ ? Stream::cp_compute : Stream::compute;
  std::vector<Value> given(count), received(count), made(count);
  std::vector<std::uint16_t> arrived(count, 0);
  const auto lay_out = [&](std::size_t i) {
    given[i] = w.temporary(bytes[i], "exchange input");
    w.memory_bound(OperationKind::copy, "exchange layout", 2 * bytes[i]);
  };
  const auto lay_out_again = [&](std::size_t i) {
    if (pipelined_) w.e.wait(arrived[i], second);
    made[i] = w.make(bytes[i], "exchanged heads", Category::activations, second);
    w.memory_bound(OperationKind::copy, "exchange layout", 2 * bytes[i], second);
    w.drop(received[i]);
  };
  // Without overlap, one tensor is finished before the next one begins.
  const std::size_t lag = pipelined_ ? 1 : 0;
  for (std::size_t i = 0; i < count + 2 * lag; ++i) {
    if (lag == 0) lay_out(i);
    if (i >= lag && i < count + lag) {
      const std::size_t at = i - lag;
      received[at] = w.make(bytes[at], "exchange output", Category::communication);
      if (pipelined_) arrived[at] = w.event();
      send(w, given[at], received[at], bytes[at], arrived[at]);
    }
    if (lag > 0 && !to_heads && i < count) lay_out(i);
    if (i >= 2 * lag) lay_out_again(i - 2 * lag);
    if (lag > 0 && to_heads && i < count) lay_out(i);
    if (lag == 0) w.drop(given[i]);
  }
  if (!pipelined_) return made;
  const std::uint16_t done = w.event();
  w.e.record(done, second);
  w.e.wait(done);
  for (const Value v : given) w.drop(v);
  return made;
}

// Query, key and value after the exchange are views of one received tensor. Here they are three
// values of its size, written by one copy.
HeadExchange::Inputs HeadExchange::exchange_packed(Writer& w) const {
  const std::int64_t all = bytes_[0] + bytes_[1] + bytes_[2];
  const Value given = w.temporary(all, "exchange input");
  w.memory_bound(OperationKind::copy, "exchange layout", 2 * all);
  const Value received = w.make(all, "exchange output", Category::communication);
  send(w, given, received, all, 0);
  w.drop(given);
  const Inputs made{w.make(bytes_[0], "exchanged heads", Category::activations),
                    w.make(bytes_[1], "exchanged heads", Category::activations),
                    w.make(bytes_[2], "exchanged heads", Category::activations)};
  w.memory_bound(OperationKind::copy, "exchange layout", 2 * all);
  w.drop(received);
  return made;
}

HeadExchange::Inputs HeadExchange::inputs(Writer& w, const Layouts& layouts) const {
  if (degree_ == 1) return {layouts.query, layouts.key, layouts.value};
  if (layout_ == QkvLayout::packed) return exchange_packed(w);
  // Grouped heads are repeated until the ranks divide their number.
  Value repeated[2] = {0, 0};
  if (repeats_)
    for (Value& v : repeated) {
      v = w.temporary(bytes_[1], "repeated heads");
      w.memory_bound(OperationKind::copy, "repeat heads", bytes_[1] + w.dim.rows(w.dim.key_value));
    }
  const std::vector<Value> made = exchange(w, bytes_, true);
  w.drop({repeated[0], repeated[1]});
  return {made[0], made[1], made[2]};
}

Value HeadExchange::output(Writer& w, Value out) const {
  if (degree_ == 1) return out;
  const Value made = exchange(w, {output_}, false)[0];
  w.drop(out);
  return made;
}

HeadExchange::Outputs HeadExchange::outputs(Writer& w, Value out, Value gradient) const {
  if (degree_ == 1) return {out, gradient};
  if (!resends_output()) return {0, exchange(w, {output_}, true)[0]};
  const std::vector<Value> made = exchange(w, {output_, output_}, true);
  return {made[0], made[1]};
}

Gradients HeadExchange::gradients(Writer& w, Gradients gradients) const {
  if (degree_ == 1) return gradients;
  const std::vector<Value> made = exchange(w, bytes_, false);
  w.drop({gradients[0], gradients[1], gradients[2]});
  if (!repeats_) return {made[0], made[1], made[2]};
  const std::int64_t own = w.dim.rows(w.dim.key_value);
  Gradients back{made[0], 0, 0};
  for (const std::size_t i : {1u, 2u}) {
    back[i] = w.temporary(own, "summed repeated heads");
    w.memory_bound(OperationKind::reduction, "sum repeated heads", own + bytes_[1]);
    w.drop(made[i]);
  }
  return back;
}

}  // namespace sim::program
