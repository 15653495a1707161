#include "sim/workload/eager.h"

namespace sim::workload {

using model::OperationKind;

namespace {

enum Local : std::uint32_t { root, denominator };

void pass(Emitter& e, OperationKind kind, std::string_view name, std::int64_t bytes,
          std::uint8_t flags = 0) {
  e.kernel(model::pass(kind, name, Bytes{bytes}), flags);
}

}  // namespace

void norm_forward_kernels(Rank& rank, Emitter& e, std::int64_t output_bytes, std::uint8_t flags) {
  const std::int64_t u = rank.dim.residual();
  const bool layer = rank.plan.architecture.norm == model::Norm::layer;
  if (!rank.plan.is_eager() || layer) {
    pass(e, OperationKind::norm, "norm", u + output_bytes, flags);
    return;
  }
  // RMSNorm of operators on an fp32 copy: cast, square, mean, product, cast back, weight.
  const std::int64_t wide = u / rank.dim.element * 4;
  pass(e, OperationKind::elementwise, "norm to fp32", u + wide, flags);
  pass(e, OperationKind::elementwise, "norm square", 2 * wide, flags);
  pass(e, OperationKind::reduction, "norm mean", wide, flags);
  pass(e, OperationKind::elementwise, "norm scale", 2 * wide, flags);
  pass(e, OperationKind::elementwise, "norm from fp32", wide + u, flags);
  pass(e, OperationKind::elementwise, "norm weight", u + output_bytes, flags);
}

void norm_backward_kernels(Rank& rank, Emitter& e) {
  const std::int64_t u = rank.dim.residual();
  const std::int64_t hidden = rank.dim.hidden;
  if (!rank.plan.is_eager()) {
    pass(e, OperationKind::norm, "norm backward", 3 * u);
    pass(e, OperationKind::reduction, "norm weight gradient", 4 * rank.environment.sms * hidden);
    return;
  }
  if (rank.plan.architecture.norm == model::Norm::layer) {
    pass(e, OperationKind::norm, "norm backward", 3 * u);
    // A second kernel reads both tensors again, a thread block for 32 columns
    // [layer_norm_kernel.cu:GammaBetaBackwardCUDAKernel_32x32].
    e.kernel(
        model::pass(OperationKind::norm, "norm weight gradient", Bytes{2 * u}, (hidden + 31) / 32));
    return;
  }
  // Each operator of the forward pass backwards, and the sum over rows of the weight's gradient.
  const std::int64_t wide = u / rank.dim.element * 4;
  pass(e, OperationKind::elementwise, "norm weight backward", 5 * u);
  pass(e, OperationKind::reduction, "norm weight gradient", u);
  pass(e, OperationKind::elementwise, "norm from fp32 backward", u + wide);
  pass(e, OperationKind::elementwise, "norm scale backward", 5 * wide);
  pass(e, OperationKind::elementwise, "norm square backward", 6 * wide);
  pass(e, OperationKind::elementwise, "norm to fp32 backward", wide + u);
}

// The step counts of the tensors live on the device and are read one by one
// [decoupled_weight_decay.py:adamw].
void adam_by_operators(Emitter& e, std::int64_t elements) {
  const std::int64_t bytes = 4 * elements;
  const auto run = [&](std::string_view name, std::int64_t tensors) {
    pass(e, OperationKind::optimizer, name, tensors * bytes, optimizer_work);
  };
  e.sync_stream(Stream::compute, "step count");
  e.host(HostWork::blocking_read);
  run("adam scale", 2);
  run("adam add", 3);
  run("adam scale", 2);
  run("adam add square", 3);
  e.alloc(local_slot(root), bytes, Category::temporaries, "root of exp_avg_sq");
  run("adam root", 2);
  e.alloc(local_slot(denominator), bytes, Category::temporaries, "denominator");
  run("adam divide", 2);
  e.free(local_slot(root));
  run("adam scale", 2);
  run("adam update", 4);
  e.free(local_slot(denominator));
}

void logit_metrics(Rank& rank, Emitter& e) {
  const std::int64_t elements = rank.dim.tokens * rank.dim.vocab;
  const std::int64_t l = rank.dim.element * elements;
  for (int i = 0; i < rank.plan.logit_metrics; ++i) {
    e.alloc(local_slot(root), 4 * elements, Category::logits, "fp32 logits");
    pass(e, OperationKind::softmax, "logits to fp32", l + 4 * elements);
    e.alloc(local_slot(denominator), 4 * elements, Category::logits, "log-softmax");
    pass(e, OperationKind::softmax, "log-softmax", 8 * elements);
    e.free(local_slot(root));
    pass(e, OperationKind::embedding, "metric loss", 16 * rank.dim.tokens);
    e.free(local_slot(denominator));
  }
}

}  // namespace sim::workload
