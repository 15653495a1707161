// compare.cpp — `rehearse compare`: compares logs of a run with the prediction for its plan, or two
// plans.
#include "sim/command/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/answer/evaluate.h"
#include "sim/answer/interval.h"
#include "sim/base/median.h"
#include "sim/base/text.h"
#include "sim/calibrate/compare.h"
#include "sim/command/common/command.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/compare_plans.h"
#include "sim/input/plan/plan.h"
#include "sim/output/document.h"

namespace sim::command {

namespace {

struct Line {
  std::string what, unit;
  double measured = 0, predicted = 0;
};

// A log of Megatron-DeepSpeed counts what its layers recompute, as Narayanan et al. do.
const char* convention_of(const calibrate::MeasuredRun& run) {
  return run.counts_recomputation ? "narayanan" : "megatron";
}

std::vector<Line> lines_of(const calibrate::MeasuredRun& run, const answer::Answer& answer) {
  const double gib = static_cast<double>(1 << 30);
  const auto in_gib = [&](Bytes bytes) { return static_cast<double>(bytes.n) / gib; };
  std::vector<Line> lines = {
      {"step", "s", run.seconds, answer::step_seconds(answer)},
      {"tokens per second and GPU", "", run.tokens_s_gpu, answer::tokens_per_second_gpu(answer)}};
  const char* const convention = convention_of(run);
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

// A log and its steps.
struct Log {
  std::string path;
  calibrate::MeasuredRun run;
};

// The leading words that a reader of measurements recognises; at least the first one.
std::vector<std::string> logs_of(const Options& options) {
  std::vector<std::string> logs = {options.words().front()};
  for (std::size_t i = 1; i < options.words().size(); ++i) {
    if (calibrate::reader_of(options.words()[i]) == nullptr) break;
    logs.push_back(options.words()[i]);
  }
  return logs;
}

// Stops if a source is no log, and names the command that reads it.
void need_steps(const std::string& path, const calibrate::Source& source) {
  if (!source.measurements.steps.empty()) return;
  throw Stop{
      complain({{path, fmt::format("{}, not a log with steps; `{}` reads it", source.reader->name,
                                   calibrate::command_for(*source.reader, path))}}),
      ""};
}

Log read_log(const std::string& path, const calibrate::Source& source, const program::Plan& plan) {
  const double tokens = calibrate::tokens_per_gpu(source.measurements, plan);
  Log log{path, calibrate::measured_run(source.measurements.steps, tokens)};
  if (log.run.steps == 0)
    throw Stop{exit_data, fmt::format("{}: no step with its time in it ({})", path,
                                      source.reader ? source.reader->name : "")};
  return log;
}

double error_of(const calibrate::MeasuredRun& run, const answer::Answer& answer) {
  return 100 * (answer::step_seconds(answer) / run.seconds - 1);
}

// Stops, or with `force` warns, if a log prints settings that the plan has otherwise.
void need_same_run(const std::vector<calibrate::Source>& sources, const program::Plan& plan,
                   bool force) {
  calibrate::OtherRun other;
  for (const calibrate::Source& source : sources)
    other.add(calibrate::other_run(source.measurements, plan));
  if (!other) return;
  if (!force)
    throw Stop{complain(other.differences),
               fmt::format("the log is of another run than the plan: {}; --force compares them all "
                           "the same",
                           other.remedy())};
  for (const Diagnostic& one : other.differences)
    note(fmt::format("{}: warning: {}", one.where, one.message));
}

// A log whose throughput times its step is not the plan's work: what it says of the run. "": it is,
// or the log prints no throughput.
std::string other_work(const Log& log, const answer::Answer& answer) {
  constexpr double most = 0.02;  // the throughput is printed with one decimal
  if (log.run.tflops_gpu <= 0) return "";
  const double planned =
      answer::rate(answer, convention_of(log.run)).tflops_gpu * answer::step_seconds(answer);
  const double ratio = log.run.tflops_gpu * log.run.seconds / planned;
  if (std::abs(ratio - 1) <= most) return "";
  return fmt::format(
      "{}: its TFLOP/s times its step are {:.3g} times the plan's FLOPs: another model, sequence, "
      "batch or number of GPUs ran, or FLOPs are counted in another way. What follows assumes the "
      "plan's work",
      log.path, ratio);
}

// Tells the user where to look first if the measured step is outside of its interval.
std::string where_to_look(double seconds, double predicted, const answer::Interval& interval) {
  const double low = 100 * (interval.low / predicted - 1);
  const double high = 100 * (interval.high / predicted - 1);
  return fmt::format(
      "the measured step is outside the 90 % interval of the prediction, {:.4g}-{:.4g} s ({:+.0f} "
      "to {:+.0f} %, what measured runs of this GPU leave open): {}",
      interval.low, interval.high, low, high,
      seconds > interval.high
          ? "all GPUs slower alike are unlikely; look at settings that the log does not print, at "
            "the data loader and checkpoints (are some steps much faster?), at one slow GPU "
            "(`rehearse doc condition`), and at the links (`rehearse topo time CLUSTER --compare "
            "nccl.log`)"
          : "look at settings that the log does not print: the plan may recompute or wait where "
            "the run did not");
}

// Says whether the measured step lies in the 90 % interval of the prediction, and which steps of
// the logs were left out: the first ones, and those of a batch that ramps up.
void add_notes(const std::vector<Log>& logs, double seconds, const answer::Answer& answer,
               const answer::Intervals& expected, output::Document& document) {
  for (const Log& log : logs)
    if (std::string text = other_work(log, answer); !text.empty())
      document.blocks.emplace_back(output::Note{"", std::move(text)});
  std::vector<std::string> notes;
  if (expected.step_seconds) {
    const auto [low, high] = *expected.step_seconds;
    notes.push_back(
        low <= seconds && seconds <= high
            ? fmt::format("the measured step is in the 90 % interval of the prediction, "
                          "{:.4g}-{:.4g} s",
                          low, high)
            : where_to_look(seconds, answer::step_seconds(answer), *expected.step_seconds));
    document.blocks.emplace_back(output::Data{"interval_90", output::intervals_json(expected)});
  }
  std::int64_t ramp = 0, warm_up = 0;
  for (const Log& log : logs) {
    ramp += static_cast<std::int64_t>(log.run.ramp);
    warm_up += static_cast<std::int64_t>(log.run.warm_up);
  }
  if (warm_up > 0) notes.push_back(fmt::format("left out: {}", counted(warm_up, "first step")));
  if (ramp > 0)
    notes.push_back(fmt::format("left out: {} with another global batch than the last one",
                                counted(ramp, "step")));
  if (!notes.empty())
    document.blocks.emplace_back(output::Note{"", fmt::format("{}", fmt::join(notes, "; "))});
}

output::Document one_log(const Log& log, const answer::Answer& answer,
                         const answer::Intervals& expected) {
  const double error = error_of(log.run, answer);
  output::Document document;
  document.blocks.emplace_back(output::Note{
      "",
      fmt::format("{} steps of {} measured, median {:.4g} s (nine in ten {:.4g}-{:.4g}); predicted "
                  "{:.4g} s, {:+.1f} %",
                  log.run.steps, log.path, log.run.seconds, log.run.low, log.run.high,
                  answer::step_seconds(answer), error),
      true});
  add_notes({log}, log.run.seconds, answer, expected, document);
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("steps", "", log.run.steps), output::value("fits", "", true),
                      output::value("error_percent", "", error)}});
  document.blocks.emplace_back(rows_of(lines_of(log.run, answer)));
  return document;
}

