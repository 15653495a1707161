// torch_ring.cpp — attention of PyTorch's context_parallel. Keys and values of all ranks are
// gathered into one tensor (or passed on). Each step's output is merged in fp32. Gradients of keys
// and values travel in fp32 until they reach their rank. Compiled code waits for every message
// where it is sent, and runs the operators between two calls as one kernel. INVENTORY.md section 31
// [pytorch torch/distributed/tensor/experimental/_attention.py:_templated_ring_attention,
// torch/distributed/_functional_collectives.py:_maybe_wrap_tensor].
#include <utility>
#include <vector>

#include "sim/program/layers/attention/attention.h"
#include "sim/program/plan/context_plan.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

struct TorchRing {
  explicit TorchRing(const Rank& rank)
      : dim(rank.dim),
        compiled(rank.plan.stack.layer_kernels == LayerKernels::compiled),
        steps(context_method(rank.plan).forward(context_shape(rank.plan), rank.program.cp_rank)),
        gathers(steps.front().beside.front().kind == Kind::all_gather),
        groups(repeats_heads(rank) ? dim.heads : dim.groups),
        query(dim.rows(dim.query)),
        output(dim.rows(dim.attended)),
        key(dim.element * dim.tokens * groups * dim.head_dim),
        value(dim.element * dim.tokens * groups * dim.value_dim) {}

  Dimensions dim;
  bool compiled;
  std::vector<context::AttentionStep> steps;
  bool gathers;
  std::int64_t groups;
  std::int64_t query, output, key, value;  // bytes of a rank's own tensors, in 16 bits

  std::size_t count() const { return steps.size(); }
  std::int64_t pair() const { return key + value; }
  Scores scores(std::size_t step) const {
    const context::Call& call = steps[step].calls.front();
    return {call.queries, call.keys, call.causal, dim.heads, groups};
  }
  bool half_queries(std::size_t step) const { return scores(step).query < dim.local; }
  bool half_keys(std::size_t step) const { return scores(step).key < dim.local; }
  // The share of `whole` that belongs to a step's queries, or keys.
  std::int64_t of_queries(std::size_t step, std::int64_t whole) const {
    return whole / dim.local * scores(step).query;
  }
  std::int64_t of_keys(std::size_t step, std::int64_t whole) const {
    return whole / dim.local * scores(step).key;
  }

  // A message of the group. `arrived`: the event to wait for, unless the wait is immediate.
  Value send(Writer& w, Kind kind, std::int64_t bytes, std::string_view label, Value sent,
             std::uint16_t& arrived) const;
  void await(Writer& w, std::uint16_t& arrived) const;
  // Keys and values are concatenated, without gaps between heads.
  Value flat(Writer& w) const;
};

Value TorchRing::send(Writer& w, Kind kind, std::int64_t bytes, std::string_view label, Value sent,
                      std::uint16_t& arrived) const {
  const Value received = w.make(bytes, label, Category::communication);
  if (compiled) {
    w.e.collective(kind, Stream::cp, bytes, label);
    return received;
  }
  arrived = w.event();
  w.e.collective(kind, Stream::cp, bytes, label, overlapped, arrived);
  if (w.records())
    for (const Value v : {sent, received}) w.record_stream(v, Stream::cp);
  return received;
}

void TorchRing::await(Writer& w, std::uint16_t& arrived) const {
  if (arrived != 0) w.e.wait(std::exchange(arrived, std::uint16_t{0}));
}

Value TorchRing::flat(Writer& w) const {
  Value keys = 0, values = 0;
  if (!compiled) {
    keys = w.temporary(key, "keys by head");
    values = w.temporary(value, "values by head");
    w.memory_bound(OperationKind::copy, "keys and values by head", 2 * pair());
  }
  const Value made = w.temporary(pair(), "keys and values in one");
  w.memory_bound(OperationKind::copy, "cat k v", 2 * pair());
  w.drop({keys, values});
  return made;
}

// Keys and values in transit: the tensor that a step reads, and the message for the next step.
struct Keys {
  Writer& w;
  const TorchRing& ring;
  Value held = 0;  // of all ranks, or of the rank whose turn it is
  std::uint16_t arrived = 0;

  // Runs before the attention of step i.
  void step(std::size_t i);
  void pass_on(Kind kind, std::int64_t bytes, Value own);
};

