// ends.cpp — a microbatch's data, and what stands after the last layer: final norm, vocabulary-
// parallel head and cross entropy, and their backward passes.
//
// INVENTORY.md sections 5 to 7. L = 2 S b v / t bytes, the bf16 logits: cross entropy holds 3 L at
// its top in both directions and 2 L (the fp32 softmax) from forward to backward.
#include "sim/workload/eager.h"
#include "sim/workload/rank.h"
#include "sim/workload/sharding.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

enum Local : std::uint32_t {
  whole_ids,
  whole_positions,
  whole_labels,
  whole_loss_mask,
  whole_angles,
  logits,
  row_max,
  row_index,
  predicted,
  sums,
  d_logits,
  d_input,
  d_shard,
  dummy,
  d_gamma,
  d_gamma_parts,
  d_beta,
  d_beta_parts,
  row_numbers,
  softmax_update,
  fp32_logits,
  shifted,
  exponentials,
  d_loss,
  d_softmax,
  d_sum,
};

struct End {
  Rank& rank;
  Emitter& e;
  const Dimensions& dim = rank.dim;
  const model::Architecture& a = rank.plan.architecture;
  bool sp = rank.plan.uses_sequence_parallel();

  void temporary(Local slot, std::int64_t bytes, std::string_view label,
                 Category category = Category::temporaries) {
    e.alloc(local_slot(slot), bytes, category, label);
  }
  void keep(FrameSlot slot, std::int64_t bytes, std::string_view label,
            Category category = Category::activations) {
    e.alloc(frame_slot(slot), bytes, category, label);
  }
  void pass(OperationKind kind, std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(kind, name, Bytes{bytes}));
  }
  std::int64_t logits_bytes() const { return dim.element * dim.tokens * dim.vocab; }
  std::int64_t weight() const { return dim.vocab * dim.hidden; }

  // One field of the batch: whole sequence on every rank, broadcast over the tensor-parallel
  // group, then cut to this context-parallel rank's two chunks.
  void field(Local whole, FrameSlot kept, std::int64_t whole_bytes, std::int64_t local_bytes,
             std::string_view label) {
    const bool cut = dim.cp > 1;
    if (cut)
      temporary(whole, whole_bytes, label, Category::other);
    else
      keep(kept, whole_bytes, label, Category::other);
    pass(OperationKind::copy, "batch to device", whole_bytes);
    if (dim.tp > 1) e.collective(Kind::broadcast, Stream::tp, whole_bytes, "broadcast batch");
    if (!cut) return;
    keep(kept, local_bytes, label, Category::other);
    pass(OperationKind::copy, "index select", 2 * local_bytes);
    e.free(local_slot(whole));
  }

  // Whose cross entropy runs: PyTorch's own where layers run its kernels.
  bool fused() const { return rank.plan.fused_cross_entropy; }
  bool torch() const { return !fused() && rank.plan.layer_kernels != LayerKernels::fused; }

  void cross_entropy();
  void fused_cross_entropy();
  void torch_cross_entropy();
  void cross_entropy_backward();
  void torch_cross_entropy_backward();
  void loss();
};

void End::cross_entropy() {
  if (torch()) return torch_cross_entropy();
  const std::int64_t l = logits_bytes();
  const std::int64_t rows = dim.tokens;
  const bool tp = dim.tp > 1;
  keep(softmax, 2 * l, "fp32 logits, then softmax", Category::logits);
  pass(OperationKind::softmax, "logits to fp32", 3 * l);
  temporary(row_max, 4 * rows, "row maximum");
  temporary(row_index, 8 * rows, "row maximum index");
  pass(OperationKind::softmax, "row maximum", 2 * l);
  e.free(local_slot(row_index));
  if (tp) e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce maximum");
  pass(OperationKind::softmax, "subtract maximum", 4 * l);
  keep(target_mask, rows, "target mask");
  keep(target_ids, 8 * rows, "masked target");
  temporary(row_numbers, 8 * rows, "row numbers");
  temporary(predicted, 4 * rows, "predicted logit");
  pass(OperationKind::embedding, "target logit", 16 * rows);
  pass(OperationKind::softmax, "exp", 4 * l);
  temporary(sums, 4 * rows, "sum of exp");
  pass(OperationKind::softmax, "sum", 2 * l);
  e.free(local_slot(row_numbers));
  if (tp) {
    e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce predicted");
    e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce sum");
  }
  keep(FrameSlot::loss, 4 * rows, "token losses");
  pass(OperationKind::elementwise, "loss", 12 * rows);
  pass(OperationKind::softmax, "divide", 4 * l);
  e.free(local_slot(row_max));
  e.free(local_slot(predicted));
  e.free(local_slot(sums));
}

