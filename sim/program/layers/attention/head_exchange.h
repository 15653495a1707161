// head_exchange.h — all-to-all of sequence for heads among context-parallel ranks (Ulysses).
//
//     [s/u, heads]  copy -> [u, s/u, heads/u]  all-to-all  copy -> [s, heads/u]
//
// The cores ulysses_core, ring_core and usp_core use it. In a two-level context it is the inner
// level. One exchange moves one tensor.
//
// TransformerEngine overlaps exchanges. While it sends one tensor it lays out the next one, and its
// second stream lays out the tensor received before. Other frameworks finish one exchange before
// the next begins.
//
// Sources: TransformerEngine 2.9 context_parallel.py:flash_attn_a2a_communicate; DeepSpeed
// sequence/layer.py:single_all_to_all; feifeibear/long-context-attention comm/all_to_all.py.
#pragma once

#include <vector>

#include "sim/program/layers/attention/attention.h"
#include "sim/program/plan/context_plan.h"

namespace sim::program {

// How query, key and value reach the exchange. Packed: one tensor [s/u, 3, heads], sent as one
// message.
enum class QkvLayout : std::uint8_t { separate, packed };

class HeadExchange {
 public:
  explicit HeadExchange(const Rank& rank) : HeadExchange(rank, context_shape(rank.plan)) {}
  HeadExchange(const Rank& rank, const context::AttentionShape& shape,
               QkvLayout layout = QkvLayout::separate);

  int degree() const { return degree_; }  // u; 1: no exchange, tensors stay as they are
  std::int64_t heads() const { return heads_; }
  std::int64_t groups() const { return groups_; }
  Stream ring() const;  // stream of the outer level, between ranks with equal index

  // Query, key and value for the attention kernel. The caller still holds `layouts` and drops them.
  struct Inputs {
    Value query, key, value;
  };
  Inputs inputs(Writer& w, const Layouts& layouts) const;
  // The attention output for this rank's tokens. Drops `out`.
  Value output(Writer& w, Value out) const;
  // True: the output is saved for this rank's tokens and exchanged again in the backward pass.
  // False: the exchange is a separate autograd function, and attention saves its own output.
  bool resends_output() const { return pipelined_; }
  // Backward: output (0 if it is not exchanged again) and gradient of the output, for the tokens of
  // the attention kernel. The caller still holds the arguments.
  struct Outputs {
    Value out, gradient;
  };
  Outputs outputs(Writer& w, Value out, Value gradient) const;
  // Gradients for this rank's tokens and all heads. Drops the arguments. If `gradients[1]` is 0,
  // `gradients[2]` holds the gradients of both key and value.
  Gradients gradients(Writer& w, Gradients gradients) const;

 private:
  std::vector<Value> exchange(Writer& w, std::vector<std::int64_t> bytes, bool to_heads) const;
  Inputs exchange_packed(Writer& w) const;
  void send(Writer& w, Value from, Value to, std::int64_t bytes, std::uint16_t event) const;

  int degree_;
  std::int64_t heads_, groups_;       // in the attention kernel of one rank
  bool repeats_, pipelined_, whole_;  // whole_: all context-parallel ranks form one group
  QkvLayout layout_;
  // Message bytes of query, key and value; `output_`: of the output.
  std::vector<std::int64_t> bytes_;
  std::int64_t output_ = 0;
};

// Ulysses' core with a given exchange. ulysses_core(w, in) uses the exchange of the plan.
Value ulysses_core(Writer& w, const CoreInputs& in, const HeadExchange& exchange);

}  // namespace sim::program
