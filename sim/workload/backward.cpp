// backward.cpp — one transformer layer backward, in issue order.
//
// INVENTORY.md section 4 has a line per tensor with its source. Autograd runs nodes in reverse
// order of creation; a node's saved tensors go after it returned, except what TransformerEngine
// clears by hand; the incoming gradient lives until the node returns. Weight gradients are added
// into main_grad by the GEMM itself (gradient accumulation fusion); an uninitialised dummy of the
// weight's shape makes autograd's hooks fire. Where the schedule splits the pass (zero bubble), the
// operands of the weight gradients stay until the weight pass, which gathers the inputs again.
#include "sim/workload/eager.h"
#include "sim/workload/rank.h"
#include "sim/workload/sharding.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

enum Local : std::uint32_t {
  gathered_gradient,
  d_fc2_in,
  d_up,
  gathered_input,
  d_gathered,
  d_norm,
  d_input,
  d_gamma,
  d_gamma_parts,
  d_beta,
  d_beta_parts,
  d_bias,
  d_dropout,
  dummy,
  d_out,
  d_query,
  d_key,
  d_value,
  d_query0,
  d_key0,
  d_mixed,
  product_cos,
  product_sin,
  quantised,
  transposed,
  output_again,
};

struct Backward {
  Rank& rank;
  Emitter& e;
  const Variant& variant;
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  bool sp = rank.plan.uses_sequence_parallel();
  bool drops = a.hidden_dropout > 0;
  bool held = variant.holds_gradient;  // Python still holds the incoming gradient

