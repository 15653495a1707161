// latent.cpp — multi-head latent attention (MLA). Narrow products run on this rank's part of the
// sequence, whole on every tensor-parallel rank. Wide products follow, each after a norm. Their
// inputs, not the residual stream, are gathered over the sequence.
//
//     norm ─┬─ q down ── norm, gather, q up ───────────┬─ rotate ─ query ─┐
//           └─ kv down ─┬─ norm, gather, kv up ──┬─ k ─┼─────────── key ──┼─ core ── projection
//                       └─ rotated key, gather ──│─────┘                  │
//                                                └─ v ────────── value ───┘
//
// [NVIDIA/Megatron-LM core 0.14 transformer/multi_latent_attention.py:MLASelfAttention,
// models/gpt/gpt_layer_specs.py; INVENTORY.md section 20]
#include "sim/program/layers/attention/attention.h"
#include "sim/program/layers/experts/mixture.h"
#include "sim/program/layers/linear/fp8.h"
#include "sim/program/layers/linear/linear.h"
#include "sim/program/layers/linear/norm.h"
#include "sim/program/parallel/offload/module_offload.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

// Widths of one tensor-parallel rank.
struct Widths {
  explicit Widths(const Rank& rank)
      : latent(rank.plan.architecture.latent),
        heads(rank.dim.heads),
        query(heads * (latent.content + latent.rotated)),
        value(heads * latent.value),
        mixed(heads * (latent.content + latent.value)) {}
  model::Latent latent;
  std::int64_t heads, query, value, mixed;
};

Matrix query_down(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  return {"q down", "linear_q_down_proj.weight", a.hidden, a.latent.q_rank};
}
Matrix pair_down(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  return {"kv down", "linear_kv_down_proj.weight", a.hidden, a.latent.kv_rank + a.latent.rotated};
}
Matrix query_up(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  const bool projected = a.latent.q_rank > 0;
  return {projected ? "q up" : "q", projected ? "linear_q_up_proj.weight" : "linear_q_proj.weight",
          projected ? a.latent.q_rank : a.hidden, Widths(rank).query};
}
Matrix pair_up(const Rank& rank) {
  return {"kv up", "linear_kv_up_proj.weight", rank.plan.architecture.latent.kv_rank,
          Widths(rank).mixed};
}

std::int64_t shard_bytes(const Writer& w, std::int64_t width) {
  return w.dim.element * w.dim.shard * width;
}

// A wide product after its norm (without one, it reads the norm output of the layer).
struct Up {
  Matrix matrix;
  std::string_view norm;  // its parameter; "": none
  Value input{}, normed{}, rsigma{};

  Value forward(Writer& w, std::string_view label);
  // Returns the gradient of `input`; drops that of the output.
  Value back(Writer& w, Value gradient) const;
};

Value gathered(Writer& w, std::int64_t width) {
  if (!w.sequence_parallel()) return 0;
  const Value whole = w.temporary(w.dim.rows(width), "gathered latent");
  w.e.collective(Kind::all_gather, Stream::tp, w.dim.rows(width), "all-gather");
  return whole;
}

Value Up::forward(Writer& w, std::string_view label) {
  w.use({norm, matrix.parameter});
  if (!norm.empty()) {
    normed = w.activation(shard_bytes(w, matrix.in), "latent norm output");
    rsigma = w.activation(4 * w.dim.shard, "latent rsigma");
    w.memory_bound(OperationKind::norm, "latent norm", 2 * shard_bytes(w, matrix.in));
    w.save({input, rsigma});
    save_operands(w, {normed});
    w.drop({input, normed, rsigma});
  } else {
    normed = input;
    save_operands(w, {normed});
  }
  const Value whole = gathered(w, matrix.in);
  const Value out = w.temporary(w.dim.rows(matrix.out), label);
  multiply(w, matrix, w.dim.tokens);
  w.drop(whole);
  return out;
}

