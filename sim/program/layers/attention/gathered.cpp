// gathered.cpp — every rank gathers all keys and values and reorders them. It then runs attention
// for its two chunks of queries, one on each stream [TransformerEngine 2.9
// context_parallel.py:AttnFuncWithCPAndKVAllGather].
//
// The saved tensors are the rank's own query, key and value and each chunk's output. The backward
// pass gathers keys and values again. INVENTORY.md section 30 lists every tensor.
#include <array>

#include "sim/program/layers/attention/attention.h"
#include "sim/program/plan/context_plan.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

enum GatheredTensor : std::size_t { keys, values };
constexpr std::array streams{Stream::compute, Stream::cp_compute};

struct Gathered {
  explicit Gathered(const Rank& rank)
      : step(context_method(rank.plan)
                 .forward(context_shape(rank.plan), rank.program.cp_rank)
                 .front()),
        own{rank.dim.rows(rank.dim.key_value), rank.dim.rows(rank.dim.value)},
        copies(rank.dim.batch > 1) {}

  context::AttentionStep step;
  std::array<std::int64_t, 2> own;  // bytes of a rank's keys, and of its values
  // With one sequence its chunks are contiguous, so nothing is copied.
  bool copies;

  std::int64_t whole(std::size_t what) const { return step.before[what].bytes; }
  Scores scores(const Dimensions& dim, std::size_t chunk) const {
    const context::Call& call = step.calls[chunk];
    return {call.queries, call.keys, call.causal, dim.heads, dim.groups};
  }
  std::int64_t query_bytes(const Dimensions& dim) const { return dim.rows(dim.query) / 2; }
  std::int64_t output_bytes(const Dimensions& dim) const { return dim.rows(dim.attended) / 2; }
  // Bytes of a chunk's keys, or of its values.
  std::int64_t pair_bytes(const Dimensions& dim, std::size_t chunk, std::size_t what) const {
    const std::int64_t width = what == keys ? dim.key_value : dim.value;
    return dim.element * dim.batch * step.calls[chunk].keys * width;
  }
  // Puts tokens first, as the gather needs.
  Value by_token(Writer& w, Value v, std::size_t what) const;
  // Keys or values of all ranks, in order.
  Value gather(Writer& w, std::size_t what) const;
  // A chunk's own keys and values, if they are copies.
  std::array<Value, 2> cut(Writer& w, std::size_t chunk) const;
};

Value Gathered::by_token(Writer& w, Value v, std::size_t what) const {
  if (!copies) return v;
  const Value made = w.activation(own[what], "key or value by token");
  w.memory_bound(OperationKind::copy, "tokens first", 2 * own[what]);
  return made;
}

Value Gathered::gather(Writer& w, std::size_t what) const {
  const std::int64_t bytes = whole(what);
  const Value arrived = w.make(bytes, "gathered keys or values", Category::communication);
  w.e.collective(Kind::all_gather, Stream::cp, bytes, "key value gather");
  if (w.records()) w.record_stream(arrived, Stream::cp);
  const Value ordered = w.temporary(bytes, "keys or values in order");
  w.memory_bound(OperationKind::copy, "order of chunks", 2 * bytes);
  w.drop(arrived);
  return ordered;
}

std::array<Value, 2> Gathered::cut(Writer& w, std::size_t chunk) const {
  std::array<Value, 2> made{};
  if (!copies) return made;
  for (const std::size_t what : {keys, values}) {
    const std::int64_t bytes = pair_bytes(w.dim, chunk, what);
    made[what] = w.temporary(bytes, "keys or values of a chunk", streams[chunk]);
    w.memory_bound(OperationKind::copy, "cut keys", 2 * bytes, streams[chunk]);
  }
  return made;
}

Value copy_of_chunk(Writer& w, const Gathered& g, std::size_t chunk, std::int64_t bytes,
                    std::string_view label) {
  if (!g.copies) return 0;
  const Value made = w.temporary(bytes, label, streams[chunk]);
  w.memory_bound(OperationKind::copy, "copy half", 2 * bytes, streams[chunk]);
  return made;
}

struct SavedGather {
  Value query, key, value;
  std::array<Value, 2> outputs, statistics, states;
};