void Keys::pass_on(Kind kind, std::int64_t bytes, Value own) {
  w.drop(std::exchange(held, ring.send(w, kind, bytes, "keys and values", own, arrived)));
  w.drop(own);
}

void Keys::step(std::size_t i) {
  if (i == 0) {
    const Value own = ring.flat(w);
    if (ring.gathers)
      pass_on(Kind::all_gather, ring.pair() * static_cast<std::int64_t>(ring.count()), own);
    else
      pass_on(Kind::ring_exchange, ring.pair(), own);
    return;
  }
  ring.await(w, arrived);
  if (ring.gathers || i + 1 == ring.count()) return;
  const Value own = w.temporary(ring.pair(), "keys and values in one");
  w.memory_bound(OperationKind::copy, "cat k v", 2 * ring.pair());
  pass_on(Kind::ring_exchange, ring.pair(), own);
}

// The fp32 sum of the steps' outputs in the forward pass.
struct Merger {
  Writer& w;
  const TorchRing& ring;
  Value sum = 0;

  void step(std::size_t i);
  void eagerly(std::size_t i);
};

// out - sigmoid(lse_i - lse) (out - out_i), one operator at a time.
void Merger::eagerly(std::size_t i) {
  const std::int64_t bytes = ring.of_queries(i, ring.output);
  const Value wide = w.temporary(2 * bytes, "output of a step in fp32");
  w.memory_bound(OperationKind::copy, "output to fp32", 3 * bytes);
  if (i == 0) {
    sum = wide;
    return;
  }
  const Value difference = w.temporary(2 * bytes, "difference of outputs");
  w.memory_bound(OperationKind::elementwise, "subtract output", 6 * bytes);
  const Value scaled = w.temporary(2 * bytes, "scaled difference");
  w.memory_bound(OperationKind::elementwise, "scale difference", 4 * bytes);
  w.drop(difference);
  Value merged = w.temporary(2 * bytes, "merged output");
  w.memory_bound(OperationKind::elementwise, "merge output", 6 * bytes);
  w.drop(scaled);
  if (ring.half_queries(i)) {
    const Value whole = w.temporary(2 * ring.output, "merged output");
    w.memory_bound(OperationKind::copy, "cat outputs", 4 * ring.output);
    w.drop(std::exchange(merged, whole));
  }
  w.drop(wide);
  w.drop(std::exchange(sum, merged));
}

void Merger::step(std::size_t i) {
  if (!ring.compiled) return eagerly(i);
  if (i == 0) return;  // the next step's kernel reads it
  const bool first = i == 1, last = i + 1 == ring.count();
  if (first) sum = w.temporary(2 * ring.output, "merged output");
  w.memory_bound(OperationKind::elementwise, "merge output",
                 (first ? 1 : 2) * ring.output + ring.of_queries(i, ring.output) +
                     (last ? 1 : 2) * ring.output);
}

// The backward pass: fp32 gradients of the queries, which stay, and of the keys and values, which
// travel.
struct Sums {
  Writer& w;
  const TorchRing& ring;
  Value query = 0, keys = 0, values = 0, received = 0;
  std::uint16_t arrived = 0;

  void clear();
  void step(std::size_t i);
  void add_queries(std::size_t i);
  void add_keys(std::size_t i);
  Gradients finish();
};

void Sums::clear() {
  query = w.temporary(2 * ring.query, "dq in fp32");
  if (ring.compiled) return;  // the first step's kernel writes it
  keys = w.temporary(2 * ring.key, "dk in fp32");
  values = w.temporary(2 * ring.value, "dv in fp32");
  w.memory_bound(OperationKind::copy, "clear dq dk dv", 2 * (ring.query + ring.pair()));
}

// An addition to half of a tensor writes the whole tensor again.
void Sums::add_queries(std::size_t i) {
  const std::int64_t part = ring.of_queries(i, ring.query);
  if (ring.compiled) {
    w.memory_bound(OperationKind::elementwise, "add dq",
                   (i == 0 ? 0 : 2 * ring.query) + part + 2 * ring.query);
    return;
  }
  w.memory_bound(OperationKind::elementwise, "add dq", 5 * part);
  if (!ring.half_queries(i)) return;
  w.drop(std::exchange(query, w.temporary(2 * ring.query, "dq in fp32")));
  w.memory_bound(OperationKind::copy, "cat dq", 4 * ring.query);
}

