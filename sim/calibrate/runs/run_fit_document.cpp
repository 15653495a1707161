// run_fit_document.cpp — the result of a fit to whole runs as a document.
#include "sim/calibrate/runs/run_fit_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/text.h"

namespace sim::calibrate {

namespace {

using output::Column;
using output::Rows;

double percent(double x) {
  return 100 * (std::exp(x) - 1);
}

Column change(const char* key, const char* heading) {
  return {key, heading, "", 1, false, " %", 1, output::Show::change};
}

Rows factors(const RunFit& fit) {
  Rows rows{"factors",
            "what moved (time against the profile; ± one standard deviation)",
            {{"factor", "factor", "", 0, true},
             change("time_pct", "time"),
             {"deviation_pct", "±", "", 1, false, " %"},
             {"prior_pct", "± before", "", 1, false, " %"}},
            {}};
  for (const FittedFactor& one : fit.factors)
    rows.cells.push_back(
        {one.factor.name, percent(one.x), 100 * one.deviation, 100 * one.factor.prior});
  return rows;
}

Rows runs(const RunFit& fit) {
  Rows rows{"runs",
            "runs (predicted / measured time - 1: above zero, the prediction is too slow)",
            {{"row_id", "run", "", 0, true},
             change("error_before_pct", "before"),
             change("error_after_pct", "after"),
             change("error_held_out_pct", "predicted from the others")},
            {}};
  const bool others = fit.runs.size() > 1;
  for (const FittedRun& run : fit.runs)
    rows.cells.push_back({run.row_id, percent(-run.before), percent(-run.after),
                          others ? Json(percent(-run.held_out)) : Json(nullptr)});
  const auto line = [&](const char* what, double FittedRun::*residual) {
    const RunErrors errors = run_errors(fit.runs, residual);
    rows.footnote += fmt::format("  error {}: mean {:.1f} %, median {:.1f} %\n", what, errors.mean,
                                 errors.median);
  };
  line("before", &FittedRun::before);
  line("after", &FittedRun::after);
  if (others) line("of runs predicted from the others", &FittedRun::held_out);
  return rows;
}

Rows left_out(const RunFit& fit) {
  Rows rows{"left_out",
            "left out",
            {{"row_id", "run", "", 0, true}, {"reason", "reason", "", 0, true}},
            {}};
  for (const LeftOut& one : fit.left_out) rows.cells.push_back({one.row_id, one.reason});
  return rows;
}

Rows next(const RunFit& fit) {
  Rows rows{"next_measurements",
            "what to measure next (share of the remaining variance of these runs that goes away)",
            {{"what", "measurement", "", 0, true}, {"reduction_pct", "less", "", 0, false, " %"}},
            {}};
  for (const NextMeasurement& one : fit.next) rows.cells.push_back({one.what, 100 * one.reduction});
  rows.searched = rows.cells.empty();
  return rows;
}

// "90 % interval of a step time: -4 to +5 % (these runs), before -15 to +20 % (a100-80)"
std::string interval_text(const RunFit& fit) {
  if (!fit.spread_after) return "";
  const auto range = [](const answer::ResidualRange& s) {
    return fmt::format("{:+.0f} to {:+.0f} %", percent(s.low), percent(s.high));
  };
  std::string text =
      fmt::format("90 % interval of a step time: {} (these runs)", range(*fit.spread_after));
  if (fit.spread_before)
    text += fmt::format(", before {} ({})", range(*fit.spread_before), fit.spread_before->of);
  return text;
}

// "reserved memory: predicted +1.2 % against measured (mean of 5 runs)"
std::string memory_text(const RunFit& fit) {
  std::string text;
  const auto add = [&](const char* what, const std::vector<double>& all) {
    if (all.empty()) return;
    double sum = 0;
    for (const double r : all) sum += r;
    text +=
        fmt::format("{}{} memory: predicted {:+.1f} % against measured (mean of {})",
                    text.empty() ? "" : "; ", what, percent(-sum / static_cast<double>(all.size())),
                    counted(static_cast<std::int64_t>(all.size()), "run"));
  };
  add("reserved", fit.reserved);
  add("allocated", fit.allocated);
  return text.empty() ? "" : text + ". Intervals of memory come from these runs";
}

// If the fit changes nothing: why.
std::string nothing_moved_text(const RunFit& fit) {
  constexpr double seen = 0.0005;  // 0.05 %: less is printed as 0
  const auto moved = [](const FittedFactor& one) { return std::abs(one.x) >= seen; };
  if (fit.runs.size() < 2 || std::ranges::any_of(fit.factors, moved)) return "";
  const auto [fast, slow] = std::ranges::minmax_element(fit.runs, {}, &FittedRun::before);
  return fmt::format(
      "Nothing moved: no factor of the profile explains these runs together. {} is {:+.0f} % and "
      "{} {:+.0f} % against its prediction: look whether both ran what their rows say",
      slow->row_id, percent(slow->before), fast->row_id, percent(fast->before));
}

// If one or two runs leave most of their error: why the factors do not go further.
std::string few_runs_text(const RunFit& fit) {
  constexpr std::size_t few = 2;
  constexpr double much = 5;  // percent
  const double left = run_errors(fit.runs, &FittedRun::after).mean;
  if (fit.runs.size() > few || left < much) return "";
  return fmt::format(
      "{} {} the factors only a part of the way, because each keeps near the profile (± before): "
      "{:.0f} % of error {} left. Other runs that agree move them further; the same run again says "
      "nothing new",
      counted(static_cast<std::int64_t>(fit.runs.size()), "run"),
      fit.runs.size() == 1 ? "moves" : "move", left, fit.runs.size() == 1 ? "is" : "are");
}

}  // namespace

output::Document run_fit_document(const RunFit& fit) {
  output::Document document;
  document.blocks.emplace_back(factors(fit));
  if (const std::string text = nothing_moved_text(fit); !text.empty())
    document.blocks.emplace_back(output::Note{"", text, true, "nothing_moved"});
  document.blocks.emplace_back(runs(fit));
  if (const std::string text = few_runs_text(fit); !text.empty())
    document.blocks.emplace_back(output::Note{"", text, false, "few_runs"});
  if (!fit.left_out.empty()) document.blocks.emplace_back(left_out(fit));
  if (const std::string text = interval_text(fit); !text.empty())
    document.blocks.emplace_back(output::Note{"", text, false, "interval"});
  if (const std::string text = memory_text(fit); !text.empty())
    document.blocks.emplace_back(output::Note{"", text, false, "memory"});
  document.blocks.emplace_back(next(fit));
  const auto open = std::ranges::max_element(fit.factors, {}, &FittedFactor::share);
  if (open != fit.factors.end() && open->share > 0)
    document.blocks.emplace_back(output::Note{
        "",
        fmt::format("{:.0f} % of the remaining uncertainty is {}; what would tell it: {}",
                    100 * open->share, open->factor.name, open->factor.measure),
        false, "next"});
  return document;
}

}  // namespace sim::calibrate
