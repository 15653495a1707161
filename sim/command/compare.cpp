// compare.cpp — `rehearse compare`: compares the log of a run with the prediction for its plan.
#include "sim/command/compare.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/answer/evaluate.h"
#include "sim/calibrate/compare.h"
#include "sim/command/common/command.h"
#include "sim/command/common/watch.h"
#include "sim/input/plan/plan.h"
#include "sim/output/document.h"

namespace sim::command {

namespace {

struct Line {
  std::string what, unit;
  double measured = 0, predicted = 0;
};

std::vector<Line> lines_of(const calibrate::MeasuredRun& run, const answer::Answer& answer) {
  const double gib = static_cast<double>(1 << 30);
  const auto in_gib = [&](Bytes bytes) { return static_cast<double>(bytes.n) / gib; };
  std::vector<Line> lines = {
      {"step", "s", run.seconds, answer::step_seconds(answer)},
      {"tokens per second and GPU", "", run.tokens_s_gpu, answer::tokens_per_second_gpu(answer)}};
  // A log of Megatron-DeepSpeed counts what its layers recompute, as Narayanan et al. do.
  const char* const convention = run.counts_recomputation ? "narayanan" : "megatron";
  if (run.tflops_gpu > 0)
    lines.push_back({fmt::format("throughput (as printed, {})", convention), "TFLOP/s/GPU",
                     run.tflops_gpu, answer::rate(answer, convention).tflops_gpu});
  if (run.allocated_gib > 0)
    lines.push_back(
        {"peak allocated", "GiB", run.allocated_gib, in_gib(answer::peak_allocated(answer.run))});
  if (run.reserved_gib > 0)
    lines.push_back(
        {"peak reserved", "GiB", run.reserved_gib, in_gib(answer::peak_reserved(answer.run))});
  return lines;
}

output::Rows rows_of(const std::vector<Line>& lines) {
  using output::Show;
  output::Rows rows{"rows",
                    "",
                    {{"what", "quantity", "", 0, true},
                     {"unit", "unit", "", 0, true},
                     {"measured", "measured", "", 4, false, "", 1, Show::general},
                     {"predicted", "predicted", "", 4, false, "", 1, Show::general},
                     {"error_pct", "error", "", 1, false, " %", 1, Show::change}},
                    {}};
  for (const Line& line : lines)
    rows.cells.push_back({line.what, line.unit, line.measured, line.predicted,
                          100 * (line.predicted / line.measured - 1)});
  return rows;
}

output::Rows rows_of(const std::vector<calibrate::Explanation>& why) {
  using output::Show;
  output::Rows rows{"explanations",
                    "what alone would explain the step, to first order",
                    {{"what", "what", "", 0, true},
                     {"factor", "times as long", "", 2},
                     {"seconds", "more", "s", 3, false, "", 1, Show::general},
                     {"calibration", "calibration", "", 0, true}},
                    {}};
  for (const calibrate::Explanation& one : why) {
    const bool longer = one.factor > 0;
    rows.cells.push_back({one.what, longer ? output::Json(one.factor) : output::Json(nullptr),
                          longer ? output::Json(nullptr) : output::Json(one.seconds),
                          one.calibration});
  }
  return rows;
}

output::Document out_of_memory(const std::string& log, const calibrate::MeasuredRun& run,
                               const answer::Answer& answer) {
  output::Document document;
  document.blocks.emplace_back(
      output::Note{"",
                   fmt::format("{}: {:.4g} s a step measured; predicted to run out of memory: {}",
                               log, run.seconds, answer::oom_reason(answer.run)),
                   true});
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("steps", "", run.steps), output::value("fits", "", false),
                      output::value("measured_step_time_s", "", run.seconds),
                      output::value("reason", "", answer::oom_reason(answer.run))}});
  return document;
}

}  // namespace

Compared compared(const std::string& log, const calibrate::Source& source,
                  const answer::CheckedPlan& plan) {
  const answer::Answer answer = answer::evaluate(plan);
  const double tokens = answer::tokens_per_second_gpu(answer) * answer::step_seconds(answer);
  const calibrate::MeasuredRun run = calibrate::measured_run(source.measurements.steps, tokens);
  if (run.steps == 0)
    throw Stop{exit_data, fmt::format("{}: no step with its time in it ({})", log,
                                      source.reader ? source.reader->name : "")};
  if (!answer.run.fits()) return {out_of_memory(log, run, answer), std::nullopt};
  const double error = 100 * (answer::step_seconds(answer) / run.seconds - 1);
  output::Document document;
  document.blocks.emplace_back(output::Note{
      "",
      fmt::format("{} steps of {} measured, median {:.4g} s (nine in ten {:.4g}-{:.4g}); predicted "
                  "{:.4g} s, {:+.1f} %",
                  run.steps, log, run.seconds, run.low, run.high, answer::step_seconds(answer),
                  error),
      true});
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("steps", "", run.steps), output::value("fits", "", true),
                      output::value("error_percent", "", error)}});
  document.blocks.emplace_back(rows_of(lines_of(run, answer)));
  output::Rows why = rows_of(calibrate::explanations(answer, run.seconds));
  why.searched = why.cells.empty();
  document.blocks.emplace_back(std::move(why));
  return {document, error};
}

int run_compare(const Arguments& arguments, Globals globals) {
  Options options("compare");
  options.value("cluster", "NAME", "predict for this cluster instead of the plan's")
      .value("megatron-args", "FILE", "the launch script of the run instead of a plan")
      .value("within", "PERCENT", "exit code 2 when the step is further off; 10 by default")
      .words(1, 1000)
      .parse(arguments, globals);
  const double within = static_cast<double>(options.number("within", 10, 0, 1000));
  const std::string log = options.words().front();
  const calibrate::Source source = need(calibrate::read_source(log));
  const input::PlanFile file = load_plan(options, globals, 1);
  answer::Sites sites;
  const answer::CheckedPlan plan = checked(file, sites);
  const Compared found = compared(log, source, plan);
  say(globals, "compare", found.document);
  return found.error_percent && std::abs(*found.error_percent) <= within ? exit_yes : exit_no;
}

}  // namespace sim::command
