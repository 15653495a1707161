// shrink.h — finds the smallest plan that still fails as a drawn one did.
#pragma once

#include <functional>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sample {

struct Simplification {
  void (*apply)(sim::program::Plan&);
  // Each application makes a number smaller; otherwise a second application changes nothing.
  bool again = false;
};

// Simplifications: each makes one setting of a plan smaller or plainer.
inline const std::vector<Simplification>& simplifications() {
  using sim::program::Plan;
  static const std::vector<Simplification> all = {
      {[](Plan& p) {
         const std::int64_t round = p.mesh.dp * p.batch.micro_batch;
         p.batch.global_batch = p.batch.global_batch / round / 2 * round;
       },
       true},
      {[](Plan& p) {
        p.batch.global_batch = p.microbatches() * p.mesh.dp * p.batch.micro_batch;
        p.batch.replica_microbatches.clear();
      }},
      {[](Plan& p) { p.batch.global_batch -= p.mesh.dp * p.batch.micro_batch; }, true},
      {[](Plan& p) { p.architecture.layers -= p.mesh.pp * p.pipeline.virtual_stages; }, true},
      {[](Plan& p) {
         p.architecture.layers = p.architecture.layers / p.mesh.pp * (p.mesh.pp - 1);
         p.batch.global_batch = p.batch.global_batch / p.mesh.pp * (p.mesh.pp - 1);
         --p.mesh.pp;
       },
       true},
      {[](Plan& p) { p.mesh.tp = 1; }},
      {[](Plan& p) { p.mesh.cp = 1; }},
      {[](Plan& p) {
        p.batch.global_batch /= p.mesh.dp;
        p.mesh.dp = 1;
      }},
      {[](Plan& p) {
        p.batch.global_batch /= p.batch.micro_batch;
        p.batch.micro_batch = 1;
      }},
      {[](Plan& p) { p.batch.sequence = 1024; }},
      {[](Plan& p) { p.batch.packed_document = 0; }},
      {[](Plan& p) { p.mesh.sequence_parallel = false; }},
      {[](Plan& p) { p.pipeline.account_for_embedding = p.pipeline.account_for_loss = false; }},
      {[](Plan& p) { p.policy = Plan().policy; }},
      {[](Plan& p) { p.lora = Plan().lora; }},
      {[](Plan& p) { p.numerics = Plan().numerics; }},
      {[](Plan& p) { p.stack = Plan().stack; }},
      {[](Plan& p) { p.environment = Plan().environment; }},
      {[](Plan& p) { p.optimizer = Plan().optimizer; }},
      {[](Plan& p) { p.sharding = Plan().sharding; }},
  };
  return all;
}

// REQUIRES: fails(plan). Returns a legal plan that also fails and that no simplification makes
// smaller.
inline sim::program::Plan shrink(sim::program::Plan plan,
                                 const std::function<bool(const sim::program::Plan&)>& fails) {
  const std::vector<Simplification>& all = simplifications();
  std::vector<bool> done(all.size(), false);
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      sim::program::Plan less = plan;
      all[i].apply(less);
      if (done[i] || less.batch.global_batch < 1 || less.architecture.layers < 1 ||
          less.mesh.pp < 1 || !sim::program::problems(less).empty() || !fails(less))
        continue;
      plan = less;
      done[i] = !all[i].again;
      smaller = true;
    }
  }
  return plan;
}

}  // namespace sample
