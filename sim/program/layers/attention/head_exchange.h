// head_exchange.h — sequence for heads and back among context-parallel ranks, tensor by tensor:
// what Ulysses is made of, and the lower of a context's two levels.
//
//     [s/u, heads]  copy -> [u, s/u, heads/u]  all-to-all  copy -> [s, heads/u]
//
// TransformerEngine sends one tensor while it lays out the one behind it and, on its second stream,
// the one before it; elsewhere each exchange ends before the next begins.
//
// Sources: TransformerEngine 2.9 context_parallel.py:flash_attn_a2a_communicate; DeepSpeed
// sequence/layer.py:single_all_to_all; feifeibear/long-context-attention comm/all_to_all.py.
#pragma once

#include <vector>

#include "sim/program/layers/attention/attention.h"
#include "sim/program/plan/context_plan.h"

namespace sim::program {

class HeadExchange {
 public:
  explicit HeadExchange(const Rank& rank) : HeadExchange(rank, context_shape(rank.plan)) {}
  HeadExchange(const Rank& rank, const context::Shape& shape);

  int degree() const { return degree_; }  // u; 1: nothing is exchanged, tensors stay what they are
  std::int64_t heads() const { return heads_; }
  std::int64_t groups() const { return groups_; }
  Stream ring() const;  // between those that stand alike

  // Query, key and value as they are attended to; the layouts stay.
  struct Inputs {
    Value query, key, value;
  };
  Inputs inputs(Writer& w, const Layouts& layouts) const;
  // The output in its rank's tokens; the one given goes.
  Value output(Writer& w, Value out) const;
  // Whether the output is saved in the rank's own tokens and exchanged once more on the way back;
  // else each exchange is a function of autograd's, and attention saves what it made.
  bool resends_output() const { return pipelined_; }
  // The way back: output (0 where it is not resent) and its gradient of the tokens attended to;
  // those given stay.
  struct Outputs {
    Value out, gradient;
  };
  Outputs outputs(Writer& w, Value out, Value gradient) const;
  // Gradients in the rank's own tokens and heads; those given go. `gradients[1]` 0: the third holds
  // those of key and value.
  Gradients gradients(Writer& w, Gradients gradients) const;

 private:
  std::vector<Value> exchange(Writer& w, std::vector<std::int64_t> bytes, bool to_heads) const;
  void send(Writer& w, Value from, Value to, std::int64_t bytes, std::uint16_t event) const;

  int degree_;
  std::int64_t heads_, groups_;       // of a rank's attention
  bool repeats_, pipelined_, whole_;  // all ranks exchange
  // Bytes of the messages: of the query, the key and the value, and of the output.
  std::vector<std::int64_t> bytes_;
  std::int64_t output_ = 0;
};

}  // namespace sim::program
