// attention.cpp — the core of attention: flash or cuDNN kernels, ring attention over the
// context-parallel group, and the unfused path with scores, softmax and dropout in memory.
//
// Ring attention is TransformerEngine's AttnFuncWithCP: chunks r and 2c-1-r of the sequence on
// rank r, K/V travel around the ring, odd steps run (and allocate) on a second stream. INVENTORY.md
// sections 2 and 3 have a line per tensor.
#include <algorithm>
#include <cassert>

#include "sim/workload/rank.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::OperationKind;

// Local slots of this file start here; forward.cpp and backward.cpp stay below.
constexpr std::uint32_t base = 40;
constexpr std::uint32_t ring_buffers = base;          // c of them
constexpr std::uint32_t step_outputs = base + 20;     // out_i
constexpr std::uint32_t step_statistics = base + 40;  // lse_i
constexpr std::uint32_t step_states = base + 60;      // rng_i
constexpr std::uint32_t scratch = base + 80;

std::int64_t statistics_bytes(const Dimensions& dim) {
  return 4 * dim.batch * dim.heads * dim.local;
}

struct Attention {
  Rank& rank;
  Emitter& e;
  const Dimensions& dim = rank.dim;
  std::uint8_t flags = 0;
  int c = rank.plan.cp;
  int r = rank.program.cp_rank;
  bool keep_output = false;  // the weight pass still reads it as the projection's input

  void temporary(std::uint32_t slot, std::int64_t bytes, std::string_view label,
                 Stream pool = Stream::compute) {
    e.alloc(local_slot(slot), bytes, Category::temporaries, label, pool);
  }
  void pass(OperationKind kind, std::string_view name, std::int64_t bytes,
            Stream stream = Stream::compute) {
    e.kernel(model::pass(kind, name, Bytes{bytes}), flags, stream);
  }
  void kernel(bool backward, std::int64_t query, std::int64_t key, bool causal,
              Stream stream = Stream::compute) {
    e.kernel(model::attention(backward ? "attention backward" : "attention", backward, dim.batch,
                              dim.heads, dim.groups, dim.head_dim, query, key, causal,
                              rank.plan.precision),
             flags, stream);
  }

  // The part of the ring that step i of rank r attends to: its own chunk causally, then full
  // queries x first half of the keys, then second half of the queries x all keys.
  enum class Part { own, first_keys, second_queries };
  Part part(int i) const {
    return i == 0 ? Part::own : i <= r ? Part::first_keys : Part::second_queries;
  }
  std::int64_t query_of(Part p) const {
    return p == Part::second_queries ? dim.local / 2 : dim.local;
  }
  std::int64_t key_of(Part p) const { return p == Part::first_keys ? dim.local / 2 : dim.local; }
  std::int64_t key_value_bytes() const { return 2 * dim.rows(dim.key_value); }

  void ring_forward(bool keep);
  void ring_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv);
  void backward_kernel(Part p, std::uint32_t dq, std::uint32_t dkv);
  void backward_temporaries(std::int64_t query, std::int64_t key, bool begin);
  void unfused_forward(bool keep);
  void unfused_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv);
  void release_output();
};

void Attention::release_output() {
  if (keep_output)
    e.move(layer_slot(attention_out), layer_slot(projection_input));
  else
    e.free(layer_slot(attention_out));
}

