// timing_operations.cpp — predicts op_profiles.csv: operations of a Megatron-LM layer, forward and
// backward, timed one by one on the CPU (Aceso's profiler, as Sailor recorded it).
//
// Kernels of each operation (Megatron-LM before core: fused_layer_norm, fused_softmax,
// tensor_parallel/layers, transformer.py):
//
//    qkv, MLP-GEMM-1     product; qkv adds its bias in a kernel of its own; backward is the
//                        gradient of the input
//    dense, MLP-GEMM-2   product; backward is the gradient of the input
//    score, context      batched products; backward is two of them
//    softmax             the triangular fused kernel where its rules allow, else scale, mask and
//                        softmax in fp32
//    post-*-dropout      bias, dropout, residual add, as three kernels
//
// Forward passes of dropout and GELU are bound by arithmetic as softmax is, on both GPUs. Their
// backward passes are bound by memory.
//
// Value 1 of `algo` splits qkv by rows instead. With tensor parallelism, qkv backward and the
// row-split forward contain a collective and the CPU time of two ranks. These rows are not
// compared. A time covers the kernels between two events. Times below 300 us may be CPU time: qkv
// forward takes 160-190 us on GH200 (190-280 us on A100) for one to eight times the work. They are
// not compared either.
#include <fmt/format.h>

#include "sim/base/brief.h"
#include "sim/calibrate/tables/timing_kernels.h"
#include "sim/program/layers/attention/attention.h"

namespace sim::calibrate {

namespace {

using model::GemmRole;
using model::Operation;
using model::OperationKind;
using model::Precision;

constexpr double shortest_kernel_time_us = 300;

// The work of one direction of an operation.
struct Work {
  std::vector<Operation> kernels;
  bool communicates = false;  // with the tensor-parallel group
  void memory_bound(OperationKind kind, std::int64_t bytes) {
    kernels.push_back(model::memory_bound(kind, "bytes", Bytes{bytes}));
  }
};

struct Layer {
  std::int64_t batch, sequence, hidden, heads, vocab, tp, element;  // heads and vocab are per rank
  Precision precision;
  bool rows = false;  // algo 1

  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t residual() const { return tokens() * hidden * element; }
  std::int64_t scores() const { return batch * heads * sequence * sequence * element; }
  // Megatron-LM fused_softmax.py: is_kernel_available.
  bool fused_softmax() const { return element == 2 && batch * heads % 4 == 0; }

