#include "sim/workload/host_memory.h"

#include <algorithm>

#include "sim/workload/parts.h"

namespace sim::workload {

namespace {

// Adapters of a layer, on all ranks: r rows of as many columns as a product has inputs, and r
// columns of as many rows as it has outputs.
double adapter_elements(const Plan& plan) {
  const model::Architecture& a = plan.architecture;
  const LoraOptions& lora = plan.lora;
  const std::int64_t inputs = a.activation == model::Activation::swiglu ? 2 : 1;
  std::int64_t widths = 0;
  if (lora.qkv) widths += a.hidden + a.query_width() + 2 * a.kv_width();
  if (lora.projection) widths += a.query_width() + a.hidden;
  if (lora.fc1) widths += a.hidden + inputs * a.ffn;
  if (lora.fc2) widths += a.ffn + a.hidden;
  return static_cast<double>(lora.rank * widths);
}

// That are trained, of the fullest rank.
double elements_of_rank(const Plan& plan) {
  const model::Architecture& a = plan.architecture;
  int most = 0;
  for (int stage = 0; stage < plan.mesh.pp; ++stage) {
    int own = 0;
    for (int chunk = 0; chunk < plan.pipeline.virtual_stages; ++chunk)
      own += plan.chunk_layers(stage, chunk);
    most = std::max(most, own);
  }
  const double ranks = static_cast<double>(plan.mesh.dp) * plan.mesh.cp * plan.mesh.tp;
  if (plan.trains_adapters()) return most * adapter_elements(plan) / ranks;
  const auto all = static_cast<double>(model::parameters(a));
  const auto embedding = static_cast<double>(model::embedding_parameters(a, a.vocab));
  const double share = static_cast<double>(most) / static_cast<double>(a.layers);
  return (share * (all - embedding) + embedding) / ranks;
}

}  // namespace

double host_bytes(const Plan& plan) {
  if (plan.optimizer.offload_fraction == 0) return 0;
  constexpr double bytes = 16;
  return host_gradient_sums(plan) +
         bytes * plan.optimizer.offload_fraction * elements_of_rank(plan);
}

double host_gradient_sums(const Plan& plan) {
  if (plan.optimizer.offload_fraction == 0 || !plan.shards_parameters()) return 0;
  return (plan.numerics.fp32_gradients ? 4 : 2) * elements_of_rank(plan);
}

std::int64_t host_activations(const Program& program) {
  std::vector<std::int64_t> rest, most;  // by template: bytes more behind it, and at its height
  for (const Template& pattern : program.templates) {
    std::int64_t here = 0, height = 0;
    const bool saves = pattern.kind != PassKind::setup && pattern.kind != PassKind::step;
    for (const Call& call : pattern.calls)
      for (const Instruction& i : program.blocks[call.block].code) {
        if (!saves || i.op != Op::kernel) continue;
        const model::Operation& copy = program.operations[i.index];
        // Not a microbatch's data, which come up too.
        if (copy.kind != model::OperationKind::host_copy || !copy.name.starts_with("activations"))
          continue;
        here += i.stream == Stream::pcie_down ? copy.bytes.n : -copy.bytes.n;
        height = std::max(height, here);
      }
    rest.push_back(here);
    most.push_back(height);
  }
  std::int64_t pool = 0;
  for (const std::vector<Pass>* step : {&program.first_step, &program.step}) {
    std::int64_t waiting = 0;
    for (const Pass& pass : *step) {
      pool = std::max(pool, waiting + most[pass.pattern]);
      waiting += rest[pass.pattern];
    }
  }
  return pool;
}

}  // namespace sim::workload