void Attention::ring_forward(bool keep) {
  const auto slot_of = [this](int i) {
    return i == c - 1 ? layer_slot(key_value_ring)
                      : local_slot(ring_buffers + static_cast<std::uint32_t>(i));
  };
  e.alloc(slot_of(0), key_value_bytes(), Category::communication, "k and v of the ring");
  pass(OperationKind::copy, "cat k v", 2 * key_value_bytes());
  for (int i = 0; i < c; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    const Stream stream = i % 2 == 0 ? Stream::compute : Stream::cp_compute;
    if (i > 0) e.wait(static_cast<std::uint8_t>(cp_ring_event + i - 1), stream);
    if (i < c - 1) {
      e.alloc(slot_of(i + 1), key_value_bytes(), Category::communication, "k and v of the ring",
              stream);
      e.collective(Kind::ring_exchange, Stream::cp, key_value_bytes(), "ring exchange", overlapped,
                   static_cast<std::uint8_t>(cp_ring_event + i), stream);
      e.record_stream(slot_of(i), Stream::cp);
      e.record_stream(slot_of(i + 1), Stream::cp);
    }
    const Part p = part(i);
    const std::int64_t query = query_of(p);
    const std::int64_t half_query = dim.element * dim.batch * (dim.local / 2) * dim.query;
    if (p == Part::first_keys) {
      temporary(scratch, key_value_bytes() / 2, "first half of k and v", stream);
      pass(OperationKind::copy, "half k v", key_value_bytes(), stream);
    } else if (p == Part::second_queries) {
      temporary(scratch, half_query, "second half of q", stream);
      pass(OperationKind::copy, "half q", 2 * half_query, stream);
    }
    temporary(step_outputs + n, dim.element * dim.batch * query * dim.query, "partial output",
              stream);
    temporary(step_statistics + n, 4 * dim.batch * dim.heads * query, "partial statistics", stream);
    temporary(step_states + n, 16, "rng state", stream);
    kernel(false, query, key_of(p), p == Part::own, stream);
    if (p != Part::own) e.free(local_slot(scratch));
    if (i == 1) {
      e.alloc(layer_slot(attention_out), dim.rows(dim.query), Category::activations,
              "attention output");
      temporary(scratch + 1, 2 * statistics_bytes(dim), "running statistics in fp64");
      pass(OperationKind::copy, "clear output", dim.rows(dim.query));
    }
    if (i > 0) pass(OperationKind::elementwise, "merge statistics", 5 * statistics_bytes(dim));
  }
  if (c > 1) e.wait(static_cast<std::uint8_t>(cp_ring_event + c - 2));
  e.alloc(layer_slot(log_sum_exp), statistics_bytes(dim), Category::activations, "lse");
  pass(OperationKind::copy, "lse to fp32", 3 * statistics_bytes(dim));
  e.free(local_slot(scratch + 1));
  for (int i = 0; i < c; ++i)
    pass(OperationKind::elementwise, "merge outputs",
         3 * dim.element * dim.batch * query_of(part(i)) * dim.query);
  e.alloc(layer_slot(rng_state), 16 * c, Category::activations, "rng states");
  for (int i = 0; i < c; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    if (i < c - 1) e.free(slot_of(i));
    e.free(local_slot(step_outputs + n));
    e.free(local_slot(step_statistics + n));
    e.free(local_slot(step_states + n));
  }
  // q, the last K/V buffer, out, lse and rng are saved; rotated k and v's copy are not.
  e.free(layer_slot(key_rotated));
  e.free(layer_slot(value_copy));
  if (keep) return;
  for (const LayerSlot s : {query_rotated, key_value_ring, log_sum_exp, rng_state})
    e.free(layer_slot(s));
}

// fp32 accumulators and row sums that live inside one backward kernel call.
void Attention::backward_temporaries(std::int64_t query, std::int64_t key, bool begin) {
  const bool flash = rank.plan.attention == AttentionBackend::flash;
  const std::int64_t rounded = (query + 127) / 128 * 128;
  const std::int64_t width = dim.heads * dim.head_dim;
  if (begin) {
    temporary(scratch + 2, 4 * dim.batch * dim.heads * rounded, "softmax_d");
    temporary(scratch + 3, 4 * dim.batch * (flash ? query + 128 : query) * width,
              flash ? "dq_accum" : "cuDNN workspace");
    if (flash && dim.heads > dim.groups) {
      temporary(scratch + 4, dim.element * dim.batch * key * width, "dk expanded");
      temporary(scratch + 5, dim.element * dim.batch * key * width, "dv expanded");
    }
    return;
  }
  if (flash && dim.heads > dim.groups) {
    pass(OperationKind::reduction, "sum dk over query heads",
         dim.element * dim.batch * key * (width + dim.key_value));
    pass(OperationKind::reduction, "sum dv over query heads",
         dim.element * dim.batch * key * (width + dim.key_value));
    e.free(local_slot(scratch + 4));
    e.free(local_slot(scratch + 5));
  }
  e.free(local_slot(scratch + 3));
  e.free(local_slot(scratch + 2));
}