Value Up::back(Writer& w, Value gradient) const {
  const std::int64_t tokens = w.dim.tokens, width = matrix.in;
  const Value whole_input = w.frozen() ? Value{0} : gathered(w, width);
  const Value quantised = quantise(w, matrix, tokens);
  const Value whole = w.temporary(w.dim.rows(width), "latent input gradient");
  input_gradient(w, matrix, tokens);
  Value reduced = whole;
  if (w.sequence_parallel()) {
    reduced = w.temporary(shard_bytes(w, width), "latent norm output gradient");
    w.e.collective(Kind::reduce_scatter, Stream::tp, w.dim.rows(width), "reduce-scatter");
    w.drop(whole);
  } else if (w.dim.tp > 1) {
    w.e.collective(Kind::all_reduce, Stream::tp, w.dim.rows(width), "all-reduce");
  }
  weight_gradient(w, matrix, tokens);
  w.drop({whole_input, quantised, gradient});
  hand_over(w, matrix);
  if (norm.empty()) {
    drop_operands(w, {normed});
    return reduced;
  }
  const Value made = w.temporary(shard_bytes(w, width), "latent gradient");
  w.memory_bound(OperationKind::norm, "latent norm backward", 3 * shard_bytes(w, width));
  if (!w.frozen())
    w.memory_bound(OperationKind::reduction, "norm weight gradient",
                   4 * w.rank.environment.sms * width);
  w.drop(reduced);
  drop_operands(w, {normed});
  w.drop({rsigma, input});
  hand_over(w, norm, width, "latent norm weight gradient");
  return made;
}

// The narrow products. Their gradients add up to the gradient of the norm's output; the latter is
// dropped.
struct Down {
  Matrix matrix;
  Value normed{};

  Value back(Writer& w, Value gradient) const {
    const Value quantised = quantise(w, matrix, w.dim.shard);
    const Value made = w.temporary(w.dim.residual(), "down input gradient");
    input_gradient(w, matrix, w.dim.shard);
    weight_gradient(w, matrix, w.dim.shard);
    w.drop({quantised, gradient});
    drop_operands(w, {normed});
    hand_over(w, matrix);
    return made;
  }
};

struct Latents {
  Widths widths;
  bool projects;  // has a narrow product for queries
  Normed norm;
  Down query_down, pair_down;
  Up query_up, pair_up;

  Gradients back(Writer& w, Gradients gradients) const;
};

// From the gradients of query, key and value to the gradient of the residual stream.
Gradients Latents::back(Writer& w, Gradients gradients) const {
  const auto [dq, dk, dv] = gradients;
  const Dimensions& dim = w.dim;
  const std::int64_t rotated = widths.latent.rotated;
  const Value of_query = w.temporary(dim.rows(widths.query), "query gradient before rope");
  w.memory_bound(OperationKind::elementwise, "rope q backward", 2 * dim.rows(widths.query));
  w.drop(dq);
  const Value of_mixed = w.temporary(dim.rows(widths.mixed), "key value gradient");
  w.memory_bound(OperationKind::copy, "cat key value gradient", 2 * dim.rows(widths.mixed));
  Value of_rotated = w.temporary(dim.rows(rotated), "rotated key gradient");
  w.memory_bound(OperationKind::reduction, "sum rotated key over heads",
                 dim.rows(widths.heads * rotated));
  w.drop({dk, dv});
  if (w.sequence_parallel()) {
    const Value reduced = w.temporary(shard_bytes(w, rotated), "rotated key gradient shard");
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.rows(rotated), "reduce-scatter");
    w.drop(of_rotated);
    of_rotated = reduced;
  }
  const Value of_pair = pair_up.back(w, of_mixed);
  const Value of_down = w.temporary(shard_bytes(w, pair_down.matrix.out), "down output gradient");
  w.memory_bound(OperationKind::copy, "cat down gradient",
                 2 * shard_bytes(w, pair_down.matrix.out));
  w.drop({of_pair, of_rotated});
  const Value sum = pair_down.back(w, of_down);
  Value other = query_up.back(w, of_query);
  if (projects) other = query_down.back(w, other);
  w.memory_bound(OperationKind::elementwise, "add query gradient", 3 * dim.residual());
  w.drop(other);
  const Value made = w.temporary(dim.residual(), "norm input gradient");
  const NormGradients of_norm = norm_backward(w, sum);
  w.drop({norm.rsigma, norm.mu});
  norm_gradients(w, of_norm.weight, of_norm.bias, "input_layernorm.weight", "input_layernorm.bias");
  return {made};
}

struct Heads {
  Value query, key, value;
};

