// layer.cpp — one transformer layer: two residual branches, written forward on a graph; the graph
// gives the backward pass. It also implements selective recomputation (of the MLP, or operator by
// operator), and weight gradients in a separate pass.
#include "sim/program/layers/attention/attention.h"
#include "sim/program/layers/experts/mixture.h"
#include "sim/program/layers/linear/linear.h"
#include "sim/program/layers/linear/norm.h"
#include "sim/program/layers/mlp.h"
#include "sim/program/layers/prediction.h"
#include "sim/program/parallel/offload/module_offload.h"

namespace sim::program {
namespace {

using model::OperationKind;

// Adds the branch's gradient to the gradient of the residual stream. The sum is in place, unless
// Python still holds the gradient that arrived point to point. The saved residual is freed with the
// branch's norm.
Gradients join(Writer& w, Value branch_input_gradient, Value input) {
  if (branch_input_gradient == 0) {  // it joins the other half's gradient, before their norm
    w.drop(input);
    return {};
  }
  if (w.held)
    w.e.alloc(frame_slot(gradient), w.dim.residual(), Category::temporaries, "gradient stream");
  w.held = false;
  w.memory_bound(OperationKind::elementwise, "gradient add", 3 * w.dim.residual());
  w.drop({branch_input_gradient, input});
  return {};
}

// The gradient after a residual add with dropout is a separate tensor; the stream's gradient stays.
Gradients fork(Writer& w, Value mask) {
  if (mask == 0) return {};
  const Value made = w.temporary(w.dim.residual(), "dropout gradient");
  w.memory_bound(OperationKind::elementwise, "dropout backward", 3 * w.dim.residual());
  w.drop(mask);
  return {made};
}

// A norm after a branch, over its output.
Value output_norm(Writer& w, Value summand, std::string_view parameter) {
  w.use({parameter});
  const Normed norm = norm_forward(w, w.dim.residual(), "output norm output", true);
  w.save(summand);
  w.node([=](Writer& b, Gradients g) -> Gradients {
    const Value made = b.temporary(b.dim.residual(), "output norm input gradient");
    const NormGradients of_norm = norm_backward(b, g[0]);
    b.drop({norm.rsigma, norm.mu, summand});
    norm_gradients(b, of_norm.weight, of_norm.bias, parameter, "");
    return {made};
  });
  w.drop(summand);
  return norm.output;
}

// input + branch(input). The output of a layer is the next layer's input.
Value residual(Writer& w, Value input, const std::function<Value(Writer&)>& branch, bool last) {
  const std::int64_t bytes = w.dim.residual();
  w.save(input);
  w.node([input](Writer& b, Gradients g) { return join(b, g[0], input); });
  if (w.a.input_norms == model::InputNorms::none) w.half.normed = input;
  // A norm that is not part of a product saves its input, which the residual add also reads.
  OffloadGroup norm(w, last ? OffloadModule::mlp_norm : OffloadModule::attn_norm);
  norm.add(input);
  norm.close();
  w.half.stream_input = input;
  Value summand = branch(w);
  if (w.a.output_norms)
    summand = output_norm(w, summand, last ? "post_mlp_norm.weight" : "post_attention_norm.weight");
  if (last && w.variant.stops_early) {
    w.node([](Writer& b, Gradients) { return fork(b, 0); });
    return 0;
  }
  const Stream pool = last && w.variant.kind.mixture ? exchange_pool(w) : Stream::compute;
  const Value out = last ? w.make_in(layer_slot(LayerSlot::input, 1), bytes, "residual stream",
                                     Category::activations, pool)
                         : w.activation(bytes, "residual stream");
  Value mask = 0;
  if (w.a.hidden_dropout > 0 && w.keep)
    mask = w.activation(w.dim.shard * w.dim.hidden, "dropout mask");
  w.memory_bound(OperationKind::elementwise, "residual add", 3 * bytes);
  if (!last && w.names(LayerCode::before_core)) w.name(w.locals.layer, summand);
  w.drop(summand);
  w.node([mask](Writer& b, Gradients) { return fork(b, mask); });
  norm.commit();
  if (!last)
    w.rematerialize({out}, [out, bytes](Writer& b) {
      b.product("projection", b.dim.hidden, b.dim.query);
      b.refill({out});
      b.memory_bound(OperationKind::elementwise, "residual add", 3 * bytes);
    });
  return out;
}

// Selective recomputation operator by operator (torchtitan's "selective op"). Attention and every
// second product of a layer are kept. The rest is recomputed when the backward pass first needs it.
// The products of a Llama layer are, in order: q, k, v, projection, gate, up, down; q, v, gate and
// down are kept. [pytorch/torchtitan
// torchtitan/models/llama3/infra/parallelize.py:_apply_ac_to_transformer_block]
void drop_operators(Writer& w) {
  for (AutogradGraph::Rematerialized& one : w.graph.rematerialized) {
    if (one.keep) one.kept = one.keep(w);
    for (const Value v : one.tensors)
      if (w.saved(v)) w.e.free(w.slot(v));
  }
}

void make_operators_again(Writer& w) {
  w.set.flags = recomputed;
  for (const AutogradGraph::Rematerialized& one : w.graph.rematerialized) {
    one.make(w);
    for (const Value v : one.kept) w.drop(v);
  }
  w.set.flags = 0;
}

Value second_half(Writer& w) {
  if (w.variant.kind.mixture) return mixture(w);
  const Value given = w.half.normed;
  const auto half = [given](Writer& b) { return mlp(b, given); };
  return w.rank.recomputes_mlp() ? checkpoint(w, {given}, half) : half(w);
}

// The halves that CUDA graphs launch.
struct Captured {
  bool first = false, second = false;
};
Captured captured_halves(const Writer& w) {
  const CudaGraphs& graphs = w.plan.stack.cuda_graphs;
  return {graphs.attention, w.variant.kind.mixture ? graphs.moe : graphs.mlp};
}

// The Python of a layer's halves outside of graphs.
void python_of_layer(Writer& w, HostWork whole, HostWork half) {
  const Captured captured = captured_halves(w);
  if (captured.first != captured.second)
    w.e.host(half);
  else if (!captured.first)
    w.e.host(whole);
}

// Both halves of a layer: from the residual stream to the next layer's input or, with `last`, to
// its slot.
Value both_halves(Writer& w, Value input, bool last) {
  // The caller holds the stream until the layer returns.
  const bool named = w.plan.policy.offloads(OffloadModule::qkv_linear);
  if (named) w.hold(input);
  const Captured captured = captured_halves(w);
  // One graph launches a layer whose halves are both captured
  // [Megatron-LM transformer_layer.py:_te_cuda_graph_capture].
  const bool whole = captured.first && captured.second;
  const std::int64_t bytes = w.dim.residual();
  open_graph(w, captured.first, bytes);
  const Value middle =
      residual(w, input, w.a.is_latent() ? latent_attention : self_attention, false);
  close_graph(w, captured.first && !whole, bytes);
  open_graph(w, captured.second && !whole, bytes);
  const Value out = residual(w, middle, second_half, last);
  close_graph(w, captured.second, bytes);
  w.unname_all();
  if (w.a.input_norms == model::InputNorms::shared) w.drop(w.half.normed);
  w.drop({middle, named ? input : Value{0}});
  return out;
}

}  // namespace

Value layer(Writer& w, Value input) {
  return both_halves(w, input, false);
}

std::uint32_t layer_forward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant,
           variant.recompute ? "layer recompute"
           : variant.keep    ? "layer forward"
                             : "layer forward without saving");
  w.forward = !variant.recompute;
  if (variant.recompute) w.set.flags = recomputed;
  python_of_layer(w, HostWork::layer_forward, HostWork::layer_forward_half);
  const Value input = w.given(layer_slot(LayerSlot::input), w.dim.residual(), "residual stream",
                              Category::activations);
  both_halves(w, input, true);
  drop_operators(w);
  const std::uint32_t block = w.finish();
  auto& kept = rank.graphs.layer[variant.kind.number()];
  if (w.keep && !kept) kept = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t layer_backward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, variant.split ? "layer input gradients" : "layer backward",
           *rank.graphs.layer.at(variant.kind.number()));
  python_of_layer(w, HostWork::layer_backward, HostWork::layer_backward_half);
  for (Tensor& t : w.graph.tensors) t.on_cpu = 0;  // all offloaded tensors are back
  make_operators_again(w);
  w.backward({});
  const std::uint32_t block = w.finish();
  if (!variant.split) return block;
  auto& kept = rank.graphs.weight[variant.kind.number()];
  if (!kept) kept = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t layer_weight(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "layer weight gradients", *rank.graphs.weight.at(variant.kind.number()));
  w.e.host(HostWork::layer_backward);
  for (const AutogradGraph::Work& work : w.graph.deferred) work(w);
  return w.finish();
}

}  // namespace sim::program