  void temporary(std::uint32_t slot, std::int64_t bytes, std::string_view label) {
    e.alloc(local_slot(slot), bytes, Category::temporaries, label);
  }
  void pass(OperationKind kind, std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(kind, name, Bytes{bytes}));
  }

  // A gradient waits for the rest of its unit; without shards it is added to main_grad and gone.
  bool keeps(std::uint32_t slot, std::string_view p) {
    return rank.sharding->keep(e, variant.unit, p, local_slot(slot));
  }
  void ready(std::string_view p) {
    if (variant.hooks) rank.sharding->ready(e, variant.unit, p);
  }

  void input_gradient(std::string_view name, std::int64_t n, std::int64_t k,
                      std::uint8_t flags = 0) {
    const bool transposes = rank.plan.fp8_parameters && !rank.plan.keeps_transposed_weights();
    if (transposes) {
      temporary(transposed, n * k, "transposed weight in fp8");
      pass(OperationKind::copy, "transpose weight", 2 * n * k);
    }
    e.kernel(model::gemm(name, dim.tokens, n, k, GemmRole::input_gradient, false,
                         rank.plan.product_precision()),
             flags);
    if (transposes) e.free(local_slot(transposed));
  }
  // dW[m, n] from `tokens` rows; into fp32 main_grad, which the first microbatch overwrites.
  void weight_gradient(std::string_view name, std::int64_t m, std::int64_t n,
                       std::uint8_t flags = 0) {
    const bool fused = rank.plan.accumulates_in_product();
    if (rank.plan.fp8) {  // products in fp8 want both operands along the tokens
      temporary(transposed, dim.tokens * n, "transposed input in fp8");
      pass(OperationKind::copy, "transpose input", 2 * dim.tokens * n);
    }
    e.kernel(model::gemm(name, m, n, dim.tokens, GemmRole::weight_gradient,
                         fused && rank.plan.fp32_gradients && !variant.first_microbatch,
                         rank.plan.product_precision()),
             flags);
    if (rank.plan.fp8) {
      e.free(local_slot(transposed));
      e.free(local_slot(quantised));
    }
  }
  // The output gradient of a product of this width, cast and cast transposed, until its last use.
  void quantise(std::int64_t width, std::int64_t bytes) {
    if (!rank.plan.fp8) return;
    temporary(quantised, 2 * dim.tokens * width, "output gradient in fp8");
    pass(OperationKind::elementwise, "gradient to fp8", bytes + 2 * dim.tokens * width);
  }
  // The dummy (or, unfused, the real) gradient of a weight, and its hook.
  bool kept_handles() const {
    return rank.plan.kept_gradient_handles && rank.plan.accumulates_in_product();
  }
  void make_dummy(std::int64_t elements, std::string_view p) {
    if (!kept_handles()) {
      temporary(dummy, dim.element * elements, "weight gradient handle");
    } else if (variant.first_use) {
      const FixedSlot slot = p == "linear_fc2.weight"    ? handle_fc2
                             : p == "linear_fc1.weight"  ? handle_fc1
                             : p == "linear_proj.weight" ? handle_projection
                                                         : handle_qkv;
      e.alloc(fixed_slot(slot), dim.element * elements, Category::other, "kept gradient handle");
    }
  }
  void hook(std::int64_t elements, std::string_view p) {
    if (keeps(dummy, p)) return;
    if (!rank.plan.accumulates_in_product())
      pass(OperationKind::elementwise, "main_grad add",
           (dim.element + 2 * (rank.plan.fp32_gradients ? 4 : 2)) * elements);
    if (!kept_handles()) e.free(local_slot(dummy));
    ready(p);
  }
  void bias_ready(std::string_view p, bool present, std::int64_t width) {
    if (!present) return;
    temporary(d_bias, dim.element * width, "bias gradient");
    if (keeps(d_bias, p)) return;
    pass(OperationKind::elementwise, "bias main_grad add", 10 * width);
    e.free(local_slot(d_bias));
    ready(p);
  }

  // The gradient of a row-parallel product's output: reduce-scatter's backward is an all-gather.
  void gather_gradient() {
    if (!sp) return;
    temporary(gathered_gradient, rank.operand(dim.full()), "gathered output gradient");
    e.collective(Kind::all_gather, Stream::tp, rank.operand(dim.full()), "all-gather");
    reorder("gathered sequences", rank.operand(dim.full()));
  }
  // As in the forward pass.
  void reorder(std::string_view name, std::int64_t bytes) {
    if (rank.batch_first() && dim.batch > 1) pass(OperationKind::copy, name, 2 * bytes);
  }
  void drop_gathered_gradient() {
    if (sp) e.free(local_slot(gathered_gradient));
  }

  // The weight pass reads the output gradient: gathered, or dropout's, or the stream itself, in
  // whose place the sum of the residual then needs memory of its own.
  void keep_output_gradient(LayerSlot slot) {
    if (sp)
      e.move(local_slot(gathered_gradient), layer_slot(slot));
    else if (drops)
      e.move(local_slot(d_dropout), layer_slot(slot));
    else
      e.alloc(layer_slot(slot), dim.residual(), Category::activations, "output gradient for W");
  }

  // The gradient behind a dropped residual add is a tensor of its own; the stream goes on.
  void hidden_dropout(LayerSlot mask) {
    if (!drops) return;
    temporary(d_dropout, dim.residual(), "dropout gradient");
    pass(OperationKind::elementwise, "dropout backward", 3 * dim.residual());
    e.free(layer_slot(mask));
  }
  void drop_dropout_gradient() {
    if (drops && !(variant.split && !sp)) e.free(local_slot(d_dropout));
  }

  // Steps 7-13 of a column-parallel product with its norm in front: `output_gradient` is the
  // gradient of the product (width n), `x` the norm's saved input.
  void column_parallel(std::string_view name, std::uint32_t output_gradient, std::int64_t n,
                       LayerSlot norm_out, LayerSlot rsigma, LayerSlot mu, LayerSlot kept,
                       std::string_view weight, std::string_view norm) {
    if (rank.plan.trains_adapters()) {
      const Module module = weight == "linear_qkv.weight" ? Module::qkv : Module::fc1;
      return frozen_column_parallel(name, module, output_gradient, n, norm_out, rsigma, mu);
    }
    const bool split = variant.split;
    const bool overlap = dim.tp > 1;
    const bool records = !rank.plan.avoid_record_streams;
    const std::uint8_t beside = overlap ? overlapped : std::uint8_t{0};
    if (sp && !split) {
      temporary(gathered_input, rank.operand(dim.full()), "gathered norm output");
      e.collective(Kind::all_gather, Stream::tp, rank.operand(dim.full()), "all-gather", overlapped,
                   gather_event);
      if (records) e.record_stream(layer_slot(norm_out), Stream::tp);
      if (records) e.record_stream(local_slot(gathered_input), Stream::tp);
    }
    quantise(n, dim.rows(n));
    temporary(d_gathered, dim.full(), "input gradient");
    input_gradient(name, dim.hidden, n, sp && !split ? overlapped : std::uint8_t{0});
    std::uint32_t norm_gradient = d_gathered;
    if (sp) {
      if (!split) e.wait(gather_event);
      reorder("gathered sequences", rank.operand(dim.full()));
      temporary(d_norm, dim.residual(), "norm output gradient");
      reorder("sequences to scatter", dim.full());
      e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter",
                   split ? joins : overlapped, scatter_event);
      if (records && !split) {
        e.record_stream(local_slot(d_gathered), Stream::tp);
        e.record_stream(local_slot(d_norm), Stream::tp);
        e.free(local_slot(d_gathered));
      }
      norm_gradient = d_norm;
    } else if (overlap) {
      e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce",
                   split ? joins : overlapped, scatter_event);
      if (records) e.record_stream(local_slot(d_gathered), Stream::tp);
    }
    if (split) {
      e.move(local_slot(output_gradient), layer_slot(kept));
    } else {
      weight_gradient(name, n, dim.hidden, beside);
      // Cleared by hand; without sequence parallelism that is the saved tensor itself.
      if (sp)
        e.free(local_slot(gathered_input));
      else
        e.free(layer_slot(norm_out));
    }
    if (overlap && !split) e.wait(scatter_event);
    if (sp && (rank.plan.avoid_record_streams || split)) e.free(local_slot(d_gathered));
    norm_backward(norm_gradient);
    e.free(layer_slot(rsigma));
    if (a.norm == model::Norm::layer) e.free(layer_slot(mu));
    if (!split) make_dummy(n * dim.hidden, weight);
    if (!split) e.free(local_slot(output_gradient));
    if (!split && sp) e.free(layer_slot(norm_out));
    norm_hook(norm);
    if (!split) hook(n * dim.hidden, weight);
  }

  // The same beside or without an adapter: the input gradient alone, nothing to hide its reduction.
  void frozen_column_parallel(std::string_view name, Module module, std::uint32_t output_gradient,
                              std::int64_t n, LayerSlot norm_out, LayerSlot rsigma, LayerSlot mu) {
    const bool adapted = rank.adapts(module);
    if (adapted) adapter_backward(rank, e, variant, module);
    quantise(n, dim.rows(n));
    temporary(d_gathered, dim.full(), "input gradient");
    input_gradient(name, dim.hidden, n);
    if (rank.plan.fp8) e.free(local_slot(quantised));
    if (adapted) add_adapter(dim.full());
    std::uint32_t norm_gradient = d_gathered;
    if (sp) {
      temporary(d_norm, dim.residual(), "norm output gradient");
      e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
      e.free(local_slot(d_gathered));
      norm_gradient = d_norm;
    } else if (dim.tp > 1) {
      e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce");
    }
    norm_backward(norm_gradient);
    e.free(layer_slot(rsigma));
    if (a.norm == model::Norm::layer) e.free(layer_slot(mu));
    e.free(local_slot(output_gradient));
    if (rank.adapter_reads_norm(module)) e.free(layer_slot(norm_out));
    e.free(local_slot(d_gamma));
    if (a.norm == model::Norm::layer) e.free(local_slot(d_beta));
  }
  void add_adapter(std::int64_t bytes) {
    pass(OperationKind::elementwise, "add adapter gradient", 3 * bytes);
    e.free(local_slot(adapter_gradient));
  }
  // Of a row-parallel product that is frozen, what is left when its input gradient is there.
  void frozen_row_parallel(Module module, std::int64_t bytes) {
    if (rank.plan.fp8) e.free(local_slot(quantised));
    drop_gathered_gradient();
    if (rank.adapts(module)) add_adapter(bytes);
  }

  void norm_backward(std::uint32_t gradient_slot) {
    const bool layer_norm = a.norm == model::Norm::layer;
    const std::int64_t parts = 4 * rank.environment.sms * dim.hidden;
    temporary(d_input, dim.residual(), "norm input gradient");
    temporary(d_gamma, dim.element * dim.hidden, "norm weight gradient");
    if (layer_norm) temporary(d_beta, dim.element * dim.hidden, "norm bias gradient");
    temporary(d_gamma_parts, parts, "norm weight gradient parts");
    if (layer_norm) temporary(d_beta_parts, parts, "norm bias gradient parts");
    norm_backward_kernels(rank, e);
    e.free(local_slot(d_gamma_parts));
    if (layer_norm) e.free(local_slot(d_beta_parts));
    e.free(local_slot(gradient_slot));
  }
  void norm_hook(std::string_view p) {
    const std::string_view bias = p == "linear_qkv.layer_norm_weight"
                                      ? "linear_qkv.layer_norm_bias"
                                      : "linear_fc1.layer_norm_bias";
    const bool layer_norm = a.norm == model::Norm::layer;
    if (keeps(d_gamma, p)) {
      if (layer_norm) keeps(d_beta, bias);
      return;
    }
    pass(OperationKind::elementwise, "norm main_grad add", 10 * dim.hidden);
    e.free(local_slot(d_gamma));
    ready(p);
    if (!layer_norm) return;
    e.free(local_slot(d_beta));
    ready(bias);
  }

  // g += d: in place, unless Python still holds the gradient that came by point to point.
  void accumulate_residual() {
    if (held) {
      e.alloc(frame_slot(gradient), dim.residual(), Category::temporaries, "gradient stream");
      held = false;
    }
    pass(OperationKind::elementwise, "gradient add", 3 * dim.residual());
    e.free(local_slot(d_input));
  }

  void mlp() {
    hidden_dropout(dropout2);
    if (rank.recomputes_mlp()) mlp_recompute(rank, e, output_again);
    const bool frozen = rank.plan.trains_adapters();
    if (rank.adapts(Module::fc2)) adapter_backward(rank, e, variant, Module::fc2);
    gather_gradient();
    quantise(dim.hidden, rank.operand(dim.full()));
    temporary(d_fc2_in, dim.rows(dim.ffn), "fc2 input gradient");
    input_gradient("fc2", dim.ffn, dim.hidden);
    if (frozen) {
      frozen_row_parallel(Module::fc2, dim.rows(dim.ffn));
      if (rank.adapts(Module::fc2)) e.free(layer_slot(fc2_in));
    } else if (variant.split) {
      keep_output_gradient(weight_fc2);
    } else {
      weight_gradient("fc2", dim.hidden, dim.ffn);
      e.free(layer_slot(fc2_in));
      make_dummy(dim.hidden * dim.ffn, "linear_fc2.weight");
      drop_gathered_gradient();
      hook(dim.hidden * dim.ffn, "linear_fc2.weight");
    }
    drop_dropout_gradient();
    bias_ready("linear_fc2.bias", a.linear_bias && !frozen, dim.hidden);
    temporary(d_up, dim.rows(dim.up), "fc1 output gradient");
    const bool gated = a.activation == model::Activation::swiglu;
    pass(OperationKind::elementwise, gated ? "swiglu backward" : "bias gelu backward",
         2 * dim.rows(dim.up) + dim.rows(dim.ffn));
    e.free(local_slot(d_fc2_in));
    e.free(layer_slot(fc1_out));
    if (gated && !rank.plan.swiglu_fusion) e.free(layer_slot(swiglu_gate));
    column_parallel("fc1", d_up, dim.up, norm2, rsigma2, mu2, weight_fc1, "linear_fc1.weight",
                    "linear_fc1.layer_norm_weight");
    bias_ready("linear_fc1.bias", a.linear_bias && !frozen, dim.up);
    if (rank.recomputes_mlp()) e.free(local_slot(output_again));
    accumulate_residual();
    e.free(layer_slot(middle));
  }

  void self_attention() {
    const CoreInputs core(rank);
    // Attention's output is the projection's input, or the projection saved a copy.
    const LayerSlot saved = core.copies_output ? projection_input : attention_out;
    hidden_dropout(dropout1);
    const bool frozen = rank.plan.trains_adapters();
    if (rank.adapts(Module::projection)) adapter_backward(rank, e, variant, Module::projection);
    gather_gradient();
    quantise(dim.hidden, rank.operand(dim.full()));
    temporary(d_out, dim.rows(dim.query), "attention output gradient");
    input_gradient("projection", dim.query, dim.hidden);
    if (frozen) {
      frozen_row_parallel(Module::projection, dim.rows(dim.query));
      if (core.projection_holds() && (!core.copies_output || rank.keeps_projection_input()))
        e.free(layer_slot(saved));
    } else if (variant.split) {
      keep_output_gradient(weight_projection);
      if (core.projection_holds() && !core.copies_output)
        e.move(layer_slot(attention_out), layer_slot(projection_input));
    } else {
      weight_gradient("projection", dim.hidden, dim.query);
      if (core.projection_holds()) e.free(layer_slot(saved));
      make_dummy(dim.hidden * dim.query, "linear_proj.weight");
      drop_gathered_gradient();
      hook(dim.hidden * dim.query, "linear_proj.weight");
    }
    drop_dropout_gradient();
    bias_ready("linear_proj.bias", a.linear_bias && !frozen, dim.hidden);
    // Where attention saved its output too, that is what the weight pass reads.
    attention_backward(rank, e, variant.split && !core.projection_holds(), d_query, d_key, d_value);
    e.free(local_slot(d_out));
    split_backward(core);
    column_parallel("qkv", d_mixed, dim.mixed_width(), norm1, rsigma1, mu1, weight_qkv,
                    "linear_qkv.weight", "linear_qkv.layer_norm_weight");
    bias_ready("linear_qkv.bias", a.qkv_bias && !frozen, dim.mixed_width());
    accumulate_residual();
    e.free(layer_slot(input));
  }

  void rotate_back(std::uint32_t from, std::uint32_t to, std::int64_t bytes, std::string_view label,
                   std::string_view name) {
    if (!rank.plan.rope_fusion) {
      temporary(product_cos, bytes, "rotary product");
      temporary(product_sin, bytes, "rotary product");
      pass(OperationKind::elementwise, name, 5 * bytes);
    }
    temporary(to, bytes, label);
    pass(OperationKind::elementwise, name, (rank.plan.rope_fusion ? 2 : 3) * bytes);
    if (!rank.plan.rope_fusion) {
      e.free(local_slot(product_cos));
      e.free(local_slot(product_sin));
    }
    // Behind a ring dk is a view of the buffer that dv stands for.
    const bool view = from == d_key && rank.plan.cp > 1;
    if (!view) e.free(local_slot(from));
  }

  // RoPE's backward passes and that of the split into q, k and v: a concatenation. Changes of
  // layout have none; their gradients are views.
  void split_backward(const CoreInputs& core) {
    const bool rope = core.own_key;
    const bool ring = rank.plan.cp > 1;
    if (rope) {
      rotate_back(d_key, d_key0, dim.rows(dim.key_value), "key gradient before rope",
                  "rope k backward");
      rotate_back(d_query, d_query0, dim.rows(dim.query), "query gradient before rope",
                  "rope q backward");
      if (!rank.plan.rope_fusion) e.free(layer_slot(rope_tables));
    }
    temporary(d_mixed, dim.rows(dim.mixed_width()), "mixed qkv gradient");
    pass(OperationKind::copy, "cat qkv gradient", 2 * dim.rows(dim.mixed_width()));
    e.free(local_slot(rope ? d_query0 : d_query));
    if (rope || !ring) e.free(local_slot(rope ? d_key0 : d_key));
    e.free(local_slot(d_value));
  }
};

}  // namespace