// The backward pass of one chunk: adds its gradients to those of all keys.
void chunk_back(Writer& w, const Gathered& g, std::size_t chunk) {
  const Stream stream = streams[chunk];
  const std::int64_t query = g.query_bytes(w.dim);
  const std::int64_t of_keys = g.pair_bytes(w.dim, chunk, keys);
  const std::int64_t of_values = g.pair_bytes(w.dim, chunk, values);
  const Value q = copy_of_chunk(w, g, chunk, query, "q of a chunk");
  const std::array<Value, 2> cut = g.cut(w, chunk);
  const Value dout = copy_of_chunk(w, g, chunk, g.output_bytes(w.dim), "dout of a chunk");
  const Value dq = w.temporary(query, "dq of the step", stream);
  const Value dk = w.temporary(of_keys, "dk of a chunk", stream);
  const Value dv = w.temporary(of_values, "dv of a chunk", stream);
  backward_kernel(w, g.scores(w.dim, chunk), stream);
  w.memory_bound(OperationKind::copy, "copy dq", 2 * query, stream);
  if (chunk == 1) w.order(stream, streams[0]);  // both add to the same gradients
  w.memory_bound(OperationKind::elementwise, "add dkv", 3 * (of_keys + of_values), stream);
  w.drop({q, cut[0], cut[1], dout, dq, dk, dv});
}

// The gradients of all keys, reordered by rank and summed over the ranks.
Value scatter(Writer& w, const Gathered& g, Value all, std::size_t what) {
  const std::int64_t whole = g.whole(what);
  const Value ordered = w.temporary(whole, "gradients in the order of ranks");
  w.memory_bound(OperationKind::copy, "order of chunks", 2 * whole);
  w.drop(all);
  const Value own = w.temporary(g.own[what], "reduced key or value gradient");
  w.e.collective(Kind::reduce_scatter, Stream::cp, whole, "key value gradient scatter");
  if (w.records()) w.record_stream(ordered, Stream::cp);
  w.drop(ordered);
  return own;
}

Gradients gathered_back(Writer& w, const Gathered& g) {
  const Value dq = w.temporary(w.dim.rows(w.dim.query), "dq");
  const std::array<Value, 2> sums{w.temporary(g.whole(keys), "gradients of all keys or values"),
                                  w.temporary(g.whole(values), "gradients of all keys or values")};
  w.memory_bound(OperationKind::copy, "clear dkv", g.whole(keys) + g.whole(values));
  const Value all_keys = g.gather(w, keys), all_values = g.gather(w, values);
  w.order(streams[1], streams[0]);
  for (const std::size_t chunk : {0u, 1u}) chunk_back(w, g, chunk);
  w.order(streams[0], streams[1]);
  const Value dk = scatter(w, g, sums[0], keys), dv = scatter(w, g, sums[1], values);
  w.drop({all_keys, all_values});
  return {dq, dk, dv};
}

}  // namespace

Value gathered_core(Writer& w, const CoreInputs& in) {
  const Gathered g(w.rank);
  const Layouts l = make_layouts(w, in);
  SavedGather saved{l.query, g.by_token(w, l.key, keys), g.by_token(w, l.value, values), {}, {},
                    {}};
  const Value all_keys = g.gather(w, keys), all_values = g.gather(w, values);
  w.order(streams[1], streams[0]);
  const Value out = w.activation(w.dim.rows(w.dim.attended), "attention output");
  std::array<Value, 2> half{};
  std::array<std::array<Value, 2>, 2> cut{};
  const auto copy_output = [&](std::size_t chunk) {
    w.memory_bound(OperationKind::copy, "copy output", 2 * g.output_bytes(w.dim), streams[chunk]);
  };
  for (const std::size_t chunk : {0u, 1u}) {
    const Scores scores = g.scores(w.dim, chunk);
    half[chunk] = copy_of_chunk(w, g, chunk, g.query_bytes(w.dim), "q of a chunk");
    cut[chunk] = g.cut(w, chunk);
    saved.outputs[chunk] = w.activation(g.output_bytes(w.dim), "output of a chunk", streams[chunk]);
    saved.statistics[chunk] = w.fp32_activation(statistics_bytes(w.dim) / 2, "lse", streams[chunk]);
    saved.states[chunk] = w.activation(16, "rng state", streams[chunk]);
    attention_kernel(w, false, scores, streams[chunk]);
    if (chunk == 1) copy_output(0);
  }
  copy_output(1);
  w.order(streams[0], streams[1]);
  w.save({saved.query, saved.key, saved.value});
  for (const std::size_t chunk : {0u, 1u}) {
    const Value of_chunk[] = {saved.outputs[chunk], saved.statistics[chunk], saved.states[chunk]};
    w.save({of_chunk[0], of_chunk[1], of_chunk[2]});
    w.drop({half[chunk], cut[chunk][0], cut[chunk][1], of_chunk[0], of_chunk[1], of_chunk[2]});
  }
  w.drop({all_keys, all_values});
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

}  // namespace sim::program
