// head.cpp — the modules after the last layer: final norm, vocabulary-parallel head and the loss.
// INVENTORY.md sections 6 and 7.
#include "sim/program/layers/head.h"

#include <memory>

#include "sim/program/layers/attention/attention.h"
#include "sim/program/layers/linear/tensor_grid.h"
#include "sim/program/layers/loss.h"
#include "sim/program/layers/prediction.h"
#include "sim/program/parallel/sharding.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

// The row sum of the logits' gradient. In the forward pass the bias is part of the product's
// epilogue.
void head_bias_gradient(Writer& w) {
  const Value made = w.temporary(w.dim.element * w.dim.vocab, "head bias gradient");
  w.memory_bound(OperationKind::reduction, "head bias gradient", logits_bytes(w.dim));
  if (w.keep_gradient(made, "output layer bias")) return;
  w.memory_bound(OperationKind::elementwise, "bias main_grad add", 10 * w.dim.vocab);
  w.drop(made);
  w.ready("output layer bias");
}

// Returns the gradient of the norm's output. `last`: the weight is not used again.
Gradients head_back(Writer& w, Gradients gradients, Value input, bool last) {
  const Dimensions& dim = w.dim;
  const bool sp = w.sequence_parallel(), tp = dim.tp > 1;
  const bool behind = tp && !sp && !w.frozen() && !w.plan.stack.overlap_tensor_reduce;
  const auto beside = [](bool hides) { return hides ? overlapped : std::uint8_t{0}; };
  const std::uint16_t arrived = w.event(), scattered = w.event();
  const bool gathers = sp && !w.distributes_tensors();
  if (gathers) {
    w.e.collective(Kind::all_gather, Stream::tp, dim.full(), "all-gather", overlapped, arrived);
    if (w.records()) w.record_stream(input, Stream::tp);
  }
  Value whole = w.temporary(dim.full(), "head input gradient");
  head_product(w, dim.tokens, dim.hidden, dim.vocab, GemmRole::input_gradient, beside(gathers));
  if (sp) whole = w.reorder(whole, Writer::Order::to_scatter, dim.full());
  Value reduced = whole;
  if (sp) {
    if (gathers) w.e.wait(arrived);
    reduced = w.temporary(dim.residual(), "head input gradient shard");
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter", overlapped,
                   scattered);
    if (w.records()) w.record_stream(whole, Stream::tp);
    if (w.records()) w.record_stream(reduced, Stream::tp);
  } else if (tp && !behind) {
    w.e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce", overlapped, scattered);
    if (w.records()) w.record_stream(whole, Stream::tp);
  }
  Value handle = 0;
  if (!w.frozen()) {
    head_product(w, dim.vocab, dim.hidden, dim.tokens, GemmRole::weight_gradient,
                 beside(tp && !behind));
    handle = w.temporary(dim.element * dim.vocab * dim.hidden, "weight gradient handle");
  }
  if (behind) {
    w.e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce", joins);
    if (w.records()) w.record_stream(whole, Stream::tp);
  } else if (tp) {
    w.e.wait(scattered);
  }
  if (sp) w.drop(whole);
  if (w.a.head_bias && !w.frozen()) head_bias_gradient(w);
  w.drop(gradients[0]);
  if (sp && !gathers) w.drop(input);
  const bool tied =
      w.rank.sharding->parameters(w.variant.unit.chunk).find({0, ends}, "output layer") < 0;
  if (!w.keep_gradient(handle, tied ? "word embedding" : "output layer")) w.drop(handle);
  if (last) w.ready("output layer");
  return {reduced};
}

// DTensor's head saves the gathered input.
Value gathered_input(Writer& w) {
  const Value made = w.activation(w.dim.full(), "gathered head input");
  w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
  const Value ordered = w.reorder(made, Writer::Order::gathered, w.dim.full());
  w.save(ordered);
  return ordered;
}

// PyTorch's stage holds its output until the backward pass has run [stage.py: fwd_cache].
Value make_logits(Writer& w, bool output) {
  const std::int64_t bytes = logits_bytes(w.dim);
  if (!output || !w.rank.in_torch_stages()) return w.make(bytes, "logits", Category::logits);
  const Value logits = w.make_in(frame_slot(output_stub), bytes, "logits", Category::logits);
  w.hold(logits);
  return logits;
}

// From the norm's output, gathered already or into a new tensor, to the logits. `output`: these are
// the logits of the model's own head.
Value product_of(Writer& w, Value normed, bool last, bool output) {
  const bool own = w.distributes_tensors();
  const Value input = own ? gathered_input(w) : normed;
  const Value logits = make_logits(w, output);
  head_product(w, w.dim.tokens, w.dim.vocab, w.dim.hidden, GemmRole::forward, 0);
  if (own) w.drop(input);
  w.node([=](Writer& b, Gradients g) { return head_back(b, g, input, last); });
  return logits;
}

// Gathers the columns of the last layer's residual stream, and frees the stream.
Value all_columns(Writer& w, Value stream) {
  w.hold(stream);
  const Value all = gather_columns(w, "residual stream of all columns");
  w.drop(stream);
  return all;
}

