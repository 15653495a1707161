// attention.cpp — the core of attention: flash or cuDNN kernels, and the way into the other two
// forms. INVENTORY.md sections 1, 4 and 14 have a line per tensor.
#include "sim/workload/attention.h"

namespace sim::workload {

using model::OperationKind;

CoreInputs::CoreInputs(const Rank& rank) {
  const Dimensions& dim = rank.dim;
  const bool rope = rank.plan.architecture.position == model::Position::rope;
  const bool grouped = dim.heads > dim.groups;
  unfused = rank.plan.stack.attention == AttentionBackend::unfused;
  selective = rank.plan.policy.recompute == Recompute::selective &&
              rank.plan.policy.recompute_modules.core_attention;
  repeats = unfused && grouped;
  own_query = rope || (grouped && dim.groups > 1);
  own_key = rope;
  saves_mixed = selective || (unfused && (!grouped || !own_query));
  const bool views = rank.plan.stack.layer_kernels != LayerKernels::fused;  // the batch comes first
  copies_output = ((dim.batch > 1 && !views) || rank.plan.numerics.fp8) && !unfused;
  // Megatron-LM core 0.8 fused_softmax.py:is_kernel_available.
  fused_softmax = rank.plan.numerics.precision != model::Precision::fp32 && dim.local > 16 &&
                  dim.local <= 4096 && dim.local % 4 == 0 && dim.batch * dim.heads % 4 == 0;
}

void Attention::make_layouts() {
  // Other modules hand strided views to the kernel; what they keep is as large.
  const auto copy = [&](std::string_view name, std::int64_t bytes) {
    if (rank.plan.stack.layer_kernels == LayerKernels::fused)
      pass(OperationKind::copy, name, 2 * bytes);
  };
  if (!core.own_query) {
    saved(query_rotated, dim.rows(dim.query), "query");
    copy("query layout", dim.rows(dim.query));
  }
  if (!core.own_key) {
    saved(key_rotated, dim.rows(dim.key_value), "key");
    copy("key layout", dim.rows(dim.key_value));
  }
  saved(value_copy, dim.rows(dim.key_value), "value");
  copy("value copy", dim.rows(dim.key_value));
}

void Attention::drop_layouts() {
  if (!core.own_query) e.free(layer_slot(query_rotated));
  if (!core.own_key) e.free(layer_slot(key_rotated));
  e.free(layer_slot(value_copy));
}

void Attention::fused_forward(bool keep) {
  make_layouts();
  saved(attention_out, dim.rows(dim.query), "attention output");
  saved(log_sum_exp, statistics_bytes(), "lse");
  saved(rng_state, 16, "rng state");
  kernel(false, dim.local, dim.local, true);
  if (keep) return;
  drop_layouts();
  e.free(layer_slot(log_sum_exp));
  e.free(layer_slot(rng_state));
}

void Attention::forward(bool keep) {
  if (core.unfused)
    unfused_forward(keep);
  else if (c > 1)
    ring_forward(keep);
  else
    fused_forward(keep);
}

void Attention::release_output() {
  if (keep_output)
    e.move(layer_slot(attention_out), layer_slot(projection_input));
  else
    e.free(layer_slot(attention_out));
}

// What a node saved goes when it has returned: q, k, v as far as they are there.
void Attention::release_inputs() {
  const bool ring = c > 1 && !core.unfused;
  const bool views = core.unfused;  // no layouts were made
  if (!views || core.own_query) e.free(layer_slot(query_rotated));
  if (ring    ? core.own_key && core.selective
      : views ? core.own_key && (!core.repeats || core.selective)
              : true)
    e.free(layer_slot(key_rotated));
  if (!ring && !views) e.free(layer_slot(value_copy));
  if (core.saves_mixed) e.free(layer_slot(mixed_saved));
}

void Attention::backward_temporaries(std::int64_t query, std::int64_t key, bool begin) {
  const bool flash = rank.plan.stack.attention != AttentionBackend::cudnn;
  const std::int64_t rounded = (query + 127) / 128 * 128;
  const std::int64_t width = dim.heads * dim.head_dim;
  // The accumulator's heads are rounded up to 32 columns [flash_api.cpp:mha_varlen_bwd].
  const std::int64_t accumulated = dim.heads * ((dim.head_dim + 31) / 32 * 32);
  const bool expands = flash && dim.heads > dim.groups;
  if (begin) {
    temporary(scratch + 2, 4 * dim.batch * dim.heads * rounded, "softmax_d");
    temporary(scratch + 3,
              flash ? 4 * dim.batch * (query + 128) * accumulated : 4 * dim.batch * query * width,
              flash ? "dq_accum" : "cuDNN workspace");
    if (!expands) return;
    temporary(scratch + 4, dim.element * dim.batch * key * width, "dk expanded");
    temporary(scratch + 5, dim.element * dim.batch * key * width, "dv expanded");
    return;
  }
  if (expands) {
    const std::int64_t bytes = dim.element * dim.batch * key * (width + dim.key_value);
    pass(OperationKind::reduction, "sum dk over query heads", bytes);
    pass(OperationKind::reduction, "sum dv over query heads", bytes);
    e.free(local_slot(scratch + 4));
    e.free(local_slot(scratch + 5));
  }
  e.free(local_slot(scratch + 3));
  e.free(local_slot(scratch + 2));
}

void Attention::fused_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv) {
  temporary(dq, dim.rows(dim.query), "dq");
  temporary(dk, dim.rows(dim.key_value), "dk");
  temporary(dv, dim.rows(dim.key_value), "dv");
  backward_temporaries(dim.local, dim.local, true);
  kernel(true, dim.local, dim.local, true);
  backward_temporaries(dim.local, dim.local, false);
  e.free(layer_slot(log_sum_exp));
  e.free(layer_slot(rng_state));
}

void attention_forward(Rank& rank, Emitter& e, const Variant& variant) {
  Attention attention{rank, e};
  attention.flags = variant.recompute ? recomputed : 0;
  const CoreInputs& core = attention.core;
  if (core.unfused && variant.first_use)  // Megatron-LM's global buffer, grown to the largest use
    e.alloc(fixed_slot(global_buffer), rank.dim.scores(), Category::temporaries,
            "global memory buffer");
  attention.forward(variant.keep && !core.selective);
}

void attention_backward(Rank& rank, Emitter& e, bool keep_output, std::uint32_t dq,
                        std::uint32_t dk, std::uint32_t dv) {
  Attention attention{rank, e};
  attention.keep_output = keep_output;
  if (attention.core.selective) {
    attention.flags = recomputed;
    attention.forward(true);
    attention.flags = 0;
  }
  if (attention.core.unfused)
    attention.unfused_backward(dq, dk, dv);
  else if (rank.plan.mesh.cp > 1)
    attention.ring_backward(dq, dv);
  else
    attention.fused_backward(dq, dk, dv);
  attention.release_inputs();
  // Unfused, the output is the projection's to release, unless it came from running again.
  if (!attention.core.unfused || attention.core.selective) attention.release_output();
}

}  // namespace sim::workload
