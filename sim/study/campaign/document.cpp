#include "sim/study/campaign/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/text.h"
#include "sim/study/campaign/timeline.h"

namespace sim::campaign {
namespace {

using output::Json;
using output::rounded;
using output::Rows;
using output::Series;

// More rows cannot be distinguished, and the page would exceed the size of a mail.
constexpr std::size_t rows_most = 24'000;

Json hours(double seconds) {
  return rounded(seconds / 3600, 6);
}

Series chart(Series::Kind kind, const std::string& title, const std::string& table,
             const std::string& x, std::vector<std::string> y) {
  Series series;
  series.kind = kind;
  series.title = title;
  series.table = table;
  series.x = x;
  series.y = std::move(y);
  return series;
}

// Histogram of goodput with at most twenty bins of a round width: 1, 2 or 5 times a power of ten.
Rows distribution_rows(const Summary& summary) {
  Rows rows{"distribution",
            "seeds by their goodput",
            {{"goodput", "goodput", "", 0, true}, {"seeds", "seeds", "", 0}},
            {}};
  const auto [least, most] = std::ranges::minmax(summary.each, {}, &SeedResult::goodput);
  const double from = 100 * least.goodput, to = 100 * most.goodput;
  // Differences below 0.001 % come from rounding a step, not from the seeds.
  const double finest = std::max(1e-3, (to - from) / 16);
  const double power = std::pow(10.0, std::floor(std::log10(finest)));
  double width = 10 * power;
  for (const double times : {5.0, 2.0, 1.0})
    if (times * power >= finest) width = times * power;
  const double first = std::floor(from / width);
  std::vector<int> counts(static_cast<std::size_t>(std::floor(to / width) - first) + 1);
  for (const SeedResult& seed : summary.each)
    ++counts[static_cast<std::size_t>(std::floor(100 * seed.goodput / width) - first)];
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(width) + 1e-9)));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double low = (first + static_cast<double>(i)) * width;
    rows.cells.push_back(
        {fmt::format("{:.{}f} to {:.{}f} %", low, digits, low + width, digits), counts[i]});
  }
  return rows;
}

Rows seed_rows(const Summary& summary) {
  Rows rows{
      "seeds",
      summary.each.size() > rows_most ? fmt::format("the first {} seeds", rows_most) : "every seed",
      {{"seed", "seed", "", 0},
       {"goodput_pct", "goodput", "%", 3},
       {"effective_pct", "tokens of the undisturbed job", "%", 3},
       {"given_up_pct", "time that kept nothing", "%", 3},
       {"interruptions", "interruptions", "", 0},
       {"lost_h", "work lost", "h", 2},
       {"down_h", "down", "h", 2},
       {"wall_h", "wall time", "h", 2}},
      {},
      true};
  for (std::size_t i = 0; i < std::min(rows_most, summary.each.size()); ++i) {
    const SeedResult& seed = summary.each[i];
    rows.cells.push_back({summary.first_seed + i, rounded(100 * seed.goodput, 6),
                          rounded(100 * seed.effective, 6), rounded(100 * (1 - seed.goodput), 6),
                          seed.interruptions, hours(seed.lost), hours(seed.down),
                          hours(seed.wall)});
  }
  return rows;
}

// Useful training is left out, since its bar would hide all others.
Rows account_rows(const Summary& summary) {
  Rows rows{"accounts",
            "time that kept nothing: mean over the seeds",
            {{"account", "account", "", 0, true},
             {"time_h", "time", "h", 3},
             {"share_pct", "of the wall time", "%", 3}},
            {}};
  for (std::size_t i = 1; i < summary.accounts.size(); ++i) {
    const Account& account = summary.accounts[i];
    rows.cells.push_back({account.name, hours(account.seconds), rounded(100 * account.share, 6)});
  }
  return rows;
}

Rows cause_rows(const Summary& summary) {
  Rows rows{"causes",
            "causes: mean over the seeds",
            {{"cause", "cause", "", 0, true},
             {"events", "events", "", 1},
             {"interruptions", "interruptions", "", 1},
             {"lost_h", "work lost", "h", 3},
             {"down_h", "down", "h", 3}},
            {}};
  for (const Cause& cause : summary.causes)
    rows.cells.push_back({cause.name, rounded(cause.events, 4), rounded(cause.interruptions, 4),
                          hours(cause.lost), hours(cause.down)});
  return rows;
}

