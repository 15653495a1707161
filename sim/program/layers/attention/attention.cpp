#include "sim/program/layers/attention/attention.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "sim/program/layers/linear/fp8.h"
#include "sim/program/layers/linear/linear.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

using model::OperationKind;

std::string_view implementation(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::flash:
      return "flash-attention-2";
    case AttentionBackend::cudnn:
      return "cudnn";
    case AttentionBackend::flash1:
      return "flash-attention-1";
    case AttentionBackend::triton:
      return "flash-attention-triton";
    case AttentionBackend::unfused:
      break;
  }
  return "";
}

CoreTraits::CoreTraits(const Rank& rank) {
  const Dimensions& dim = rank.dim;
  const bool rope = rank.plan.architecture.position == model::Position::rope;
  const bool grouped = dim.heads > dim.groups;
  unfused = rank.plan.stack.attention == AttentionBackend::unfused;
  selective = rank.plan.policy.recompute == Recompute::selective &&
              rank.plan.policy.recompute_modules.core_attention;
  repeats = unfused && grouped;
  own_query = rope || (grouped && dim.groups > 1);
  own_key = rope;
  saves_view = unfused && (!grouped || !own_query);
  const StackPlan& stack = rank.plan.stack;
  const bool views = stack.layer_kernels != LayerKernels::fused;  // the batch comes first
  // Operators of PyTorch split one product's output into views, and rotation copies query and key.
  // flash-attn's kernel rotates them in place [flash_attn/layers/rotary.py:apply_rotary_emb_qkv_].
  const bool in_place = stack.layer_kernels == LayerKernels::eager && stack.rope_fusion;
  const bool one_product = !stack.separate_products && !rank.plan.architecture.is_latent();
  value_is_view = views && rope && !in_place && !unfused && one_product && dim.cp == 1 &&
                  !rank.recomputes_operators();
  // flash-attn reads and writes batch-first; cuDNN accepts any layout.
  const bool batch_first = stack.attention != AttentionBackend::cudnn ||
                           (rope && stack.rope_fusion && stack.batch_first_core);
  turns = dim.batch > 1 && !views && !unfused && batch_first;
  copies_output = turns || rank.plan.numerics.fp8;
  // Megatron-LM core 0.8 fused_softmax.py:is_kernel_available.
  fused_softmax = rank.plan.numerics.precision != model::Precision::fp32 && dim.local > 16 &&
                  dim.local <= 4096 && dim.local % 4 == 0 && dim.batch * dim.heads % 4 == 0;
}

std::int64_t statistics_bytes(const Dimensions& dim) {
  return 4 * dim.batch * dim.heads * dim.local;
}

void attention_kernel(Writer& w, bool backward, const Scores& scores, Stream stream) {
  // Scores use one head width and values another: two of the five backward products read values.
  const std::int64_t documents = w.plan.documents_per_sample();
  model::Operation o = model::attention(
      backward ? "attention backward" : "attention", backward, w.dim.batch * documents,
      scores.heads, scores.groups, (w.dim.head_dim + w.dim.value_dim) / 2, scores.query / documents,
      scores.key / documents, scores.causal, w.plan.numerics.precision,
      w.variant.kind.whole ? 0 : w.a.sliding_window);
  o.implementation = implementation(w.plan.stack.attention);
  if (backward) split_dq(w, o);
  w.e.kernel(o, w.set.flags, stream);
}

std::int64_t dq_splits(const Writer& w, std::int64_t heads) {
  if (!w.plan.stack.deterministic || w.plan.stack.attention != AttentionBackend::flash) return 1;
  const std::int64_t rows = w.dim.batch * w.plan.documents_per_sample() * heads;
  return (w.rank.environment.sms + rows - 1) / rows;
}

void split_dq(const Writer& w, model::Operation& backward) {
  const std::int64_t splits = dq_splits(w, backward.heads);
  if (splits > 1) backward.blocks = splits * backward.batch * backward.heads;
}

