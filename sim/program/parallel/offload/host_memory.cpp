#include "sim/program/parallel/offload/host_memory.h"

#include <algorithm>

#include "sim/program/ir/parameter.h"
#include "sim/program/ir/rank.h"

namespace sim::program {

namespace {

// Trained elements of the rank with the most: each parameter divided over the ranks that share its
// state.
double elements_of_rank(const Plan& plan) {
  const double ranks = static_cast<double>(plan.mesh.dp) * plan.mesh.cp;
  const double with_experts = ranks * plan.mesh.tp / (plan.mesh.ep * plan.expert_tp());
  double most = 0;
  for (int stage = 0; stage < plan.mesh.pp; ++stage) {
    Program program;
    program.stage = stage;
    const Environment environment;
    const Rank rank(plan, environment, program);
    double own = 0;
    for (int chunk = 0; chunk < plan.pipeline.virtual_stages; ++chunk) {
      const Parameters parameters(rank, chunk);
      for (const Parameter& p : parameters.all())
        if (!p.frozen) own += static_cast<double>(p.elements) / (p.expert ? with_experts : ranks);
    }
    most = std::max(most, own);
  }
  return most;
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
  std::vector<std::int64_t> rest, most;  // by template: bytes left after it, and its peak
  for (const Template& pattern : program.templates) {
    std::int64_t here = 0, height = 0;
    const bool saves = pattern.kind != PassKind::setup && pattern.kind != PassKind::step;
    for (const Call& call : pattern.calls)
      for (const Instruction& i : program.blocks[call.block].code) {
        if (!saves || i.op != Op::kernel) continue;
        const model::Operation& copy = program.operations[i.index];
        // Data of a microbatch also comes up, but is not counted.
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

}  // namespace sim::program