Rows interval_rows(const Intervals& intervals) {
  Rows rows{"intervals",
            "intervals between saves",
            {{"interval", "interval", "", 0, true}, {"minutes", "time", "min", 3}},
            {}};
  const auto add = [&](const char* name, double seconds) {
    if (seconds > 0) rows.cells.push_back({name, rounded(seconds / 60, 6)});
  };
  add("in use", intervals.used);
  add("Young", intervals.young);
  add("Daly", intervals.daly);
  if (intervals.exact) add("best of the exact formula", *intervals.exact);
  if (intervals.simulated) add("best of the simulation", intervals.simulated->interval);
  return rows;
}

Rows simulated_rows(const Optimum& optimum) {
  Rows rows{"simulated",
            "intervals that were simulated",
            {{"minutes", "interval", "min", 2},
             {"given_up_pct", "tokens given up", "%", 3},
             {"low_pct", "less its error", "%", 3},
             {"high_pct", "and its error", "%", 3}},
            {}};
  for (const Optimum::Point& point : optimum.points) {
    const double given_up = 1 - point.goodput;
    rows.cells.push_back({rounded(point.interval / 60, 6), rounded(100 * given_up, 6),
                          rounded(100 * (given_up - point.standard_error), 6),
                          rounded(100 * (given_up + point.standard_error), 6)});
  }
  return rows;
}

Series simulated_series(const Intervals& intervals) {
  Series series = chart(Series::Kind::points, "what an interval gives up, simulated", "simulated",
                        "minutes", {"given_up_pct"});
  series.low = "low_pct";
  series.high = "high_pct";
  const auto rule = [&](double seconds, const char* label) {
    if (seconds > 0) series.rules.push_back({output::Rule::Kind::x, seconds / 60, label});
  };
  rule(intervals.young, "Young");
  rule(intervals.daly, "Daly");
  rule(intervals.best(), "best");
  return series;
}

// Saves are too short to be visible and count as training.
std::vector<Slice> joined(const std::vector<Slice>& timeline) {
  std::vector<Slice> slices;
  for (Slice slice : timeline) {
    if (slice.activity == Activity::saving) slice.activity = Activity::training;
    if (!slices.empty()) {
      Slice& last = slices.back();
      if (last.activity == slice.activity && last.cause == slice.cause &&
          last.phase == slice.phase && last.pool == slice.pool && last.shape == slice.shape &&
          last.to == slice.from) {
        last.to = slice.to;
        continue;
      }
    }
    slices.push_back(slice);
  }
  return slices;
}

const char* lane_of(const Slice& slice) {
  switch (slice.activity) {
    case Activity::detecting:
      return "detecting";
    case Activity::waiting:
      return "waiting for nodes";
    case Activity::restarting:
      return "restarting";
    case Activity::training:
    case Activity::saving:
      break;
  }
  return slice.shape > 0 ? "training, smaller" : "training";
}

Rows timeline_rows(const Spec& spec, const std::vector<Slice>& timeline) {
  Rows rows{"timeline",
            "the first seed",
            {{"activity", "activity", "", 0, true},
             {"what", "phase, or cause", "", 0, true},
             {"label", "plan, or cause", "", 0, true},
             {"begin_d", "begin", "d", 6},
             {"end_d", "end", "d", 6}},
            {},
            true};
  const auto days = [](Moment moment) {
    return rounded(seconds(moment - Moment{}) / seconds_per_day, 9);
  };
  for (const Slice& slice : joined(timeline)) {
    if (rows.cells.size() == rows_most) break;
    const std::string label = words(spec, slice);
    std::string what = label;
    if (slice.activity == Activity::training) {
      what = spec.phases[static_cast<std::size_t>(slice.phase)].name;
      if (!spec.pools.empty()) what += fmt::format(", pool {}", slice.pool);
    }
    rows.cells.push_back({lane_of(slice), what, label, days(slice.from), days(slice.to)});
  }
  return rows;
}

