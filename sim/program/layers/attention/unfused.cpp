// unfused.cpp — attention with scores, softmax and dropout in memory, as in Megatron-LM core 0.8
// dot_product_attention.py, fused_softmax.py and PyTorch's autograd. INVENTORY.md section 14.
#include "sim/program/layers/attention/attention.h"

namespace sim::program {

using model::GemmRole;
using model::OperationKind;

namespace {

// The saved tensors; the output belongs to the projection alone.
struct Unfused {
  CoreTraits traits;
  CoreInputs in;
  Value keys = 0, values = 0;  // of all heads, if they are repeated
  Value softmax = 0, mask = 0, dropped = 0;

  Value forward(Writer& w);
  Gradients back(Writer& w, Gradients gradients) const;
  Value scores_back(Writer& w, Value gradient) const;
};

void product(Writer& w, std::string_view name, std::int64_t n, std::int64_t k, GemmRole role) {
  w.e.kernel(model::gemm(name, w.dim.local, n, k, role, false, w.plan.wide_precision(),
                         w.dim.batch * w.dim.heads),
             w.set.flags);
}

Value Unfused::forward(Writer& w) {
  const Dimensions& dim = w.dim;
  const std::int64_t bytes = dim.scores(), query = dim.rows(dim.query);
  if (traits.repeats) {
    keys = w.activation(query, "keys of all heads");
    values = w.activation(query, "values of all heads");
    w.memory_bound(OperationKind::copy, "repeat k v", 2 * (query + dim.rows(dim.key_value)));
  }
  // baddbmm reads a persistent buffer of the scores' shape. The scores stay a local variable of the
  // module until it returns.
  const Value scores = w.temporary(bytes, "scores");
  product(w, "scores", dim.local, dim.head_dim, GemmRole::forward);
  if (!traits.fused_softmax)
    w.memory_bound(OperationKind::softmax, "mask scores", masking_bytes * (bytes / dim.element));
  softmax = w.activation(bytes, "softmax output");
  // The fused kernel reads the scores below the diagonal and writes all of them (Megatron-LM
  // scaled_upper_triang_masked_softmax.h).
  w.memory_bound(OperationKind::softmax, "scale mask softmax",
                 traits.fused_softmax ? bytes + bytes / 2 : 2 * bytes);
  if (w.a.attention_dropout > 0) {
    dropped = w.activation(bytes, "dropped softmax");
    mask = w.activation(bytes / dim.element, "dropout mask");
    w.memory_bound(OperationKind::softmax, "attention dropout", 2 * bytes + bytes / dim.element);
    w.save({mask, softmax});
    w.drop({mask, softmax});
  }
  const Value context = w.temporary(query, "context by head");
  product(w, "context", dim.head_dim, dim.local, GemmRole::forward);
  const Value out = w.activation(query, "attention output");
  w.memory_bound(OperationKind::copy, "permute context", 2 * query);
  if (w.names(LayerCode::one_function))
    for (const Value v : {scores, dropped != 0 ? dropped : softmax}) w.name(w.locals.attention, v);
  w.drop({context, scores});
  const Value probabilities = dropped != 0 ? dropped : softmax;
  w.save({probabilities, keys, values, in.query, traits.repeats ? 0 : in.key});
  if (traits.saves_view) w.save(in.mixed);
  w.drop({probabilities, keys, values});
  return out;
}

// From the gradient of the probabilities to the gradient of the scores.
Value Unfused::scores_back(Writer& w, Value gradient) const {
  const std::int64_t bytes = w.dim.scores();
  if (dropped != 0) {
    w.drop(dropped);
    const Value of_softmax = w.temporary(bytes, "gradient of softmax");
    w.memory_bound(OperationKind::softmax, "attention dropout backward",
                   2 * bytes + bytes / w.dim.element);
    w.drop({mask, gradient});
    gradient = of_softmax;
  }
  // apex' kernel overwrites the gradient. PyTorch's softmax makes a new one, and masking fills a
  // copy of it (aten TensorAdvancedIndexing.cpp: masked_fill is a clone and masked_fill_).
  w.memory_bound(OperationKind::softmax, "softmax backward",
                 (traits.fused_softmax ? 2 : 3) * bytes);
  if (!traits.fused_softmax) {
    const Value masked = w.temporary(bytes, "gradient of masked scores");
    w.drop(gradient);
    gradient = w.temporary(bytes, "gradient of scores");
    w.memory_bound(OperationKind::copy, "clone gradient of masked scores", 2 * bytes);
    w.memory_bound(OperationKind::softmax, "mask backward",
                   masking_bytes * (bytes / w.dim.element));
    w.drop(masked);
  }
  w.drop(softmax);
  return gradient;
}

Gradients Unfused::back(Writer& w, Gradients gradients) const {
  const Dimensions& dim = w.dim;
  const std::int64_t query = dim.rows(dim.query), group = dim.rows(dim.key_value);
  const Value of_probabilities = w.temporary(dim.scores(), "gradient of probabilities");
  product(w, "d scores", dim.local, dim.head_dim, GemmRole::input_gradient);
  Value dv = w.temporary(query, "dv");
  product(w, "d values", dim.head_dim, dim.local, GemmRole::input_gradient);
  w.drop(values);
  const Value of_scores = scores_back(w, of_probabilities);
  // A second step scales the products into new tensors.
  const auto scaled = [&](std::string_view name, std::string_view label) {
    const Value unscaled = w.temporary(query, "unscaled product");
    product(w, name, dim.head_dim, dim.local, GemmRole::input_gradient);
    const Value made = w.temporary(query, label);
    w.memory_bound(OperationKind::elementwise, "scale product", 2 * query);
    w.drop(unscaled);
    return made;
  };
  const Value dq = scaled("d queries", "dq");
  Value dk = scaled("d keys", "dk");
  w.drop(of_scores);
  const auto sum_over_heads = [&](Value& gradient, std::string_view label) {
    const Value sum = w.temporary(group, label);
    w.memory_bound(OperationKind::reduction, "sum over query heads", query + group);
    w.drop(gradient);
    gradient = sum;
  };
  if (traits.repeats) {
    w.drop(keys);
    sum_over_heads(dv, "dv");
    sum_over_heads(dk, "dk");
  }
  w.drop({in.query, traits.repeats ? 0 : in.key});
  if (traits.saves_view) w.drop(in.mixed);
  w.drop(gradients[0]);
  return {dq, dk, dv};
}

}  // namespace

Value unfused_core(Writer& w, const CoreInputs& in) {
  Unfused core{CoreTraits(w.rank), in};
  const Value out = core.forward(w);
  w.node([core](Writer& b, Gradients g) { return core.back(b, g); });
  return out;
}

}  // namespace sim::program
