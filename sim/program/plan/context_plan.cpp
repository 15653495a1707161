#include "sim/program/plan/context_plan.h"

#include <fmt/format.h>

#include <numeric>

#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

const context::Method& context_method(const Plan& plan) {
  return *context::find(plan.mesh.context);
}

context::AttentionShape context_shape(const Plan& plan) {
  const model::Architecture& a = plan.architecture;
  context::AttentionShape shape;
  shape.ranks = plan.mesh.cp;
  shape.sequence = plan.batch.sequence;
  shape.batch = plan.batch.micro_batch;
  shape.heads = static_cast<int>(a.heads / plan.mesh.tp);
  shape.groups = plan.stack.repeat_kv ? shape.heads : static_cast<int>(a.kv_heads / plan.mesh.tp);
  shape.head_dim = a.head_dim;
  shape.value_dim = a.is_latent() ? a.latent.value : 0;
  shape.element = model::bytes_of(plan.numerics.precision);
  shape.ulysses = plan.mesh.ulysses > 0 ? plan.mesh.ulysses : std::gcd(shape.ranks, shape.groups);
  return shape;
}

bool has_two_levels(const Plan& plan) {
  const context::AttentionShape shape = context_shape(plan);
  return context_method(plan).exchange == context::Exchange::neighbours && shape.ulysses > 1 &&
         shape.ulysses < shape.ranks;
}

}  // namespace sim::program
