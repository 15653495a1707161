#include "sim/program/layers/loss.h"

namespace sim::program {
void softmax_pass(Writer& w, std::string_view name, std::int64_t bytes) {
  w.memory_bound(OperationKind::softmax, name, bytes);
}

void reduce_rows(Writer& w, std::string_view label, std::int64_t numbers) {
  if (w.dim.tp > 1) w.e.collective(Kind::all_reduce, Stream::tp, 4 * numbers * w.dim.tokens, label);
}

namespace {

using collective::Kind;
using model::OperationKind;

Value logits_tensor(Writer& w, std::int64_t bytes, std::string_view label) {
  return w.make(bytes, label, Category::logits);
}

// The tensors that the loss saves (Megatron-LM's function or one fused kernel), in the order of
// their release.
struct SavedLoss {
  Value softmax, mask, targets;
};

Gradients megatron_back(Writer& w, const SavedLoss& saved) {
  const Value numbers = w.temporary(8 * w.dim.tokens, "row numbers");
  const Value update = w.temporary(4 * w.dim.tokens, "softmax update");
  w.memory_bound(OperationKind::embedding, "subtract one-hot", 24 * w.dim.tokens);
  softmax_pass(w, "scale softmax", 2 * wide_bytes(w.dim));
  w.drop({numbers, update});
  const Value made = narrow(w, saved.softmax);
  w.drop({saved.mask, saved.targets});
  return {made};
}

// [Megatron-LM cross_entropy.py:_VocabParallelCrossEntropy]
Value megatron(Writer& w) {
  const std::int64_t wide = wide_bytes(w.dim), rows = w.dim.tokens;
  SavedLoss saved{};
  saved.softmax = logits_tensor(w, wide, "fp32 logits, then softmax");
  widen(w);
  const Value maximum = w.temporary(4 * rows, "row maximum");
  const Value index = w.temporary(8 * rows, "row maximum index");
  softmax_pass(w, "row maximum", wide);
  w.drop(index);
  reduce_rows(w, "all-reduce maximum");
  softmax_pass(w, "subtract maximum", 2 * wide);
  saved.mask = w.activation(rows, "target mask");
  saved.targets = w.activation(8 * rows, "masked target");
  const Value numbers = w.temporary(8 * rows, "row numbers");
  const Value predicted = w.temporary(4 * rows, "predicted logit");
  w.memory_bound(OperationKind::embedding, "target logit", 16 * rows);
  softmax_pass(w, "exp", 2 * wide);
  const Value sums = w.temporary(4 * rows, "sum of exp");
  softmax_pass(w, "sum", wide);
  w.drop(numbers);
  reduce_rows(w, "all-reduce predicted");
  reduce_rows(w, "all-reduce sum");
  const Value losses = w.activation(4 * rows, "token losses");
  w.memory_bound(OperationKind::elementwise, "loss", 12 * rows);
  softmax_pass(w, "divide", 2 * wide);
  w.drop({maximum, predicted, sums});
  w.node([saved](Writer& b, Gradients) { return megatron_back(b, saved); });
  return losses;
}

// Megatron-LM's steps, with those between two all-reduces compiled into one kernel. The predicted
// logit and the sum share one all-reduce [megatron/core/fusions/fused_cross_entropy.py].
Value native(Writer& w) {
  const std::int64_t wide = wide_bytes(w.dim), rows = w.dim.tokens;
  SavedLoss saved{};
  saved.softmax = logits_tensor(w, wide, "fp32 logits, then softmax");
  const Value maximum = w.temporary(4 * rows, "row maximum");
  softmax_pass(w, "logits to fp32, row maximum", (widens(w) ? logits_bytes(w.dim) : 0) + wide);
  reduce_rows(w, "all-reduce maximum");
  saved.mask = w.activation(rows, "target mask");
  saved.targets = w.activation(8 * rows, "masked target");
  const Value sums = w.temporary(8 * rows, "predicted logit, sum of exp");
  softmax_pass(w, "subtract maximum, exp, sum", 2 * wide);
  reduce_rows(w, "all-reduce predicted, sum", 2);
  const Value losses = w.activation(4 * rows, "token losses");
  softmax_pass(w, "divide", 2 * wide);
  w.drop({maximum, sums});
  w.node([saved](Writer& b, Gradients) -> Gradients {
    const std::int64_t l = logits_bytes(b.dim);
    const Value made = logits_tensor(b, l, "logits gradient");
    b.memory_bound(OperationKind::embedding, "subtract one-hot", 24 * b.dim.tokens);
    softmax_pass(b, "scale softmax to bf16", l + wide_bytes(b.dim));
    b.drop({saved.softmax, saved.mask, saved.targets});
    return {made};
  });
  return losses;
}

// One kernel computes maximum and sum of each row, which are gathered over shards. A second kernel
// overwrites the logits with their gradient and scales it [TransformerEngine
// transformer_engine/pytorch/triton/cross_entropy.py].
Value transformer_engine(Writer& w, Value logits) {
  const std::int64_t rows = w.dim.tokens;
  w.save(logits);
  const Value losses = w.activation(4 * rows, "token losses");
  softmax_pass(w, "row maximum and sum", logits_bytes(w.dim));
  if (w.dim.tp > 1)
    w.e.collective(Kind::all_gather, Stream::tp, 12 * w.dim.tp * rows, "gather maximum and sum");
  softmax_pass(w, "cross entropy and gradient", 2 * logits_bytes(w.dim));
  w.node([logits](Writer& b, Gradients) -> Gradients {
    softmax_pass(b, "scale gradient", 2 * logits_bytes(b.dim));
    return {logits};
  });
  return losses;
}

// One kernel reads the logits, which are kept with one number per row. A second kernel writes their
// gradient [flash-attn v2.5.8 losses/cross_entropy.py, ops/triton/cross_entropy.py]. PyTorch's own
// loss under torch.compile on one shard is the same: its fp32 copies are never written.
Value fused(Writer& w, Value logits) {
  const std::int64_t rows = w.dim.tokens;
  w.save(logits);
  const Value targets = w.activation(8 * rows, "masked target");
  const Value lse = w.activation(4 * rows, "lse of logits");
  const Value losses = w.activation(4 * rows, "token losses");
  softmax_pass(w, "fused cross entropy", logits_bytes(w.dim));
  reduce_rows(w, "all-reduce sum");
  reduce_rows(w, "all-reduce predicted");
  w.node([=](Writer& b, Gradients) -> Gradients {
    const std::int64_t l = logits_bytes(b.dim);
    const Value made = logits_tensor(b, l, "logits gradient");
    softmax_pass(b, "fused cross entropy backward", 2 * l);
    b.drop({logits, lse, targets});
    return {made};
  });
  return losses;
}

// The gradient of the loss is dense: zero except at the targets. Over shards, one function runs
// both steps and does not release tensors early.
Gradients torch_back(Writer& w, Value log_softmax) {
  const std::int64_t wide = wide_bytes(w.dim);
  const bool tp = w.dim.tp > 1;
  const Value of_loss = logits_tensor(w, wide, "gradient of log softmax");
  softmax_pass(w, "dense loss gradient", wide);
  Value unscaled = 0;
  if (tp) {
    const Value exponentials = logits_tensor(w, wide, "exp of logits");
    softmax_pass(w, "exp", 2 * wide);
    unscaled = logits_tensor(w, wide, "unscaled gradient of fp32 logits");
    softmax_pass(w, "add", 3 * wide);
    w.drop(exponentials);
  }
  const Value of_wide = logits_tensor(w, wide, "gradient of fp32 logits");
  softmax_pass(w, "log softmax backward", (tp ? 2 : 3) * wide);
  w.drop({unscaled, of_loss, log_softmax});
  return {narrow(w, of_wide)};
}

// An fp32 copy, its log-softmax, and the loss of the targets [torchtitan train.py:
// F.cross_entropy(pred.float(), labels)]. Over vocabulary shards, log-softmax runs in steps
// [torch.distributed.tensor.parallel.loss].
Value torch(Writer& w) {
  const std::int64_t wide = wide_bytes(w.dim), rows = w.dim.tokens;
  const Value copy = widens(w) ? logits_tensor(w, wide, "fp32 logits") : 0;
  widen(w);
  Value maximum = 0, shifted = 0, sums = 0;
  if (w.dim.tp > 1) {
    maximum = w.temporary(4 * rows, "row maximum");
    softmax_pass(w, "row maximum", wide);
    reduce_rows(w, "all-reduce maximum");
    shifted = logits_tensor(w, wide, "shifted logits");
    softmax_pass(w, "subtract maximum", 2 * wide);
    const Value exponentials = logits_tensor(w, wide, "exp of logits");
    softmax_pass(w, "exp", 2 * wide);
    sums = w.temporary(4 * rows, "sum of exp");
    softmax_pass(w, "sum", wide);
    w.drop(exponentials);
    reduce_rows(w, "all-reduce sum");
  }
  const Value log_softmax = logits_tensor(w, wide, "log softmax");
  softmax_pass(w, "log softmax", 2 * wide);
  w.drop({shifted, maximum, sums, copy});
  const Value losses = w.activation(4 * rows, "token losses");
  w.memory_bound(OperationKind::embedding, "target logit", 16 * rows);
  reduce_rows(w, "all-reduce predicted");
  w.node([log_softmax](Writer& b, Gradients) { return torch_back(b, log_softmax); });
  return losses;
}

}  // namespace

std::int64_t logits_bytes(const Dimensions& dim) {
  return dim.element * dim.tokens * dim.vocab;
}

std::int64_t wide_bytes(const Dimensions& dim) {
  return 4 * dim.tokens * dim.vocab;
}

bool widens(const Writer& w) {
  return w.dim.element < 4;
}

void widen(Writer& w) {
  if (widens(w)) softmax_pass(w, "logits to fp32", logits_bytes(w.dim) + wide_bytes(w.dim));
}

Value narrow(Writer& w, Value wide) {
  if (!widens(w)) return wide;
  const Value made = logits_tensor(w, logits_bytes(w.dim), "logits gradient");
  softmax_pass(w, "gradient to bf16", logits_bytes(w.dim) + wide_bytes(w.dim));
  w.drop(wide);
  return made;
}

// Layers with PyTorch's kernels also use PyTorch's loss.
Value cross_entropy(Writer& w, Value logits) {
  switch (w.plan.stack.cross_entropy) {
    case CrossEntropy::stepwise:
      break;
    case CrossEntropy::native:
      return native(w);
    case CrossEntropy::te:
      return transformer_engine(w, logits);
    case CrossEntropy::one_kernel:
      return fused(w, logits);
  }
  return w.plan.stack.layer_kernels != LayerKernels::fused ? torch(w) : megatron(w);
}

void report_loss(Writer& w) {
  w.memory_bound(OperationKind::reduction, "masked loss", 8 * w.dim.tokens);
  if (w.plan.shards_parameters()) return;  // the report is read only after the step
  if (w.dim.cp > 1) w.e.collective(Kind::all_reduce, Stream::cp, 8, "all-reduce loss over cp");
  w.e.sync_stream(Stream::compute, "loss nan check");
  w.e.host(HostWork::blocking_read);
  if (w.dim.dp > 1 && w.plan.batch.replica_microbatches.empty())
    w.e.collective(Kind::all_reduce, Stream::dp, 8, "all-reduce loss over dp");
  w.e.sync_stream(Stream::compute, "token count");
  w.e.host(HostWork::blocking_read);
}

void report_step(Rank& rank, Emitter& e) {
  if (rank.plan.batch.replica_microbatches.empty()) return;
  bool has_loss = false;
  for (int chunk = 0; chunk < rank.plan.pipeline.virtual_stages; ++chunk)
    has_loss |= rank.has_loss(chunk);
  if (has_loss) e.collective(Kind::all_reduce, Stream::dp, 8, "all-reduce loss over dp");
}

void logit_metrics(Writer& w) {
  const std::int64_t l = logits_bytes(w.dim), wide = w.dim.tokens * w.dim.vocab * 4;
  for (int i = 0; i < w.plan.stack.logit_metrics; ++i) {
    const Value cast = logits_tensor(w, wide, "fp32 logits");
    softmax_pass(w, "logits to fp32", l + wide);
    const Value log_softmax = logits_tensor(w, wide, "log-softmax");
    softmax_pass(w, "log-softmax", 2 * wide);
    w.drop(cast);
    w.memory_bound(OperationKind::embedding, "metric loss", 16 * w.dim.tokens);
    w.drop(log_softmax);
  }
}

}  // namespace sim::program