// Rotates and concatenates the two parts of each head.
Heads make_heads(Writer& w, const Widths& widths, Value query, Value mixed, Value rotated) {
  const Dimensions& dim = w.dim;
  Heads h{};
  h.query = w.activation(dim.rows(widths.query), "query");
  w.memory_bound(OperationKind::elementwise, "rope q", 2 * dim.rows(widths.query));
  w.drop(query);
  h.key = w.activation(dim.rows(widths.query), "key");
  w.memory_bound(OperationKind::elementwise, "rope k", dim.rows(2 * widths.query));
  w.drop(rotated);
  h.value = w.activation(dim.rows(widths.value), "value");
  w.memory_bound(OperationKind::copy, "value copy", 2 * dim.rows(widths.value));
  w.drop(mixed);
  return h;
}

Heads up(Writer& w, Latents& l, Value pair, Value rotated) {
  const Value query = l.query_up.forward(w, "query and rotated query");
  const Value mixed = l.pair_up.forward(w, "keys and values");
  w.drop(pair);
  return make_heads(w, l.widths, query, mixed, rotated);
}

// The rotated part of the pair is cut off and gathered; the rest is made contiguous.
Heads project(Writer& w, Latents& l) {
  const Dimensions& dim = w.dim;
  w.use({"input_layernorm.weight"});
  l.norm = norm_forward(w, dim.residual(), "norm output", true);
  norm_again(w, l.norm.output);
  const Value normed = l.norm.output;
  l.query_down.normed = l.pair_down.normed = normed;
  l.query_up.input = normed;
  if (l.projects) {
    w.use({l.query_down.matrix.parameter});
    l.query_up.input = w.activation(shard_bytes(w, l.query_down.matrix.out), "query latent");
    multiply(w, l.query_down.matrix, dim.shard);
    save_operands(w, {normed});
  }
  w.use({l.pair_down.matrix.parameter});
  const Value pair =
      w.temporary(shard_bytes(w, l.pair_down.matrix.out), "key value latent and rotated key");
  multiply(w, l.pair_down.matrix, dim.shard);
  save_operands(w, {normed});
  Value rotated = 0;
  const std::int64_t width = l.widths.latent.rotated;
  if (w.sequence_parallel()) {
    rotated = w.temporary(dim.rows(width), "gathered rotated key");
    w.e.collective(Kind::all_gather, Stream::tp, dim.rows(width), "all-gather");
  }
  l.pair_up.input = w.activation(shard_bytes(w, l.widths.latent.kv_rank), "key value latent");
  w.memory_bound(OperationKind::copy, "key value latent",
                 2 * shard_bytes(w, l.widths.latent.kv_rank));
  const Heads heads = up(w, l, pair, rotated);
  w.drop(normed);
  return heads;
}

// mla_up_proj: query, key and value are freed after the layer's forward pass, and the wide products
// are recomputed.
void heads_again(Writer& w, const Latents& l, const Heads& heads) {
  const bool recomputes =
      w.plan.policy.recompute == Recompute::selective && w.plan.policy.recompute_modules.latent;
  if (!recomputes || !w.keep || !w.forward) return;
  const auto make = [=, query = l.query_up.matrix, pair = l.pair_up.matrix,
                     widths = l.widths](Writer& b) {
    for (const Matrix& m : {query, pair}) {
      const Value whole = gathered(b, m.in);
      const Value out = b.temporary(b.dim.rows(m.out), "latent product again");
      multiply(b, m, b.dim.tokens);
      b.drop({out, whole});
    }
    b.refill({heads.query, heads.key, heads.value});
    b.memory_bound(OperationKind::elementwise, "rope again", 4 * b.dim.rows(widths.query));
  };
  w.graph.rematerialized.push_back({{heads.query, heads.key, heads.value}, make, {}, {}});
}

model::Operation kernel(const Writer& w, bool backward) {
  const Dimensions& dim = w.dim;
  const model::Latent& l = w.a.latent;
  // Scores use one head width and values another: two of the five backward products read values.
  const std::int64_t width = (l.content + l.rotated + l.value) / 2;
  const std::int64_t documents = w.plan.documents_per_sample();
  model::Operation o =
      model::attention(backward ? "attention backward" : "attention", backward,
                       dim.batch * documents, dim.heads, dim.heads, width, dim.local / documents,
                       dim.local / documents, true, w.plan.numerics.precision, 0);
  o.implementation = implementation(w.plan.stack.attention);
  if (backward) split_dq(w, o);
  return o;
}