void Attention::ring_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv) {
  // Two buffers of (kv, dkv); the first starts from the saved kv. Steps go the other way round:
  // step i attends to what forward step c-1-i saw.
  temporary(dq, dim.rows(dim.query), "dq");
  const std::uint32_t buffers[] = {scratch + 6, scratch + 7};
  temporary(buffers[0], 2 * key_value_bytes(), "ring buffer of kv and dkv");
  temporary(buffers[1], 2 * key_value_bytes(), "ring buffer of kv and dkv");
  pass(OperationKind::copy, "copy kv", 2 * key_value_bytes());
  for (int i = 0; i < c; ++i) {
    if (i > 0) e.wait(static_cast<std::uint8_t>(cp_ring_event + i - 1));
    const std::int64_t message = i == 0 || i == c - 1 ? key_value_bytes() : 2 * key_value_bytes();
    e.collective(Kind::ring_exchange, Stream::cp, message, "ring exchange", overlapped,
                 static_cast<std::uint8_t>(cp_ring_event + i));
    e.record_stream(local_slot(buffers[0]), Stream::cp);
    e.record_stream(local_slot(buffers[1]), Stream::cp);
    const Part p = part(c - 1 - i);
    const std::int64_t query = query_of(p);
    const std::int64_t key = key_of(p);
    const std::int64_t half_query = dim.element * dim.batch * (dim.local / 2) * dim.query;
    if (p == Part::first_keys) {
      temporary(scratch, key_value_bytes() / 2, "first half of k and v");
      pass(OperationKind::copy, "half k v", key_value_bytes());
    } else if (p == Part::second_queries) {
      temporary(scratch, 3 * half_query, "second halves of q, out and dout");
      pass(OperationKind::copy, "half q out dout", 6 * half_query);
    }
    const std::int64_t query_bytes = dim.element * dim.batch * query * dim.query;
    const std::int64_t key_bytes = 2 * dim.element * dim.batch * key * dim.key_value;
    temporary(scratch + 8, query_bytes, "dq of the step");
    temporary(scratch + 9, key_bytes, "dkv of the step");
    backward_temporaries(query, key, true);
    kernel(true, query, key, p == Part::own);
    backward_temporaries(query, key, false);
    if (rank.plan.attention == AttentionBackend::cudnn) {
      temporary(scratch + 10, key_bytes, "cat of dk and dv");
      pass(OperationKind::copy, "cat dk dv", 2 * key_bytes);
      e.free(local_slot(scratch + 10));
    }
    if (p != Part::own) e.free(local_slot(scratch));
    pass(OperationKind::elementwise, "add dq", 3 * query_bytes);
    // The ring's message must be there before dkv is added to it.
    e.wait(static_cast<std::uint8_t>(cp_ring_event + i));
    pass(OperationKind::elementwise, "add dkv", 3 * key_bytes);
    e.free(local_slot(scratch + 8));
    e.free(local_slot(scratch + 9));
  }
  // dk and dv are views into one of the ring buffers until RoPE's backward has consumed them; the
  // pair (dk, dv) stands for that buffer.
  e.free(local_slot(buffers[0]));
  temporary(dk, dim.rows(dim.key_value), "dk");
  temporary(dv, dim.rows(dim.key_value), "dv");
  e.free(local_slot(buffers[1]));
  for (const LayerSlot s : {query_rotated, key_value_ring, log_sum_exp, rng_state})
    e.free(layer_slot(s));
  release_output();
}

