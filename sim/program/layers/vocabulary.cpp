#include "sim/program/layers/vocabulary.h"

#include <memory>

#include "sim/program/layers/head.h"
#include "sim/program/layers/loss.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;
using schedule::Output;

Output kind(const Writer& w) {
  return w.rank.pipeline_schedule().output;
}
bool is_last(const Writer& w) {
  return w.rank.has_last_part();
}

// Reduces over all stages. `event`: recorded instead of waiting now.
void reduce_stages(Writer& w, std::int64_t bytes, std::string_view label, std::uint16_t event) {
  w.e.collective(Kind::all_reduce, Stream::vocabulary, bytes, label,
                 event == no_event ? joins : std::uint8_t{0}, event);
}

// The tensors that an output pass saves for its gradients.
struct SavedVocabulary {
  Value input, softmax, mask, targets, maximum, sums;
};

// The input, in 16 bits; on the last stage it is the output of the final norm.
Value shared_input(Writer& w) {
  const Value sent = w.rank.graphs.shared_value;
  if (is_last(w) || kind(w) == Output::together) return sent;
  w.e.wait(shared_event);
  const Value input = w.activation(w.dim.residual(), "output layer input");
  w.memory_bound(OperationKind::copy, "output layer input",
                 w.dim.residual() + 4 * w.dim.shard * w.dim.hidden);
  w.drop(sent);
  return input;
}

// Local softmax, as in _VocabParallelCrossEntropy, with sums over the tensor-parallel ranks. If all
// stages run the output layer at the same time, the sums also cover the stages.
SavedVocabulary local_softmax(Writer& w, Value input) {
  const Dimensions& dim = w.dim;
  const std::int64_t wide = wide_bytes(dim), rows = dim.tokens;
  const bool together = kind(w) == Output::together;
  const auto reduce = [&](std::string_view label) {
    reduce_rows(w, label);
    if (together) reduce_stages(w, 4 * rows, label, no_event);
  };
  const auto tensor = [&](std::int64_t bytes, std::string_view label) {
    return w.make(bytes, label, Category::logits);
  };
  const Value logits = tensor(logits_bytes(dim), "logits");
  head_product(w, rows, dim.vocab, dim.hidden, GemmRole::forward, 0);
  SavedVocabulary saved{input, tensor(wide, "fp32 logits, then softmax"), 0, 0, 0, 0};
  widen(w);
  w.drop(logits);
  saved.maximum = w.activation(4 * rows, "row maximum");
  softmax_pass(w, "row maximum", wide);
  reduce("all-reduce maximum");
  softmax_pass(w, "subtract maximum", 2 * wide);
  saved.mask = w.activation(rows, "target mask");
  saved.targets = w.activation(8 * rows, "masked target");
  const Value predicted = w.temporary(4 * rows, "predicted logit");
  w.memory_bound(OperationKind::embedding, "target logit", 16 * rows);
  softmax_pass(w, "exp", 2 * wide);
  saved.sums = w.activation(4 * rows, "sum of exp");
  softmax_pass(w, "sum", wide);
  reduce("all-reduce predicted");
  reduce("all-reduce sum");
  softmax_pass(w, "divide", 2 * wide);
  w.drop(predicted);
  return saved;
}

// The gradient of the logits in 16 bits; frees the softmax.
Value logits_gradient(Writer& w, const SavedVocabulary& saved) {
  w.memory_bound(OperationKind::embedding, "subtract one-hot", 24 * w.dim.tokens);
  softmax_pass(w, "scale softmax", 2 * wide_bytes(w.dim));
  const Value made = narrow(w, saved.softmax);
  w.drop({saved.mask, saved.targets, saved.maximum, saved.sums});
  return made;
}

// Sums over the tensor-parallel ranks; with sequence parallelism only the shard's rows.
Value reduced_gradient(Writer& w, Value whole) {
  if (w.dim.tp == 1) return whole;
  if (!w.sequence_parallel()) {
    w.e.collective(Kind::all_reduce, Stream::tp, w.dim.full(), "all-reduce");
    return whole;
  }
  const Value shard = w.temporary(w.dim.residual(), "head input gradient shard");
  w.e.collective(Kind::reduce_scatter, Stream::tp, w.dim.full(), "reduce-scatter");
  w.drop(whole);
  return shard;
}

