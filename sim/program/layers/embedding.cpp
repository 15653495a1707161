// embedding.cpp — from token ids to the first layer's input, and the backward pass.
//
// INVENTORY.md sections 5 and 7. With sequence parallelism the rows are reduce-scattered. With
// learned positions Megatron-LM reduces whole rows, adds the positions and takes the shard.
#include <algorithm>
#include <memory>

#include "sim/program/layers/head.h"
#include "sim/program/layers/linear/linear.h"
#include "sim/program/layers/linear/norm.h"
#include "sim/program/layers/linear/tensor_grid.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

// Up to this many ids PyTorch adds rows without sorting the ids.
constexpr std::int64_t unsorted_ids = 3072;
constexpr std::int64_t rows_per_segment = 10;

struct SavedEmbedding {
  Value mask = 0, ids = 0, dropout = 0;
  Value normed = 0;  // input of the norm
  Normed norm{};
};

// A frozen table needs no gradient, and nothing was saved for one.
Gradients back(Writer& w, const SavedEmbedding& saved) {
  const Dimensions& dim = w.dim;
  const Normed& norm = saved.norm;
  if (w.frozen()) {
    w.drop({saved.dropout, saved.mask, saved.ids, saved.normed, norm.rsigma, norm.mu});
    return {};
  }
  Value dropped = 0, gathered = 0, masked = 0;
  const Value columns =
      w.plan.mesh.tensor_columns > 1 ? gather_columns(w, "gradient of all columns") : Value{0};
  if (saved.dropout != 0) {
    dropped = w.temporary(dim.residual(), "dropout gradient");
    w.memory_bound(OperationKind::elementwise, "embedding dropout backward", 2 * dim.residual());
    w.drop(saved.dropout);
  }
  if (w.a.embedding_norm) {
    const Value made = w.temporary(dim.residual(), "norm input gradient");
    const NormGradients of_norm = norm_backward(w, dropped);
    w.drop({norm.rsigma, norm.mu, saved.normed});
    norm_gradients(w, of_norm.weight, of_norm.bias, "embedding norm", "embedding norm bias");
    dropped = made;
  }
  if (w.sequence_parallel()) {
    gathered = w.temporary(dim.full(), "gathered gradient");
    w.e.collective(Kind::all_gather, Stream::tp, dim.full(), "all-gather");
    w.drop(dropped);
    dropped = 0;
  }
  if (w.a.position == model::Position::learned) {
    const Value positions = table_gradient(w, w.a.max_positions, "position embedding gradient");
    table_hook(w, positions, w.a.max_positions, "position embedding");
  }
  if (dim.tp > 1) {
    masked = w.temporary(dim.full(), "masked gradient");
    w.memory_bound(OperationKind::copy, "mask gradient rows", 3 * dim.full());
  }
  w.drop(gathered);
  const Value made = table_gradient(w, dim.vocab, "embedding gradient");
  w.drop({masked, dropped, columns});
  table_hook(w, made, dim.vocab, "word embedding");
  w.drop({saved.mask, saved.ids});
  return {};
}

// The steps of the embedding. Each makes a new tensor and assigns it to Python's variable, which
// frees the previous one. The last tensor is the first layer's input.
struct EmbeddingForward {
  Writer& w;
  int left;  // remaining steps
  Value rows = 0;

  void step(std::int64_t bytes, std::string_view label, const auto& work) {
    const Value made = --left == 0 ? w.make_in(layer_slot(LayerSlot::input), bytes,
                                               "residual stream", Category::activations)
                                   : w.temporary(bytes, label);
    work(made);
    w.drop(rows);
    rows = made;
  }
  SavedEmbedding run();
  void look_up(Value made, bool scatters);
};

void EmbeddingForward::look_up(Value made, bool scatters) {
  w.memory_bound(OperationKind::embedding, "embedding lookup", 2 * w.dim.full());
  if (w.dim.tp == 1) return;
  w.memory_bound(OperationKind::elementwise, "zero masked rows", w.dim.full());
  if (scatters) return;
  w.e.collective(Kind::all_reduce, Stream::tp, w.dim.full(), "all-reduce");
  if (w.records()) w.record_stream(made, Stream::tp);
}

