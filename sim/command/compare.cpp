// compare.cpp — `rehearse compare`: the log of a run beside what is predicted for its plan.
#include "sim/calibrate/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/calibrate/readers/reader.h"
#include "sim/command/command.h"
#include "sim/config/plan.h"
#include "sim/report/json.h"
#include "sim/report/table.h"
#include "sim/search/evaluate.h"

namespace sim::command {

namespace {

config::PlanFile plan_of(const Options& options, Globals globals) {
  auto [path, settings] = options.named(1);
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  config::PlanFile file;
  if (options.has("megatron-args")) {
    if (!path.empty()) throw Stop{exit_usage, "either a plan or --megatron-args, not both"};
    file = need(config::load_megatron(options.text("megatron-args"), settings));
  } else {
    if (path.empty()) throw Stop{exit_usage, "name a log and a plan, or --megatron-args"};
    file = need(config::load_plan(workload_path(path), settings));
  }
  if (!globals.quiet)
    for (const std::string& text : file.notes) note("note: " + text);
  return file;
}

struct Line {
  std::string what, unit;
  double measured = 0, predicted = 0;
};

std::vector<Line> lines_of(const calibrate::MeasuredRun& run, const report::Answer& answer) {
  const double gib = static_cast<double>(1 << 30);
  const auto in_gib = [&](Bytes bytes) { return static_cast<double>(bytes.n) / gib; };
  std::vector<Line> lines = {
      {"step", "s", run.seconds, report::step_seconds(answer)},
      {"tokens per second and GPU", "", run.tokens_s_gpu, report::tokens_per_second_gpu(answer)}};
  if (run.tflops_gpu > 0)
    lines.push_back({"throughput (as printed, megatron)", "TFLOP/s/GPU", run.tflops_gpu,
                     report::rate(answer, "megatron").tflops_gpu});
  if (run.allocated_gib > 0)
    lines.push_back(
        {"peak allocated", "GiB", run.allocated_gib, in_gib(report::peak_allocated(answer.run))});
  if (run.reserved_gib > 0)
    lines.push_back(
        {"peak reserved", "GiB", run.reserved_gib, in_gib(report::peak_reserved(answer.run))});
  return lines;
}

std::string text_of(const std::vector<Line>& lines,
                    const std::vector<calibrate::Explanation>& why) {
  report::Table table({"<", "measured", "predicted", "error", "<"});
  for (const Line& line : lines)
    table.row({line.what, fmt::format("{:.4g}", line.measured),
               fmt::format("{:.4g}", line.predicted),
               fmt::format("{:+.1f} %", 100 * (line.predicted / line.measured - 1)), line.unit});
  std::string text = table.text();
  if (!why.empty()) text += "\nwhat alone would explain the step, to first order:\n";
  for (const calibrate::Explanation& one : why) {
    text += one.factor > 0 ? fmt::format("  {} take {:.2f} times as long", one.what, one.factor)
                           : fmt::format("  {} {:.3g} s", one.what, one.seconds);
    if (!one.calibration.empty()) text += fmt::format(" (calibration: {})", one.calibration);
    text += "\n";
  }
  return text;
}

}  // namespace

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
  const config::PlanFile file = plan_of(options, globals);
  search::Sites sites;
  search::Site& site = *need(sites.of(file.machine));
  const report::Answer answer = search::evaluate(file.plan, site);
  const double tokens = report::tokens_per_second_gpu(answer) * report::step_seconds(answer);
  const calibrate::MeasuredRun run = calibrate::measured_run(source.measurements.steps, tokens);
  if (run.steps == 0)
    throw Stop{exit_data, fmt::format("{}: no step with its time in it ({})", log,
                                      source.reader ? source.reader->name : "")};
  if (!answer.run.fits()) {
    print(fmt::format("{}: {:.4g} s a step measured; predicted to run out of memory: {}\n", log,
                      run.seconds, report::oom_reason(answer.run)));
    return exit_no;
  }
  const double error = 100 * (report::step_seconds(answer) / run.seconds - 1);
  const std::vector<Line> lines = lines_of(run, answer);
  const auto why = calibrate::explanations(answer, run.seconds);
  if (globals.json) {
    report::Json rows = report::Json::array(), reasons = report::Json::array();
    for (const Line& line : lines)
      rows.push_back({{"what", line.what},
                      {"unit", line.unit},
                      {"measured", line.measured},
                      {"predicted", line.predicted}});
    for (const calibrate::Explanation& one : why)
      reasons.push_back({{"what", one.what},
                         {"factor", one.factor},
                         {"seconds", one.seconds},
                         {"calibration", one.calibration}});
    print(report::document("compare", {{"steps", run.steps},
                                       {"error_percent", error},
                                       {"rows", rows},
                                       {"explanations", reasons}})
              .dump(2) +
          "\n");
  } else {
    print(
        fmt::format("{} steps of {} measured, median {:.4g} s (nine in ten {:.4g}-{:.4g}); "
                    "predicted {:.4g} s, {:+.1f} %\n{}",
                    run.steps, log, run.seconds, run.low, run.high, report::step_seconds(answer),
                    error, text_of(lines, why)));
  }
  return std::abs(error) <= within ? exit_yes : exit_no;
}

}  // namespace sim::command
