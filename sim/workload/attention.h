// attention.h — the core of attention while a block is written: shared by attention.cpp (one
// kernel, entry points), ring.cpp (context parallelism) and unfused.cpp (scores in memory).
//
// Invariant: local slots of the core start at `base`; forward.cpp and backward.cpp stay below.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/workload/rank.h"

namespace sim::workload {

struct Attention {
  // Slots of which every step of the ring has one.
  static constexpr std::uint32_t base = 40;
  static constexpr std::uint32_t max_ring = max_context_parallel;
  static constexpr std::uint32_t ring_buffers = base;
  static constexpr std::uint32_t step_outputs = base + max_ring;
  static constexpr std::uint32_t step_statistics = base + 2 * max_ring;
  static constexpr std::uint32_t step_states = base + 3 * max_ring;
  static constexpr std::uint32_t step_halves = base + 4 * max_ring;
  static constexpr std::uint32_t scratch = base + 5 * max_ring;
  static_assert(scratch + 40 <= local_slot_count);

  Rank& rank;
  Emitter& e;
  const Dimensions& dim = rank.dim;
  const CoreInputs core{rank};
  std::uint8_t flags = 0;
  int c = rank.plan.mesh.cp;
  int r = rank.program.cp_rank;
  bool keep_output = false;  // the weight pass still reads it as the projection's input

  void temporary(std::uint32_t slot, std::int64_t bytes, std::string_view label,
                 Stream pool = Stream::compute) {
    e.alloc(local_slot(slot), bytes, Category::temporaries, label, pool);
  }
  void saved(LayerSlot slot, std::int64_t bytes, std::string_view label) {
    e.alloc(layer_slot(slot), bytes, Category::activations, label);
  }
  void pass(model::OperationKind kind, std::string_view name, std::int64_t bytes,
            Stream stream = Stream::compute) {
    e.kernel(model::pass(kind, name, Bytes{bytes}), flags, stream);
  }
  void kernel(bool backward, std::int64_t query, std::int64_t key, bool causal,
              Stream stream = Stream::compute) {
    const std::int64_t documents = rank.plan.documents_per_sample();
    model::Operation o =
        model::attention(backward ? "attention backward" : "attention", backward,
                         dim.batch * documents, dim.heads, dim.groups, dim.head_dim,
                         query / documents, key / documents, causal, rank.plan.numerics.precision);
    o.implementation = implementation(rank.plan.stack.attention);
    e.kernel(o, flags, stream);
  }
  std::int64_t statistics_bytes() const { return 4 * dim.batch * dim.heads * dim.local; }

  // TransformerEngine's module: q, k, v with the batch first, and what of them goes when the module
  // returns.
  void make_layouts();
  void drop_layouts();

  // From q, k, v to attention_out and what is saved; `keep`: for a backward pass.
  void forward(bool keep);
  void fused_forward(bool keep);
  void ring_forward(bool keep);
  void unfused_forward(bool keep);

  // To the local slots dq, dk, dv; behind a ring dv is the buffer with both and dk stays empty.
  void fused_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv);
  void ring_backward(std::uint32_t dq, std::uint32_t dkv);
  void unfused_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv);
  // fp32 accumulators and row sums that live inside one backward kernel call.
  void backward_temporaries(std::int64_t query, std::int64_t key, bool begin);
  void release_inputs();
  void release_output();

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
  std::int64_t half_query_bytes() const {
    return dim.element * dim.batch * (dim.local / 2) * dim.query;
  }

 private:
  Slot ring_slot(int i) const;
  void ring_step(int i);
  void ring_statistics(int i);
  void ring_backward_step(int i);
};

}  // namespace sim::workload