// A module that predicts further tokens runs the head and the loss again.
void predicted_head(Writer& w, Value normed, bool last) {
  if (w.sequence_parallel() && !w.distributes_tensors())
    w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
  const Value logits = product_of(w, normed, last, false);
  const Value losses = cross_entropy(w, logits);
  w.drop({logits, losses});
}

}  // namespace

void blas_workspace(Writer& w, FixedSlot slot, std::string_view label) {
  const std::int64_t bytes = w.rank.environment.cublas_workspace.n;
  if (w.variant.first_use && bytes > 0) w.e.alloc(fixed_slot(slot), bytes, Category::other, label);
}

// Gathers over the sequence into a permanent buffer. Unfused attention created it in the first
// layer; it grows if this use is larger.
void gather_head_input(Writer& w) {
  const bool made = CoreTraits(w.rank).unfused;
  if (w.variant.first_use && (!made || w.dim.full() > w.dim.scores())) {
    if (made) w.e.free(fixed_slot(global_buffer));
    w.e.alloc(fixed_slot(global_buffer), w.dim.full(), Category::temporaries,
              "global memory buffer");
  }
  w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
}

void head_product(Writer& w, std::int64_t m, std::int64_t n, std::int64_t k, GemmRole role,
                  std::uint8_t flags) {
  const bool accumulates = role == GemmRole::weight_gradient && w.plan.accumulates_in_product() &&
                           w.plan.numerics.fp32_gradients;
  w.e.kernel(model::gemm("head", m, n, k, role, accumulates, w.plan.wide_precision()), flags);
}

Gradients final_norm_back(Writer& w, Gradients gradients, const Normed& norm, Value residual) {
  const bool grid = w.plan.mesh.tensor_columns > 1;
  const Value whole = grid ? w.temporary(w.dim.residual(), "gradient of all columns") : Value{0};
  if (!grid)
    w.e.alloc(frame_slot(gradient), w.dim.residual(), Category::temporaries, "gradient stream");
  const NormGradients made = norm_backward(w, gradients[0]);
  if (!w.frozen() && w.keep_gradient(made.weight, "final norm")) {
    w.keep_gradient(made.bias, "final norm bias");
  } else {
    if (!w.frozen() && made.weight != 0)
      w.memory_bound(OperationKind::elementwise, "norm main_grad add", 10 * w.dim.hidden);
    w.drop({made.weight, made.bias});
  }
  w.drop({norm.output, norm.rsigma, norm.mu, residual});
  w.ready("final norm");
  w.ready("final norm bias");
  if (grid) {
    const std::int64_t bytes = w.rank.layer_dim.residual();
    w.e.alloc(frame_slot(gradient), bytes, Category::temporaries, "gradient stream");
    w.memory_bound(OperationKind::copy, "own columns", 2 * bytes);
    w.drop(whole);
  }
  return {};
}

ParameterList head_parameters(const Rank& rank, bool has_norm, bool has_table) {
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  if (has_norm && a.norm_has_weights()) list.push_back({"final norm", rank.dim.hidden, sp});
  if (has_norm && a.norm_has_bias()) list.push_back({"final norm bias", rank.dim.hidden, sp});
  const bool shared = rank.shares_table();
  if (has_table)
    list.push_back({"output layer", rank.dim.vocab * rank.dim.hidden, false, false, shared});
  if (has_norm && a.head_bias) list.push_back({"output layer bias", rank.dim.vocab});
  return list;
}

std::uint32_t head_forward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "head and loss", {}, Writer::Owner::head);
  const Dimensions& dim = w.dim;
  w.use({"final norm", "output layer"});
  const bool grid = w.plan.mesh.tensor_columns > 1;
  Value residual = w.given(layer_slot(LayerSlot::input), rank.layer_dim.residual(),
                           "residual stream", Category::activations);
  if (grid) residual = all_columns(w, residual);
  const Normed norm = norm_forward(w, dim.residual(), "final norm output", false);
  w.save({residual, norm.output});
  if (grid) w.drop(residual);
  w.node([=](Writer& b, Gradients g) { return final_norm_back(b, g, norm, residual); });
  blas_workspace(w, blas_workspace_forward, "cuBLAS workspace of the forward thread");
  if (w.a.predicted_tokens > 0) predict(w, norm.output, predicted_head);
  if (w.sequence_parallel() && !w.distributes_tensors()) gather_head_input(w);
  const Value logits = product_of(w, norm.output, w.a.predicted_tokens == 0, true);
  const Value losses = cross_entropy(w, logits);
  w.drop({logits, norm.output});  // the model's forward returns
  report_loss(w);
  w.drop(losses);  // autograd needs only the mask
  const std::uint32_t block = w.finish();
  if (!rank.graphs.head) rank.graphs.head = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t head_backward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "head and loss backward", *rank.graphs.head, Writer::Owner::head);
  blas_workspace(w, blas_workspace_backward, "cuBLAS workspace of the backward thread");
  w.backward({});
  return w.finish();
}

}  // namespace sim::program
