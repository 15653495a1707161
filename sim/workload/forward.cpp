// forward.cpp — one transformer layer forward, in issue order.
//
// INVENTORY.md section 1 has a line per tensor with its source. Order of frees: Python reference
// counts, i.e. a temporary goes when the module that made it returns.
#include "sim/workload/eager.h"
#include "sim/workload/rank.h"
#include "sim/workload/sharding.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::OperationKind;

enum Local : std::uint32_t {
  gathered,
  mixed,
  query_copy,
  partial,
  reduced,
  workspace,
  product_cos,
  rotated_half,
  product_sin,
  activated,
  contiguous,
};

struct Forward {
  Rank& rank;
  Emitter& e;
  const Variant& variant;
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  bool sp = rank.plan.uses_sequence_parallel();
  std::uint8_t flags = static_cast<std::uint8_t>(variant.recompute ? recomputed : 0);
  bool keep = variant.keep;  // false inside what is checkpointed

  void alloc(Slot slot, std::int64_t bytes, std::string_view label,
             Category category = Category::activations) {
    e.alloc(slot, bytes, category, label);
  }
  void temporary(Local slot, std::int64_t bytes, std::string_view label) {
    e.alloc(local_slot(slot), bytes, Category::temporaries, label);
  }
  void pass(OperationKind kind, std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(kind, name, Bytes{bytes}), flags);
  }
  // A tensor that only backward needs goes at once where nothing is kept.
  void drop(LayerSlot slot) {
    if (!keep) e.free(layer_slot(slot));
  }

  void before(std::initializer_list<std::string_view> parameters) {
    if (!variant.hooks) return;
    for (const std::string_view p : parameters) rank.sharding->use(e, variant.unit, p);
  }

  void norm(LayerSlot out, LayerSlot rsigma, LayerSlot mu) {
    alloc(layer_slot(out), rank.operand(dim.residual()), "norm output");
    alloc(layer_slot(rsigma), 4 * dim.shard, "rsigma");
    const bool layer_norm = a.norm == model::Norm::layer;
    if (layer_norm) alloc(layer_slot(mu), 4 * dim.shard, "mu");
    temporary(workspace, 1, "norm workspace");
    norm_forward_kernels(rank, e, rank.operand(dim.residual()), flags);
    e.free(local_slot(workspace));
    if (keep) return;
    e.free(layer_slot(rsigma));
    if (layer_norm) e.free(layer_slot(mu));
  }

  // Input of a column-parallel product: the norm's output, gathered over the sequence. An adapter
  // reads it in 16 bits.
  void gather(Module module) {
    const bool wide = rank.plan.fp8 && rank.adapts(module);
    if (wide) alloc(layer_slot(adapter_input(module)), dim.full(), "adapter input");
    if (!sp) {
      if (wide) pass(OperationKind::copy, "adapter input", 2 * dim.full());
      return;
    }
    temporary(gathered, rank.operand(dim.full()), "gathered norm output");
    e.collective(Kind::all_gather, Stream::tp, wide ? dim.full() : rank.operand(dim.full()),
                 "all-gather");
    reorder("gathered sequences", wide ? dim.full() : rank.operand(dim.full()));
  }
  // DTensor's tensors have the batch first: pieces of sequences are put in order around each
  // collective, unless there is one sequence [torch/distributed/_functional_collectives.py].
  void reorder(std::string_view name, std::int64_t bytes) {
    if (rank.batch_first() && dim.batch > 1) pass(OperationKind::copy, name, 2 * bytes);
  }
  // The product is done; what it read goes, or is what its adapter saved.
  void leave_column(Module module, LayerSlot norm_out, Slot out) {
    const bool adapted = rank.adapts(module);
    if (adapted) adapter_forward(rank, e, variant, module, out);
    const LayerSlot own = adapter_input(module);
    if (sp && adapted && !rank.plan.fp8 && keep)
      e.move(local_slot(gathered), layer_slot(own));
    else if (sp)
      e.free(local_slot(gathered));
    if (adapted && rank.plan.fp8) drop(own);
    if (!rank.plan.trains_adapters())
      drop(norm_out);
    else if (!keep || !rank.adapter_reads_norm(module))
      e.free(layer_slot(norm_out));
  }

  void gemm(std::string_view name, std::int64_t n, std::int64_t k) {
    e.kernel(model::gemm(name, dim.tokens, n, k, model::GemmRole::forward, false,
                         rank.plan.product_precision()),
             flags);
  }

  // Row-parallel product, its reduction over the tensor-parallel group, `leave` (the module's
  // local variables go), and the residual add into `out`.
  void project_and_add(std::string_view name, std::int64_t k, Slot out, LayerSlot dropout_mask,
                       Module module, const auto& leave) {
    temporary(partial, dim.full(), "row-parallel output");
    gemm(name, dim.hidden, k);
    Local summand = partial;
    if (sp) {
      temporary(reduced, dim.residual(), "reduce-scattered output");
      reorder("sequences to scatter", dim.full());
      e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
      e.free(local_slot(partial));
      summand = reduced;
    } else if (dim.tp > 1) {
      e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce");
      if (!rank.plan.avoid_record_streams) e.record_stream(local_slot(partial), Stream::tp);
    }
    if (rank.adapts(module)) adapter_forward(rank, e, variant, module, local_slot(summand));
    leave();
    alloc(out, dim.residual(), "residual stream");
    if (a.hidden_dropout > 0 && variant.keep)
      alloc(layer_slot(dropout_mask), dim.shard * dim.hidden, "dropout mask");
    pass(OperationKind::elementwise, "residual add", 3 * dim.residual());
    e.free(local_slot(summand));
  }

  // Rotary embedding of the query or the key; unfused it is made of products in memory.
  void rotate(LayerSlot out, std::int64_t bytes, std::string_view label, std::string_view name) {
    if (rank.plan.rope_fusion) {
      alloc(layer_slot(out), bytes, label);
      pass(OperationKind::elementwise, name, 2 * bytes);
      return;
    }
    temporary(product_cos, bytes, "rotary product");
    pass(OperationKind::elementwise, name, 2 * bytes);
    temporary(rotated_half, bytes, "rotated halves");
    pass(OperationKind::copy, name, 3 * bytes);
    temporary(product_sin, bytes, "rotary product");
    pass(OperationKind::elementwise, name, 2 * bytes);
    e.free(local_slot(rotated_half));
    temporary(rotated_half, bytes, "rotary sum");
    pass(OperationKind::elementwise, name, 3 * bytes);
    e.free(local_slot(product_cos));
    e.free(local_slot(product_sin));
    alloc(layer_slot(out), bytes, label);
    pass(OperationKind::copy, name, 2 * bytes);
    e.free(local_slot(rotated_half));
  }

  void rotate_both() {
    if (!rank.plan.rope_fusion)
      alloc(layer_slot(rope_tables), 8 * dim.local * dim.head_dim, "cos and sin");
    rotate(query_rotated, dim.rows(dim.query), "query", "rope q");
    // The copy was what the variable named before.
    if (copies()) e.free(local_slot(query_copy));
    rotate(key_rotated, dim.rows(dim.key_value), "key", "rope k");
    if (!rank.plan.rope_fusion) drop(rope_tables);
  }
  // The grouped query layout needs a copy unless a rank has one group.
  bool copies() const { return dim.heads > dim.groups && dim.groups > 1; }

  // Attention.forward returns: of its local variables only what is saved for backward stays.
  void leave_attention() {
    const CoreInputs core(rank);
    const bool ring = rank.plan.cp > 1 && !core.unfused;
    const bool saves_key = variant.keep && (core.selective || !(ring || core.repeats));
    if (variant.keep && core.saves_mixed)
      e.move(local_slot(mixed), layer_slot(mixed_saved));
    else
      e.free(local_slot(mixed));
    if (core.own_key && !saves_key) e.free(layer_slot(key_rotated));
    if (core.own_query) drop(query_rotated);
    if (core.copies_output && (!keep || !rank.keeps_projection_input()))
      e.free(layer_slot(projection_input));
    if (rank.plan.fp8 && dim.batch > 1) e.free(local_slot(contiguous));
    if (!variant.keep || (core.selective && core.copies_output)) e.free(layer_slot(attention_out));
  }

  void self_attention() {
    const CoreInputs core(rank);
    before({"linear_qkv.layer_norm_weight", "linear_qkv.weight"});
    norm(norm1, rsigma1, mu1);
    gather(Module::qkv);
    if (variant.first_use && rank.environment.engine_workspace.n > 0)
      e.alloc(fixed_slot(engine_workspace), rank.environment.engine_workspace.n, Category::other,
              "TransformerEngine workspace");
    const bool saves_mixed = variant.keep && core.saves_mixed;
    alloc(local_slot(mixed), dim.rows(dim.mixed_width()), "mixed qkv",
          saves_mixed ? Category::activations : Category::temporaries);
    gemm("qkv", dim.mixed_width(), dim.hidden);
    leave_column(Module::qkv, norm1, local_slot(mixed));
    const bool rope = a.position == model::Position::rope;
    if (copies()) {
      if (rope)
        temporary(query_copy, dim.rows(dim.query), "query copy");
      else
        alloc(layer_slot(query_rotated), dim.rows(dim.query), "query");
      pass(OperationKind::copy, "query copy", 2 * dim.rows(dim.query));
    }
    if (rope) rotate_both();
    attention_forward(rank, e, variant);
    if (core.copies_output) {
      // The transposed view of `out` is made contiguous; the projection saves that copy.
      // In fp8 that is cast and the cast is saved.
      const std::int64_t bytes = dim.rows(dim.query);
      if (rank.plan.fp8 && dim.batch > 1) {
        temporary(contiguous, bytes, "contiguous attention output");
        pass(OperationKind::copy, "projection input", 2 * bytes);
      }
      alloc(layer_slot(projection_input), rank.operand(bytes), "projection input");
      pass(OperationKind::copy, "projection input", bytes + rank.operand(bytes));
    }
    before({"linear_proj.weight"});
    project_and_add("projection", dim.query, layer_slot(middle), dropout1, Module::projection,
                    [this] { leave_attention(); });
  }

  // From the residual stream to the input of fc2.
  void mlp_to_fc2() {
    before({"linear_fc1.layer_norm_weight", "linear_fc1.weight"});
    norm(norm2, rsigma2, mu2);
    gather(Module::fc1);
    alloc(layer_slot(fc1_out), dim.rows(dim.up), "fc1 output");
    gemm("fc1", dim.up, dim.hidden);
    leave_column(Module::fc1, norm2, layer_slot(fc1_out));
    const bool gated = a.activation == model::Activation::swiglu;
    if (gated && !rank.plan.swiglu_fusion) {
      alloc(layer_slot(swiglu_gate), dim.rows(dim.ffn), "silu(gate)");
      pass(OperationKind::elementwise, "silu", 2 * dim.rows(dim.ffn));
    }
    const std::int64_t bytes = dim.rows(dim.ffn);
    if (rank.plan.fp8)
      temporary(activated, bytes, "activation output");
    else
      alloc(layer_slot(fc2_in), bytes, "activation output");
    pass(OperationKind::elementwise, gated ? "swiglu" : "bias gelu", dim.rows(dim.up) + bytes);
    if (gated && !rank.plan.swiglu_fusion) drop(swiglu_gate);
    drop(fc1_out);
    before({"linear_fc2.weight"});
    if (rank.plan.fp8) {
      alloc(layer_slot(fc2_in), rank.operand(bytes), "activation output in fp8");
      pass(OperationKind::elementwise, "activation output to fp8", bytes + rank.operand(bytes));
    }
  }

  // A frozen fc2 saves no input, its adapter the one in 16 bits.
  void leave_mlp() {
    const bool fp8 = rank.plan.fp8, adapted = rank.adapts(Module::fc2);
    if (rank.plan.trains_adapters() && (!adapted || (fp8 && keep)))
      e.free(layer_slot(fc2_in));
    else
      drop(fc2_in);
    if (!fp8) return;
    if (adapted && keep)
      e.move(local_slot(activated), layer_slot(fc2_in));
    else
      e.free(local_slot(activated));
  }

  void mlp() {
    keep = variant.keep && !rank.recomputes_mlp();
    mlp_to_fc2();
    project_and_add("fc2", dim.ffn, layer_slot(input, 1), dropout2, Module::fc2,
                    [this] { leave_mlp(); });
    if (!variant.keep) e.free(layer_slot(middle));
  }

  // The checkpoint's forward, run again: all of the module, its last product and reduction too.
  void mlp_again(std::uint32_t output_slot) {
    mlp_to_fc2();
    temporary(partial, dim.full(), "row-parallel output");
    gemm("fc2", dim.hidden, dim.ffn);
    if (rank.plan.fp8) e.free(local_slot(activated));
    if (sp) {
      temporary(reduced, dim.residual(), "reduce-scattered output");
      e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
      e.free(local_slot(partial));
    } else if (dim.tp > 1) {
      e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce");
    }
    e.move(local_slot(sp ? reduced : partial), local_slot(output_slot));
  }
};

}  // namespace

