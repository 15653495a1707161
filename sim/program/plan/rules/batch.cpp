#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "sim/base/text.h"
#include "sim/program/plan/replicas.h"
#include "sim/program/plan/rules/rules.h"

namespace sim::program::rules {

namespace {

void all_alike(const Plan& plan, Diagnostics& problems) {
  const std::int64_t together = std::int64_t{plan.mesh.dp} * plan.batch.micro_batch;
  if (plan.batch.global_batch % together != 0)
    problems.push_back(
        {"global_batch",
         fmt::format(
             "global_batch {} is not a multiple of dp x micro_batch = {} x {} = {}; write {}",
             plan.batch.global_batch, plan.mesh.dp, plan.batch.micro_batch, together,
             nearest_multiples(plan.batch.global_batch, together))});
}

// Checks that the batch divides into whole microbatches.
bool is_whole(const Plan& plan, Diagnostics& problems) {
  const int size = plan.batch.micro_batch;
  if (plan.batch.global_batch % size == 0) return true;
  problems.push_back(
      {"global_batch", fmt::format("global_batch {} is not a multiple of micro_batch {}; write {}",
                                   plan.batch.global_batch, size,
                                   nearest_multiples(plan.batch.global_batch, size))});
  return false;
}

void unlike(const Plan& plan, Diagnostics& problems) {
  const auto problem = [&](std::string rule) {
    problems.push_back({"replica_microbatches", std::move(rule)});
  };
  const std::vector<int>& counts = plan.batch.replica_microbatches;
  const std::int64_t total = plan.batch.global_batch / plan.batch.micro_batch;
  if (total < plan.mesh.dp)
    return problem(
        fmt::format("{} microbatches are fewer than the {} data-parallel replicas; "
                    "write global_batch {} or more, or less dp",
                    total, plan.mesh.dp, std::int64_t{plan.mesh.dp} * plan.batch.micro_batch));
  if (plan.batch.balances_microbatches) return;
  if (std::ssize(counts) != plan.mesh.dp)
    return problem(
        fmt::format("replica_microbatches has {} numbers for the {} data-parallel "
                    "replicas; write one for each",
                    counts.size(), plan.mesh.dp));
  if (std::ranges::min(counts) < 1)
    return problem("each replica does 1 microbatch at least; write replica_microbatches so");
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != total)
    problem(
        fmt::format("replica_microbatches sum to {}, and global_batch {} is {} microbatches of "
                    "{}; write numbers that sum to {}",
                    sum, plan.batch.global_batch, total, plan.batch.micro_batch, total));
}

// Features that communicate over replicas in each microbatch need the same number on all replicas.
void meets_over_replicas(const Plan& plan, Diagnostics& problems) {
  const auto problem = [&](const char* field, const char* rule) {
    problems.push_back(
        {field, fmt::format("replica_microbatches lets replicas do unlike numbers of microbatches, "
                            "{}",
                            rule)});
  };
  if (plan.shards_parameters())
    problem("data_parallel",
            "and parameters in shards are gathered over replicas in each; write "
            "data_parallel ddp");
  if (plan.mesh.tensor_depth > 1)
    problem("tensor_depth", "and tensor_depth gathers weights over replicas in each; write 1");
  if (std::int64_t{plan.mesh.ep} * plan.expert_tp() > std::int64_t{plan.mesh.tp} * plan.mesh.cp &&
      plan.architecture.is_mixture())
    problem("ep",
            "and experts over several replicas exchange tokens in each; write ep x etp of at "
            "most tp x cp");
  if (plan.draws_routes())
    problem("router", "and routes are drawn for as many of all; write router balanced");
  if (plan.makes_masks())
    problem("reset_attention_mask",
            "and data loaders that make masks are simulated with as many "
            "of all; leave reset_attention_mask out");
  if (plan.optimizer.post_validation)
    problem("post_validation",
            "and a step is validated in the next one's first microbatches of "
            "all; leave post_validation out");
}

}  // namespace

void batch(const Plan& plan, Diagnostics& problems) {
  const std::size_t before = problems.size();
  if (plan.batch.replica_microbatches.empty() && !plan.batch.balances_microbatches)
    all_alike(plan, problems);
  else if (is_whole(plan, problems))
    unlike(plan, problems);
  if (problems.size() > before) return;
  const bool may_differ = plan.batch.balances_microbatches && plan.mesh.dp > 1;
  if (may_differ || !unlike_microbatches(plan).empty()) meets_over_replicas(plan, problems);
}

}  // namespace sim::program::rules