Rows copy_rows(const Built& built) {
  Rows rows{"copies",
            "copies of the state",
            {{"copy", "copy", "", 0, true},
             {"every_s", "every", "s", 2},
             {"stands_s", "the job stops", "s", 3},
             {"complete_s", "complete after", "s", 3},
             {"load_s", "load", "s", 3},
             {"survives_nodes", "survives the loss of nodes", "", 0}},
            {}};
  for (const Tier& tier : built.spec.tiers)
    rows.cells.push_back(
        {tier.name, rounded(seconds(tier.interval), 6), rounded(seconds(tier.blocking), 6),
         rounded(seconds(tier.background), 6),
         built.load_in_restart ? Json("in --restart") : Json(rounded(seconds(tier.load), 6)),
         tier.survives == survives_everything ? Json("all") : Json(tier.survives)});
  return rows;
}

Rows shape_rows(const Built& built) {
  Rows rows{"shapes",
            "shapes of the job on what is left",
            {{"phase", "phase", "", 0, true},
             {"pool", "pool", "", 0},
             {"missing", "nodes missing", "", 0},
             {"step_s", "step", "s", 3},
             {"speed_pct", "speed", "%", 2},
             {"change_s", "change", "s", 2},
             {"plan", "plan", "", 0, true}},
            {}};
  for (const ShapeNote& note : built.shapes)
    rows.cells.push_back({built.spec.phases[static_cast<std::size_t>(note.phase)].name, note.pool,
                          note.missing, rounded(note.step, 6), rounded(100 * note.speed, 4),
                          rounded(note.change, 4), note.plan});
  return rows;
}

}  // namespace

output::Document document(const Summary& summary, const Built& built,
                          const std::vector<Slice>& timeline) {
  using Kind = Series::Kind;
  output::Document page{
      "Campaign: " + summary.name,
      fmt::format("{}, {:.4g} days, {} from {}", counted(summary.gpus, "GPU"), summary.days,
                  counted(summary.seeds, "seed"), summary.first_seed),
      {},
      {}};
  auto& blocks = page.blocks;
  const std::string said = sentences(summary);
  const std::size_t headline = said.find('\n');
  blocks.emplace_back(output::Note{"", said.substr(0, headline), true});
  blocks.emplace_back(output::Note{"", said.substr(headline + 1)});
  blocks.emplace_back(
      chart(Kind::bars, "goodput: how many seeds", "distribution", "goodput", {"seeds"}));
  blocks.emplace_back(chart(Kind::points, "what each seed gave up, by its interruptions", "seeds",
                            "interruptions", {"given_up_pct"}));
  Rows first = timeline_rows(built.spec, timeline);
  if (!first.cells.empty())
    blocks.emplace_back(output::TimelineChart{
        fmt::format("seed {}: {}", summary.first_seed,
                    first.cells.size() == rows_most ? "what it did at first" : "what it did when"),
        "timeline", "activity", "begin_d", "end_d", "what", "label", "days of the campaign"});
  blocks.emplace_back(chart(Kind::bars, "where the time went that kept nothing", "accounts",
                            "account", {"time_h"}));
  const bool lost = std::ranges::any_of(
      summary.causes, [](const Cause& cause) { return cause.lost + cause.down > 0; });
  if (lost)
    blocks.emplace_back(chart(Kind::bars, "work lost and time down, by cause", "causes", "cause",
                              {"lost_h", "down_h"}));
  const auto& simulated = summary.intervals.simulated;
  const bool points = simulated && !simulated->points.empty();
  if (points) blocks.emplace_back(simulated_series(summary.intervals));
  blocks.emplace_back(interval_rows(summary.intervals));
  if (points) blocks.emplace_back(simulated_rows(*simulated));
  blocks.emplace_back(account_rows(summary));
  if (!summary.causes.empty()) blocks.emplace_back(cause_rows(summary));
  blocks.emplace_back(copy_rows(built));
  if (!built.shapes.empty()) blocks.emplace_back(shape_rows(built));
  blocks.emplace_back(distribution_rows(summary));
  blocks.emplace_back(seed_rows(summary));
  if (!first.cells.empty()) blocks.emplace_back(std::move(first));
  return page;
}

}  // namespace sim::campaign