  Operation product(std::int64_t n, std::int64_t k, GemmRole role) const {
    return model::gemm("product", tokens(), n, k, role, false, precision);
  }
  Operation by_heads(std::int64_t n, std::int64_t k, GemmRole role) const {
    return model::gemm("heads", sequence, n, k, role, false, precision, batch * heads);
  }
};

Work layer_norm(const Layer& l, bool backward) {
  Work w;
  // Backward computes the gradient of the input, then those of weight and bias from the same two
  // tensors, and adds the residual's gradient. Arithmetic in fp32 costs as much as two more bytes
  // per element, in any precision of the tensors.
  w.memory_bound(OperationKind::norm,
                 (backward ? 5 : 2) * l.residual() + (backward ? 4 : 2) * l.tokens() * l.hidden);
  if (backward) w.memory_bound(OperationKind::elementwise, 3 * l.residual());
  return w;
}

Work qkv(const Layer& l, bool backward) {
  Work w;
  const std::int64_t mixed = 3 * l.hidden / l.tp;
  if (!l.rows || l.tp == 1) {
    if (backward) {
      w.kernels = {l.product(l.hidden, mixed, GemmRole::input_gradient)};
      w.communicates = true;
    } else {
      w.kernels = {l.product(mixed, l.hidden, GemmRole::forward)};
      w.memory_bound(OperationKind::elementwise, 2 * l.tokens() * mixed * l.element);
    }
    return w;
  }
  const std::int64_t whole = 3 * l.hidden, part = l.hidden / l.tp;
  if (backward) {
    w.kernels = {l.product(part, whole, GemmRole::input_gradient)};
    w.communicates = true;
    w.memory_bound(OperationKind::copy, 2 * l.residual());
  } else {
    w.memory_bound(OperationKind::copy, 2 * l.residual() / l.tp);
    w.kernels.push_back(l.product(whole, part, GemmRole::forward));
    w.communicates = true;
    w.memory_bound(OperationKind::elementwise, 2 * l.tokens() * whole * l.element);
    w.memory_bound(OperationKind::copy, 2 * l.tokens() * mixed * l.element);
  }
  return w;
}

Work column(const Layer& l, std::int64_t n, bool backward) {
  Work w;
  w.kernels = {backward ? l.product(l.hidden, n, GemmRole::input_gradient)
                        : l.product(n, l.hidden, GemmRole::forward)};
  if (backward) w.communicates = true;
  return w;
}

Work row(const Layer& l, std::int64_t k, bool backward) {
  Work w;
  w.kernels = {backward ? l.product(k, l.hidden, GemmRole::input_gradient)
                        : l.product(l.hidden, k, GemmRole::forward)};
  if (!backward) w.communicates = true;
  return w;
}

Work softmax(const Layer& l, bool backward) {
  Work w;
  const std::int64_t s = l.scores();
  if (l.fused_softmax()) {
    w.memory_bound(OperationKind::softmax, backward ? 2 * s : s + s / 2);
    return w;
  }
  // In fp32 scale and softmax each read and write, and backward fills a clone. A 16-bit input is
  // cast before and after.
  const std::int64_t wide = s / l.element * 4;
  const int casts = l.element == 2 ? 2 : 0;
  for (int i = 0; i < casts; ++i) w.memory_bound(OperationKind::elementwise, s + wide);
  w.memory_bound(OperationKind::elementwise, 2 * wide);
  w.memory_bound(OperationKind::softmax, program::masking_bytes * (s / l.element));
  w.memory_bound(OperationKind::softmax, (backward ? 3 : 2) * wide);
  if (backward) w.memory_bound(OperationKind::copy, 2 * wide);
  return w;
}

Work dropout_add(const Layer& l, bool backward) {
  Work w;
  const std::int64_t r = l.residual(), mask = l.tokens() * l.hidden;
  if (backward) {
    w.memory_bound(OperationKind::elementwise, 2 * r + mask);
    w.memory_bound(OperationKind::reduction, r);
  } else {
    w.memory_bound(OperationKind::elementwise, 2 * r);
    w.memory_bound(OperationKind::softmax,
                   2 * r + mask);  // random numbers take the time
    w.memory_bound(OperationKind::elementwise, 3 * r);
  }
  return w;
}

Work gelu(const Layer& l, bool backward) {
  Work w;
  const std::int64_t wide = 4 * l.residual() / l.tp;
  w.memory_bound(backward ? OperationKind::elementwise : OperationKind::softmax,
                 (backward ? 3 : 2) * wide);
  if (backward) w.memory_bound(OperationKind::reduction, wide);
  return w;
}

// Logits, and their cross entropy in fp32: cast, maximum, subtraction, exponential, sum.
Work logits(const Layer& l, bool backward) {
  Work w;
  const std::int64_t size = l.tokens() * l.vocab;
  w.kernels = {backward ? l.product(l.hidden, l.vocab, GemmRole::input_gradient)
                        : l.product(l.vocab, l.hidden, GemmRole::forward)};
  if (backward) {
    w.communicates = true;
    w.memory_bound(OperationKind::softmax, 8 * size);
    w.memory_bound(OperationKind::softmax, (4 + l.element) * size);
  } else {
    if (l.element == 2) w.memory_bound(OperationKind::softmax, 6 * size);
    for (const int bytes : {4, 8, 8, 4, 8}) w.memory_bound(OperationKind::softmax, bytes * size);
  }
  return w;
}

// Fills the work of an operation. False if the operation is not supported.
bool work_of(std::string_view op, const Layer& l, bool backward, Work& w) {
  const GemmRole back = GemmRole::input_gradient;
  const std::int64_t d = l.hidden / (l.heads * l.tp), s = l.sequence;
  if (op == "enc-1st-layernorm" || op == "enc-2nd-layernorm") {
    w = layer_norm(l, backward);
  } else if (op == "enc-attention-qkv") {
    w = qkv(l, backward);
  } else if (op == "enc-attention-score") {
    w.kernels = backward ? std::vector{l.by_heads(d, s, back), l.by_heads(d, s, back)}
                         : std::vector{l.by_heads(s, d, GemmRole::forward)};
  } else if (op == "enc-attention-context") {
    w.kernels = backward ? std::vector{l.by_heads(s, d, back), l.by_heads(d, s, back)}
                         : std::vector{l.by_heads(d, s, GemmRole::forward)};
    if (!backward) w.memory_bound(OperationKind::copy, 2 * l.residual() / l.tp);
  } else if (op == "enc-attention-softmax") {
    w = softmax(l, backward);
  } else if (op == "enc-attention-dropout") {
    w.memory_bound(backward ? OperationKind::elementwise : OperationKind::softmax,
                   2 * l.scores() + l.scores() / l.element);
  } else if (op == "enc-attention-dense") {
    w = row(l, l.hidden / l.tp, backward);
  } else if (op == "enc-post-attention-dropout" || op == "enc-post-MLP-dropout") {
    w = dropout_add(l, backward);
  } else if (op == "enc-MLP-GEMM-1") {
    w = column(l, 4 * l.hidden / l.tp, backward);
  } else if (op == "enc-MLP-gelu") {
    w = gelu(l, backward);
  } else if (op == "enc-MLP-GEMM-2") {
    w = row(l, 4 * l.hidden / l.tp, backward);
  } else if (op == "gpt-post-process") {
    w = logits(l, backward);
  } else {
    return false;
  }
  return true;
}

double host_us(Duration d) {
  return 1e6 * seconds(d);
}

}  // namespace

void time_operations(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out) {
  const auto text = [&](std::string_view column) {
    const auto found = row.cells.find(column);
    return found == row.cells.end() ? std::string() : found->second;
  };
  for (const bool backward : {false, true}) {
    Timing& t = out.emplace_back();
    const std::string op = text("op");
    t.group = fmt::format("{}, {} {}", text("gpu"), op, backward ? "backward" : "forward");
    t.measured_us = number(text(backward ? "bwd_us" : "fwd_us")).value_or(0);
    answer::Site* site = site_of(text("gpu"), sites, t);
    if (site == nullptr) continue;
    const bool wide = text("precision") == "fp32";
    // Products of fp32 tensors run in TF32.
    Layer l{size_in(row, "mbs"),    size_in(row, "seq"),
            size_in(row, "hidden"), size_in(row, "heads"),
            size_in(row, "vocab"),  size_in(row, "tp"),
            wide ? 4 : 2,           wide ? Precision::tf32 : Precision::fp16,
            text("algo") == "1"};
    if (l.batch == 0 || l.sequence == 0 || l.hidden == 0 || l.heads == 0 || l.tp == 0 ||
        l.heads % l.tp != 0 || l.hidden % l.heads != 0 || l.tp > site->machine.cluster.node.gpus ||
        l.batch > 4096 || l.sequence > 1 << 20 || l.hidden > 1 << 20 || l.vocab > 1 << 24) {
      t.reason = "no shape";
      continue;
    }
    l.heads /= l.tp;
    l.vocab = std::max<std::int64_t>(l.vocab / l.tp, 1);
    Work work;
    if (!work_of(op, l, backward, work)) {
      t.reason = "the kernels of '" + brief(op) + "' are not known";
      continue;
    }
    if (l.tp > 1 && work.communicates) {
      t.reason = "contains a collective, whose ranks start apart";
      continue;
    }
    const double device = microseconds(work.kernels, *site, benchmark_profile(*site));
    const device::HostProfile& host = site->profile.device.host;
    t.predicted_us = 2 * host_us(host.event) + device;
    if (t.measured_us < shortest_kernel_time_us) {
      t.reason = "shows the host, which issues for longer than the kernels run";
    }
  }
}

}  // namespace sim::calibrate
