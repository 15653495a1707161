// ring.cpp — ring attention over the context-parallel group (TransformerEngine's
// AttnFuncWithCP(AndKVP2P)). In two-level contexts, neighbours exchange heads first; the ring then
// joins ranks with the same place in their neighbourhoods.
//
// Rank r holds chunks r and 2c-1-r of the sequence. K/V travel around the ring. Odd steps run (and
// allocate) on a second stream. Python's variables decide when tensors are freed. Those of a step
// live until a later step reassigns them; most others live until the function returns. INVENTORY.md
// sections 2 and 3 list every tensor [TransformerEngine 1.8 and 1.9, attention.py].
#include <utility>
#include <vector>

#include "sim/program/layers/attention/attention.h"
#include "sim/program/layers/attention/head_exchange.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

Stream stream_of(int i) {
  return i % 2 == 0 ? Stream::compute : Stream::cp_compute;
}

// The attention of step i: first the rank's own chunk, causally. Then all queries with the first
// half of the keys; then the second half of the queries with all keys.
enum class Part { own, first_keys, second_queries };

struct Ring {
  Ring(const Rank& rank, const HeadExchange& exchange)
      : dim(rank.dim),
        c(rank.plan.mesh.cp / exchange.degree()),
        r(rank.program.cp_rank / exchange.degree()),
        local(rank.dim.local * exchange.degree()),
        heads(exchange.heads()),
        groups(exchange.groups()),
        wire(exchange.ring()),
        copies_half(rank.dim.batch > 1 || rank.plan.documents_per_sample() > 1) {}

  Dimensions dim;
  int c, r;
  std::int64_t local;          // tokens that travel together
  std::int64_t heads, groups;  // heads and key-value groups on this rank
  Stream wire;
  // Halves of q, out and dout are [:, 1] of the batch. With one sequence they are contiguous, and
  // `.contiguous()` gives a view (packed samples have a kernel that copies). Halves of k and v are
  // always copied, because the two are concatenated.
  bool copies_half;

  Part part(int i) const {
    return i == 0 ? Part::own : i <= r ? Part::first_keys : Part::second_queries;
  }
  Scores scores(Part p) const {
    return {p == Part::second_queries ? local / 2 : local,
            p == Part::first_keys ? local / 2 : local, p == Part::own, heads, groups};
  }
  // Bytes of the keys and values of `rows` tokens, and of all tokens that travel together.
  std::int64_t key_value_bytes(std::int64_t rows) const {
    return dim.element * dim.batch * rows * groups * (dim.head_dim + dim.value_dim);
  }
  std::int64_t key_value_bytes() const { return key_value_bytes(local); }
  std::int64_t query_bytes(std::int64_t rows) const {
    return dim.element * dim.batch * rows * heads * dim.head_dim;
  }
  std::int64_t output_bytes(std::int64_t rows) const {
    return dim.element * dim.batch * rows * heads * dim.value_dim;
  }
  std::int64_t statistics(std::int64_t queries) const { return 4 * dim.batch * heads * queries; }
};

// The variables of the forward function.
struct RingForward {
  Writer& w;
  const Ring& ring;
  std::vector<Value> buffers{}, outputs{}, statistics{}, states{};
  Value half[2] = {};  // of the last two steps: first half of k and v, or second half of q
  Value out = 0, running = 0;
  std::uint16_t arrived = 0;

  void run();
  void step(int i);
  void take_half(int i);
  void add_statistics(int i);
};

// The halves of step i - 2 are freed when this step assigns its own inputs: k and v first, then q.
void RingForward::take_half(int i) {
  const Part p = ring.part(i);
  const Stream stream = stream_of(i);
  Value& mine = half[i % 2];
  const Value old = mine;
  if (i >= 2 && ring.part(i - 2) == Part::first_keys) w.drop(std::exchange(mine, 0));
  Value made = 0;
  if (p == Part::first_keys) {
    made = w.temporary(ring.key_value_bytes() / 2, "first half of k and v", stream);
    w.memory_bound(OperationKind::copy, "half k v", ring.key_value_bytes(), stream);
  } else if (p == Part::second_queries && ring.copies_half) {
    const std::int64_t bytes = ring.query_bytes(ring.local / 2);
    made = w.temporary(bytes, "second half of q", stream);
    w.memory_bound(OperationKind::copy, "half q", 2 * bytes, stream);
  }
  if (mine == old) w.drop(old);
  mine = made;
}