SavedEmbedding EmbeddingForward::run() {
  const Dimensions& dim = w.dim;
  const bool learned = w.a.position == model::Position::learned, drops = w.a.hidden_dropout > 0;
  const bool scatters = w.sequence_parallel() && !learned;
  const bool cuts = w.sequence_parallel() && learned;
  const bool copies = dim.batch > 1;  // [b, s, h] to [s, b, h]
  const bool grid = w.plan.mesh.tensor_columns > 1;
  left = 1 + learned + copies + (scatters || cuts) + w.a.embedding_norm + drops + grid;
  SavedEmbedding saved;
  if (dim.tp > 1) {
    saved.mask = w.activation(dim.tokens, "embedding mask");
    saved.ids = w.activation(8 * dim.tokens, "masked ids");
    w.memory_bound(OperationKind::elementwise, "mask ids", 25 * dim.tokens);
  }
  Value looked_up = 0, positions = 0;  // local variables until the module returns
  step(dim.full(), "embedding rows", [&](Value made) { look_up(made, scatters); });
  if (!scatters && left > 0) w.hold(looked_up = rows);
  if (learned) {
    positions = w.temporary(dim.full(), "position rows");
    w.memory_bound(OperationKind::embedding, "position lookup", 2 * dim.full());
    step(dim.full(), "rows with positions", [&](Value) {
      w.memory_bound(OperationKind::elementwise, "add positions", 3 * dim.full());
    });
  }
  if (copies)
    step(dim.full(), "transposed embedding",
         [&](Value) { w.memory_bound(OperationKind::copy, "transpose", 2 * dim.full()); });
  if (scatters || cuts)
    step(dim.residual(), "embedding shard", [&](Value) {
      if (scatters)
        w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
      else
        w.memory_bound(OperationKind::copy, "clone shard", 2 * dim.residual());
    });
  if (w.a.embedding_norm) {
    saved.normed = rows;
    w.save(rows);
    step(dim.residual(), "normed embedding rows",
         [&](Value made) { saved.norm = norm_into(w, made, dim.residual(), true); });
  }
  if (drops)
    step(dim.residual(), "", [&](Value) {
      saved.dropout = w.activation(dim.shard * dim.hidden, "embedding dropout mask");
      w.memory_bound(OperationKind::elementwise, "embedding dropout", 2 * dim.residual());
    });
  if (grid) {
    const std::int64_t bytes = w.rank.layer_dim.residual();
    step(bytes, "", [&](Value) { w.memory_bound(OperationKind::copy, "own columns", 2 * bytes); });
  }
  w.drop({looked_up, positions});
  return saved;
}

}  // namespace

// [PyTorch 2.3 Embedding.cu:embedding_dense_backward_cuda, EmbeddingBackwardKernel.cu].
Value table_gradient(Writer& w, std::int64_t rows, std::string_view label) {
  const std::int64_t table = w.dim.element * rows * w.dim.hidden;
  const std::int64_t ids = w.dim.tokens;
  const bool sorts = ids > unsorted_ids;
  const std::int64_t most = std::min(ids, rows);
  Value contiguous = 0, sorting = 0, segments = 0;
  if (w.dim.batch > 1) {
    contiguous = w.temporary(w.dim.full(), "gradient rows");
    w.memory_bound(OperationKind::copy, "transpose", 2 * w.dim.full());
  }
  if (sorts)
    sorting = w.temporary(24 * ids + 24 * most + 8 * (ids / rows_per_segment), "sorted ids");
  const Value made = w.temporary(table, label);
  w.memory_bound(OperationKind::copy, "clear embedding gradient", table);
  if (sorts)
    segments = w.temporary(4 * (ids / rows_per_segment + most) * w.dim.hidden,
                           "embedding gradient by segment");
  w.memory_bound(OperationKind::embedding, "embedding backward", 3 * w.dim.full());
  w.drop({segments, sorting, contiguous});
  return made;
}

void table_hook(Writer& w, Value made, std::int64_t rows, std::string_view parameter) {
  if (w.keep_gradient(made, parameter)) return;
  w.memory_bound(
      OperationKind::elementwise, "main_grad add",
      (w.dim.element + 2 * (w.plan.numerics.fp32_gradients ? 4 : 2)) * rows * w.dim.hidden);
  w.drop(made);
  w.ready(parameter);
}

ParameterList embedding_parameters(const Rank& rank, bool has_positions) {
  const model::Architecture& a = rank.plan.architecture;
  const bool shared = rank.shares_table();
  ParameterList list{{"word embedding", rank.dim.vocab * rank.dim.hidden, false, false, shared}};
  if (has_positions && a.position == model::Position::learned)
    list.push_back({"position embedding", a.max_positions * rank.dim.hidden});
  const bool sp = rank.plan.uses_sequence_parallel(), norm = has_positions && a.embedding_norm;
  if (norm && a.norm_has_weights()) list.push_back({"embedding norm", a.hidden, sp});
  if (norm && a.norm_has_bias()) list.push_back({"embedding norm bias", a.hidden, sp});
  return list;
}

std::uint32_t embedding_forward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "embedding", {}, Writer::Owner::embedding);
  w.use({"word embedding", "position embedding", "embedding norm"});
  const SavedEmbedding saved = EmbeddingForward{w, 0}.run();
  w.node([saved](Writer& b, Gradients) { return back(b, saved); });
  const std::uint32_t block = w.finish();
  if (!rank.graphs.embedding)
    rank.graphs.embedding = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t embedding_backward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "embedding backward", *rank.graphs.embedding, Writer::Owner::embedding);
  w.backward({});
  return w.finish();
}

}  // namespace sim::program
