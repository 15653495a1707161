#include "sim/answer/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/answer/pass_times.h"
#include "sim/answer/priced.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/answer/verdict.h"
#include "sim/engine/price/coupling.h"
#include "sim/job/schedule/timeline.h"
#include "sim/model/flops.h"

namespace sim::answer {

namespace {

void add_rates(Answer& answer) {
  const program::Plan& plan = answer.plan;
  const double time = answer::step_seconds(answer);
  if (time <= 0) return;
  const double per_gpu = 1.0 / time / plan.world();
  const model::Batch batch = {
      static_cast<double>(plan.batch.global_batch), static_cast<double>(plan.batch.sequence),
      static_cast<double>(model::padded_vocab(plan.architecture.vocab, plan.mesh.tp)),
      flops_recompute(plan.policy.recompute)};
  for (const model::FlopConvention& convention : model::flop_conventions()) {
    const double flops = convention.flops(plan.architecture, batch);
    answer.rates.push_back(
        {std::string(convention.name), std::string(convention.summary), flops * per_gpu * 1e-12});
  }
  const double peak = answer.machine.peak_flops;
  answer.mfu = answer::rate(answer, "megatron").tflops_gpu * 1e12 / peak;
  answer.hfu = answer.run.executed_flops * per_gpu / peak;
}

}  // namespace

model::Recompute flops_recompute(program::Recompute recompute) {
  switch (recompute) {
    case program::Recompute::none:
      return model::Recompute::none;
    case program::Recompute::selective:
      return model::Recompute::selective;
    case program::Recompute::full:
      break;
  }
  return model::Recompute::full;
}

allocator::EstimatorInput estimator_input(const program::Plan& plan) {
  const model::Architecture& a = plan.architecture;
  allocator::EstimatorInput in;
  in.layers = a.layers;
  in.hidden = a.hidden;
  in.heads = a.heads;
  in.kv_heads = a.kv_heads;
  in.ffn = a.ffn;
  in.vocabulary = a.vocab;
  in.sequence = plan.batch.sequence;
  in.microbatch = plan.batch.micro_batch;
  in.tensor_parallel = plan.mesh.tp;
  in.context_parallel = plan.mesh.cp;
  in.pipeline_parallel = plan.mesh.pp;
  in.data_parallel = plan.mesh.dp;
  if (plan.pipeline.virtual_stages > 1) in.virtual_stages = plan.pipeline.virtual_stages;
  in.microbatches = plan.microbatches();
  in.gradient_bytes = plan.numerics.fp32_gradients ? 4 : 2;
  in.distributed_optimizer = plan.sharding.distributed_optimizer || plan.shards_parameters();
  return in;
}

Estimate estimate(const program::Plan& plan, const device::Gpu& gpu) {
  const allocator::Estimate result = allocator::estimate(estimator_input(plan));
  return {result.total / (1024.0 * 1024.0 * 1024.0), 0.8 * gpu.memory_marketing_gb,
          allocator::fits_by_80_percent_rule(result, gpu.memory_marketing_gb)};
}

namespace {

// Pass times of the plan's own programs, in the order for default times.
schedule::Times own_pass_times(const CheckedPlan& plan) {
  return pass_times(plan.job(), price_of(plan.job(), plan.site()));
}

bool is_ordered_by_times(const program::Plan& plan) {
  return schedule::find(plan.pipeline.schedule)->by_times && plan.mesh.pp > 1;
}

}  // namespace

double bubble_of_pass_times(const CheckedPlan& plan) {
  schedule::PipelineShape shape = program::pipeline_shape(plan.plan(), plan->microbatches());
  shape.times = own_pass_times(plan);
  const schedule::Timeline line = schedule::run(*schedule::find(plan->pipeline.schedule), shape);
  return 100 * (1 - *std::ranges::max_element(line.busy) / line.span);
}

program::Plan timed_plan(const CheckedPlan& plan) {
  program::Plan timed = plan.plan();
  if (is_ordered_by_times(timed)) timed.pipeline.pass_times = own_pass_times(plan);
  return timed;
}

TimedJob timed_job(const CheckedPlan& plan, bool all_ranks) {
  if (is_ordered_by_times(plan.plan()))
    return std::make_shared<const program::Job>(
        job_of(program::valid(timed_plan(plan)), plan.site(), all_ranks));
  if (all_ranks)
    return std::make_shared<const program::Job>(job_of(plan.plan(), plan.site(), all_ranks));
  return plan.shared_job();
}

namespace {

constexpr Bytes unlimited_memory{std::int64_t{1} << 50};

// The ranks of each class of a job.
std::vector<std::vector<int>> ranks_of_classes(const mesh::Mesh& mesh) {
  std::vector<std::vector<int>> ranks(static_cast<std::size_t>(mesh.classes()));
  for (int rank = 0; rank < mesh.world(); ++rank)
    ranks[static_cast<std::size_t>(mesh.class_of_rank(rank))].push_back(rank);
  return ranks;
}

// `extra`: added to the memory of each GPU. `surely`: also compute the verdict.
Answer evaluate_with(const CheckedPlan& asked, const engine::Options& options, bool all_ranks,
                     Bytes extra, bool surely) {
  const CheckedPlan checked = resolve_balanced(asked);
  const program::Plan& plan = checked.plan();
  const Site& site = checked.site();
  const device::Gpu& gpu = site.machine.gpu;
  const TimedJob timed = timed_job(checked, all_ranks);
  const program::Job& job = *timed;
  const engine::Times times = price_of(job, site);
  engine::Memory memory = memory_of(job, plan, site);
  memory.total += extra;
  Answer answer;
  answer.plan = plan;
  answer.machine = {site.machine.cluster.name, gpu.name, site.machine.cluster.node.gpus, gpu.memory,
                    gpu.peak(plan.wide_precision())};
  engine::Options how = options;
  engine::Coupling coupling;
  if (options.couple) {
    coupling = engine::couple(job, *site.network);
    how.coupling = &coupling;
    how.method = engine::Method::reference;
  }
  answer.run = engine::run(job, times, memory, how);
  if (surely) answer.ranks = ranks_of_classes(job.mesh);
  answer.estimate = estimate(plan, gpu);
  answer.host = host_memory(plan, job, site.machine.cluster);
  answer.verdict.fits_probability = answer.run.fits() ? 1 : 0;
  if (surely && engine::places_tensors(how.memory))
    answer.verdict = verdict(answer, job, times, memory, how);
  if (answer.run.fits()) add_rates(answer);
  return answer;
}

}  // namespace

Answer evaluate(const CheckedPlan& plan, const engine::Options& options, bool all_ranks) {
  return evaluate_with(plan, options, all_ranks, {}, true);
}

Answer evaluate_once(const CheckedPlan& plan, const engine::Options& options) {
  return evaluate_with(plan, options, false, {}, false);
}

Answer evaluate_unlimited(const CheckedPlan& plan) {
  return evaluate_with(plan, {}, false, unlimited_memory, false);
}

void add_retry_cost(Answer& answer, const CheckedPlan& plan, engine::Options options) {
  if (!answer.run.fits() || step_retries(answer.run) == 0) return;
  options.observer = nullptr;
  const Duration step = answer.run.step_time;
  const Answer unlimited = evaluate_with(plan, options, false, unlimited_memory, false);
  answer.retry_cost = step - std::min(step, unlimited.run.step_time);
  if (answer.retry_cost.ps == 0) return;
  // A rank that frees its cache also delays its peers, so several accounts grow.
  std::vector<double> more = mean_accounts(answer.run);
  const std::vector<double> without = mean_accounts(unlimited.run);
  double sum = 0;
  for (std::size_t a = 0; a < more.size(); ++a) {
    more[a] = std::max(0.0, more[a] - without[a]);
    sum += more[a];
  }
  if (sum <= 0) return;
  for (double& seconds_more : more) seconds_more *= std::min(1.0, seconds(answer.retry_cost) / sum);
  answer.retry_accounts = std::move(more);
}

}  // namespace sim::answer