void RingForward::step(int i) {
  const Stream stream = stream_of(i);
  if (i > 0) w.e.wait(arrived, stream);
  if (i < ring.c - 1) {
    buffers.push_back(
        w.make(ring.key_value_bytes(), "k and v of the ring", Category::communication, stream));
    arrived = w.event();
    w.e.collective(Kind::ring_exchange, ring.wire, ring.key_value_bytes(), "ring exchange",
                   overlapped, arrived, stream);
    for (const std::size_t b : {buffers.size() - 2, buffers.size() - 1})
      w.record_stream(buffers[b], ring.wire);
  }
  take_half(i);
  const Scores scores = ring.scores(ring.part(i));
  outputs.push_back(w.temporary(ring.output_bytes(scores.query), "partial output", stream));
  statistics.push_back(w.temporary(ring.statistics(scores.query), "partial statistics", stream));
  states.push_back(w.temporary(16, "partial rng state", stream));
  attention_kernel(w, false, scores, stream);
}

// Runs after the next step is issued, on the stream of its own step.
void RingForward::add_statistics(int i) {
  const std::int64_t bytes = statistics_bytes(w.dim);
  if (i > 0) {
    w.memory_bound(OperationKind::elementwise, "merge statistics", 5 * bytes, stream_of(i));
    return;
  }
  out = w.activation(w.dim.rows(w.dim.attended), "attention output");
  w.memory_bound(OperationKind::copy, "clear output", w.dim.rows(w.dim.attended));
  const Value copy = w.temporary(bytes, "copy of statistics");
  running = w.temporary(2 * bytes, "running statistics in fp64");
  w.memory_bound(OperationKind::copy, "statistics to fp64", 5 * bytes);
  w.drop(copy);
}

void RingForward::run() {
  buffers.push_back(w.make(ring.key_value_bytes(), "k and v of the ring", Category::communication));
  w.memory_bound(OperationKind::copy, "cat k v", 2 * ring.key_value_bytes());
  for (int i = 0; i <= ring.c; ++i) {
    if (i < ring.c) step(i);
    if (i > 0) add_statistics(i - 1);
  }
  w.e.wait(arrived);
}

// The variables of the backward function. Those of a step are freed after the next step's are
// assigned.
struct RingBackward {
  Writer& w;
  const Ring& ring;
  bool cudnn = w.plan.stack.attention == AttentionBackend::cudnn;
  Value dq = 0, dkv = 0, keys = 0, query = 0, output = 0, gradient = 0, dk = 0, dv = 0;

  void step(int i, std::uint16_t arrived);
  // Assigns a new tensor to the variable, then frees the old one.
  void make(Value& name, std::int64_t bytes, std::string_view label) {
    w.drop(std::exchange(name, w.temporary(bytes, label)));
  }
  // Copies a half into a new tensor, or assigns a view to the variable; then frees the old half.
  void half(Value& name, bool copies, std::int64_t bytes, std::string_view label) {
    const Value old = std::exchange(name, copies ? w.temporary(bytes, label) : Value{0});
    if (copies) w.memory_bound(OperationKind::copy, "copy half", 2 * bytes);
    w.drop(old);
  }
};

// One step of the backward pass, with the same attention as forward step c-1-i.
void RingBackward::step(int i, std::uint16_t arrived) {
  const Part p = ring.part(ring.c - 1 - i);
  const Scores scores = ring.scores(p);
  const std::int64_t query_bytes = ring.query_bytes(scores.query);
  const std::int64_t key_bytes = ring.key_value_bytes(scores.key);
  const std::int64_t of_value =
      w.dim.element * w.dim.batch * scores.key * ring.groups * w.dim.value_dim;
  const std::int64_t half_query = ring.query_bytes(ring.local / 2);
  const std::int64_t half_output = ring.output_bytes(ring.local / 2);
  const bool second = p == Part::second_queries && ring.copies_half;
  half(query, second, half_query, "second half of q");
  if (!cudnn) make(dq, query_bytes, "dq of the step");
  half(keys, p == Part::first_keys, ring.key_value_bytes() / 2, "first half of k and v");
  if (!cudnn) make(dkv, key_bytes, "dkv of the step");
  half(output, second, half_output, "second half of out");
  half(gradient, second, half_output, "second half of dout");
  const Value old[] = {dq, dk, dv};
  if (cudnn) {
    // Results are assigned when the call returns.
    dq = w.temporary(query_bytes, "dq of the step");
    dk = w.temporary(key_bytes - of_value, "dk of the step");
    dv = w.temporary(of_value, "dv of the step");
  }
  backward_kernel(w, scores);
  if (cudnn) w.drop({old[0], old[1], old[2]});
  w.memory_bound(OperationKind::elementwise, "add dq", 3 * query_bytes);
  // The ring's message must arrive before dkv is added to it.
  w.e.wait(arrived);
  if (cudnn) {
    make(dkv, key_bytes, "dkv of the step");
    w.memory_bound(OperationKind::copy, "cat dk dv", 2 * key_bytes);
  }
  w.memory_bound(OperationKind::elementwise, "add dkv", 3 * key_bytes);
}