void Attention::unfused_forward(bool keep) {
  // Scores of all heads at once: baddbmm reads a persistent buffer of their shape.
  const std::int64_t scores = dim.element * dim.batch * dim.heads * dim.local * dim.local;
  const double dropout = rank.plan.architecture.attention_dropout;
  const bool grouped = dim.heads > dim.groups;
  if (grouped) {
    temporary(scratch, dim.rows(dim.query), "keys of all heads");
    temporary(scratch + 1, dim.rows(dim.query), "values of all heads");
    pass(OperationKind::copy, "repeat k v", 2 * (dim.rows(dim.query) + dim.rows(dim.key_value)));
  }
  temporary(scratch + 2, scores, "scores");
  e.kernel(model::gemm("scores", dim.local, dim.local, dim.head_dim, model::GemmRole::forward,
                       false, rank.plan.precision, dim.batch * dim.heads),
           flags);
  e.alloc(layer_slot(scores_softmax), scores, Category::activations, "softmax output");
  pass(OperationKind::softmax, "scale mask softmax", 2 * scores);
  e.free(local_slot(scratch + 2));
  if (dropout > 0) {
    e.alloc(layer_slot(scores_dropped), scores, Category::activations, "dropped softmax");
    e.alloc(layer_slot(scores_mask), scores / dim.element, Category::activations, "dropout mask");
    pass(OperationKind::softmax, "attention dropout", 2 * scores + scores / dim.element);
  }
  temporary(scratch + 3, dim.rows(dim.query), "context by head");
  e.kernel(model::gemm("context", dim.local, dim.head_dim, dim.local, model::GemmRole::forward,
                       false, rank.plan.precision, dim.batch * dim.heads),
           flags);
  if (grouped) {
    e.free(local_slot(scratch));
    e.free(local_slot(scratch + 1));
  }
  e.alloc(layer_slot(attention_out), dim.rows(dim.query), Category::activations,
          "attention output");
  pass(OperationKind::copy, "permute context", 2 * dim.rows(dim.query));
  e.free(local_slot(scratch + 3));
  if (keep) return;
  e.free(layer_slot(scores_softmax));
  if (dropout > 0) {
    e.free(layer_slot(scores_dropped));
    e.free(layer_slot(scores_mask));
  }
}

void Attention::unfused_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv) {
  const std::int64_t scores = dim.element * dim.batch * dim.heads * dim.local * dim.local;
  const double dropout = rank.plan.architecture.attention_dropout;
  const auto gemm = [&](std::string_view name, std::int64_t n, std::int64_t k) {
    e.kernel(model::gemm(name, dim.local, n, k, model::GemmRole::input_gradient, false,
                         rank.plan.precision, dim.batch * dim.heads),
             flags);
  };
  temporary(scratch, scores, "gradient of dropped softmax");
  gemm("d scores", dim.local, dim.head_dim);
  temporary(dv, dim.rows(dim.query), "dv of all heads");
  gemm("d values", dim.head_dim, dim.local);
  if (dropout > 0) {
    temporary(scratch + 1, scores, "gradient of softmax");
    pass(OperationKind::softmax, "attention dropout backward", 2 * scores + scores / dim.element);
    e.free(local_slot(scratch));
    e.free(layer_slot(scores_dropped));
    e.free(layer_slot(scores_mask));
  }
  const std::uint32_t from = dropout > 0 ? scratch + 1 : scratch;
  temporary(scratch + 2, scores, "gradient of scores");
  pass(OperationKind::softmax, "softmax backward", 3 * scores);
  e.free(local_slot(from));
  e.free(layer_slot(scores_softmax));
  temporary(dq, dim.rows(dim.query), "dq");
  gemm("d queries", dim.head_dim, dim.local);
  temporary(dk, dim.rows(dim.query), "dk of all heads");
  gemm("d keys", dim.head_dim, dim.local);
  e.free(local_slot(scratch + 2));
  if (dim.heads > dim.groups)
    pass(OperationKind::reduction, "sum dk dv over query heads",
         2 * (dim.rows(dim.query) + dim.rows(dim.key_value)));
  for (const LayerSlot s : {query_rotated, key_rotated, value_copy}) e.free(layer_slot(s));
  release_output();
}

}  // namespace