void Sums::add_keys(std::size_t i) {
  const std::int64_t part = ring.of_keys(i, ring.pair());
  if (ring.compiled) {
    w.memory_bound(OperationKind::elementwise, "add dk dv",
                   (i == 0 ? 0 : 2 * ring.pair()) + part + 2 * ring.pair());
    return;
  }
  w.memory_bound(OperationKind::elementwise, "add dk dv", 5 * part);
  if (ring.half_keys(i)) {
    keys = w.temporary(2 * ring.key, "dk in fp32");
    values = w.temporary(2 * ring.value, "dv in fp32");
    w.memory_bound(OperationKind::copy, "cat dk dv", 4 * ring.pair());
  }
  w.memory_bound(OperationKind::copy, "cat dk dv", 4 * ring.pair());
}

void Sums::step(std::size_t i) {
  const Scores scores = ring.scores(i);
  const Value dq = w.temporary(ring.of_queries(i, ring.query), "dq of the step");
  const Value dk = w.temporary(ring.of_keys(i, ring.key), "dk of the step");
  const Value dv = w.temporary(ring.of_keys(i, ring.value), "dv of the step");
  backward_kernel(w, scores);
  ring.await(w, arrived);
  const Value before = std::exchange(received, 0);
  const Value sent = w.temporary(2 * ring.pair(), "dk and dv in one");
  add_keys(i);
  w.drop({before, std::exchange(keys, 0), std::exchange(values, 0)});
  received = ring.send(w, Kind::ring_exchange, 2 * ring.pair(), "dk and dv", sent, arrived);
  w.drop(sent);
  add_queries(i);
  w.drop({dq, dk, dv});
}

Gradients Sums::finish() {
  const Value dq = w.temporary(ring.query, "dq");
  w.memory_bound(OperationKind::copy, "dq to 16 bits", 3 * ring.query);
  w.drop(query);
  ring.await(w, arrived);
  const Value pair = w.temporary(ring.pair(), "dk and dv in 16 bits");
  w.memory_bound(OperationKind::copy, "dk dv to 16 bits", 3 * ring.pair());
  w.drop(received);
  return {dq, 0, pair};
}

Gradients torch_ring_back(Writer& w, const TorchRing& ring) {
  Sums sums{w, ring};
  sums.clear();
  Keys keys{w, ring};
  for (std::size_t i = 0; i < ring.count(); ++i) {
    keys.step(i);
    sums.step(i);
  }
  w.drop(keys.held);
  return sums.finish();
}

}  // namespace

Value torch_ring_core(Writer& w, const CoreInputs& in) {
  const TorchRing ring(w.rank);
  Layouts l = make_layouts(w, in);
  const Value source = repeats_heads(w.rank) ? repeat_heads(w, l) : Value{0};
  Keys keys{w, ring};
  Merger merger{w, ring};
  Value output = 0;  // of a step: Python's variable keeps it until the next step's output exists
  for (std::size_t i = 0; i < ring.count(); ++i) {
    keys.step(i);
    const Scores scores = ring.scores(i);
    const Value made = w.temporary(ring.of_queries(i, ring.output), "output of a step");
    const Value statistics =
        w.temporary(4 * w.dim.batch * w.dim.heads * scores.query, "lse of a step");
    attention_kernel(w, false, scores);
    merger.step(i);
    w.drop(std::exchange(output, made));
    w.drop(statistics);
  }
  const Value out = w.activation(ring.output, "attention output");
  if (!ring.compiled) w.memory_bound(OperationKind::copy, "output to 16 bits", 3 * ring.output);
  const Value lse = w.activation(statistics_bytes(w.dim), "lse");
  const Value state = w.activation(16, "rng state");
  w.drop({output, merger.sum, keys.held});
  w.save({l.query, l.key, l.value, out, lse, state});
  if (l.made_query) w.drop(l.query);
  if (l.made_key) w.drop(l.key);
  w.drop({l.value, lse, state});
  w.node([=](Writer& b, Gradients gradients) -> Gradients {
    const Gradients back = torch_ring_back(b, ring);
    b.drop({lse, state, l.query, l.key, l.value, source, out, gradients[0]});
    return repeats_heads(b.rank) ? sum_repeated(b, back) : back;
  });
  return out;
}

}  // namespace sim::program