ParameterList attention_parameters(const Rank& rank) {
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  const auto add = [&](bool present, const Parameter& p) {
    if (present) list.push_back(p);
  };
  const bool layer_norm = a.norm == model::Norm::layer;
  add(true, {"linear_proj.weight", dim.hidden * dim.query, false, true});
  add(a.linear_bias, {"linear_proj.bias", dim.hidden, sp});
  add(true, {"linear_qkv.layer_norm_weight", dim.hidden, sp});
  add(layer_norm, {"linear_qkv.layer_norm_bias", dim.hidden, sp});
  add(true, {"linear_qkv.weight", dim.mixed_width() * dim.hidden, false, true});
  add(a.qkv_bias, {"linear_qkv.bias", dim.mixed_width()});
  return list;
}

ParameterList mlp_parameters(const Rank& rank) {
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  const auto add = [&](bool present, const Parameter& p) {
    if (present) list.push_back(p);
  };
  add(true, {"linear_fc1.layer_norm_weight", dim.hidden, sp});
  add(a.norm == model::Norm::layer, {"linear_fc1.layer_norm_bias", dim.hidden, sp});
  add(true, {"linear_fc1.weight", dim.up * dim.hidden, false, true});
  add(a.linear_bias, {"linear_fc1.bias", dim.up});
  add(true, {"linear_fc2.weight", dim.hidden * dim.ffn, false, true});
  add(a.linear_bias, {"linear_fc2.bias", dim.hidden, sp});
  return list;
}

void mlp_recompute(Rank& rank, Emitter& e, std::uint32_t output_slot) {
  Variant variant;
  variant.recompute = true;
  Forward{rank, e, variant}.mlp_again(output_slot);
}

std::uint32_t layer_forward(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, variant.recompute ? "layer recompute"
                         : variant.keep    ? "layer forward"
                                           : "layer forward without saving");
  Forward forward{rank, e, variant};
  e.host(HostWork::layer_forward);
  forward.self_attention();
  forward.mlp();
  if (variant.keep && rank.recomputes_operators()) drop_recomputed_operators(rank, e);
  return e.finish();
}

}  // namespace sim::workload
