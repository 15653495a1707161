#include "sim/allocator/estimator.h"

#include <algorithm>
#include <cassert>

namespace sim::allocator {
namespace {

struct Parameters {
  double layers = 0.0;
  double embedding = 0.0;  // the head has the same number
};

// N_layers = 2 L h^2 (1 + k/a + 1.5 f/h + 1/h). The terms: q and o, k and v, SwiGLU, two norms.
Parameters parameters(const EstimatorInput& in) {
  const auto h = static_cast<double>(in.hidden);
  const double k_over_a = static_cast<double>(in.kv_heads) / static_cast<double>(in.heads);
  const double f_over_h = static_cast<double>(in.ffn) / h;
  return {
      2.0 * static_cast<double>(in.layers) * h * h * (1.0 + k_over_a + 1.5 * f_over_h + 1.0 / h),
      h * static_cast<double>(in.vocabulary)};
}

// The first stage has its share of the layers and the embedding. The only stage of a pipeline (p =
// 1) also has the head and the final norm.
double first_stage_parameters(const EstimatorInput& in) {
  const Parameters all = parameters(in);
  const double t = in.tensor_parallel;
  const double share = (all.layers / in.pipeline_parallel + all.embedding) / t;
  if (in.pipeline_parallel > 1) return share;
  return share + all.embedding / t + static_cast<double>(in.hidden);
}

// 2 bytes of bf16 weight, the gradient, and 12 bytes of fp32 master weight and Adam moments.
double bytes_per_parameter(const EstimatorInput& in) {
  const double shards =
      in.distributed_optimizer ? static_cast<double>(in.data_parallel) * in.context_parallel : 1.0;
  return 2.0 + in.gradient_bytes + 12.0 / shards;
}

// A_layer = s b h (12 + 4 k/a + 8 f/h) / (t c), with sequence parallelism, flash attention and
// bf16. The first stage has L/p layers and p microbatches in flight: L times A_layer.
double activations(const EstimatorInput& in) {
  const auto h = static_cast<double>(in.hidden);
  const double k_over_a = static_cast<double>(in.kv_heads) / static_cast<double>(in.heads);
  const double f_over_h = static_cast<double>(in.ffn) / h;
  const double p = in.pipeline_parallel;
  const double sbh = static_cast<double>(in.sequence) * static_cast<double>(in.microbatch) * h;
  const double tc = static_cast<double>(in.tensor_parallel) * in.context_parallel;

  double bytes =
      sbh * (12.0 + 4.0 * k_over_a + 8.0 * f_over_h) / tc * static_cast<double>(in.layers);
  bytes += 8.0 * sbh * p / tc;  // token ids; the authors multiply them by h (a quirk we keep)
  if (in.virtual_stages) {
    bytes *= 1.0 + (p - 1.0) / (p * *in.virtual_stages);
  } else if (in.pipeline_parallel > 1 && in.microbatches) {
    bytes *= std::min(1.0, static_cast<double>(*in.microbatches) / p);
  }
  if (in.pipeline_parallel == 1) {
    // Input of the final norm and head, and fp32 logits.
    bytes += 4.0 * sbh * (1.0 + static_cast<double>(in.vocabulary) / h) / tc;
  }
  return bytes;
}

}  // namespace

double parameter_count(const EstimatorInput& in) {
  const Parameters all = parameters(in);
  return all.layers + static_cast<double>(in.hidden) + 2.0 * all.embedding;
}

Estimate estimate(const EstimatorInput& in) {
  assert(in.layers > 0 && in.hidden > 0 && in.heads > 0 && in.kv_heads > 0 && in.ffn > 0);
  assert(in.vocabulary > 0 && in.sequence > 0 && in.microbatch > 0);
  assert(in.tensor_parallel > 0 && in.context_parallel > 0 && in.pipeline_parallel > 0);
  assert(in.data_parallel > 0);
  Estimate out;
  out.params_first_stage = first_stage_parameters(in);
  out.weight_optimizer_bytes = out.params_first_stage * bytes_per_parameter(in);
  out.activation_bytes = activations(in);
  out.total = out.weight_optimizer_bytes + out.activation_bytes;
  return out;
}

bool fits_by_80_percent_rule(const Estimate& estimate, double gpu_marketing_gb) {
  constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
  return estimate.total / gibibyte <= 0.8 * gpu_marketing_gb;
}

}  // namespace sim::allocator
