#include "sim/campaign/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sim::campaign {
namespace {

Costs costs_of(const Request& request) {
  return {request.mtbf, request.write, request.restart};
}

// The best interval is at least a step, and a copy is complete before the next begins.
double usual_interval(const Request& request) {
  const double best = best_interval(costs_of(request));
  return std::max({best, request.step, request.background, request.write});
}

}  // namespace

Diagnostics problems(const Request& request, const std::string& where) {
  Diagnostics found;
  const auto refuse = [&](std::string rule) { found.push_back({where, std::move(rule)}); };
  if (!(request.step > 0)) refuse("a step takes no time; its time must be positive");
  if (!(request.days > 0)) refuse("the campaign has no length; write for example 54 days");
  if (request.days > 36500) refuse("the campaign lasts longer than a century");
  if (!(request.mtbf > 0)) {
    refuse("the mean time between failures must be positive");
  } else if (request.mtbf < request.step) {
    refuse(
        fmt::format("the mean time between failures, {}, is below one step, {}: nothing would "
                    "ever be trained",
                    human_span(request.mtbf), human_span(request.step)));
  }
  if (request.interval > 0 && request.interval < request.step)
    refuse(fmt::format("the interval of checkpoints, {}, is below one step, {}",
                       human_span(request.interval), human_span(request.step)));
  if (request.interval > 0 && request.write > request.interval)
    refuse(fmt::format("a checkpoint takes longer, {}, than its interval, {}",
                       human_span(request.write), human_span(request.interval)));
  if (request.interval > 0 && request.background > request.interval)
    refuse(
        fmt::format("a checkpoint is complete after {}, later than its interval, {}: saves "
                    "would overlap",
                    human_span(request.background), human_span(request.interval)));
  return found;
}

Spec spec_of(const Request& request) {
  Spec spec;
  FailureKind any;
  any.name = "any failure";
  any.life = {find_law("exponential"), request.mtbf};
  spec.kinds.push_back(any);
  const double interval = request.interval > 0 ? request.interval : usual_interval(request);
  spec.tiers.push_back({"storage", span(interval), span(request.write), span(request.background),
                        Span{}, survives_everything});
  Shape shape;
  shape.plan = request.name;
  shape.step = span(request.step);
  shape.tokens = std::max<std::int64_t>(1, request.tokens_per_step);
  shape.restart = span(request.restart);
  spec.phases.push_back({"all", 0, {{shape}}});
  spec.length = span(request.days * seconds_per_day);
  return spec;
}

std::optional<Summary> run(const Request& request, Spec spec, const Seeds& seeds, bool vary,
                           const std::function<bool()>& go_on) {
  const std::vector<Outcome> outcomes =
      simulate_all(spec, seeds.first, seeds.count, seeds.threads, go_on);
  if (outcomes.empty()) return std::nullopt;
  Summary all = summarise(spec, outcomes);
  all.name = request.name;
  all.gpus = request.gpus;
  all.first_seed = seeds.first;
  all.tokens_per_step = request.tokens_per_step;
  all.price_per_gpu_hour = request.price_per_gpu_hour;
  all.costs = costs_of(request);
  all.intervals.young = young_interval(all.costs);
  all.intervals.daly = daly_interval(all.costs);
  // The formula knows saves that stop the job, and one shape.
  if (request.background == 0) {
    all.intervals.exact = std::max(best_interval(all.costs), request.step);
    all.renewal = renewal_goodput(all.costs, all.intervals.used);
  }
  if (vary || !all.intervals.exact) {
    const double least = std::max({request.step, request.write, request.background});
    // The optimum is flat: more seeds than these move it by less than a step.
    const int enough = vary ? seeds.count : std::min(seeds.count, 200);
    all.intervals.simulated = simulated_optimum(spec, usual_interval(request), least, seeds.first,
                                                enough, seeds.threads, go_on);
    if (all.intervals.simulated->points.empty()) return std::nullopt;
  }
  return all;
}

}  // namespace sim::campaign
