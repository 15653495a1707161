#include "sim/program/plan/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/text.h"
#include "sim/job/schedule/schedule.h"

namespace sim::program {
namespace {

std::int64_t total_microbatches(const Plan& plan) {
  return plan.batch.global_batch / plan.batch.micro_batch;
}

// Divides microbatches as evenly as possible: the first replicas get one more.
std::vector<int> evenly(std::int64_t microbatches, int replicas) {
  std::vector<int> counts(static_cast<std::size_t>(replicas),
                          static_cast<int>(microbatches / replicas));
  for (std::int64_t i = 0; i < microbatches % replicas; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

}  // namespace

std::vector<int> microbatches_of_replicas(const Plan& plan) {
  const std::vector<int>& counts = plan.batch.replica_microbatches;
  return counts.empty() ? evenly(total_microbatches(plan), plan.mesh.dp) : counts;
}

std::vector<int> unlike_microbatches(const Plan& plan) {
  if (plan.batch.replica_microbatches.empty() && !plan.batch.balances_microbatches) return {};
  std::vector<int> counts = microbatches_of_replicas(plan);
  const bool alike = std::ranges::min(counts) == std::ranges::max(counts);
  return alike ? std::vector<int>{} : counts;
}

std::string text_of(const std::vector<int>& microbatches) {
  std::string text;
  for (auto run = microbatches.begin(); run != microbatches.end();) {
    const auto end = std::find_if(run, microbatches.end(), [&](int n) { return n != *run; });
    if (!text.empty()) text += ",";
    if (end - run > 1) text += fmt::format("{}x", end - run);
    text += fmt::format("{}", *run);
    run = end;
  }
  return text;
}

Plan of_replica(const Plan& plan, int dp_rank) {
  Plan own = plan;
  own.batch.balances_microbatches = false;
  own.batch.replica_microbatches.clear();
  const std::vector<int> counts = unlike_microbatches(plan);
  if (!counts.empty()) own.batch.replica_microbatches = {counts[static_cast<std::size_t>(dp_rank)]};
  return own;
}

}  // namespace sim::program
