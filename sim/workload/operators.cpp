// operators.cpp — selective recomputation operator by operator, as torchtitan's "selective op"
// does it: attention and every second product of a layer are kept, everything else runs again when
// the backward pass first asks for it.
//
// In the order of a Llama layer the products are q, k, v, projection, gate, up and down; kept are
// q, v, gate and down. What is kept of fc1 waits in `swiglu_gate`, fc2's output in `dropout2`: a
// layer that recomputes so has no use of its own for them.
//
// [pytorch/torchtitan torchtitan/models/llama3/infra/parallelize.py:_apply_ac_to_transformer_block]
#include "sim/workload/eager.h"

namespace sim::workload {

using model::OperationKind;

void drop_recomputed_operators(Rank& rank, Emitter& e) {
  const Dimensions& dim = rank.dim;
  for (const LayerSlot slot : {norm1, rsigma1, key_rotated, middle, norm2, rsigma2})
    e.free(layer_slot(slot));
  if (!rank.plan.stack.swiglu_fusion) e.free(layer_slot(swiglu_gate));
  e.alloc(layer_slot(swiglu_gate), dim.rows(dim.up - dim.ffn), Category::activations,
          "kept half of fc1 output");
  e.alloc(layer_slot(dropout2), dim.residual(), Category::activations, "kept fc2 output");
  e.free(layer_slot(fc1_out));
  e.free(layer_slot(fc2_in));
}

void recompute_operators(Rank& rank, Emitter& e) {
  const Dimensions& dim = rank.dim;
  const auto pass = [&](OperationKind kind, std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(kind, name, Bytes{bytes}), recomputed);
  };
  const auto product = [&](std::string_view name, std::int64_t n, std::int64_t k) {
    e.kernel(model::gemm(name, dim.tokens, n, k, model::GemmRole::forward, false,
                         rank.plan.product_precision()),
             recomputed);
  };
  const auto again = [&](LayerSlot slot, std::int64_t bytes, std::string_view label) {
    e.alloc(layer_slot(slot), bytes, Category::activations, label);
  };
  const auto norm = [&](LayerSlot out, LayerSlot rsigma) {
    again(out, rank.operand(dim.residual()), "norm output");
    again(rsigma, 4 * dim.shard, "rsigma");
    norm_forward_kernels(rank, e, rank.operand(dim.residual()), recomputed);
  };
  norm(norm1, rsigma1);
  product("qkv", dim.key_value, dim.hidden);
  again(key_rotated, dim.rows(dim.key_value), "key");
  const std::int64_t rotated = dim.rows(dim.query) + dim.rows(dim.key_value);
  pass(OperationKind::elementwise, "rope again", (rank.plan.stack.rope_fusion ? 2 : 12) * rotated);
  product("projection", dim.hidden, dim.query);
  again(middle, dim.residual(), "residual stream");
  pass(OperationKind::elementwise, "residual add", 3 * dim.residual());
  norm(norm2, rsigma2);
  again(fc1_out, dim.rows(dim.up), "fc1 output");
  product("fc1", dim.ffn, dim.hidden);
  e.free(layer_slot(dropout2));
  e.free(layer_slot(swiglu_gate));
  if (!rank.plan.stack.swiglu_fusion) {
    again(swiglu_gate, dim.rows(dim.ffn), "silu(gate)");
    pass(OperationKind::elementwise, "silu", 2 * dim.rows(dim.ffn));
  }
  again(fc2_in, rank.operand(dim.rows(dim.ffn)),
        rank.plan.numerics.fp8 ? "activation output in fp8" : "activation output");
  pass(OperationKind::elementwise, "swiglu", dim.rows(dim.up) + rank.operand(dim.rows(dim.ffn)));
}

}  // namespace sim::workload