Value input_gradient(Writer& w, std::string_view label) {
  const Value whole = w.temporary(w.dim.full(), label);
  head_product(w, w.dim.tokens, w.dim.hidden, w.dim.vocab, GemmRole::input_gradient, 0);
  return whole;
}

void weight_gradient(Writer& w, Value input, std::uint8_t flags) {
  if (w.sequence_parallel())
    w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
  head_product(w, w.dim.vocab, w.dim.hidden, w.dim.tokens, GemmRole::weight_gradient, flags);
  const Value handle =
      w.temporary(w.dim.element * w.dim.vocab * w.dim.hidden, "weight gradient handle");
  w.drop({handle, input});
  w.ready("output layer");
}

// The last stage's backward pass takes the sum; the other stages keep it until it is sent.
void give_gradient(Writer& w, Value made) {
  w.record_stream(made, Stream::vocabulary);
  if (is_last(w)) {
    w.e.move(w.slot(made), frame_slot(incoming_gradient));
    w.graph.tensors[made].holders = 0;
  } else {
    w.drop(made);
  }
}

// With one barrier: the gradient of the input before the sums of the other stages are known, and
// the rows of the targets. The gradient is scaled once the sums are known.
Value early_gradient(Writer& w) {
  const Dimensions& dim = w.dim;
  Value in_16_bits = 0;
  if (widens(w)) {
    in_16_bits = w.make(logits_bytes(dim), "softmax in 16 bits", Category::logits);
    softmax_pass(w, "softmax to 16 bits", logits_bytes(dim) + wide_bytes(dim));
  }
  const Value of_softmax = reduced_gradient(w, input_gradient(w, "softmax input gradient"));
  const Value rows = w.temporary(dim.full(), "target rows");
  w.memory_bound(OperationKind::embedding, "target rows", 2 * dim.full());
  w.memory_bound(OperationKind::elementwise, "zero masked rows", dim.full());
  const Value of_targets = reduced_gradient(w, rows);
  w.drop(in_16_bits);
  w.memory_bound(OperationKind::elementwise, "rescale input gradient", 5 * dim.residual());
  w.drop(of_targets);
  return of_softmax;
}

// T: the remaining backward pass of the output layer.
Gradients gradients(Writer& w, const SavedVocabulary& saved) {
  if (kind(w) != Output::together) softmax_pass(w, "rescale softmax", 2 * wide_bytes(w.dim));
  const Value logits = logits_gradient(w, saved);
  if (kind(w) == Output::one_barrier) {
    const Value zeros = w.temporary(w.dim.residual(), "zero input gradient");
    w.memory_bound(OperationKind::copy, "zero input gradient", w.dim.residual());
    weight_gradient(w, saved.input, 0);
    w.drop({zeros, logits});
    return {};
  }
  const Value made = reduced_gradient(w, input_gradient(w, "head input gradient"));
  reduce_stages(w, w.dim.residual(), "sum of input gradients", summed_event);
  weight_gradient(w, saved.input, overlapped);
  if (kind(w) == Output::together) w.e.wait(summed_event);
  give_gradient(w, made);
  w.drop(logits);
  return {};
}

}  // namespace

std::uint32_t shared_head_forward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "final norm", {}, Writer::Owner::head);
  w.use({"final norm"});
  const Value residual = w.given(layer_slot(LayerSlot::input), w.dim.residual(), "residual stream",
                                 Category::activations);
  const Normed norm = norm_forward(w, w.dim.residual(), "final norm output", false);
  w.save(residual);
  // The output layer owns the output from here on.
  w.node([=](Writer& b, Gradients g) {
    return final_norm_back(b, g, {0, norm.rsigma, norm.mu}, residual);
  });
  const std::uint32_t block = w.finish();
  rank.graphs.shared_input = w.slot(norm.output);
  if (!rank.graphs.head) rank.graphs.head = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t shared_head_backward(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "loss and final norm backward", *rank.graphs.head, Writer::Owner::head);
  if (kind(w) != Output::together) {
    w.e.wait(summed_event);
    w.memory_bound(OperationKind::elementwise, "loss", 12 * w.dim.tokens);
    report_loss(w);
  }
  const Value sum = w.given(frame_slot(incoming_gradient), w.dim.residual(), "head input gradient",
                            Category::temporaries);
  w.hold(sum);
  if (kind(w) == Output::one_barrier)
    w.memory_bound(OperationKind::elementwise, "scale input gradient", 2 * w.dim.residual());
  w.backward({sum});
  return w.finish();
}

