// usp.cpp — yunchang's USP: exchanges of heads one after the other, and between them a ring of
// flash-attention. The ring merges its blocks in fp32, one operator at a time.
//
// The forward steps of a rank are those of the catalog, for any order of tokens. The backward pass
// is written for the order that training uses (zigzag). Halves of q, k and v are views.
// INVENTORY.md section 30 lists every tensor.
//
// Sources: feifeibear/long-context-attention hybrid/attn_layer.py:LongContextAttention,
// comm/all_to_all.py; zhuzilin/ring-flash-attention zigzag_ring_flash_attn.py, utils.py.
#include "sim/program/layers/attention/usp.h"

#include <utility>

#include "sim/program/layers/attention/head_exchange.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

struct RingInside {
  RingInside(const Rank& rank, const context::AttentionShape& shape, QkvLayout layout)
      : exchange(rank, shape, layout),
        steps(context_method(rank.plan).forward(shape, rank.program.cp_rank)),
        row(rank.dim.batch * exchange.heads() * rank.dim.head_dim),
        key_row(rank.dim.batch * exchange.groups() * rank.dim.head_dim),
        tokens(shape.sequence / shape.ring()),
        element(rank.dim.element),
        wire(exchange.degree() == 1 ? Stream::cp : Stream::cp_ring) {}

  HeadExchange exchange;
  std::vector<context::AttentionStep> steps;
  std::int64_t row, key_row;  // elements of a token's query, and of its key
  std::int64_t tokens;        // tokens that travel together
  std::int64_t element;
  Stream wire;

  bool last(std::size_t step) const { return step + 1 == steps.size(); }
  std::int64_t key_bytes() const { return element * key_row * tokens; }
  Scores scores(const context::Call& call) const {
    return {call.queries, call.keys, call.causal, exchange.heads(), exchange.groups()};
  }
};

// Keys and values of the previous rank, in transit.
struct Arriving {
  Value key = 0, value = 0;
  std::uint16_t event = 0;
};

Arriving send_on(Writer& w, const RingInside& ring, Value key, Value value, std::int64_t bytes,
                 std::string_view label) {
  Arriving next;
  next.key = w.make(bytes, label, Category::communication);
  next.value = w.make(bytes, label, Category::communication);
  next.event = w.event();
  w.e.collective(Kind::ring_exchange, ring.wire, 2 * bytes, "ring exchange", overlapped,
                 next.event);
  for (const Value v : {key, value, next.key, next.value}) w.record_stream(v, ring.wire);
  return next;
}

// [utils.py:_update_out_and_lse: cast to fp32, difference, sigmoid, product, difference; for the
// statistics: log-sigmoid and difference]
constexpr int merge_kernels = 7;

// out - sigmoid(lse' - lse) (out - out'), for `elements` of the output's `whole`.
Value merge(Writer& w, Value out, Value block, std::int64_t elements, std::int64_t whole) {
  const std::int64_t wide = 4 * elements;
  if (out == 0) {
    const Value made = w.temporary(wide, "output in fp32");
    w.memory_bound(OperationKind::copy, "output to fp32", (2 + 4) * elements);
    w.drop(block);
    return made;
  }
  const Value own = w.temporary(wide, "block in fp32");
  w.memory_bound(OperationKind::copy, "block to fp32", (2 + 4) * elements);
  const Value difference = w.temporary(wide, "difference of outputs");
  w.memory_bound(OperationKind::elementwise, "difference of outputs", 3 * wide);
  const Value share = w.temporary(wide, "share of the block");
  w.memory_bound(OperationKind::elementwise, "share of the block", 2 * wide);
  const Value sum = w.temporary(wide, "output in fp32");
  w.memory_bound(OperationKind::elementwise, "merge outputs", 3 * wide);
  w.e.host(HostWork::launches, merge_kernels - 4);
  w.drop({own, difference, share, block});
  if (elements == whole) {
    w.drop(out);
    return sum;
  }
  w.memory_bound(OperationKind::copy, "part of the output", 2 * wide);
  w.drop(sum);
  return out;
}

struct Forward {
  Value out, lse;
};