std::uint32_t layer_backward(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, variant.split ? "layer input gradients" : "layer backward");
  e.host(HostWork::layer_backward);
  Backward backward{rank, e, variant};
  if (rank.recomputes_operators()) recompute_operators(rank, e);
  backward.mlp();
  backward.self_attention();
  return e.finish();
}

std::uint32_t layer_weight(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, "layer weight gradients");
  Backward backward{rank, e, variant};
  const Dimensions& dim = rank.dim;
  const bool sp = backward.sp;
  e.host(HostWork::layer_backward);
  const auto gather = [&] {
    if (!sp) return;
    backward.temporary(gathered_input, dim.full(), "gathered norm output");
    e.collective(Kind::all_gather, Stream::tp, dim.full(), "all-gather");
  };
  const auto column = [&](std::string_view name, std::int64_t n, LayerSlot norm_out, LayerSlot kept,
                          std::string_view p) {
    gather();
    backward.weight_gradient(name, n, dim.hidden);
    if (sp) e.free(local_slot(gathered_input));
    backward.make_dummy(n * dim.hidden, p);
    e.free(layer_slot(kept));
    e.free(layer_slot(norm_out));
    backward.hook(n * dim.hidden, p);
  };
  backward.weight_gradient("fc2", dim.hidden, dim.ffn);
  e.free(layer_slot(fc2_in));
  backward.make_dummy(dim.hidden * dim.ffn, "linear_fc2.weight");
  e.free(layer_slot(weight_fc2));
  backward.hook(dim.hidden * dim.ffn, "linear_fc2.weight");
  column("fc1", dim.up, norm2, weight_fc1, "linear_fc1.weight");
  backward.weight_gradient("projection", dim.hidden, dim.query);
  e.free(layer_slot(projection_input));
  backward.make_dummy(dim.hidden * dim.query, "linear_proj.weight");
  e.free(layer_slot(weight_projection));
  backward.hook(dim.hidden * dim.query, "linear_proj.weight");
  column("qkv", dim.mixed_width(), norm1, weight_qkv, "linear_qkv.weight");
  return e.finish();
}

}  // namespace sim::workload
