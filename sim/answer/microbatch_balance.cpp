#include "sim/answer/microbatch_balance.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "sim/answer/block_times.h"
#include "sim/answer/priced.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/program/plan/replicas.h"

namespace sim::answer {
namespace {

using program::Plan;

Plan with_microbatches(const Plan& plan, std::vector<int> counts) {
  Plan resolved = plan;
  resolved.batch.replica_microbatches = std::move(counts);
  resolved.batch.balances_microbatches = false;
  return resolved;
}

// The numbers of microbatches that the plan's schedule accepts.
Grain grain_of(const Plan& plan, int most) {
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  const auto possible = [&](int n) {
    return row.problem(program::pipeline_shape(plan, n)).empty();
  };
  Grain grain;
  while (grain.least < most && !possible(grain.least)) ++grain.least;
  while (grain.step < most && !possible(grain.least + grain.step)) ++grain.step;
  return grain;
}

// The times of each replica for one microbatch, from its stages.
std::vector<ReplicaTime> times_of_passes(const CheckedPlan& checked) {
  const Plan& plan = checked.plan();
  const Site& site = checked.site();
  const program::Job& job = checked.job();
  const engine::Times times = price_of(job, site);
  const auto stages = static_cast<std::size_t>(plan.mesh.pp);
  std::vector<std::vector<double>> work(static_cast<std::size_t>(job.mesh.dp_classes()),
                                        std::vector<double>(stages, 0));
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const program::Program& program = job.classes[c];
    double own = 0;
    for (const auto& [of, pattern] : usual_templates(program))
      if (of.first != program::PassKind::step && of.first != program::PassKind::setup)
        own += seconds(template_time(program, times.classes[c], program.templates[pattern]));
    const mesh::Coordinates at = job.mesh.coordinates(static_cast<int>(c));
    double& slowest =
        work[static_cast<std::size_t>(at.dp_rank)][static_cast<std::size_t>(at.stage)];
    slowest = std::max(slowest, own);
  }
  std::vector<ReplicaTime> replicas;
  for (int d = 0; d < plan.mesh.dp; ++d) {
    const auto& of_stages = work[static_cast<std::size_t>(job.mesh.replica_class(d))];
    const double pace = std::ranges::max(of_stages);
    const double others = std::accumulate(of_stages.begin(), of_stages.end(), -pace);
    replicas.push_back({others / plan.pipeline.virtual_stages, pace, 0});
  }
  return replicas;
}

// Working time of a replica, and its waits for gradients and parameters. Values of its rank class
// with the longest working time.
struct Spent {
  Duration work{}, waits{};
};
Spent spent(const mesh::Mesh& mesh, const engine::RunReport& run, int dp_rank) {
  Spent most;
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    if (mesh.coordinates(static_cast<int>(c)).dp_rank != mesh.replica_class(dp_rank)) continue;
    const auto of = [&](engine::Account account) {
      return run.classes[c].accounts[static_cast<std::size_t>(account)];
    };
    const Duration waits = of(engine::Account::dp_exposed) + of(engine::Account::rank_wait);
    const Duration work = run.step_time - waits - of(engine::Account::optimizer);
    if (work > most.work) most = {work, waits};
  }
  return most;
}

// Corrects the times with a replay. The replica with the shortest wait is the last one. It waits
// only for its own messages, so its wait is the tail of all replicas of its class.
void correct(std::vector<ReplicaTime>& times, const std::vector<int>& classes,
             const std::vector<int>& counts, const mesh::Mesh& mesh, const engine::RunReport& run) {
  std::size_t last = 0;
  std::vector<Spent> all;
  for (std::size_t d = 0; d < times.size(); ++d) {
    all.push_back(spent(mesh, run, static_cast<int>(d)));
    const double by = seconds(all[d].work) / (times[d].with(counts[d]) - times[d].tail);
    times[d] = {times[d].fill * by, times[d].pace * by, times[d].tail};
    if (all[d].waits < all[last].waits) last = d;
  }
  for (std::size_t d = 0; d < times.size(); ++d)
    if (classes[d] == classes[last]) times[d].tail = seconds(all[last].waits);
}

}  // namespace

std::vector<int> microbatch_balance(const std::vector<ReplicaTime>& replicas, int total,
                                    Grain grain) {
  using Next = std::pair<double, std::size_t>;  // finish time with one more step, replica
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  std::vector<int> counts(replicas.size(), grain.least);
  for (std::size_t r = 0; r < replicas.size(); ++r)
    queue.emplace(replicas[r].with(grain.least + grain.step), r);
  for (int left = total - grain.least * static_cast<int>(std::ssize(replicas)); left > 0;
       left -= grain.step) {
    const std::size_t who = queue.top().second;
    queue.pop();
    counts[who] += grain.step;
    queue.emplace(replicas[who].with(counts[who] + grain.step), who);
  }
  return counts;
}

CheckedPlan balance_microbatches(const CheckedPlan& asked) {
  const Plan& plan = asked.plan();
  if (!plan.batch.balances_microbatches || !plan.batch.replica_microbatches.empty()) return asked;
  Site& site = asked.site();
  const std::vector<int> even = program::microbatches_of_replicas(plan);
  Fastest fastest(checked(with_microbatches(plan, even), site));
  const std::vector<int> classes = replica_classes(plan, site.machine.cluster);
  if (classes.empty()) return fastest.plan();
  fastest.replay(fastest.plan());
  const int total = std::accumulate(even.begin(), even.end(), 0);
  const Grain grain = grain_of(plan, even.front());
  std::vector<ReplicaTime> times = times_of_passes(fastest.plan());
  std::set<std::vector<int>> tried{even};
  constexpr int rounds = 6;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<int> counts = microbatch_balance(times, total, grain);
    if (!tried.insert(counts).second) break;
    const Result<CheckedPlan> one = check(with_microbatches(plan, counts), site);
    if (!one) break;
    const engine::RunReport run = fastest.replay(*one).run;
    if (!run.fits()) break;
    correct(times, classes, counts, one->job().mesh, run);
  }
  return fastest.plan();
}

}  // namespace sim::answer
