// embedding.cpp — from token ids to the first layer's input, and back.
//
// INVENTORY.md sections 5 and 7. With sequence parallelism the rows are reduce-scattered; with
// learned positions Megatron-LM reduces whole rows, adds the positions and cuts out the shard.
#include <algorithm>
#include <optional>

#include "sim/workload/rank.h"
#include "sim/workload/sharding.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::OperationKind;

enum Local : std::uint32_t {
  lookup,
  position_lookup,
  summed,
  transposed,
  shard,
  d_dropout,
  gathered,
  masked,
  contiguous,
  table_gradient,
  sorting,
  segments,
};

// Up to this many ids PyTorch adds rows without sorting the ids.
constexpr std::int64_t unsorted_ids = 3072;
constexpr std::int64_t rows_per_segment = 10;

struct Embedding {
  Rank& rank;
  Emitter& e;
  const Variant& variant;
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  bool tp = dim.tp > 1;
  bool sp = rank.plan.uses_sequence_parallel();
  bool learned = a.position == model::Position::learned;
  bool drops = a.hidden_dropout > 0;

  void temporary(Local slot, std::int64_t bytes, std::string_view label) {
    e.alloc(local_slot(slot), bytes, Category::temporaries, label);
  }
  void pass(OperationKind kind, std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(kind, name, Bytes{bytes}));
  }
  // One step of the embedding: `work` fills a new tensor, Python's variable names it, and what the
  // variable named before goes. The last step's tensor is the first layer's input.
  void step(Local slot, std::int64_t bytes, std::string_view label, bool last, const auto& work) {
    if (last)
      e.alloc(layer_slot(input), bytes, Category::activations, "residual stream");
    else
      temporary(slot, bytes, label);
    work(last ? layer_slot(input) : local_slot(slot));
    if (rows && !(*rows == lookup && holds_lookup)) e.free(local_slot(*rows));
    rows.reset();
    if (!last) rows = slot;
  }
  std::optional<Local> rows{};  // the temporary that the variable names
  bool holds_lookup = false;    // a second variable names the lookup until the module returns

  void forward();
  void backward();
  void table_backward(std::int64_t table_rows, std::string_view label);
  void table_hook(std::int64_t table_rows, std::string_view p);
};

void Embedding::forward() {
  const bool scatters = sp && !learned;
  const bool cuts = sp && learned;
  const bool copies = dim.batch > 1;  // [b, s, h] to [s, b, h]
  const bool cuts_last = (scatters || cuts) && !drops;
  const bool copies_last = copies && !scatters && !cuts && !drops;
  const bool sums_last = learned && !copies && !cuts && !drops;
  const bool lookup_last = !scatters && !learned && !copies && !drops;
  holds_lookup = !scatters;
  if (tp) {
    e.alloc(frame_slot(embedding_mask), dim.tokens, Category::activations, "embedding mask");
    e.alloc(frame_slot(embedding_ids), 8 * dim.tokens, Category::activations, "masked ids");
    pass(OperationKind::elementwise, "mask ids", 25 * dim.tokens);
  }
  step(lookup, dim.full(), "embedding rows", lookup_last, [&](Slot slot) {
    pass(OperationKind::embedding, "embedding lookup", 2 * dim.full());
    if (!tp) return;
    pass(OperationKind::elementwise, "zero masked rows", dim.full());
    if (scatters) return;
    e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce");
    if (!rank.plan.avoid_record_streams) e.record_stream(slot, Stream::tp);
  });
  if (learned) {
    temporary(position_lookup, dim.full(), "position rows");
    pass(OperationKind::embedding, "position lookup", 2 * dim.full());
    step(summed, dim.full(), "rows with positions", sums_last,
         [&](Slot) { pass(OperationKind::elementwise, "add positions", 3 * dim.full()); });
  }
  if (copies)
    step(transposed, dim.full(), "transposed embedding", copies_last,
         [&](Slot) { pass(OperationKind::copy, "transpose", 2 * dim.full()); });
  if (scatters)
    step(shard, dim.residual(), "embedding shard", cuts_last, [&](Slot) {
      e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
    });
  if (cuts)
    step(shard, dim.residual(), "embedding shard", cuts_last,
         [&](Slot) { pass(OperationKind::copy, "clone shard", 2 * dim.residual()); });
  if (drops)
    step(shard, dim.residual(), "", true, [&](Slot) {
      e.alloc(frame_slot(embedding_dropout), dim.shard * dim.hidden, Category::activations,
              "embedding dropout mask");
      pass(OperationKind::elementwise, "embedding dropout", 2 * dim.residual());
    });
  if (holds_lookup && !lookup_last) e.free(local_slot(lookup));
  if (learned) e.free(local_slot(position_lookup));
}

