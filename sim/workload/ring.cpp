// ring.cpp — ring attention over the context-parallel group: TransformerEngine's AttnFuncWithCP.
//
// Chunks r and 2c-1-r of the sequence are on rank r, K/V travel around the ring, odd steps run (and
// allocate) on a second stream. Python's variables decide when tensors go: those of a step live
// until a later step names its own, most of the rest until the function returns. INVENTORY.md
// sections 2 and 3 have a line per tensor [TransformerEngine 1.8 and 1.9, attention.py].
#include <algorithm>

#include "sim/workload/attention.h"

namespace sim::workload {

using collective::Kind;
using model::OperationKind;

namespace {

Stream stream_of(int i) {
  return i % 2 == 0 ? Stream::compute : Stream::cp_compute;
}
std::uint8_t ring_event(int i) {
  return static_cast<std::uint8_t>(cp_ring_event + i);
}
std::uint32_t number(int i) {
  return static_cast<std::uint32_t>(i);
}

// Slots of the backward pass; those of a step come in pairs, for an old tensor goes behind the new.
enum Scratch : std::uint32_t {
  statistics_fp64 = 6,
  statistics_copy,
  buffer_first,
  buffer_second,
  half_statistics,
  step_dq,
  step_dkv = step_dq + 2,
  step_keys = step_dkv + 2,
  step_query = step_keys + 2,
  step_output = step_query + 2,
  step_gradient = step_output + 2,
  step_dk = step_gradient + 2,
  step_dv = step_dk + 2,
  scratch_end = step_dv + 2,
};
static_assert(scratch_end <= 40);

}  // namespace

Slot Attention::ring_slot(int i) const {
  return i == c - 1 ? layer_slot(key_value_ring) : local_slot(ring_buffers + number(i));
}

void Attention::ring_step(int i) {
  const Stream stream = stream_of(i);
  if (i > 0) e.wait(ring_event(i - 1), stream);
  if (i < c - 1) {
    e.alloc(ring_slot(i + 1), key_value_bytes(), Category::communication, "k and v of the ring",
            stream);
    e.collective(Kind::ring_exchange, Stream::cp, key_value_bytes(), "ring exchange", overlapped,
                 ring_event(i), stream);
    e.record_stream(ring_slot(i), Stream::cp);
    e.record_stream(ring_slot(i + 1), Stream::cp);
  }
  // The halves of step i - 2 go when this step names its own inputs.
  const Part p = part(i);
  const bool replaces = i >= 2 && part(i - 2) != Part::own;
  const Slot old = local_slot(step_halves + number(std::max(i - 2, 0)));
  const bool keys_before = replaces && part(i - 2) == Part::first_keys;
  if (keys_before) e.free(old);
  if (p == Part::first_keys) {
    temporary(step_halves + number(i), key_value_bytes() / 2, "first half of k and v", stream);
    pass(OperationKind::copy, "half k v", key_value_bytes(), stream);
  } else if (p == Part::second_queries) {
    temporary(step_halves + number(i), half_query_bytes(), "second half of q", stream);
    pass(OperationKind::copy, "half q", 2 * half_query_bytes(), stream);
  }
  if (replaces && !keys_before) e.free(old);
  const std::int64_t query = query_of(p);
  temporary(step_outputs + number(i), dim.element * dim.batch * query * dim.query, "partial output",
            stream);
  temporary(step_statistics + number(i), 4 * dim.batch * dim.heads * query, "partial statistics",
            stream);
  temporary(step_states + number(i), 16, "partial rng state", stream);
  kernel(false, query, key_of(p), p == Part::own, stream);
}

// Behind the issue of the next step, on its own step's stream.
void Attention::ring_statistics(int i) {
  if (i > 0) {
    pass(OperationKind::elementwise, "merge statistics", 5 * statistics_bytes(), stream_of(i));
    return;
  }
  saved(attention_out, dim.rows(dim.query), "attention output");
  pass(OperationKind::copy, "clear output", dim.rows(dim.query));
  temporary(scratch + statistics_copy, statistics_bytes(), "copy of statistics");
  temporary(scratch + statistics_fp64, 2 * statistics_bytes(), "running statistics in fp64");
  pass(OperationKind::copy, "statistics to fp64", 5 * statistics_bytes());
  e.free(local_slot(scratch + statistics_copy));
}

void Attention::ring_forward(bool keep) {
  make_layouts();
  e.alloc(ring_slot(0), key_value_bytes(), Category::communication, "k and v of the ring");
  pass(OperationKind::copy, "cat k v", 2 * key_value_bytes());
  for (int i = 0; i <= c; ++i) {
    if (i < c) ring_step(i);
    if (i > 0) ring_statistics(i - 1);
  }
  e.wait(ring_event(c - 2));
  saved(log_sum_exp, statistics_bytes(), "lse");
  pass(OperationKind::copy, "lse to fp32", 3 * statistics_bytes());
  for (int i = 0; i < c; ++i)
    pass(OperationKind::elementwise, "merge outputs",
         3 * dim.element * dim.batch * query_of(part(i)) * dim.query);
  saved(rng_state, 16 * c, "rng state");
  // The function returns: its lists and local variables go. A view of the fp64 statistics was one.
  for (int i = 0; i < c; ++i) {
    if (i >= c - 2 && part(i) != Part::own) e.free(local_slot(step_halves + number(i)));
    if (i < c - 1) e.free(ring_slot(i));
    e.free(local_slot(step_outputs + number(i)));
    e.free(local_slot(step_statistics + number(i)));
    e.free(local_slot(step_states + number(i)));
  }
  e.free(local_slot(scratch + statistics_fp64));
  // Saved are q, the last K/V buffer, out, lse and rng states; v's copy (and k's) end with the
  // module that made them.
  if (!core.own_key) e.free(layer_slot(key_rotated));
  e.free(layer_slot(value_copy));
  if (keep) return;
  if (!core.own_query) e.free(layer_slot(query_rotated));
  for (const LayerSlot s : {key_value_ring, log_sum_exp, rng_state}) e.free(layer_slot(s));
}

// One step of the way back; a step attends to what forward step c-1-i saw.
void Attention::ring_backward_step(int i) {
  const Part p = part(c - 1 - i);
  const Part before = i == 0 ? Part::own : part(c - i);
  const std::uint32_t now = number(i % 2), last = number((i + 1) % 2);
  const bool cudnn = rank.plan.stack.attention == AttentionBackend::cudnn;
  const std::int64_t query = query_of(p), key = key_of(p);
  const std::int64_t query_bytes = dim.element * dim.batch * query * dim.query;
  const std::int64_t key_bytes = 2 * dim.element * dim.batch * key * dim.key_value;
  const auto make = [&](Scratch slot, std::int64_t bytes, std::string_view label) {
    temporary(scratch + slot + now, bytes, label);
    if (i > 0) e.free(local_slot(scratch + slot + last));
  };
  // A half is copied into a new tensor, or the name goes to a view; then the old half goes.
  const auto half = [&](Scratch slot, bool is, bool was, std::int64_t bytes,
                        std::string_view label) {
    if (is) {
      temporary(scratch + slot + now, bytes, label);
      pass(OperationKind::copy, "copy half", 2 * bytes);
    }
    if (was) e.free(local_slot(scratch + slot + last));
  };
  const bool second = p == Part::second_queries;
  const bool was_second = i > 0 && before == Part::second_queries;
  half(step_query, second, was_second, half_query_bytes(), "second half of q");
  if (!cudnn) make(step_dq, query_bytes, "dq of the step");
  half(step_keys, p == Part::first_keys, i > 0 && before == Part::first_keys, key_value_bytes() / 2,
       "first half of k and v");
  if (!cudnn) make(step_dkv, key_bytes, "dkv of the step");
  half(step_output, second, was_second, half_query_bytes(), "second half of out");
  half(step_gradient, second, was_second, half_query_bytes(), "second half of dout");
  if (cudnn) {
    // Results get their names when the call returns.
    temporary(scratch + step_dq + now, query_bytes, "dq of the step");
    temporary(scratch + step_dk + now, key_bytes / 2, "dk of the step");
    temporary(scratch + step_dv + now, key_bytes / 2, "dv of the step");
  }
  backward_temporaries(query, key, true);
  kernel(true, query, key, p == Part::own);
  backward_temporaries(query, key, false);
  if (cudnn && i > 0)
    for (const Scratch s : {step_dq, step_dk, step_dv}) e.free(local_slot(scratch + s + last));
  pass(OperationKind::elementwise, "add dq", 3 * query_bytes);
  // The ring's message must be there before dkv is added to it.
  e.wait(ring_event(i));
  if (cudnn) {
    make(step_dkv, key_bytes, "dkv of the step");
    pass(OperationKind::copy, "cat dk dv", 2 * key_bytes);
  }
  pass(OperationKind::elementwise, "add dkv", 3 * key_bytes);
}

void Attention::ring_backward(std::uint32_t dq, std::uint32_t dkv) {
  // Two buffers of (kv, dkv); the first starts from the saved kv. Steps go the other way round.
  temporary(scratch + half_statistics, statistics_bytes() / 2, "second half of lse");
  pass(OperationKind::copy, "half lse", statistics_bytes());
  temporary(dq, dim.rows(dim.query), "dq");
  const std::uint32_t buffers[] = {scratch + buffer_first, scratch + buffer_second};
  for (const std::uint32_t buffer : buffers)
    temporary(buffer, 2 * key_value_bytes(), "ring buffer of kv and dkv");
  pass(OperationKind::copy, "copy kv", 2 * key_value_bytes());
  for (int i = 0; i < c; ++i) {
    if (i > 0) e.wait(ring_event(i - 1));
    const std::int64_t message = i == 0 || i == c - 1 ? key_value_bytes() : 2 * key_value_bytes();
    e.collective(Kind::ring_exchange, Stream::cp, message, "ring exchange", overlapped,
                 ring_event(i));
    for (const std::uint32_t buffer : buffers) e.record_stream(local_slot(buffer), Stream::cp);
    ring_backward_step(i);
  }
  // The function returns. dk and dv are views into the buffer that the last message came in.
  const std::uint32_t last = number((c - 1) % 2);
  const bool cudnn = rank.plan.stack.attention == AttentionBackend::cudnn;
  for (const Scratch s : {step_dq, step_dkv}) e.free(local_slot(scratch + s + last));
  if (cudnn)
    for (const Scratch s : {step_dk, step_dv}) e.free(local_slot(scratch + s + last));
  e.free(local_slot(scratch + half_statistics));
  e.free(local_slot(buffers[(c + 1) % 2]));
  e.move(local_slot(buffers[c % 2]), local_slot(dkv));
  for (const LayerSlot s : {key_value_ring, log_sum_exp, rng_state}) e.free(layer_slot(s));
}

}  // namespace sim::workload
