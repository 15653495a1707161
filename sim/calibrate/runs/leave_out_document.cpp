// leave_out_document.cpp — errors of runs as given and as predicted without their group.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/median.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/runs/leave_out.h"
#include "sim/output/document.h"

namespace sim::calibrate {

namespace {

using output::Json;
using output::Rows;

// Rows of a group, and what happened to them.
struct Tally {
  std::size_t rows = 0, refused = 0, false_oom = 0, false_fit = 0, with_interval = 0, inside = 0;
  std::vector<double> given, unseen;  // |predicted / measured - 1|, percent
};

double mean(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

// Whether the measured time is in the interval that is known without the row's source.
std::optional<bool> inside(const Row& row, const Prediction& prediction) {
  for (const QuantityIndex index : {throughput, iteration_time}) {
    const std::optional<double> truth = measured(row, quantities()[index]);
    if (!truth || prediction.intervals_elsewhere.size() <= index) continue;
    if (const auto& interval = prediction.intervals_elsewhere[index])
      return interval->low <= *truth && *truth <= interval->high;
  }
  return std::nullopt;
}

void count(Tally& tally, const Row& row, const Prediction& given, const Prediction& unseen) {
  ++tally.rows;
  if (given.status != "predicted") {
    ++tally.refused;
    return;
  }
  const std::optional<bool> ran_out = measured_out_of_memory(row);
  if (given.oom == true && ran_out == false) ++tally.false_oom;
  if (given.oom == false && ran_out == true) ++tally.false_fit;
  const auto before = time_residual(row, given), after = time_residual(row, unseen);
  if (!before || !after) return;
  tally.given.push_back(100 * std::abs(std::exp(-*before) - 1));
  tally.unseen.push_back(100 * std::abs(std::exp(-*after) - 1));
  if (const auto found = inside(row, unseen)) {
    ++tally.with_interval;
    tally.inside += *found;
  }
}

std::vector<Json> line(const std::string& name, const Tally& tally) {
  const auto number = [](const std::vector<double>& all, double (*of)(std::vector<double>)) {
    return all.empty() ? Json(nullptr) : Json(of(all));
  };
  const auto mean_of = [](std::vector<double> all) { return mean(all); };
  return {name,
          tally.rows,
          tally.refused,
          tally.false_oom,
          tally.false_fit,
          number(tally.given, mean_of),
          number(tally.given, median),
          number(tally.unseen, mean_of),
          number(tally.unseen, median),
          tally.with_interval == 0 ? Json(nullptr)
                                   : Json(100.0 * static_cast<double>(tally.inside) /
                                          static_cast<double>(tally.with_interval))};
}

// The headings of the two columns of errors: without a group, or before and after a fit to runs of
// that group.
struct Names {
  const char *title, *from, *to;
};

Names names(const LeaveOut& result) {
  if (result.before.empty())
    return {"errors of the step time, as given and predicted without the group", "given",
            "left out"};
  return {"errors of the step time without the source, and after a fit to some of its runs",
          "before", "after"};
}

Rows table(const std::string& column, const Names& names) {
  return {"groups",
          names.title,
          {{"group", column, "", 0, true},
           {"rows", "rows"},
           {"refused", "refused"},
           {"false_oom", "false OOM"},
           {"false_fit", "false fit"},
           {"given_mean_pct", names.from, "", 1, false, " %"},
           {"given_median_pct", "median", "", 1, false, " %"},
           {"unseen_mean_pct", names.to, "", 1, false, " %"},
           {"unseen_median_pct", "median", "", 1, false, " %"},
           {"inside_pct", "in 90 %", "", 0, false, " %"}},
          {}};
}

// Mean over groups: each counts the same, however many rows it has.
std::string over_groups(const std::map<std::string, Tally>& groups, const std::string& column,
                        const Names& names) {
  double given = 0, unseen = 0, covered = 0;
  std::vector<double> medians_given, medians_unseen;
  int compared = 0, with_interval = 0;
  for (const auto& [name, tally] : groups) {
    if (!tally.unseen.empty()) {
      given += mean(tally.given);
      unseen += mean(tally.unseen);
      medians_given.push_back(median(tally.given));
      medians_unseen.push_back(median(tally.unseen));
      ++compared;
    }
    if (tally.with_interval > 0) {
      covered += static_cast<double>(tally.inside) / static_cast<double>(tally.with_interval);
      ++with_interval;
    }
  }
  if (compared == 0) return "  nothing could be compared\n";
  std::string text = fmt::format("  mean over {} groups by {}: {} {:.1f} %, {} {:.1f} %", compared,
                                 column, names.from, given / compared, names.to, unseen / compared);
  text += fmt::format("; median of their medians {:.1f} and {:.1f} %", median(medians_given),
                      median(medians_unseen));
  if (with_interval > 0)
    text += fmt::format("; in the 90 % interval {:.0f} %", 100 * covered / with_interval);
  return text + "\n";
}

Rows fitted_numbers(const std::vector<FittedNumbers>& all) {
  Rows rows{"fitted",
            "numbers that runs decided",
            {{"file", "file", "", 0, true},
             {"numbers", "numbers", "", 0, true},
             {"count", "count"},
             {"decided_by", "decided by", "", 0, true}},
            {}};
  int sum = 0;
  for (const FittedNumbers& one : all) {
    rows.cells.push_back({one.file, one.numbers, one.count, one.decided_by});
    sum += one.count;
  }
  rows.footnote = fmt::format("  {} numbers\n", sum);
  return rows;
}

// The 90 % intervals that the fitted runs of a source give: how many of its other runs lie inside,
// and their width relative to the interval before the fit.
struct OwnIntervals {
  double all = 0, inside = 0;
  std::vector<double> widths;
};

// "" without such intervals. Sources count the same.
std::string own_intervals(const std::vector<Row>& rows, const LeaveOut& result,
                          const std::vector<std::optional<answer::ResidualRange>>& before) {
  std::map<std::string, OwnIntervals> sources;
  for (std::size_t i = 0; i < result.own.size(); ++i) {
    const auto residual = time_residual(rows[i], result.unseen[i]);
    if (!residual || !result.own[i]) continue;
    OwnIntervals& source = sources[cell(rows[i], "source_group")];
    const answer::ResidualRange& own = *result.own[i];
    ++source.all;
    source.inside += own.low <= *residual && *residual <= own.high;
    if (before[i])
      source.widths.push_back((own.high - own.low) / (before[i]->high - before[i]->low));
  }
  std::vector<double> held, widths;
  for (const auto& [name, source] : sources) {
    held.push_back(100 * source.inside / source.all);
    if (!source.widths.empty()) widths.push_back(median(source.widths));
  }
  if (held.empty() || widths.empty()) return "";
  return fmt::format(
      "90 % interval by the runs that were fitted to: holds {:.0f} % of the other runs (mean of {} "
      "sources); {:.2f} times as wide as before (median of sources)",
      mean(held), held.size(), median(widths));
}

}  // namespace

output::Document leave_out_document(
    const std::vector<Row>& rows, const std::vector<SensitiveRow>& given, const LeaveOut& result,
    const std::vector<std::string>& groups, const std::vector<FittedNumbers>& fitted,
    const std::string& column, const std::vector<std::optional<answer::ResidualRange>>& before) {
  std::map<std::string, Tally> tallies;
  Tally all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& before = result.before.empty() ? given[i].given : result.before[i];
    count(tallies[groups[i]], rows[i], before, result.unseen[i]);
    count(all, rows[i], before, result.unseen[i]);
  }
  const Names called = names(result);
  Rows lines = table(column, called);
  for (const auto& [name, tally] : tallies) lines.cells.push_back(line(name, tally));
  lines.cells.push_back(line("all rows", all));
  lines.footnote = over_groups(tallies, column, called);
  output::Document document;
  document.blocks.emplace_back(std::move(lines));
  if (const std::string text = own_intervals(rows, result, before); !text.empty())
    document.blocks.emplace_back(output::Note{"", text, false, "own_intervals"});
  Rows reliability = probability_rows(rows, result.unseen);
  if (!reliability.cells.empty()) {
    reliability.title = "plans with a known outcome, by the predicted probability that they fit";
    reliability.searched = false;
    document.blocks.emplace_back(std::move(reliability));
  }
  document.blocks.emplace_back(fitted_numbers(fitted));
  return document;
}

}  // namespace sim::calibrate