void sum_of_splits(Writer& w, std::int64_t splits, std::int64_t bytes, Stream stream) {
  if (splits > 1)
    w.memory_bound(OperationKind::reduction, "sum dq over splits", (splits - 1) * bytes, stream);
}

void backward_kernel(Writer& w, const Scores& scores, Stream stream) {
  const Dimensions& dim = w.dim;
  const bool flash = w.plan.stack.attention != AttentionBackend::cudnn;
  const std::int64_t rounded = (scores.query + 127) / 128 * 128;
  const std::int64_t width = scores.heads * dim.head_dim;
  // The heads of the accumulator are rounded up to 32 columns [flash_api.cpp:mha_varlen_bwd].
  const std::int64_t accumulated = scores.heads * ((dim.head_dim + 31) / 32 * 32);
  const bool expands = flash && scores.heads > scores.groups;
  const std::int64_t expanded = dim.element * dim.batch * scores.key * width;
  const Value sums = w.temporary(4 * dim.batch * scores.heads * rounded, "softmax_d", stream);
  const std::int64_t splits = dq_splits(w, scores.heads);
  const std::int64_t accumulator_bytes = 4 * dim.batch * (scores.query + 128) * accumulated;
  const Value accumulator =
      w.temporary(flash ? splits * accumulator_bytes : 4 * dim.batch * scores.query * width,
                  flash ? "dq_accum" : "cuDNN workspace", stream);
  const Value keys = expands ? w.temporary(expanded, "dk expanded", stream) : Value{0};
  const Value values = expands ? w.temporary(expanded, "dv expanded", stream) : Value{0};
  attention_kernel(w, true, scores, stream);
  sum_of_splits(w, splits, accumulator_bytes, stream);
  if (expands) {
    const std::int64_t bytes =
        dim.element * dim.batch * scores.key * (width + scores.groups * dim.head_dim);
    w.memory_bound(OperationKind::reduction, "sum dk over query heads", bytes, stream);
    w.memory_bound(OperationKind::reduction, "sum dv over query heads", bytes, stream);
  }
  w.drop({keys, values, accumulator, sums});
}

Layouts make_layouts(Writer& w, const CoreInputs& in) {
  const Dimensions& dim = w.dim;
  const auto layout = [&](std::int64_t width, std::string_view label, std::string_view kernel) {
    const Value made = w.activation(dim.rows(width), label);
    // Other modules pass strided views to the kernel and keep tensors of the same size.
    if (w.plan.stack.layer_kernels == LayerKernels::fused)
      w.memory_bound(OperationKind::copy, kernel, 2 * dim.rows(width));
    return made;
  };
  Layouts l{in.query, in.key, 0, in.query == 0, in.key == 0};
  if (l.made_query) l.query = layout(dim.query, "query", "query layout");
  if (l.made_key) l.key = layout(dim.key_value, "key", "key layout");
  if (in.value != 0)
    w.hold(l.value = in.value);
  else
    l.value = layout(dim.value, "value", "value copy");
  return l;
}

namespace {

// Concatenates a slice's keys, or values, with the cache [TeraPipe: MultiheadLMAttentionWithCache].
Value behind_earlier(Writer& w, std::string_view label) {
  const std::int64_t bytes = key_bytes(w.dim, w.dim.prefix + w.dim.local);
  const Value all = w.activation(bytes, label);
  w.memory_bound(OperationKind::copy, "cat keys of slices", 2 * bytes);
  return all;
}

// Later slices have added to the gradients of this slice's keys and values. The gradients of
// earlier tokens are passed on to the slice before (Builder: gradients of earlier keys).
void pass_to_earlier(Writer& w, bool is_last) {
  const std::int64_t all = 2 * key_bytes(w.dim, w.dim.prefix + w.dim.local);
  if (!is_last) w.memory_bound(OperationKind::elementwise, "add key gradients", 3 * all);
  if (w.dim.prefix > 0)
    w.memory_bound(OperationKind::copy, "key gradients of slices",
                   4 * key_bytes(w.dim, w.dim.prefix));
}

}  // namespace