// Several logs of one plan: each one, and all together by the median of their medians.
output::Document several_logs(const std::vector<Log>& logs, const answer::Answer& answer,
                              double seconds, const answer::Intervals& expected) {
  std::size_t steps = 0;
  for (const Log& log : logs) steps += log.run.steps;
  const double predicted = answer::step_seconds(answer), error = 100 * (predicted / seconds - 1);
  output::Rows rows{"logs",
                    "",
                    {{"log", "log", "", 0, true},
                     {"steps", "steps", "", 0},
                     {"measured_s", "measured", "s", 4, false, "", 1, output::Show::general},
                     {"error_pct", "error", "", 1, false, " %", 1, output::Show::change}},
                    {}};
  for (const Log& log : logs)
    rows.cells.push_back({log.path, log.run.steps, log.run.seconds, error_of(log.run, answer)});
  output::Document document;
  document.blocks.emplace_back(output::Note{
      "",
      fmt::format("{} steps of {} logs measured, median of their medians {:.4g} s; predicted "
                  "{:.4g} s, {:+.1f} %",
                  steps, logs.size(), seconds, predicted, error),
      true});
  add_notes(logs, seconds, answer, expected, document);
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("steps", "", steps), output::value("fits", "", true),
                      output::value("error_percent", "", error)}});
  document.blocks.emplace_back(std::move(rows));
  return document;
}

