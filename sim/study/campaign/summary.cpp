#include "sim/study/campaign/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/plain_number.h"
#include "sim/base/text.h"
#include "sim/output/table.h"

namespace sim::campaign {
namespace {

double tokens(const Summary& summary) {
  return summary.tokens_per_step == 0 ? 0 : summary.tokens;
}

output::Json intervals_json(const Intervals& intervals) {
  output::Json json = {{"used_s", intervals.used}, {"young_s", intervals.young},
                       {"daly_s", intervals.daly}, {"exact_s", nullptr},
                       {"simulated_s", nullptr},   {"simulated", output::Json::array()}};
  if (intervals.exact) json["exact_s"] = *intervals.exact;
  if (intervals.simulated) {
    json["simulated_s"] = intervals.simulated->interval;
    for (const Optimum::Point& point : intervals.simulated->points)
      json["simulated"].push_back({{"interval_s", point.interval},
                                   {"effective", point.goodput},
                                   {"standard_error", point.standard_error}});
  }
  return json;
}

std::string simulated_text(const Summary& summary) {
  if (!summary.intervals.simulated || summary.intervals.simulated->points.empty()) return "";
  output::Table table({"interval", "effective", "error"});
  for (const Optimum::Point& point : summary.intervals.simulated->points)
    table.row({human_span(point.interval), percent(point.goodput),
               fmt::format("{:.3f} %", 100 * point.standard_error)});
  return "\n" + table.text();
}

std::string wall_text(const Summary& summary) {
  const double longer = summary.wall.mean / (summary.days * seconds_per_day) - 1;
  if (!(longer > 5e-4)) return "";
  return fmt::format(
      "  share: of a seed's wall time, mean over the seeds. A seed ends with its first save after\n"
      "  {:.4g} days: {} on average.\n",
      summary.days, human_span(summary.wall.mean));
}

std::string causes_text(const Summary& summary) {
  if (summary.causes.empty()) return "";
  output::Table table({"<cause", "events", "interruptions", "work lost", "down"});
  for (const Cause& cause : summary.causes)
    table.row({cause.name, fmt::format("{:.1f}", cause.events),
               fmt::format("{:.1f}", cause.interruptions), human_span(cause.lost),
               human_span(cause.down)});
  return "\n" + table.text();
}

}  // namespace

std::string intervals_text(const Summary& summary) {
  const Intervals& intervals = summary.intervals;
  std::string text = fmt::format("save every {}; best {}", human_span(intervals.used),
                                 human_span(intervals.best()));
  if (summary.costs.mtbf > 0 && summary.costs.write == 0)
    return text + " (a save does not stop the job, so Young's and Daly's intervals are 0)\n";
  text +=
      fmt::format(" (Young {}, Daly {}", human_span(intervals.young), human_span(intervals.daly));
  if (intervals.exact) text += ", exact " + human_span(*intervals.exact);
  if (intervals.simulated) text += ", simulated " + human_span(intervals.simulated->interval);
  return text + ")\n";
}

std::string assumed_text(const Summary& summary) {
  if (summary.assumed.empty()) return "";
  return fmt::format("assumed: {}; set {}\n", fmt::join(summary.assumed, ", "),
                     fmt::join(summary.options, ", "));
}

std::string job_kinds_text(const Summary& summary) {
  if (summary.job_kinds.empty()) return "";
  return fmt::format(
      "{} of the expected failures are counted per job, so fewer GPUs do not make them fewer:\n  "
      "{}\n",
      percent(summary.job_share), listed(summary.job_kinds, "and"));
}

double Intervals::best() const {
  if (exact) return *exact;
  return simulated ? simulated->interval : daly;
}

std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

std::string human_span(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86400);
}

Summary summarise(const Spec& spec, const std::vector<Outcome>& outcomes) {
  assert(!outcomes.empty());
  Summary all;
  const double share = 1.0 / static_cast<double>(outcomes.size());
  std::vector<double> kept, worth, stops, walls;
  all.accounts = {{"training that was kept", 0}, {"saving", 0},
                  {"training that was lost", 0}, {"detecting", 0},
                  {"waiting for nodes", 0},      {"restarting", 0}};
  for (const FailureKind& kind : spec.kinds) all.causes.push_back({kind.name, 0, 0, 0, 0});
  for (const Outcome& outcome : outcomes) {
    kept.push_back(goodput(outcome));
    worth.push_back(effective(outcome));
    stops.push_back(static_cast<double>(outcome.interruptions));
    walls.push_back(seconds(outcome.wall));
    all.each.push_back({kept.back(), worth.back(), walls.back(), seconds(outcome.lost),
                        seconds(outcome.detecting + outcome.waiting + outcome.restarting),
                        outcome.interruptions});
    const Span parts[] = {outcome.kept.wall, outcome.saving,  outcome.lost,
                          outcome.detecting, outcome.waiting, outcome.restarting};
    all.slowed += share * seconds(outcome.kept.wall - outcome.kept.ideal);
    for (std::size_t i = 0; i < all.accounts.size(); ++i) {
      all.accounts[i].seconds += share * seconds(parts[i]);
      if (outcome.wall.ns > 0)
        all.accounts[i].share += share * seconds(parts[i]) / seconds(outcome.wall);
    }
    for (std::size_t i = 0; i < all.causes.size(); ++i) {
      const CauseOutcome& from = outcome.causes[i];
      all.causes[i].events += share * static_cast<double>(from.events);
      all.causes[i].interruptions += share * static_cast<double>(from.interruptions);
      all.causes[i].lost += share * seconds(from.lost);
      all.causes[i].down += share * seconds(from.down);
    }
    all.tokens += share * static_cast<double>(outcome.kept.tokens);
    all.saves += share * static_cast<double>(outcome.saves);
    all.changes += share * static_cast<double>(outcome.changes);
    all.spares_least += share * static_cast<double>(outcome.spares_least);
    all.finished += share * static_cast<double>(outcome.finished);
  }
  all.goodput = statistic(kept);
  all.effective = statistic(worth);
  all.interruptions = statistic(stops);
  all.wall = statistic(walls);
  all.seeds = static_cast<int>(outcomes.size());
  all.days = seconds(spec.length) / seconds_per_day;
  const JobShape& full = spec.phases.front().shapes.front().front();
  all.step = seconds(full.step);
  all.intervals.used = seconds(spec.tiers.back().interval);
  return all;
}