Value latent_core(Writer& w, const Widths& widths, const Heads& in) {
  const Dimensions& dim = w.dim;
  const Value out = w.activation(dim.rows(widths.value), "attention output");
  const Value lse = w.fp32_activation(statistics_bytes(dim), "lse");
  const Value state = w.activation(16, "rng state");
  w.e.kernel(kernel(w, false), w.set.flags);
  w.save({in.query, in.key, in.value, out, lse, state});
  w.drop({lse, state});
  w.node([=](Writer& b, Gradients gradients) -> Gradients {
    const Dimensions& d = b.dim;
    const Value dq = b.temporary(d.rows(widths.query), "dq");
    const Value dk = b.temporary(d.rows(widths.query), "dk");
    const Value dv = b.temporary(d.rows(widths.value), "dv");
    const bool flash = b.plan.stack.attention != AttentionBackend::cudnn;
    const Value sums = b.temporary(4 * d.batch * d.heads * d.local, "softmax_d");
    const std::int64_t splits = dq_splits(b, d.heads);
    const std::int64_t bytes = 4 * d.batch * d.local * widths.query;
    const Value work = b.temporary(splits * bytes, flash ? "dq_accum" : "cuDNN workspace");
    b.e.kernel(kernel(b, true), b.set.flags);
    sum_of_splits(b, splits, bytes, Stream::compute);
    b.drop({work, sums, lse, state, in.query, in.key, in.value, out, gradients[0]});
    return {dq, dk, dv};
  });
  return out;
}

}  // namespace

ParameterList latent_parameters(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  if (a.norm_has_weights()) list.push_back({"input_layernorm.weight", a.hidden, sp});
  if (a.norm_has_bias()) list.push_back({"input_layernorm.bias", a.hidden, sp});
  for (const Parameter& p : linear_parameters(rank, Module::projection)) list.push_back(p);
  const auto add = [&](const Matrix& m, bool whole) {
    list.push_back({m.parameter, m.in * m.out, whole && sp, true});
    list.back().at_once = true;
  };
  if (a.latent.q_rank > 0) {
    add(query_down(rank), true);
    list.push_back({"q_layernorm.weight", a.latent.q_rank, sp});
  }
  add(query_up(rank), false);
  add(pair_down(rank), true);
  list.push_back({"kv_layernorm.weight", a.latent.kv_rank, sp});
  add(pair_up(rank), false);
  return list;
}

Value latent_attention(Writer& w) {
  const Widths widths(w.rank);
  const bool projects = widths.latent.q_rank > 0;
  Latents l{widths,
            projects,
            {},
            {query_down(w.rank)},
            {pair_down(w.rank)},
            {query_up(w.rank), projects ? "q_layernorm.weight" : ""},
            {pair_up(w.rank), "kv_layernorm.weight"}};
  OffloadGroup qkv(w, OffloadModule::qkv_linear);
  Heads heads = project(w, l);
  qkv.close();
  heads_again(w, l, heads);
  w.node([l](Writer& b, Gradients g) { return l.back(b, g); });
  qkv.commit();
  const bool recomputes = w.plan.policy.recompute == Recompute::selective &&
                          w.plan.policy.recompute_modules.core_attention;
  const auto region = [widths, heads](Writer& b) {
    if (b.dim.cp == 1) return latent_core(b, widths, heads);
    return shared_core(b, {0, heads.query, heads.key, heads.value});
  };
  OffloadGroup group(w, OffloadModule::core_attn);
  const Value out =
      recomputes ? checkpoint(w, {heads.query, heads.key, heads.value}, region) : region(w);
  group.close();
  group.commit();
  if (group) {  // the core's inputs are freed explicitly
    w.drop({heads.query, heads.key, heads.value});
    heads = {};
  }
  const Linear projection = linear(w.rank, Module::projection);
  Value operand = out;
  if (w.plan.numerics.fp8) {
    find_scale(w, {.bytes = w.dim.rows(widths.value), .parts = Unscaled::Parts::columns});
    operand = w.activation(w.rank.operand(w.dim.rows(widths.value)), "projection input");
    w.memory_bound(OperationKind::copy, "projection input", 2 * w.dim.rows(widths.value));
  }
  w.use({projection.weight});
  OffloadGroup projected(w, OffloadModule::attn_proj);
  const Value sum = row_parallel(w, projection, out, operand, "attention output gradient");
  projected.close();
  projected.commit();
  if (operand != out) w.drop(operand);
  w.drop({heads.query, heads.key, heads.value, out});
  return sum;
}

}  // namespace sim::program
