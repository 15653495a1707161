// rows.cpp — the embedding with a share of the vocabulary on each stage (vocabulary.h). All stages
// look up rows and sum them; the first stage adds positions and dropout.
#include <algorithm>
#include <memory>

#include "sim/program/layers/head.h"
#include "sim/program/layers/vocabulary.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

bool has_positions(const Writer& w) {
  return w.a.position == model::Position::learned;
}

// Replaces the tensor in a slot of the frame by a new one.
void replace(Writer& w, Slot slot, Value made) {
  w.e.free(slot);
  w.e.move(w.slot(made), slot);
  w.graph.tensors[made].holders = 0;
}

Value with_sequence(Writer& w) {
  const Value gathered = w.temporary(w.dim.full(), "gathered gradient");
  w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
  return gathered;
}

struct SavedRows {
  Value mask = 0, ids = 0;
};

Gradients rows_back(Writer& w, const SavedRows& saved) {
  const Value gathered = w.sequence_parallel() ? with_sequence(w) : Value{0};
  const Value masked = w.temporary(w.dim.full(), "masked gradient");
  w.memory_bound(OperationKind::copy, "mask gradient rows", 3 * w.dim.full());
  w.drop(gathered);
  const Value made = table_gradient(w, w.dim.vocab, "embedding gradient");
  w.drop(masked);
  table_hook(w, made, w.dim.vocab, "word embedding");
  w.drop({saved.mask, saved.ids});
  return {};
}

Gradients input_back(Writer& w, Value mask) {
  if (mask != 0) {
    const Value made = w.temporary(w.dim.residual(), "dropout gradient");
    w.memory_bound(OperationKind::elementwise, "embedding dropout backward", 2 * w.dim.residual());
    w.drop(mask);
    replace(w, frame_slot(gradient), made);
  }
  if (has_positions(w)) {
    const Value gathered = w.sequence_parallel() ? with_sequence(w) : Value{0};
    const Value made = table_gradient(w, w.a.max_positions, "position embedding gradient");
    w.drop(gathered);
    table_hook(w, made, w.a.max_positions, "position embedding");
  }
  return {};
}

}  // namespace

std::uint32_t look_up(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "look up", {}, Writer::Owner::rows);
  const Dimensions& dim = w.dim;
  w.use({"word embedding"});
  read_ids(w);
  const SavedRows saved{w.activation(dim.tokens, "embedding mask"),
                        w.activation(8 * dim.tokens, "masked ids")};
  w.memory_bound(OperationKind::elementwise, "mask ids", 25 * dim.tokens);
  w.e.free(frame_slot(ids));
  Value rows = w.temporary(dim.full(), "embedding rows");
  w.memory_bound(OperationKind::embedding, "embedding lookup", 2 * dim.full());
  w.memory_bound(OperationKind::elementwise, "zero masked rows", dim.full());
  if (dim.batch > 1) {
    const Value transposed = w.temporary(dim.full(), "transposed embedding");
    w.memory_bound(OperationKind::copy, "transpose", 2 * dim.full());
    w.drop(rows);
    rows = transposed;
  }
  if (w.sequence_parallel()) {
    const Value shard = w.temporary(dim.residual(), "embedding shard");
    w.e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter");
    w.drop(rows);
    rows = shard;
  } else if (dim.tp > 1) {
    w.e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce");
  }
  w.e.collective(Kind::all_reduce, Stream::vocabulary, dim.residual(), "sum of rows", 0,
                 rows_event);
  w.record_stream(rows, Stream::vocabulary);
  if (rank.has_first_part()) {
    w.e.move(w.slot(rows), layer_slot(LayerSlot::input));
    w.graph.tensors[rows].holders = 0;
  } else {
    w.drop(rows);
  }
  w.node([saved](Writer& b, Gradients) { return rows_back(b, saved); });
  const std::uint32_t block = w.finish();
  if (!rank.graphs.row) rank.graphs.row = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t share_rows(Rank& rank) {
  Emitter e(rank.tables, "share row gradient");
  if (!rank.has_first_part())
    e.alloc(frame_slot(gradient), rank.dim.residual(), Category::communication, "row gradient");
  e.collective(Kind::broadcast, Stream::vocabulary, rank.dim.residual(), "share row gradient", 0,
               row_gradient_event);
  return e.finish();
}

std::uint32_t look_up_back(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "look up backward", *rank.graphs.row, Writer::Owner::rows);
  w.e.wait(row_gradient_event);
  w.backward({});
  w.e.free(frame_slot(gradient));
  return w.finish();
}

std::uint32_t input_forward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "model input", {}, Writer::Owner::embedding);
  const std::int64_t bytes = w.dim.residual();
  const Slot stream = layer_slot(LayerSlot::input);
  w.e.wait(rows_event);
  if (has_positions(w)) {
    w.use({"position embedding"});
    const Value positions = w.temporary(bytes, "position rows");
    w.memory_bound(OperationKind::embedding, "position lookup", 2 * bytes);
    const Value sum = w.temporary(bytes, "rows with positions");
    w.memory_bound(OperationKind::elementwise, "add positions", 3 * bytes);
    w.drop(positions);
    replace(w, stream, sum);
  }
  Value mask = 0;
  if (w.a.hidden_dropout > 0) {
    const Value made = w.temporary(bytes, "residual stream");
    mask = w.activation(w.dim.shard * w.dim.hidden, "embedding dropout mask");
    w.memory_bound(OperationKind::elementwise, "embedding dropout", 2 * bytes);
    replace(w, stream, made);
  }
  w.node([mask](Writer& b, Gradients) { return input_back(b, mask); });
  const std::uint32_t block = w.finish();
  if (!rank.graphs.embedding)
    rank.graphs.embedding = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t input_backward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "model input backward", *rank.graphs.embedding, Writer::Owner::embedding);
  w.backward({});
  return w.finish();
}

}  // namespace sim::program
