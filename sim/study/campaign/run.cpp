#include "sim/study/campaign/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/plain_number.h"
#include "sim/base/text.h"
#include "sim/output/table.h"

namespace sim::campaign {

double gpu_hours(const Built& built, Span wall) {
  const Moment end{wall.ns};
  Moment since{};
  double gpus = built.gpus, all = 0;
  for (const PoolChange& pool : built.spec.pools) {
    if (pool.when >= end) break;
    all += gpus * seconds(pool.when - since) / 3600;
    since = pool.when;
    gpus = static_cast<double>(pool.nodes) * built.gpus_per_node;
  }
  return all + gpus * seconds(end - since) / 3600;
}

Summary summary_of(const Built& built, std::uint64_t first, const std::vector<Outcome>& outcomes) {
  Summary all = summarise(built.spec, outcomes);
  all.name = built.name;
  all.gpus = built.gpus;
  all.job_gpus = built.job_gpus;
  all.first_seed = first;
  for (const Outcome& outcome : outcomes)
    all.gpu_hours += gpu_hours(built, outcome.wall) / static_cast<double>(outcomes.size());
  all.tokens_per_step = built.tokens_per_step;
  all.price_per_gpu_hour = built.price_per_gpu_hour;
  all.costs = built.costs;
  for (const Assumption& one : built.assumed) {
    all.assumed.push_back(one.text);
    all.options.push_back(one.option);
  }
  all.job_kinds = built.job_kinds;
  all.job_share = built.job_share;
  if (built.costs.mtbf > 0) {
    all.intervals.young = young_interval(all.costs);
    all.intervals.daly = daly_interval(all.costs);
  }
  // The formula applies to blocking saves and a single shape.
  if (built.memoryless) {
    all.intervals.exact = std::max(best_interval(all.costs), all.step);
    all.renewal = renewal_goodput(all.costs, all.intervals.used);
  }
  return all;
}

bool add_interval(const Built& built, const Seeds& seeds, bool vary, Summary& summary,
                  const std::function<bool()>& go_on) {
  if (!vary && summary.intervals.exact) return true;
  // The optimum is flat, so more seeds than these hardly move it.
  const int enough = vary ? seeds.count : std::min(seeds.count, 24);
  summary.intervals.simulated =
      simulated_optimum(built.spec, built.usual_interval, built.least_interval, seeds.first, enough,
                        seeds.threads, go_on);
  return !summary.intervals.simulated->points.empty();
}

std::optional<Summary> run(const Built& built, const Seeds& seeds, bool vary,
                           const std::function<bool()>& go_on) {
  const std::vector<Outcome> outcomes =
      simulate_all(built.spec, seeds.first, seeds.count, seeds.threads, go_on);
  if (outcomes.empty()) return std::nullopt;
  Summary all = summary_of(built, seeds.first, outcomes);
  if (!add_interval(built, seeds, vary, all, go_on)) return std::nullopt;
  if (!vary && all.intervals.simulated) all.intervals.simulated->points.clear();
  return all;
}

output::Json to_json(const Summary& summary, const Built& built) {
  output::Json json = to_json(summary);
  output::Json tiers = output::Json::array(), shapes = output::Json::array();
  for (const Tier& tier : built.spec.tiers)
    tiers.push_back(
        {{"name", tier.name},
         {"interval_s", seconds(tier.interval)},
         {"blocking_s", seconds(tier.blocking)},
         {"background_s", seconds(tier.background)},
         {"load_s", seconds(tier.load)},
         {"survives_nodes",
          tier.survives == survives_everything ? output::Json() : output::Json(tier.survives)}});
  for (const ShapeNote& note : built.shapes)
    shapes.push_back({{"phase", note.phase},
                      {"pool", note.pool},
                      {"missing_nodes", note.missing},
                      {"plan", note.plan},
                      {"step_s", note.step},
                      {"speed", note.speed},
                      {"change_s", note.change}});
  json["state_bytes"] = built.ways.bytes;
  json["pcie_left_to_copies"] = 1 - built.ways.pcie;
  json["nics_left_to_copies"] = 1 - built.ways.nics;
  json["checkpoints"] = tiers;
  json["restart_s"] = summary.costs.restart;
  json["shapes"] = shapes;
  return json;
}

namespace {

// Which job a stated mean time between failures makes, and a doubt if it is hardly interrupted.
std::string failures_text(const Summary& summary, const Built& built) {
  std::string all;
  if (built.gpu_mtbf > 0)
    all += fmt::format("\nmean time between failures of the job {}: that of a GPU, {}, over {}\n",
                       human_span(built.costs.mtbf), human_span(built.gpu_mtbf),
                       counted(built.job_gpus, "GPU"));
  const double expected = summary.days * seconds_per_day / built.costs.mtbf;
  if (!built.table && built.gpu_mtbf == 0 && built.costs.mtbf > 0 && expected < 0.1)
    all += fmt::format(
        "\n{} interruptions are expected: --mtbf is that of the whole job; write --gpu-mtbf for "
        "that of one GPU\n",
        plain_number(expected, 2));
  return all;
}

}  // namespace

std::string text(const Summary& summary, const Built& built, const std::string& strip) {
  std::string all = text(summary) + failures_text(summary, built);
  all += fmt::format("\nseed {}  {}\n        = trains, - in a smaller shape, x down, w waits\n",
                     summary.first_seed, strip);
  output::Table tiers({"<copy", "every", "job stops", "complete after", "load", "<survives"});
  for (const Tier& tier : built.spec.tiers)
    tiers.row({tier.name, human_span(seconds(tier.interval)), human_span(seconds(tier.blocking)),
               human_span(seconds(tier.background)),
               built.load_in_restart ? "in --restart" : human_span(seconds(tier.load)),
               tier.survives == survives_everything ? "everything"
                                                    : fmt::format("{} nodes", tier.survives)});
  all += "\n" + tiers.text();
  if (built.ways.bytes > 0)
    all += fmt::format(
        "  state {:.4g} TB; the step leaves {:.0f} % of PCIe and {:.0f} % of the NICs to its "
        "copy\n",
        built.ways.bytes * 1e-12, 100 * (1 - built.ways.pcie), 100 * (1 - built.ways.nics));
  if (built.shapes.size() < 2) return all;
  output::Table shapes({"<phase", "pool", "missing", "step", "speed", "change", "<plan"});
  for (const ShapeNote& note : built.shapes)
    shapes.row({built.spec.phases[static_cast<std::size_t>(note.phase)].name,
                fmt::format("{}", note.pool), fmt::format("{}", note.missing),
                human_span(note.step), percent(note.speed), human_span(note.change), note.plan});
  return all + "\n" + shapes.text();
}

}  // namespace sim::campaign