Gradients ring_back(Writer& w, const Ring& ring) {
  const std::int64_t bytes = ring.key_value_bytes();
  // Two buffers of (kv, dkv); the first starts from the saved kv. Steps run in reverse.
  const Value half_lse = w.temporary(statistics_bytes(w.dim) / 2, "second half of lse");
  w.memory_bound(OperationKind::copy, "half lse", statistics_bytes(w.dim));
  const Value dq = w.temporary(w.dim.rows(w.dim.query), "dq");
  const Value buffers[] = {w.temporary(2 * bytes, "ring buffer of kv and dkv"),
                           w.temporary(2 * bytes, "ring buffer of kv and dkv")};
  w.memory_bound(OperationKind::copy, "copy kv", 2 * bytes);
  RingBackward steps{w, ring};
  std::uint16_t arrived = 0;
  for (int i = 0; i < ring.c; ++i) {
    if (i > 0) w.e.wait(arrived);
    arrived = w.event();
    w.e.collective(Kind::ring_exchange, ring.wire, i == 0 || i == ring.c - 1 ? bytes : 2 * bytes,
                   "ring exchange", overlapped, arrived);
    for (const Value buffer : buffers) w.record_stream(buffer, ring.wire);
    steps.step(i, arrived);
  }
  // The function returns. dk and dv are views into the buffer of the last message.
  w.drop({steps.dq, steps.dkv, steps.dk, steps.dv, half_lse, buffers[(ring.c + 1) % 2]});
  return {dq, 0, buffers[ring.c % 2]};
}

}  // namespace

Value ring_core(Writer& w, const CoreInputs& in) {
  const HeadExchange exchange(w.rank);
  const Ring ring(w.rank, exchange);
  if (ring.c == 1) return ulysses_core(w, in);
  const Layouts layouts = make_layouts(w, in);
  const HeadExchange::Inputs own = exchange.inputs(w, layouts);
  RingForward f{w, ring};
  f.run();
  const Value lse = w.fp32_activation(statistics_bytes(w.dim), "lse");
  w.memory_bound(OperationKind::copy, "lse to fp32", 3 * statistics_bytes(w.dim));
  for (int i = 0; i < ring.c; ++i)
    w.memory_bound(OperationKind::elementwise, "merge outputs",
                   3 * ring.output_bytes(ring.scores(ring.part(i)).query));
  const Value out = exchange.output(w, f.out);
  const Value state = w.activation(16 * ring.c, "rng state");
  // Saves q, the last K/V buffer, out, lse and rng states. The function's other lists and local
  // variables are freed, among them a view of the fp64 statistics.
  const Value last = f.buffers.back();
  const Value query = own.query;
  w.save({query, last, out, lse, state});
  for (int i = 0; i < ring.c; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i >= ring.c - 2) w.drop(f.half[i % 2]);
    if (i < ring.c - 1) w.drop(f.buffers[at]);
    w.drop({f.outputs[at], f.statistics[at], f.states[at]});
  }
  w.drop(f.running);
  if (exchange.degree() > 1) w.drop({own.key, own.value, query});
  if (layouts.made_key) w.drop(layouts.key);
  w.drop(layouts.value);
  if (layouts.made_query) w.drop(layouts.query);
  w.drop({last, lse, state});
  w.node([=](Writer& b, Gradients gradients) {
    const HeadExchange::Outputs outputs = exchange.outputs(b, out, gradients[0]);
    const Gradients back = exchange.gradients(b, ring_back(b, ring));
    if (exchange.degree() > 1) b.drop({outputs.out, outputs.gradient});
    b.drop({last, lse, state, query, out, gradients[0]});
    return back;
  });
  return out;
}

}  // namespace sim::program