std::int64_t key_bytes(const Dimensions& dim, std::int64_t tokens) {
  return dim.element * dim.batch * tokens * dim.key_value;
}

namespace {

// With recomputed operators: recomputes the key of a layer, or what follows it: k's product, then
// both rotations.
void make_key_again(Writer& w, std::initializer_list<Value> made) {
  const Dimensions& dim = w.dim;
  const std::int64_t rotated = dim.rows(dim.query) + dim.rows(dim.key_value);
  w.product("qkv", dim.key_value, dim.hidden);
  w.refill(made);
  w.memory_bound(OperationKind::elementwise, "rope again",
                 (w.plan.stack.rope_fusion ? 2 : 12) * rotated);
}

}  // namespace

bool repeats_heads(const Rank& rank) {
  return rank.plan.stack.repeat_kv && rank.dim.heads > rank.dim.groups;
}

Value repeat_heads(Writer& w, Layouts& l) {
  const Dimensions& dim = w.dim;
  const std::int64_t query = dim.rows(dim.query);
  const auto copy = [=](Writer& b) {
    b.memory_bound(OperationKind::copy, "repeat k", query + dim.rows(dim.key_value));
    b.memory_bound(OperationKind::copy, "repeat v", query + dim.rows(dim.value));
  };
  const Value keys = w.activation(query, "keys of all heads");
  const Value values = w.activation(query, "values of all heads");
  copy(w);
  w.rematerialize({keys, values}, [=](Writer& b) {
    make_key_again(b, {keys, values});
    copy(b);
  });
  const Value source = w.rank.recomputes_operators() ? l.value : Value{0};
  w.save(source);
  if (l.made_key) w.drop(l.key);
  w.drop(l.value);
  l.key = keys;
  l.made_key = true;
  l.value = values;
  return source;
}

Gradients sum_repeated(Writer& w, Gradients gradients) {
  const Dimensions& dim = w.dim;
  const auto sum = [&](std::int64_t width, std::string_view label) {
    const Value made = w.temporary(dim.rows(width), label);
    w.memory_bound(OperationKind::reduction, label, dim.rows(dim.query) + dim.rows(width));
    return made;
  };
  const Value dk = sum(dim.key_value, "dk over copies"), dv = sum(dim.value, "dv over copies");
  w.drop({gradients[1], gradients[2]});
  return {gradients[0], dk, dv};
}

Value fused_core(Writer& w, const CoreInputs& in) {
  Scores scores = own_scores(w.dim);
  Layouts l = make_layouts(w, in);
  const bool repeats = repeats_heads(w.rank);
  const Value source = repeats ? repeat_heads(w, l) : Value{0};
  if (repeats) scores.groups = scores.heads;
  const bool slices = slice_count(w.plan) > 1, is_last = w.rank.slice() + 1 == slice_count(w.plan);
  if (w.dim.prefix > 0) {
    const Value keys = behind_earlier(w, "keys of slices");
    const Value values = behind_earlier(w, "values of slices");
    if (l.made_key) w.drop(l.key);
    w.drop(l.value);
    l = {l.query, keys, values, l.made_query, true};
  }
  const Value out = w.activation(w.dim.rows(w.dim.query), "attention output");
  const Value lse = w.fp32_activation(statistics_bytes(w.dim), "lse");
  const Value state = w.activation(16, "rng state");
  attention_kernel(w, false, scores);
  w.save({l.query, l.key, l.value, out, lse, state});
  if (l.made_query) w.drop(l.query);
  if (l.made_key) w.drop(l.key);
  w.drop({l.value, lse, state});
  w.node([=](Writer& b, Gradients gradients) -> Gradients {
    const Value dq = b.temporary(b.dim.rows(b.dim.query), "dq");
    const std::int64_t keys = repeats ? b.dim.rows(b.dim.query) : key_bytes(b.dim, scores.key);
    const Value dk = b.temporary(keys, "dk");
    const Value dv = b.temporary(keys, "dv");
    backward_kernel(b, scores);
    if (slices) pass_to_earlier(b, is_last);
    b.drop({lse, state, l.query, l.key, l.value, source, out, gradients[0]});
    return repeats ? sum_repeated(b, {dq, dk, dv}) : Gradients{dq, dk, dv};
  });
  return out;
}

