// unfused.cpp — attention with scores, softmax and dropout in memory, as Megatron-LM core 0.8
// dot_product_attention.py, fused_softmax.py and PyTorch's autograd do it. INVENTORY.md section 14.
#include "sim/workload/attention.h"

namespace sim::workload {

using model::GemmRole;
using model::OperationKind;

void Attention::unfused_forward(bool keep) {
  const std::int64_t scores = dim.scores();
  const bool drops = rank.plan.architecture.attention_dropout > 0;
  const auto product = [&](std::string_view name, std::int64_t n, std::int64_t k) {
    e.kernel(model::gemm(name, dim.local, n, k, GemmRole::forward, false,
                         rank.plan.numerics.precision, dim.batch * dim.heads),
             flags);
  };
  if (core.repeats) {
    saved(keys_of_heads, dim.rows(dim.query), "keys of all heads");
    saved(value_copy, dim.rows(dim.query), "values of all heads");
    pass(OperationKind::copy, "repeat k v", 2 * (dim.rows(dim.query) + dim.rows(dim.key_value)));
  }
  // baddbmm reads a persistent buffer of the scores' shape. The scores stay a local variable of the
  // module until it returns.
  temporary(scratch, scores, "scores");
  product("scores", dim.local, dim.head_dim);
  if (!core.fused_softmax) pass(OperationKind::softmax, "mask scores", 2 * scores);
  saved(scores_softmax, scores, "softmax output");
  // The fused kernel reads the scores below the diagonal and writes all of them (Megatron-LM
  // scaled_upper_triang_masked_softmax.h).
  pass(OperationKind::softmax, "scale mask softmax",
       core.fused_softmax ? scores + scores / 2 : 2 * scores);
  if (drops) {
    saved(scores_dropped, scores, "dropped softmax");
    saved(scores_mask, scores / dim.element, "dropout mask");
    pass(OperationKind::softmax, "attention dropout", 2 * scores + scores / dim.element);
    if (!keep) e.free(layer_slot(scores_mask));
    if (!keep) e.free(layer_slot(scores_softmax));
  }
  temporary(scratch + 1, dim.rows(dim.query), "context by head");
  product("context", dim.head_dim, dim.local);
  saved(attention_out, dim.rows(dim.query), "attention output");
  pass(OperationKind::copy, "permute context", 2 * dim.rows(dim.query));
  e.free(local_slot(scratch + 1));
  e.free(local_slot(scratch));
  if (keep) return;
  e.free(layer_slot(drops ? scores_dropped : scores_softmax));
  if (!core.repeats) return;
  e.free(layer_slot(keys_of_heads));
  e.free(layer_slot(value_copy));
}

void Attention::unfused_backward(std::uint32_t dq, std::uint32_t dk, std::uint32_t dv) {
  const std::int64_t scores = dim.scores();
  const std::int64_t query = dim.rows(dim.query), group = dim.rows(dim.key_value);
  const bool drops = rank.plan.architecture.attention_dropout > 0;
  const auto product = [&](std::string_view name, std::int64_t n, std::int64_t k) {
    e.kernel(model::gemm(name, dim.local, n, k, GemmRole::input_gradient, false,
                         rank.plan.numerics.precision, dim.batch * dim.heads),
             flags);
  };
  const std::uint32_t d_values = core.repeats ? scratch + 4 : dv;
  const std::uint32_t d_keys = core.repeats ? scratch + 5 : dk;
  std::uint32_t d_scores = scratch;
  temporary(d_scores, scores, "gradient of probabilities");
  product("d scores", dim.local, dim.head_dim);
  temporary(d_values, query, "dv");
  product("d values", dim.head_dim, dim.local);
  if (core.repeats) e.free(layer_slot(value_copy));
  if (drops) {
    e.free(layer_slot(scores_dropped));
    temporary(scratch + 1, scores, "gradient of softmax");
    pass(OperationKind::softmax, "attention dropout backward", 2 * scores + scores / dim.element);
    e.free(layer_slot(scores_mask));
    e.free(local_slot(d_scores));
    d_scores = scratch + 1;
  }
  // apex' kernel overwrites the gradient; PyTorch's softmax and masking make new ones.
  pass(OperationKind::softmax, "softmax backward", (core.fused_softmax ? 2 : 3) * scores);
  if (!core.fused_softmax) {
    temporary(scratch + 2, scores, "gradient of masked scores");
    e.free(local_slot(d_scores));
    temporary(scratch + 3, scores, "gradient of scores");
    pass(OperationKind::softmax, "mask backward", 2 * scores);
    e.free(local_slot(scratch + 2));
    d_scores = scratch + 3;
  }
  e.free(layer_slot(scores_softmax));
  // The products are scaled in a second step, into tensors of their own.
  const auto scaled = [&](std::uint32_t slot, std::string_view name, std::string_view label) {
    temporary(scratch + 6, query, "unscaled product");
    product(name, dim.head_dim, dim.local);
    temporary(slot, query, label);
    pass(OperationKind::elementwise, "scale product", 2 * query);
    e.free(local_slot(scratch + 6));
  };
  scaled(dq, "d queries", "dq");
  scaled(d_keys, "d keys", "dk");
  e.free(local_slot(d_scores));
  if (!core.repeats) return;
  e.free(layer_slot(keys_of_heads));
  const auto sum = [&](std::uint32_t from, std::uint32_t to, std::string_view label) {
    temporary(to, group, label);
    pass(OperationKind::reduction, "sum over query heads", query + group);
    e.free(local_slot(from));
  };
  sum(d_values, dv, "dv");
  sum(d_keys, dk, "dk");
}

}  // namespace sim::workload