// Adds the rows of a gradient into a new gradient of a table of `rows` rows [PyTorch 2.3
// Embedding.cu:embedding_dense_backward_cuda, EmbeddingBackwardKernel.cu].
void Embedding::table_backward(std::int64_t table_rows, std::string_view label) {
  const std::int64_t table = dim.element * table_rows * dim.hidden;
  const std::int64_t ids = dim.tokens;
  const bool sorts = ids > unsorted_ids;
  const std::int64_t most = std::min(ids, table_rows);
  if (dim.batch > 1) {
    temporary(contiguous, dim.full(), "gradient rows");
    pass(OperationKind::copy, "transpose", 2 * dim.full());
  }
  if (sorts) temporary(sorting, 24 * ids + 24 * most + 8 * (ids / rows_per_segment), "sorted ids");
  temporary(table_gradient, table, label);
  pass(OperationKind::copy, "clear embedding gradient", table);
  if (sorts)
    temporary(segments, 4 * (ids / rows_per_segment + most) * dim.hidden,
              "embedding gradient by segment");
  pass(OperationKind::embedding, "embedding backward", 3 * dim.full());
  if (sorts) {
    e.free(local_slot(segments));
    e.free(local_slot(sorting));
  }
  if (dim.batch > 1) e.free(local_slot(contiguous));
}

// The hook of a table: its gradient goes into main_grad.
void Embedding::table_hook(std::int64_t table_rows, std::string_view p) {
  if (rank.sharding->keep(e, variant.unit, p, local_slot(table_gradient))) return;
  pass(OperationKind::elementwise, "main_grad add",
       (dim.element + 2 * (rank.plan.fp32_gradients ? 4 : 2)) * table_rows * dim.hidden);
  e.free(local_slot(table_gradient));
  if (variant.hooks) rank.sharding->ready(e, variant.unit, p);
}

// A frozen table wants no gradient: nothing was saved for one.
void Embedding::backward() {
  if (rank.plan.trains_adapters()) {
    if (drops) e.free(frame_slot(embedding_dropout));
    if (!tp) return;
    e.free(frame_slot(embedding_mask));
    e.free(frame_slot(embedding_ids));
    return;
  }
  if (drops) {
    temporary(d_dropout, dim.residual(), "dropout gradient");
    pass(OperationKind::elementwise, "embedding dropout backward", 2 * dim.residual());
    e.free(frame_slot(embedding_dropout));
  }
  if (sp) {
    temporary(gathered, dim.full(), "gathered gradient");
    e.collective(Kind::all_gather, Stream::tp, dim.full(), "all-gather");
    if (drops) e.free(local_slot(d_dropout));
  }
  if (learned) {
    table_backward(a.max_positions, "position embedding gradient");
    table_hook(a.max_positions, "position embedding");
  }
  if (tp) {
    temporary(masked, dim.full(), "masked gradient");
    pass(OperationKind::copy, "mask gradient rows", 3 * dim.full());
  }
  if (sp) e.free(local_slot(gathered));
  table_backward(dim.vocab, "embedding gradient");
  if (tp) e.free(local_slot(masked));
  if (drops && !sp) e.free(local_slot(d_dropout));
  table_hook(dim.vocab, "word embedding");
  if (!tp) return;
  e.free(frame_slot(embedding_mask));
  e.free(frame_slot(embedding_ids));
}

}  // namespace

ParameterList embedding_parameters(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  const bool shared = a.tied_embeddings && rank.plan.pp > 1;
  ParameterList list{{"word embedding", rank.dim.vocab * rank.dim.hidden, false, false, shared}};
  if (a.position == model::Position::learned)
    list.push_back({"position embedding", a.max_positions * rank.dim.hidden});
  return list;
}

std::uint32_t embedding_forward(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, "embedding");
  if (variant.hooks)
    for (const std::string_view p : {"word embedding", "position embedding"})
      rank.sharding->use(e, variant.unit, p);
  Embedding{rank, e, variant}.forward();
  return e.finish();
}

std::uint32_t embedding_backward(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, "embedding backward");
  Embedding{rank, e, variant}.backward();
  return e.finish();
}

}  // namespace sim::workload