namespace {

// Rotary embedding of the query or the key; unfused, it is made of products in memory.
Value rotate(Writer& w, std::int64_t bytes, std::string_view label, std::string_view name) {
  if (w.plan.stack.rope_fusion) {
    const Value out = w.activation(bytes, label);
    w.memory_bound(OperationKind::elementwise, name, 2 * bytes);
    return out;
  }
  const Value cosines = w.temporary(bytes, "rotary product");
  w.memory_bound(OperationKind::elementwise, name, 2 * bytes);
  const Value halves = w.temporary(bytes, "rotated halves");
  w.memory_bound(OperationKind::copy, name, 3 * bytes);
  const Value sines = w.temporary(bytes, "rotary product");
  w.memory_bound(OperationKind::elementwise, name, 2 * bytes);
  w.drop(halves);
  const Value sum = w.temporary(bytes, "rotary sum");
  w.memory_bound(OperationKind::elementwise, name, 3 * bytes);
  w.drop({cosines, sines});
  const Value out = w.activation(bytes, label);
  w.memory_bound(OperationKind::copy, name, 2 * bytes);
  w.drop(sum);
  return out;
}

Value rotate_back(Writer& w, Value gradient, std::int64_t bytes, std::string_view label,
                  std::string_view name) {
  const bool fused = w.plan.stack.rope_fusion;
  const Value cosines = fused ? Value{0} : w.temporary(bytes, "rotary product");
  const Value sines = fused ? Value{0} : w.temporary(bytes, "rotary product");
  if (!fused) w.memory_bound(OperationKind::elementwise, name, 5 * bytes);
  const Value out = w.temporary(bytes, label);
  w.memory_bound(OperationKind::elementwise, name, (fused ? 2 : 3) * bytes);
  w.drop({cosines, sines, gradient});
  return out;
}

void key_again(Writer& w, Value key) {
  if (w.saved(key)) make_key_again(w, {key});
}

// Weights of the norm over heads with this total width.
std::int64_t weights_of_heads(const model::Architecture& a, std::int64_t width) {
  return a.norms_by_head ? width : a.head_dim;
}

// Norms over each head of the query and of the key. They save their inputs.
struct HeadNorms {
  Value mixed = 0, query = 0, query_rsigma = 0,
        key_rsigma = 0;  // `query`: its copy, if there is one
};

Value norm_heads(Writer& w, std::int64_t width, std::string_view label, Value& rsigma) {
  const Value out = w.temporary(w.dim.rows(width), label);
  rsigma = w.activation(4 * w.dim.tokens * width / w.dim.head_dim, "head rsigma");
  w.memory_bound(OperationKind::norm, "head norm", 2 * w.dim.rows(width));
  w.save(rsigma);
  w.drop(rsigma);
  return out;
}

Value norm_heads_back(Writer& w, Value gradient, std::int64_t width, std::string_view label,
                      std::string_view parameter) {
  const Value made = w.temporary(w.dim.rows(width), label);
  w.memory_bound(OperationKind::norm, "head norm backward", 3 * w.dim.rows(width));
  w.memory_bound(OperationKind::reduction, "norm weight gradient",
                 4 * w.rank.environment.sms * w.dim.head_dim);
  w.drop(gradient);
  if (w.frozen()) return made;
  if (w.plan.shards_parameters())
    w.keep_gradient(
        w.temporary(w.dim.element * weights_of_heads(w.a, width), "norm weight gradient"),
        parameter);
  else
    w.ready(parameter);
  return made;
}

// The backward passes of RoPE and of the split into q, k and v: a concatenation. Changes of layout
// have no backward kernel; their gradients are views. After a ring, dk is a view of the buffer that
// dv represents.
Gradients split_back(Writer& w, Gradients gradients, bool rope, Value tables,
                     const HeadNorms& norms) {
  const Dimensions& dim = w.dim;
  auto [dq, dk, dv] = gradients;
  if (rope) {
    dk = rotate_back(w, dk, dim.rows(dim.key_value), "key gradient before rope", "rope k backward");
    dq = rotate_back(w, dq, dim.rows(dim.query), "query gradient before rope", "rope q backward");
    w.drop(tables);
  }
  if (w.a.query_key_norm) {
    dk = norm_heads_back(w, dk, dim.key_value, "key gradient before norm", "k_layernorm.weight");
    dq = norm_heads_back(w, dq, dim.query, "query gradient before norm", "q_layernorm.weight");
    w.drop({norms.query_rsigma, norms.key_rsigma, norms.query, norms.mixed});
  }
  if (w.a.sinks) w.ready("softmax_offset");
  const Value mixed = w.temporary(dim.rows(dim.mixed_width()), "mixed qkv gradient");
  w.memory_bound(OperationKind::copy, "cat qkv gradient", 2 * dim.rows(dim.mixed_width()));
  w.drop({dq, dk, dv});
  return {mixed};
}

// Query and key from qkv's output, if they become separate tensors.
CoreInputs split(Writer& w, Value mixed) {
  const Dimensions& dim = w.dim;
  const bool rope = w.a.position == model::Position::rope;
  CoreInputs in{mixed, 0, 0};
  Value tables = 0;
  // The grouped query layout needs a copy, unless a rank has a single group.
  Value copy = 0;
  if (dim.heads > dim.groups && dim.groups > 1) {
    copy = rope ? w.temporary(dim.rows(dim.query), "query copy")
                : w.activation(dim.rows(dim.query), "query");
    w.memory_bound(OperationKind::copy, "query copy", 2 * dim.rows(dim.query));
  }
  in.query = copy;
  HeadNorms norms;
  Value normed_query = 0, normed_key = 0;
  if (w.a.query_key_norm) {
    w.use({"q_layernorm.weight", "k_layernorm.weight"});
    norms.mixed = mixed;
    norms.query = copy;
    w.save({mixed, copy});
    normed_query = norm_heads(w, dim.query, "normed query", norms.query_rsigma);
    normed_key = norm_heads(w, dim.key_value, "normed key", norms.key_rsigma);
  }
  if (rope) {
    if (!w.plan.stack.rope_fusion)
      tables = w.activation(8 * dim.local * dim.head_dim, "cos and sin");
    in.query = rotate(w, dim.rows(dim.query), "query", "rope q");
    w.drop(copy);  // the variable's previous tensor
    in.key = rotate(w, dim.rows(dim.key_value), "key", "rope k");
    w.rematerialize({in.key}, [key = in.key](Writer& b) { key_again(b, key); });
    w.save(tables);
    w.drop(tables);
  }
  w.drop({normed_query, normed_key});
  w.node([=](Writer& b, Gradients g) { return split_back(b, g, rope, tables, norms); });
  return in;
}

// The core of each context-parallel method, by the names of context::catalog().
struct Core {
  std::string_view context;
  Value (*core)(Writer& w, const CoreInputs& in);
};
constexpr std::array cores{Core{"ring", ring_core},
                           Core{"all-gather", gathered_core},
                           Core{"ulysses", ulysses_core},
                           Core{"hierarchical", ring_core},
                           Core{"usp", usp_core},
                           Core{"torch-allgather", torch_ring_core},
                           Core{"torch-alltoall", torch_ring_core}};

Value core(Writer& w, const CoreTraits& traits, const CoreInputs& in) {
  if (traits.unfused) return unfused_core(w, in);
  if (w.dim.cp == 1) return fused_core(w, in);
  return shared_core(w, in);
}

}  // namespace

