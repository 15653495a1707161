// gathered.cpp — every rank gathers all keys and values, puts them in order and attends to them
// with its two chunks of queries, one on each stream
// [TransformerEngine 2.9 context_parallel.py:AttnFuncWithCPAndKVAllGather].
//
// Saved are the rank's own query, key and value and each chunk's output; keys and values are
// gathered again on the way back. INVENTORY.md section 30 has a line per tensor.
#include <array>

#include "sim/workload/attention.h"
#include "sim/workload/context_plan.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::OperationKind;

constexpr std::array streams{Stream::compute, Stream::cp_compute};

struct Gathered {
  explicit Gathered(const Rank& rank)
      : step(context_method(rank.plan)
                 .forward(context_shape(rank.plan), rank.program.cp_rank)
                 .front()),
        own(rank.dim.rows(rank.dim.key_value)),
        copies(rank.dim.batch > 1) {}

  context::Step step;
  std::int64_t own;  // bytes of a rank's key
  // With one sequence its chunks lie in one piece, and nothing is copied to make them so.
  bool copies;

  std::int64_t whole() const { return step.before.front().bytes; }
  Scores scores(const Dimensions& dim, std::size_t chunk) const {
    const context::Call& call = step.calls[chunk];
    return {call.queries, call.keys, call.causal, dim.heads, dim.groups};
  }
  std::int64_t query_bytes(const Dimensions& dim) const { return dim.rows(dim.query) / 2; }
  std::int64_t key_bytes(const Dimensions& dim, std::size_t chunk) const {
    return dim.element * dim.batch * step.calls[chunk].keys * dim.key_value;
  }
  // Tokens first, as they are gathered.
  Value by_token(Writer& w, Value v) const;
  // Keys or values of all ranks, in order.
  Value gather(Writer& w) const;
  // A chunk's own keys and values, as far as they are copies.
  std::array<Value, 2> cut(Writer& w, std::size_t chunk) const;
};

Value Gathered::by_token(Writer& w, Value v) const {
  if (!copies) return v;
  const Value made = w.activation(own, "key or value by token");
  w.memory_bound(OperationKind::copy, "tokens first", 2 * own);
  return made;
}

Value Gathered::gather(Writer& w) const {
  const Value arrived = w.make(whole(), "gathered keys or values", Category::communication);
  w.e.collective(Kind::all_gather, Stream::cp, whole(), "key value gather");
  if (w.records()) w.record_stream(arrived, Stream::cp);
  const Value ordered = w.temporary(whole(), "keys or values in order");
  w.memory_bound(OperationKind::copy, "order of chunks", 2 * whole());
  w.drop(arrived);
  return ordered;
}

std::array<Value, 2> Gathered::cut(Writer& w, std::size_t chunk) const {
  std::array<Value, 2> made{};
  if (!copies) return made;
  for (Value& v : made) {
    v = w.temporary(key_bytes(w.dim, chunk), "keys or values of a chunk", streams[chunk]);
    w.memory_bound(OperationKind::copy, "cut keys", 2 * key_bytes(w.dim, chunk), streams[chunk]);
  }
  return made;
}

// One stream goes on behind what the other was given.
void join(Writer& w, Stream waits, Stream behind) {
  const std::uint16_t event = w.event();
  w.e.record(event, behind);
  w.e.wait(event, waits);
}

Value copy_of_chunk(Writer& w, const Gathered& g, std::size_t chunk, std::string_view label) {
  if (!g.copies) return 0;
  const std::int64_t bytes = g.query_bytes(w.dim);
  const Value made = w.temporary(bytes, label, streams[chunk]);
  w.memory_bound(OperationKind::copy, "copy half", 2 * bytes, streams[chunk]);
  return made;
}

struct Saved {
  Value query, key, value;
  std::array<Value, 2> outputs, statistics, states;
};

// One chunk on the way back: its gradients are added to those of all keys.
void chunk_back(Writer& w, const Gathered& g, std::size_t chunk) {
  const Stream stream = streams[chunk];
  const std::int64_t query = g.query_bytes(w.dim), keys = g.key_bytes(w.dim, chunk);
  const Value q = copy_of_chunk(w, g, chunk, "q of a chunk");
  const std::array<Value, 2> cut = g.cut(w, chunk);
  const Value dout = copy_of_chunk(w, g, chunk, "dout of a chunk");
  const Value dq = w.temporary(query, "dq of the step", stream);
  const Value dk = w.temporary(keys, "dk of a chunk", stream);
  const Value dv = w.temporary(keys, "dv of a chunk", stream);
  backward_kernel(w, g.scores(w.dim, chunk), stream);
  w.memory_bound(OperationKind::copy, "copy dq", 2 * query, stream);
  if (chunk == 1) join(w, stream, streams[0]);  // both add to the same gradients
  w.memory_bound(OperationKind::elementwise, "add dkv", 2 * 3 * keys, stream);
  w.drop({q, cut[0], cut[1], dout, dq, dk, dv});
}