// One kernel reads the logits and keeps them, with a number a row, for one that writes their
// gradient [flash-attn v2.5.8 losses/cross_entropy.py, ops/triton/cross_entropy.py].
void End::fused_cross_entropy() {
  const std::int64_t rows = dim.tokens;
  keep(target_ids, 8 * rows, "masked target");
  keep(target_mask, 4 * rows, "lse of logits");
  keep(FrameSlot::loss, 4 * rows, "token losses");
  pass(OperationKind::softmax, "fused cross entropy", logits_bytes());
  if (dim.tp > 1) {
    e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce sum");
    e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce predicted");
  }
}

// An fp32 copy, its log softmax, the loss of the targets [torchtitan train.py:
// F.cross_entropy(pred.float(), labels)]; over vocabulary shards the steps of log softmax
// [torch.distributed.tensor.parallel.loss].
void End::torch_cross_entropy() {
  const std::int64_t l = logits_bytes();
  const std::int64_t rows = dim.tokens;
  temporary(fp32_logits, 2 * l, "fp32 logits", Category::logits);
  pass(OperationKind::softmax, "logits to fp32", 3 * l);
  if (dim.tp > 1) {
    temporary(row_max, 4 * rows, "row maximum");
    pass(OperationKind::softmax, "row maximum", 2 * l);
    e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce maximum");
    temporary(shifted, 2 * l, "shifted logits", Category::logits);
    pass(OperationKind::softmax, "subtract maximum", 4 * l);
    temporary(exponentials, 2 * l, "exp of logits", Category::logits);
    pass(OperationKind::softmax, "exp", 4 * l);
    temporary(sums, 4 * rows, "sum of exp");
    pass(OperationKind::softmax, "sum", 2 * l);
    e.free(local_slot(exponentials));
    e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce sum");
  }
  keep(softmax, 2 * l, "log softmax", Category::logits);
  pass(OperationKind::softmax, "log softmax", 4 * l);
  if (dim.tp > 1) {
    e.free(local_slot(shifted));
    e.free(local_slot(row_max));
    e.free(local_slot(sums));
  }
  e.free(local_slot(fp32_logits));
  keep(FrameSlot::loss, 4 * rows, "token losses");
  pass(OperationKind::embedding, "target logit", 16 * rows);
  if (dim.tp > 1) e.collective(Kind::all_reduce, Stream::tp, 4 * rows, "all-reduce predicted");
}

// The loss's gradient is dense: zeros but for the targets. Over shards both steps are one function
// that makes no use of what it no longer needs.
void End::torch_cross_entropy_backward() {
  const std::int64_t l = logits_bytes();
  temporary(d_loss, 2 * l, "gradient of log softmax", Category::logits);
  pass(OperationKind::softmax, "dense loss gradient", 2 * l);
  if (dim.tp > 1) {
    temporary(exponentials, 2 * l, "exp of logits", Category::logits);
    pass(OperationKind::softmax, "exp", 4 * l);
    temporary(d_sum, 2 * l, "unscaled gradient of fp32 logits", Category::logits);
    pass(OperationKind::softmax, "add", 6 * l);
    e.free(local_slot(exponentials));
  }
  temporary(d_softmax, 2 * l, "gradient of fp32 logits", Category::logits);
  pass(OperationKind::softmax, "log softmax backward", (dim.tp > 1 ? 4 : 6) * l);
  if (dim.tp > 1) e.free(local_slot(d_sum));
  e.free(local_slot(d_loss));
  e.free(frame_slot(softmax));
  temporary(d_logits, l, "logits gradient", Category::logits);
  pass(OperationKind::softmax, "gradient to bf16", 3 * l);
  e.free(local_slot(d_softmax));
}