Value shared_core(Writer& w, const CoreInputs& in) {
  const auto shared = std::ranges::find(cores, w.plan.mesh.context, &Core::context);
  assert(shared != cores.end());
  return shared->core(w, in);
}

ParameterList attention_parameters(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  if (a.is_latent()) {
    list = latent_parameters(rank);
  } else {
    list = linear_parameters(rank, Module::projection);
    for (const Parameter& p : linear_parameters(rank, Module::qkv)) list.push_back(p);
  }
  const auto over_heads = [&](std::string_view name, std::int64_t width) {
    // Each rank holds the weights of its own heads.
    if (a.query_key_norm)
      list.push_back({name, weights_of_heads(a, width), sp && !a.norms_by_head});
  };
  over_heads("q_layernorm.weight", rank.dim.query);
  over_heads("k_layernorm.weight", rank.dim.key_value);
  if (a.sinks) list.push_back({"softmax_offset", rank.dim.heads});
  if (a.output_norms && a.norm_has_weights())
    for (const char* norm : {"post_attention_norm.weight", "post_mlp_norm.weight"})
      list.push_back({norm, a.hidden, sp});
  return list;
}

Value self_attention(Writer& w) {
  const Dimensions& dim = w.dim;
  const CoreTraits traits(w.rank);
  const Linear projection = linear(w.rank, Module::projection);
  OffloadGroup qkv(w, OffloadModule::qkv_linear);
  qkv.add(w.half.stream_input);
  const auto category =
      w.keep && traits.saves_mixed() ? Category::activations : Category::temporaries;
  Value mixed =
      column_parallel(w, linear(w.rank, Module::qkv), w.half.normed, "mixed qkv", category);
  qkv.close();
  qkv.commit();
  CoreInputs in = split(w, mixed);
  if (traits.unfused && w.makes_workspaces())  // Megatron-LM's, grown to the largest use
    w.e.alloc(fixed_slot(global_buffer), dim.scores(), Category::temporaries,
              "global memory buffer");
  if (traits.value_is_view) in.value = mixed;
  const auto region = [traits, in](Writer& b) { return core(b, traits, in); };
  OffloadGroup group(w, OffloadModule::core_attn);
  const Value out = traits.selective ? checkpoint(w, {in.query, in.key, mixed}, region) : region(w);
  group.close();
  group.commit();
  if (group)  // the core's inputs are freed explicitly
    w.drop({std::exchange(mixed, 0), std::exchange(in.key, 0), std::exchange(in.query, 0)});
  // A copy makes the transposed view of `out` contiguous, and the projection saves that copy. In
  // fp8 the copy is cast, and the cast is saved.
  const std::int64_t bytes = dim.rows(dim.query);
  Value contiguous = 0, copied = 0;
  if (traits.copies_output) {
    if (w.plan.numerics.fp8 && traits.turns) {
      contiguous = w.temporary(bytes, "contiguous attention output");
      w.memory_bound(OperationKind::copy, "projection input", 2 * bytes);
    }
    find_scale(w, {.bytes = bytes, .parts = Unscaled::Parts::columns});
    copied = w.activation(w.rank.operand(bytes), "projection input");
    w.memory_bound(OperationKind::copy, "projection input", bytes + w.rank.operand(bytes));
  }
  w.use({projection.weight});
  const Value operand = traits.copies_output ? copied : out;
  const Value wide = contiguous != 0 ? contiguous : w.plan.numerics.fp8 ? out : operand;
  OffloadGroup projected(w, OffloadModule::attn_proj);
  const Value sum = row_parallel(w, projection, wide, operand, "attention output gradient");
  projected.close();
  projected.commit();
  // Attention.forward returns: of its local variables only tensors saved for backward remain.
  w.drop({mixed, in.key, in.query, copied, contiguous, out});
  w.unname(w.locals.attention);
  return sum;
}

}  // namespace sim::program