output::Json to_json(const Statistic& s) {
  return {{"mean", s.mean},
          {"standard_error", s.standard_error},
          {"p05", s.low},
          {"p50", s.middle},
          {"p95", s.high}};
}

output::Json to_json(const Summary& summary) {
  output::Json accounts = output::Json::object(), causes = output::Json::array();
  output::Json shares = output::Json::object();
  for (const Account& account : summary.accounts) {
    accounts[output::key_of(account.name) + "_s"] = account.seconds;
    shares[output::key_of(account.name)] = account.share;
  }
  for (const Cause& cause : summary.causes)
    causes.push_back({{"name", cause.name},
                      {"events", cause.events},
                      {"interruptions", cause.interruptions},
                      {"lost_s", cause.lost},
                      {"down_s", cause.down}});
  output::Json json = {{"name", summary.name},
                       {"gpus", summary.gpus},
                       {"days", summary.days},
                       {"seeds", summary.seeds},
                       {"first_seed", summary.first_seed},
                       {"step_s", summary.step},
                       {"goodput", to_json(summary.goodput)},
                       {"effective", to_json(summary.effective)},
                       {"interruptions", to_json(summary.interruptions)},
                       {"best_interval_s", summary.intervals.best()},
                       {"intervals", intervals_json(summary.intervals)},
                       {"renewal_goodput", nullptr},
                       {"mtbf_s", summary.costs.mtbf},
                       {"wall_s", to_json(summary.wall)},
                       {"accounts_mean", accounts},
                       {"accounts_share_mean", shares},
                       {"assumed", summary.assumed},
                       {"job_kinds", summary.job_kinds},
                       {"job_share", summary.job_share},
                       {"causes_mean", causes},
                       {"slowed_mean_s", summary.slowed},
                       {"saves_mean", summary.saves},
                       {"changes_of_shape_mean", summary.changes},
                       {"spares_least_mean", summary.spares_least},
                       {"finished_share", summary.finished},
                       {"tokens_mean", nullptr},
                       {"gpu_hours_mean", summary.gpu_hours},
                       {"cost_mean", nullptr}};
  if (summary.renewal) json["renewal_goodput"] = *summary.renewal;
  if (summary.tokens_per_step > 0) json["tokens_mean"] = tokens(summary);
  if (summary.price_per_gpu_hour > 0)
    json["cost_mean"] = summary.gpu_hours * summary.price_per_gpu_hour;
  return json;
}

std::string sentences(const Summary& summary) {
  const Statistic& good = summary.goodput;
  std::string text = fmt::format(
      "{}: {:.2f} % +- {:.3f} of {:.4g} days trained what was kept; {:.1f} interruptions\n",
      summary.name, 100 * good.mean, 100 * good.standard_error, summary.days,
      summary.interruptions.mean);
  const auto cost = std::ranges::max_element(summary.accounts.begin() + 1, summary.accounts.end(),
                                             {}, &Account::share);
  text += fmt::format("limited by {}: {} of the time\n", cost->name, percent(cost->share));
  text += intervals_text(summary);
  text += assumed_text(summary);
  text += job_kinds_text(summary);
  text +=
      fmt::format("{} from {}: 5 % to 95 % of them keep {} to {}, {:.0f} to {:.0f} interruptions\n",
                  counted(summary.seeds, "seed"), summary.first_seed, percent(good.low),
                  percent(good.high), summary.interruptions.low, summary.interruptions.high);
  if (summary.renewal) text += fmt::format("renewal formula: {}\n", percent(*summary.renewal));
  if (summary.tokens_per_step > 0)
    text += fmt::format("{} tokens, {} of what the undisturbed job would train\n",
                        plain_number(tokens(summary)), percent(summary.effective.mean));
  if (summary.price_per_gpu_hour > 0)
    text += fmt::format("{} GPU hours cost {}\n", plain_number(summary.gpu_hours),
                        plain_number(summary.gpu_hours * summary.price_per_gpu_hour));
  if (std::abs(summary.slowed) > 0.5e-6 * summary.wall.mean)
    text +=
        fmt::format("stragglers and other shapes {} {} of the kept time\n",
                    summary.slowed > 0 ? "took" : "saved", human_span(std::abs(summary.slowed)));
  return text;
}

std::string text(const Summary& summary) {
  output::Table table({"<wall time", "mean", "share"});
  for (const Account& account : summary.accounts)
    table.row({account.name, human_span(account.seconds), percent(account.share)});
  return sentences(summary) + "\n" + table.text() + wall_text(summary) + causes_text(summary) +
         simulated_text(summary);
}

}  // namespace sim::campaign