answer::Intervals expected(const answer::Answer& answer, const answer::Site& site,
                           const std::string& framework) {
  return answer::intervals(answer, kept_residuals(),
                           answer::basis_of(site.profile.device, site.machine.gpu.name, framework),
                           "megatron");
}

// The logs of one plan against its answer; the error is that of the log that is furthest off.
Compared compared_logs(const std::vector<Log>& logs, const answer::Answer& answer,
                       const answer::Intervals& expected) {
  if (!answer.run.fits())
    return {out_of_memory(logs.front().path, logs.front().run, answer), std::nullopt};
  std::vector<double> medians;
  double furthest = 0;
  for (const Log& log : logs) {
    medians.push_back(log.run.seconds);
    const double error = error_of(log.run, answer);
    if (std::abs(error) >= std::abs(furthest)) furthest = error;
  }
  const double seconds = median(medians);
  output::Document document = logs.size() == 1 ? one_log(logs.front(), answer, expected)
                                               : several_logs(logs, answer, seconds, expected);
  output::Rows why = rows_of(calibrate::explanations(answer, seconds));
  why.searched = why.cells.empty();
  document.blocks.emplace_back(std::move(why));
  return {document, furthest};
}

}  // namespace

Compared compared(const std::string& log, const calibrate::Source& source,
                  const answer::CheckedPlan& plan, const std::string& framework) {
  if (const calibrate::OtherRun other = calibrate::other_run(source.measurements, plan.plan()))
    throw Stop{complain(other.differences), "the log is of another run: " + other.remedy()};
  const answer::Answer answer = answer::evaluate(plan);
  return compared_logs({read_log(log, source, plan.plan())}, answer,
                       expected(answer, plan.site(), framework));
}

int run_compare(const Arguments& arguments, Globals globals) {
  Options options("compare");
  options.value("cluster", "NAME", "predict for this cluster instead of the plan's")
      .value("megatron-args", "FILE", "the launch script of the run instead of a plan")
      .flag("force", "compare although the log prints settings that the plan has otherwise")
      .value("within", "PERCENT", "exit code 2 when the step is further off; 10 by default")
      .words(1, 1000)
      .parse(arguments, globals);
  if (std::optional<TwoPlans> plans = two_plans(arguments)) {
    options.only({"cluster"});
    if (options.has("cluster")) plans->settings.push_back("cluster=" + options.text("cluster"));
    return compare_plans(*plans, globals);
  }
  const double within = static_cast<double>(options.number("within", 10, 0, 1000));
  const std::vector<std::string> paths = logs_of(options);
  std::vector<calibrate::Source> sources;  // their problems come before those of the plan
  for (const std::string& path : paths) {
    sources.push_back(need(calibrate::read_source(path)));
    need_steps(path, sources.back());
  }
  const input::PlanFile file = load_plan(options, globals, paths.size());
  need_same_run(sources, *file.plan, options.has("force"));
  answer::Sites sites;
  const answer::CheckedPlan plan = checked(file, sites);
  const answer::Answer answer = answer::evaluate(plan);
  std::vector<Log> logs;
  for (std::size_t i = 0; i < paths.size(); ++i)
    logs.push_back(read_log(paths[i], sources[i], *file.plan));
  const Compared found = compared_logs(logs, answer, expected(answer, plan.site(), file.framework));
  say(globals, "compare", found.document);
  return found.error_percent && std::abs(*found.error_percent) <= within ? exit_yes : exit_no;
}

}  // namespace sim::command