// From what forward kept to the gradient of the logits.
void End::cross_entropy_backward() {
  if (torch()) return torch_cross_entropy_backward();
  const std::int64_t l = logits_bytes();
  if (!fused()) {
    temporary(row_numbers, 8 * dim.tokens, "row numbers");
    temporary(softmax_update, 4 * dim.tokens, "softmax update");
    pass(OperationKind::embedding, "subtract one-hot", 24 * dim.tokens);
    pass(OperationKind::softmax, "scale softmax", 4 * l);
    e.free(local_slot(row_numbers));
    e.free(local_slot(softmax_update));
  }
  temporary(d_logits, l, "logits gradient", Category::logits);
  pass(OperationKind::softmax, fused() ? "fused cross entropy backward" : "gradient to bf16",
       (fused() ? 2 : 3) * l);
  e.free(frame_slot(softmax));
  e.free(frame_slot(target_mask));
  e.free(frame_slot(target_ids));
}

// Masked mean of the losses, what the ranks report to each other, and the reads that stall the
// CPU [pretrain_gpt.py:loss_func].
void End::loss() {
  pass(OperationKind::reduction, "masked loss", 8 * dim.tokens);
  if (rank.plan.shards_parameters()) {  // nobody reads it before the step is over
    e.free(frame_slot(FrameSlot::loss));
    return;
  }
  if (dim.cp > 1) e.collective(Kind::all_reduce, Stream::cp, 8, "all-reduce loss over cp");
  e.sync_stream(Stream::compute, "loss nan check");
  e.host(HostWork::blocking_read);
  if (dim.dp > 1) e.collective(Kind::all_reduce, Stream::dp, 8, "all-reduce loss over dp");
  e.sync_stream(Stream::compute, "token count");
  e.host(HostWork::blocking_read);
  e.free(frame_slot(FrameSlot::loss));  // autograd needs the mask only
}

}  // namespace

ParameterList head_parameters(const Rank& rank, bool has_table) {
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list{{"final norm", rank.dim.hidden, sp}};
  if (a.norm == model::Norm::layer) list.push_back({"final norm bias", rank.dim.hidden, sp});
  const bool shared = a.tied_embeddings && rank.plan.pp > 1;
  if (has_table)
    list.push_back({"output layer", rank.dim.vocab * rank.dim.hidden, false, false, shared});
  return list;
}

std::uint32_t batch_begin(Rank& rank, int chunk) {
  Emitter e(rank.tables, "batch");
  End end{rank, e};
  const Dimensions& dim = rank.dim;
  const bool first = rank.is_first_part(chunk);
  const bool last = rank.is_last_part(chunk);
  e.host(HostWork::microbatch);
  const std::int64_t tokens = dim.batch * dim.sequence;
  if (first) end.field(whole_ids, ids, 8 * tokens, 8 * dim.tokens, "tokens");
  if (last) {
    end.field(whole_labels, labels, 8 * tokens, 8 * dim.tokens, "labels");
    end.field(whole_loss_mask, loss_mask, 4 * tokens, 4 * dim.tokens, "loss mask");
  }
  if ((first || last) && rank.plan.attention_mask)
    end.field(whole_positions, attention_mask, tokens * dim.sequence, tokens * dim.local,
              "attention mask");
  if (first) end.field(whole_positions, position_ids, 8 * tokens, 8 * dim.tokens, "position ids");
  if (rank.plan.architecture.position == model::Position::rope) {
    // Angles of the whole sequence, then this rank's part; recomputed every microbatch.
    const std::int64_t whole = 4 * dim.sequence * dim.head_dim;
    if (dim.cp > 1) {
      e.alloc(local_slot(whole_angles), whole, Category::temporaries, "rotary table");
      end.pass(OperationKind::copy, "rotary table", 2 * whole);
      e.alloc(frame_slot(rotary), whole / dim.cp, Category::activations, "rotary table");
      end.pass(OperationKind::copy, "rotary chunks", 2 * whole / dim.cp);
      e.free(local_slot(whole_angles));
    } else {
      e.alloc(frame_slot(rotary), whole, Category::activations, "rotary table");
      end.pass(OperationKind::copy, "rotary table", 2 * whole);
    }
  }
  return e.finish();
}

