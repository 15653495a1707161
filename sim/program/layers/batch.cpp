// batch.cpp — a microbatch's data: the inputs of each end of the model, and the rotary table.
// INVENTORY.md section 5.
#include "sim/program/layers/attention/attention.h"
#include "sim/program/layers/head.h"
#include "sim/program/layers/loss.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

// One field of the batch. The whole sequence is copied over PCIe in the queue of the kernels, and
// broadcast over the tensor-parallel group. Then this context-parallel rank takes its two chunks
// [Megatron-LM megatron/training/utils.py:get_batch_on_this_tp_rank].
void field(Writer& w, FrameSlot kept, std::int64_t whole_bytes, std::int64_t local_bytes,
           std::string_view label) {
  const bool cut = w.dim.cp > 1;
  const Value whole = cut ? w.make(whole_bytes, label, Category::other)
                          : w.make_in(frame_slot(kept), whole_bytes, label, Category::other);
  w.memory_bound(OperationKind::host_copy, "batch to device", whole_bytes);
  if (w.dim.tp > 1) w.e.collective(Kind::broadcast, Stream::tp, whole_bytes, "broadcast batch");
  if (!cut) return;
  w.make_in(frame_slot(kept), local_bytes, label, Category::other);
  w.memory_bound(OperationKind::copy, "index select", 2 * local_bytes);
  w.drop(whole);
}

// Angles of the whole sequence, then this rank's part; computed again for every microbatch.
void rotary_table(Writer& w) {
  const std::int64_t whole = 4 * w.dim.sequence * w.dim.head_dim;
  const auto keep = [&](std::int64_t bytes) {
    w.make_in(frame_slot(rotary), bytes, "rotary table", Category::activations);
  };
  if (w.dim.cp == 1) {
    keep(whole);
    w.memory_bound(OperationKind::copy, "rotary table", 2 * whole);
    return;
  }
  const Value angles = w.temporary(whole, "rotary table");
  w.memory_bound(OperationKind::copy, "rotary table", 2 * whole);
  keep(whole / w.dim.cp);
  w.memory_bound(OperationKind::copy, "rotary chunks", 2 * whole / w.dim.cp);
  w.drop(angles);
}

// The mask outlives the forward pass as an argument of checkpoints, or because PyTorch's softmax
// saves it.
bool keeps_mask(const Rank& rank) {
  const CoreTraits core(rank);
  const LayerPolicy& policy = rank.plan.policy;
  return policy.recompute != Recompute::none || policy.runs_layers_again() ||
         (core.unfused && !core.fused_softmax);
}
// An embedding saves the batch's own indices for its backward pass.
bool keeps_ids(const Rank& rank) {
  return rank.dim.tp == 1;
}
bool keeps_positions(const Rank& rank) {
  return rank.plan.architecture.position == model::Position::learned;
}

// Whether the frame frees the output, or its placeholder: PyTorch's stages free an output that they
// do not keep longer.
bool frees_output(const Rank& rank, int chunk) {
  return rank.in_torch_stages() ? !rank.keeps_output(chunk) : !rank.has_loss(chunk);
}

}  // namespace

void read_ids(Writer& w) {
  field(w, ids, 8 * w.dim.batch * w.dim.sequence, 8 * w.dim.tokens, "tokens");
}

void read_labels(Writer& w) {
  field(w, labels, 8 * w.dim.batch * w.dim.sequence, 8 * w.dim.tokens, "labels");
}

std::uint32_t batch_begin(Rank& rank, int chunk) {
  const Variant variant;
  Writer w(rank, variant, "batch");
  const Dimensions& dim = rank.dim;
  const bool first = rank.is_first_part(chunk), last = rank.has_loss(chunk);
  const bool everywhere = rank.cuts_vocabulary();  // each stage needs words and labels
  const std::int64_t tokens = dim.batch * dim.sequence;
  w.e.host(HostWork::microbatch);
  if (first && !everywhere) read_ids(w);
  if (last) {
    if (!everywhere) read_labels(w);
    field(w, loss_mask, 4 * tokens, 4 * dim.tokens, "loss mask");
  }
  if ((first || last) && rank.plan.stack.attention_mask)
    field(w, attention_mask, tokens * (dim.sequence + dim.prefix), tokens * dim.local,
          "attention mask");
  if (first) field(w, position_ids, 8 * tokens, 8 * dim.tokens, "position ids");
  if (rank.plan.architecture.position == model::Position::rope) rotary_table(w);
  return w.finish();
}

std::uint32_t batch_end(Rank& rank, int chunk) {
  Emitter e(rank.tables, "batch end");
  const bool first = rank.is_first_part(chunk), last = rank.has_loss(chunk);
  const bool everywhere = rank.cuts_vocabulary();
  if (rank.plan.stack.attention_mask && !keeps_mask(rank) && (first || last))
    e.free(frame_slot(attention_mask));
  if (first && !keeps_ids(rank) && !everywhere) e.free(frame_slot(ids));
  if (first && !keeps_positions(rank)) e.free(frame_slot(position_ids));
  if (last && !everywhere) e.free(frame_slot(labels));
  return e.finish();
}

std::uint32_t microbatch_end(Rank& rank, int chunk) {
  const Variant variant;
  Writer w(rank, variant, "microbatch end");
  const bool first = rank.is_first_part(chunk), last = rank.has_loss(chunk);
  if (last) logit_metrics(w);
  if (rank.plan.architecture.position == model::Position::rope) w.e.free(frame_slot(rotary));
  if (frees_output(rank, chunk)) w.e.free(frame_slot(output_stub));
  if (first && keeps_ids(rank) && !rank.cuts_vocabulary()) w.e.free(frame_slot(ids));
  if (first && keeps_positions(rank)) w.e.free(frame_slot(position_ids));
  if (last) w.e.free(frame_slot(loss_mask));
  if (rank.plan.stack.attention_mask && keeps_mask(rank) && (first || last))
    w.e.free(frame_slot(attention_mask));
  return w.finish();
}

}  // namespace sim::program