std::uint32_t share_output(Rank& rank) {
  const Variant variant;
  Writer w(rank, variant, "share output", {}, Writer::Owner::output);
  const bool together = kind(w) == Output::together;
  const std::int64_t narrow = w.dim.residual(), wide = 4 * w.dim.shard * (w.dim.hidden + 1);
  const std::uint16_t arrived = together ? std::uint16_t{no_event} : std::uint16_t{shared_event};
  const auto broadcast = [&](std::int64_t bytes) {
    w.e.collective(Kind::broadcast, Stream::vocabulary, bytes, "share output",
                   together ? joins : std::uint8_t{0}, arrived);
  };
  Value shared = 0;
  if (is_last(w)) {
    shared = w.given(rank.graphs.shared_input, narrow, "final norm output", Category::activations);
    w.hold(shared);
    if (together) {
      broadcast(narrow);
    } else {
      const Value sent = w.make(wide, "shared output", Category::communication);
      w.memory_bound(OperationKind::copy, "output to fp32", narrow + wide);
      broadcast(wide);
      w.record_stream(sent, Stream::vocabulary);
      w.drop(sent);
    }
  } else {
    shared = together ? w.activation(narrow, "output layer input")
                      : w.make(wide, "shared output", Category::communication);
    broadcast(together ? narrow : wide);
  }
  const std::uint32_t block = w.finish();
  rank.graphs.shared_value = shared;
  if (!rank.graphs.share) rank.graphs.share = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t output_pass(Rank& rank, const Variant& variant) {
  Writer w(rank, variant, "output pass", *rank.graphs.share, Writer::Owner::output);
  const bool together = kind(w) == Output::together;
  w.use({"output layer"});
  read_labels(w);
  if (!together) w.e.wait(summed_event);
  const Value input = shared_input(w);
  blas_workspace(w, blas_workspace_forward, "cuBLAS workspace of the forward thread");
  if (w.sequence_parallel()) gather_head_input(w);
  const SavedVocabulary saved = local_softmax(w, input);
  w.e.free(frame_slot(labels));
  if (kind(w) == Output::one_barrier) {
    const Value made = early_gradient(w);
    rank.graphs.summed_value = made;
    if (is_last(w)) {
      w.e.move(w.slot(made), frame_slot(incoming_gradient));
      w.graph.tensors[made].holders = 0;
    }
  }
  if (together && is_last(w)) report_loss(w);
  w.node([saved](Writer& b, Gradients) { return gradients(b, saved); });
  // The authors' CPU waits for the whole device here. In this model receives are posted ahead, so
  // the CPU waits only for the pass [VP vocab_parallel_schedule.py: torch.cuda.synchronize behind
  // output passes].
  w.e.sync_stream(Stream::compute, "output pass");
  const std::uint32_t block = w.finish();
  if (!rank.graphs.output) rank.graphs.output = std::make_shared<AutogradGraph>(std::move(w.graph));
  return block;
}

std::uint32_t reduce_output(Rank& rank) {
  const Variant variant;
  Writer w(rank, variant, "sums over stages", *rank.graphs.output, Writer::Owner::output);
  const std::int64_t rows = 4 * w.dim.shard;
  const bool one = kind(w) == Output::one_barrier;
  reduce_stages(w, rows, "maximum of stages", summed_event);
  reduce_stages(w, rows, "target logit of stages", summed_event);
  reduce_stages(w, rows, "sum of exp of stages", summed_event);
  if (one) reduce_stages(w, w.dim.residual(), "sum of input gradients", summed_event);
  if (one && is_last(w)) w.e.record_stream(frame_slot(incoming_gradient), Stream::vocabulary);
  if (one && !is_last(w)) {
    w.record_stream(rank.graphs.summed_value, Stream::vocabulary);
    w.drop(rank.graphs.summed_value);
  }
  return w.finish();
}

std::uint32_t output_gradient(Rank& rank, const Variant& variant, bool alone) {
  Writer w(rank, variant, "output pass gradients", *rank.graphs.output, Writer::Owner::output);
  if (alone) w.e.wait(summed_event);
  blas_workspace(w, blas_workspace_backward, "cuBLAS workspace of the backward thread");
  w.backward({});
  return w.finish();
}

}  // namespace sim::program