namespace {

// The mask outlives forward as an argument of checkpoints, or where PyTorch's own softmax saves it.
bool keeps_mask(const Rank& rank) {
  const CoreInputs core(rank);
  return rank.plan.recompute != Recompute::none || (core.unfused && !core.fused_softmax);
}
// Indices that an embedding saves for its backward pass are the batch's own.
bool keeps_ids(const Rank& rank) {
  return rank.dim.tp == 1;
}
bool keeps_positions(const Rank& rank) {
  return rank.plan.architecture.position == model::Position::learned;
}

}  // namespace

std::uint32_t batch_end(Rank& rank, int chunk) {
  Emitter e(rank.tables, "batch end");
  const bool first = rank.is_first_part(chunk);
  const bool last = rank.is_last_part(chunk);
  if (rank.plan.attention_mask && !keeps_mask(rank) && (first || last))
    e.free(frame_slot(attention_mask));
  if (first && !keeps_ids(rank)) e.free(frame_slot(ids));
  if (first && !keeps_positions(rank)) e.free(frame_slot(position_ids));
  if (last) e.free(frame_slot(labels));
  return e.finish();
}

std::uint32_t head_forward(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, "head and loss");
  End end{rank, e};
  const Dimensions& dim = rank.dim;
  const bool layer_norm = rank.plan.architecture.norm == model::Norm::layer;
  if (variant.hooks)
    for (const std::string_view p : {"final norm", "output layer"})
      rank.sharding->use(e, variant.unit, p);
  end.keep(final_norm_out, dim.residual(), "final norm output");
  end.keep(final_norm_rsigma, 4 * dim.shard, "rsigma");
  if (layer_norm) end.keep(final_norm_mu, 4 * dim.shard, "mu");
  norm_forward_kernels(rank, e, dim.residual(), 0);
  if (variant.first_use && rank.environment.cublas_workspace.n > 0)
    e.alloc(fixed_slot(blas_workspace_forward), rank.environment.cublas_workspace.n,
            Category::other, "cuBLAS workspace of the forward thread");
  if (end.sp) {
    // Unfused attention made the buffer in the first layer; it grows where this use is larger.
    const bool made = CoreInputs(rank).unfused;
    if (variant.first_use && (!made || dim.full() > dim.scores())) {
      if (made) e.free(fixed_slot(global_buffer));
      e.alloc(fixed_slot(global_buffer), dim.full(), Category::temporaries, "global memory buffer");
    }
    e.collective(Kind::all_gather, Stream::tp, dim.full(), "all-gather");
  }
  e.alloc(end.fused() ? frame_slot(softmax) : local_slot(logits), end.logits_bytes(),
          Category::logits, "logits");
  e.kernel(model::gemm("head", dim.tokens, dim.vocab, dim.hidden, GemmRole::forward, false,
                       rank.plan.precision));
  if (end.fused()) {
    end.fused_cross_entropy();
  } else {
    end.cross_entropy();
    e.free(local_slot(logits));  // the model's forward returns
  }
  end.loss();
  return e.finish();
}