Forward attend(Writer& w, const RingInside& ring, Value key, Value value) {
  Forward f{0, 0};
  Value sum = 0;
  const Value first[] = {key, value};
  for (std::size_t s = 0; s < ring.steps.size(); ++s) {
    Arriving next;
    if (!ring.last(s))
      next = send_on(w, ring, key, value, ring.key_bytes(), "key or value of the ring");
    for (const context::Call& call : ring.steps[s].calls) {
      const std::int64_t elements = call.queries * ring.row;
      const Value block = w.temporary(ring.element * elements, "partial output");
      const Value statistics =
          w.temporary(4 * call.queries * w.dim.batch * ring.exchange.heads(), "partial statistics");
      const Value state = w.temporary(16, "partial rng state");
      attention_kernel(w, false, ring.scores(call));
      sum = merge(w, sum, block, elements, ring.tokens * ring.row);
      w.drop({statistics, state});
    }
    if (ring.last(s)) continue;
    w.e.wait(next.event);
    if (key != first[0]) w.drop({key, value});
    key = next.key;
    value = next.value;
  }
  if (key != first[0]) w.drop({key, value});
  f.out = w.activation(ring.element * ring.tokens * ring.row, "attention output");
  w.memory_bound(OperationKind::copy, "output to 16 bits", (4 + 2) * ring.tokens * ring.row);
  f.lse = w.fp32_activation(statistics_bytes(w.dim), "lse");
  w.drop(sum);
  return f;
}

// Gradients of keys and values travel after the keys, in fp32.
Gradients attend_back(Writer& w, const RingInside& ring, Value key, Value value) {
  const std::int64_t query = ring.element * ring.tokens * ring.row, keys = ring.key_bytes();
  const std::int64_t wide = 4 * ring.tokens * ring.key_row;
  const Value first[] = {key, value};
  const Value buffers[] = {w.temporary(query, "dq of the step"), w.temporary(keys, "dk buffer"),
                           w.temporary(keys, "dv buffer")};
  Value dq = 0, dk = 0, dv = 0;
  Arriving gradients;
  for (std::size_t s = 0; s < ring.steps.size(); ++s) {
    const context::Call& call = ring.steps[s].calls.front();
    Arriving next;
    if (!ring.last(s)) next = send_on(w, ring, key, value, keys, "key or value of the ring");
    backward_kernel(w, ring.scores(call));
    const std::int64_t q = call.queries * ring.row, k = call.keys * ring.key_row;
    if (s == 0) {
      dq = w.temporary(4 * ring.tokens * ring.row, "dq in fp32");
      dk = w.temporary(wide, "dk or dv in fp32");
      dv = w.temporary(wide, "dk or dv in fp32");
      w.memory_bound(OperationKind::copy, "gradients to fp32", (2 + 4) * (q + 2 * k));
    } else {
      w.memory_bound(OperationKind::elementwise, "add dq", (2 + 4 + 4) * q);
      w.e.wait(gradients.event);
      w.drop({std::exchange(dk, gradients.key), std::exchange(dv, gradients.value)});
      w.memory_bound(OperationKind::elementwise, "add dkv", 2 * (2 + 4 + 4) * k);
    }
    if (!ring.last(s)) {
      w.e.wait(next.event);
      if (key != first[0]) w.drop({key, value});
      key = next.key;
      value = next.value;
    }
    gradients = send_on(w, ring, dk, dv, wide, "dk or dv of the ring");
  }
  w.e.wait(gradients.event);
  if (key != first[0]) w.drop({key, value});
  w.drop({buffers[0], buffers[1], buffers[2]});
  const Gradients made{w.temporary(query, "dq"), w.temporary(keys, "dk"), w.temporary(keys, "dv")};
  w.memory_bound(OperationKind::copy, "gradients to 16 bits",
                 (4 + 2) * (ring.tokens * ring.row + 2 * ring.tokens * ring.key_row));
  w.drop({dq, dk, dv, gradients.key, gradients.value});
  return made;
}

}  // namespace

Value usp_core(Writer& w, const CoreInputs& in, const context::AttentionShape& shape,
               QkvLayout layout) {
  const RingInside ring(w.rank, shape, layout);
  if (shape.ring() == 1) return ulysses_core(w, in, ring.exchange);
  const Layouts l = make_layouts(w, in);
  const HeadExchange::Inputs own = ring.exchange.inputs(w, l);
  const Forward f = attend(w, ring, own.key, own.value);
  w.save({own.query, own.key, own.value, f.out, f.lse});
  const Value out = ring.exchange.output(w, f.out);
  if (ring.exchange.degree() > 1) w.drop({own.query, own.key, own.value});
  if (l.made_query) w.drop(l.query);
  if (l.made_key) w.drop(l.key);
  w.drop({l.value, f.lse});
  w.node([=](Writer& b, Gradients gradients) {
    const HeadExchange::Outputs outputs = ring.exchange.outputs(b, f.out, gradients[0]);
    const Gradients back = ring.exchange.gradients(b, attend_back(b, ring, own.key, own.value));
    if (ring.exchange.degree() > 1) b.drop(outputs.gradient);
    b.drop({own.query, own.key, own.value, f.out, f.lse, gradients[0]});
    return back;
  });
  return out;
}

Value usp_core(Writer& w, const CoreInputs& in) {
  return usp_core(w, in, context_shape(w.plan));
}

}  // namespace sim::program