// The gradients of all keys: put back in the ranks' order and summed over them.
Value scatter(Writer& w, const Gathered& g, Value all) {
  const Value ordered = w.temporary(g.whole(), "gradients in the order of ranks");
  w.memory_bound(OperationKind::copy, "order of chunks", 2 * g.whole());
  w.drop(all);
  const Value own = w.temporary(g.own, "reduced key or value gradient");
  w.e.collective(Kind::reduce_scatter, Stream::cp, g.whole(), "key value gradient scatter");
  if (w.records()) w.record_stream(ordered, Stream::cp);
  w.drop(ordered);
  return own;
}

Gradients gathered_back(Writer& w, const Gathered& g) {
  const Value dq = w.temporary(w.dim.rows(w.dim.query), "dq");
  const std::array<Value, 2> sums{w.temporary(g.whole(), "gradients of all keys or values"),
                                  w.temporary(g.whole(), "gradients of all keys or values")};
  w.memory_bound(OperationKind::copy, "clear dkv", 2 * g.whole());
  const Value keys = g.gather(w), values = g.gather(w);
  join(w, streams[1], streams[0]);
  for (const std::size_t chunk : {0u, 1u}) chunk_back(w, g, chunk);
  join(w, streams[0], streams[1]);
  const Value dk = scatter(w, g, sums[0]), dv = scatter(w, g, sums[1]);
  w.drop({keys, values});
  return {dq, dk, dv};
}

}  // namespace

Value gathered_core(Writer& w, const CoreInputs& in) {
  const Gathered g(w.rank);
  const Layouts l = make_layouts(w, in);
  Saved saved{l.query, g.by_token(w, l.key), g.by_token(w, l.value), {}, {}, {}};
  const Value keys = g.gather(w), values = g.gather(w);
  join(w, streams[1], streams[0]);
  const Value out = w.activation(w.dim.rows(w.dim.query), "attention output");
  std::array<Value, 2> half{};
  std::array<std::array<Value, 2>, 2> cut{};
  const auto copy_output = [&](std::size_t chunk) {
    w.memory_bound(OperationKind::copy, "copy output", 2 * g.query_bytes(w.dim), streams[chunk]);
  };
  for (const std::size_t chunk : {0u, 1u}) {
    const Scores scores = g.scores(w.dim, chunk);
    half[chunk] = copy_of_chunk(w, g, chunk, "q of a chunk");
    cut[chunk] = g.cut(w, chunk);
    saved.outputs[chunk] = w.activation(g.query_bytes(w.dim), "output of a chunk", streams[chunk]);
    saved.statistics[chunk] = w.activation(statistics_bytes(w.dim) / 2, "lse", streams[chunk]);
    saved.states[chunk] = w.activation(16, "rng state", streams[chunk]);
    attention_kernel(w, false, scores, streams[chunk]);
    if (chunk == 1) copy_output(0);
  }
  copy_output(1);
  join(w, streams[0], streams[1]);
  w.save({saved.query, saved.key, saved.value});
  for (const std::size_t chunk : {0u, 1u}) {
    const Value of_chunk[] = {saved.outputs[chunk], saved.statistics[chunk], saved.states[chunk]};
    w.save({of_chunk[0], of_chunk[1], of_chunk[2]});
    w.drop({half[chunk], cut[chunk][0], cut[chunk][1], of_chunk[0], of_chunk[1], of_chunk[2]});
  }
  w.drop({keys, values});
  if (g.copies) w.drop({saved.key, saved.value});
  if (l.made_query) w.drop(l.query);
  if (l.made_key) w.drop(l.key);
  w.drop(l.value);
  w.node([g, saved](Writer& b, Gradients gradients) {
    const Gradients back = gathered_back(b, g);
    for (const std::size_t chunk : {0u, 1u})
      b.drop({saved.outputs[chunk], saved.statistics[chunk], saved.states[chunk]});
    b.drop({saved.query, saved.key, saved.value, gradients[0]});
    return back;
  });
  return out;
}

}  // namespace sim::workload