void attention_forward(Rank& rank, Emitter& e, const Variant& variant) {
  Attention attention{rank, e};
  attention.flags = variant.recompute ? recomputed : 0;
  const Dimensions& dim = rank.dim;
  // Selective recomputation keeps q, k, v (the checkpoint's arguments) and the result only.
  const bool selective = rank.plan.recompute == Recompute::selective;
  const bool keep_inside = variant.keep && !selective;
  if (rank.plan.attention == AttentionBackend::unfused) {
    if (variant.first_use)  // Megatron-LM's global buffer, grown to the largest use
      e.alloc(fixed_slot(global_buffer),
              dim.element * dim.batch * dim.heads * dim.local * dim.local, Category::temporaries,
              "global memory buffer");
    attention.unfused_forward(keep_inside);
  } else if (rank.plan.cp > 1) {
    attention.ring_forward(keep_inside || variant.keep);
    if (!variant.keep) e.free(layer_slot(attention_out));
    return;
  } else {
    e.alloc(layer_slot(attention_out), dim.rows(dim.query), Category::activations,
            "attention output");
    e.alloc(layer_slot(log_sum_exp), statistics_bytes(dim), Category::activations, "lse");
    e.alloc(layer_slot(rng_state), 16, Category::activations, "rng state");
    attention.kernel(false, dim.local, dim.local, true);
    if (!keep_inside) {
      e.free(layer_slot(log_sum_exp));
      e.free(layer_slot(rng_state));
    }
  }
  if (!variant.keep)
    for (const LayerSlot s : {query_rotated, key_rotated, value_copy}) e.free(layer_slot(s));
}

void attention_backward(Rank& rank, Emitter& e, bool keep_output, std::uint32_t dq,
                        std::uint32_t dk, std::uint32_t dv) {
  Attention attention{rank, e};
  attention.keep_output = keep_output;
  const Dimensions& dim = rank.dim;
  const bool selective = rank.plan.recompute == Recompute::selective && rank.plan.cp == 1;
  if (selective) {
    // The checkpoint runs the core again; the projection's input stays where it was.
    attention.flags = recomputed;
    e.move(layer_slot(attention_out), fixed_slot(kept_attention_out));
    if (rank.plan.attention == AttentionBackend::unfused) {
      attention.unfused_forward(true);
    } else {
      e.alloc(layer_slot(attention_out), dim.rows(dim.query), Category::activations,
              "attention output");
      e.alloc(layer_slot(log_sum_exp), statistics_bytes(dim), Category::activations, "lse");
      e.alloc(layer_slot(rng_state), 16, Category::activations, "rng state");
      attention.kernel(false, dim.local, dim.local, true);
    }
    attention.flags = 0;
    e.free(fixed_slot(kept_attention_out));
  }
  if (rank.plan.attention == AttentionBackend::unfused) {
    attention.unfused_backward(dq, dk, dv);
    return;
  }
  if (rank.plan.cp > 1) {
    attention.ring_backward(dq, dk, dv);
    return;
  }
  attention.temporary(dq, dim.rows(dim.query), "dq");
  attention.temporary(dk, dim.rows(dim.key_value), "dk");
  attention.temporary(dv, dim.rows(dim.key_value), "dv");
  attention.backward_temporaries(dim.local, dim.local, true);
  attention.kernel(true, dim.local, dim.local, true);
  attention.backward_temporaries(dim.local, dim.local, false);
  for (const LayerSlot s : {query_rotated, key_rotated, value_copy, log_sum_exp, rng_state})
    e.free(layer_slot(s));
  attention.release_output();
}

}  // namespace sim::workload