std::uint32_t head_backward(Rank& rank, const Variant& variant) {
  Emitter e(rank.tables, "head and loss backward");
  End end{rank, e};
  const Dimensions& dim = rank.dim;
  if (variant.first_use && rank.environment.cublas_workspace.n > 0)
    e.alloc(fixed_slot(blas_workspace_backward), rank.environment.cublas_workspace.n,
            Category::other, "cuBLAS workspace of the backward thread");
  end.cross_entropy_backward();
  const bool records = !rank.plan.avoid_record_streams;
  if (end.sp) {
    e.collective(Kind::all_gather, Stream::tp, dim.full(), "all-gather", overlapped, gather_event);
    if (records) e.record_stream(frame_slot(final_norm_out), Stream::tp);
  }
  end.temporary(d_input, dim.full(), "head input gradient");
  e.kernel(model::gemm("head", dim.tokens, dim.hidden, dim.vocab, GemmRole::input_gradient, false,
                       rank.plan.precision),
           end.sp ? overlapped : std::uint8_t{0});
  Local norm_gradient = d_input;
  if (end.sp) {
    e.wait(gather_event);
    end.temporary(d_shard, dim.residual(), "head input gradient shard");
    e.collective(Kind::reduce_scatter, Stream::tp, dim.full(), "reduce-scatter", overlapped,
                 scatter_event);
    if (records) e.record_stream(local_slot(d_input), Stream::tp);
    if (records) e.record_stream(local_slot(d_shard), Stream::tp);
    norm_gradient = d_shard;
  } else if (dim.tp > 1) {
    e.collective(Kind::all_reduce, Stream::tp, dim.full(), "all-reduce", overlapped, scatter_event);
    if (records) e.record_stream(local_slot(d_input), Stream::tp);
  }
  const bool frozen = rank.plan.trains_adapters();
  if (!frozen) {
    e.kernel(model::gemm("head", dim.vocab, dim.hidden, dim.tokens, GemmRole::weight_gradient,
                         rank.plan.accumulates_in_product() && rank.plan.fp32_gradients,
                         rank.plan.precision),
             dim.tp > 1 ? overlapped : std::uint8_t{0});
    end.temporary(dummy, dim.element * end.weight(), "weight gradient handle");
  }
  if (dim.tp > 1) e.wait(scatter_event);
  if (end.sp) e.free(local_slot(d_input));
  e.free(local_slot(d_logits));
  const bool tied = rank.sharding->parameters(variant.unit.chunk).find(ends, "output layer") < 0;
  const std::string_view table = tied ? "word embedding" : "output layer";
  if (!frozen && !rank.sharding->keep(e, variant.unit, table, local_slot(dummy)))
    e.free(local_slot(dummy));
  if (variant.hooks) rank.sharding->ready(e, variant.unit, "output layer");
  // Final norm.
  e.alloc(frame_slot(gradient), dim.residual(), Category::temporaries, "gradient stream");
  const bool layer_norm = rank.plan.architecture.norm == model::Norm::layer;
  const std::int64_t parts = 4 * rank.environment.sms * dim.hidden;
  end.temporary(d_gamma, dim.element * dim.hidden, "norm weight gradient");
  if (layer_norm) end.temporary(d_beta, dim.element * dim.hidden, "norm bias gradient");
  end.temporary(d_gamma_parts, parts, "norm weight gradient parts");
  if (layer_norm) end.temporary(d_beta_parts, parts, "norm bias gradient parts");
  norm_backward_kernels(rank, e);
  e.free(local_slot(d_gamma_parts));
  if (layer_norm) e.free(local_slot(d_beta_parts));
  e.free(local_slot(norm_gradient));
  if (rank.sharding->keep(e, variant.unit, "final norm", local_slot(d_gamma))) {
    if (layer_norm) rank.sharding->keep(e, variant.unit, "final norm bias", local_slot(d_beta));
  } else {
    if (!frozen) end.pass(OperationKind::elementwise, "norm main_grad add", 10 * dim.hidden);
    e.free(local_slot(d_gamma));
    if (layer_norm) e.free(local_slot(d_beta));
  }
  e.free(frame_slot(final_norm_out));
  e.free(frame_slot(final_norm_rsigma));
  if (layer_norm) e.free(frame_slot(final_norm_mu));
  e.free(layer_slot(input));  // the last residual, saved by the final norm
  if (variant.hooks)
    for (const std::string_view p : {"final norm", "final norm bias"})
      rank.sharding->ready(e, variant.unit, p);
  return e.finish();
}

std::uint32_t microbatch_end(Rank& rank, int chunk) {
  Emitter e(rank.tables, "microbatch end");
  const bool first = rank.is_first_part(chunk);
  const bool last = rank.is_last_part(chunk);
  if (last) logit_metrics(rank, e);
  if (rank.plan.architecture.position == model::Position::rope) e.free(frame_slot(rotary));
  if (!last) e.free(frame_slot(output_stub));
  if (first && keeps_ids(rank)) e.free(frame_slot(ids));
  if (first && keeps_positions(rank)) e.free(frame_slot(position_ids));
  if (last) e.free(frame_slot(loss_mask));
  if (rank.plan.attention_mask && keeps_mask(rank) && (first || last))
    e.free(frame_slot(attention_mask));
  return e.finish();
}

}  // namespace sim::workload
