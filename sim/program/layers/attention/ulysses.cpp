// ulysses.cpp — every rank computes attention of the whole sequence for its share of the heads
// [TransformerEngine 2.9 context_parallel.py:AttnFuncWithCPAndQKVOA2A].
//
// The saved tensors are query, key and value after the exchange, and the output. TransformerEngine
// saves the output for the rank's own tokens and exchanges it again in the backward pass. DeepSpeed
// saves the output as computed. INVENTORY.md section 30 lists every tensor.
#include "sim/program/layers/attention/head_exchange.h"

namespace sim::program {

Value ulysses_core(Writer& w, const CoreInputs& in) {
  return ulysses_core(w, in, HeadExchange(w.rank));
}

Value ulysses_core(Writer& w, const CoreInputs& in, const HeadExchange& exchange) {
  const Layouts l = make_layouts(w, in);
  const std::int64_t tokens = w.dim.local * exchange.degree();
  const Scores scores{tokens, tokens, true, exchange.heads(), exchange.groups()};
  const HeadExchange::Inputs all = exchange.inputs(w, l);
  const Value attended = w.activation(w.dim.rows(w.dim.attended), "attention output");
  const Value lse = w.fp32_activation(statistics_bytes(w.dim), "lse");
  const Value state = w.activation(16, "rng state");
  attention_kernel(w, false, scores);
  if (!exchange.resends_output()) w.save(attended);
  const Value out = exchange.output(w, attended);
  if (exchange.resends_output()) w.save(out);
  const Value kept = exchange.resends_output() ? out : attended;
  w.save({all.query, all.key, all.value, lse, state});
  w.drop({all.query, all.key, all.value, lse, state});
  if (l.made_query) w.drop(l.query);
  if (l.made_key) w.drop(l.key);
  w.drop(l.value);
  w.node([=](Writer& b, Gradients gradients) -> Gradients {
    const HeadExchange::Outputs outputs = exchange.outputs(b, kept, gradients[0]);
    const std::int64_t bytes = b.dim.element * b.dim.batch * tokens;
    const Value dq = b.temporary(bytes * exchange.heads() * b.dim.head_dim, "dq");
    const Value dk = b.temporary(bytes * exchange.groups() * b.dim.head_dim, "dk");
    const Value dv = b.temporary(bytes * exchange.groups() * b.dim.value_dim, "dv");
    backward_kernel(b, scores);
    const Gradients back = exchange.gradients(b, {dq, dk, dv});
    b.drop({outputs.out, outputs.gradient, lse, state, all.query, all.key, all.value, kept,
            gradients[0]});
    return back;
  });
  return out;
}

}  // namespace sim::program
