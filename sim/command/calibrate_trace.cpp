// calibrate_trace.cpp — `rehearse calibrate TRACE --plan PLAN`: compares the kernels of a step with
// a plan and fits a profile.
#include "sim/command/calibrate_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/calibrate/fit/calibrate.h"
#include "sim/calibrate/trace/step_document.h"
#include "sim/command/common/watch.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "sim/output/output.h"

namespace sim::command {

namespace {

using calibrate::ComparedTrace;

int rank_of(const Options& options, const calibrate::MeasuredTrace& trace, int world) {
  const int said = options.has("rank") ? static_cast<int>(options.number("rank", 0, 0, 1 << 24))
                                       : std::max(0, trace.rank);
  if (said < world && (trace.world == 0 || trace.world == world || options.has("rank")))
    return said;
  throw Stop{exit_data,
             fmt::format("{}: a trace of rank {} of {}, but the plan has {} ranks; --rank N says "
                         "which of the plan's ranks it stands for",
                         trace.path, said, trace.world, world)};
}

std::vector<ComparedTrace> compare_all(const Options& options, const answer::CheckedPlan& plan) {
  std::vector<ComparedTrace> out;
  std::map<int, std::shared_ptr<const calibrate::ExpectedStep>> steps;
  for (const std::string& path : options.words()) {
    calibrate::MeasuredTrace trace =
        calibrate::measured_trace(need(calibrate::read_trace_file(path)), path);
    if (trace.kernels.empty())
      throw Stop{exit_data,
                 fmt::format("{}: no kernel in it: profile with ProfilerActivity.CUDA", path)};
    const int rank = rank_of(options, trace, plan->world());
    auto& step = steps[rank];
    if (!step)
      step = std::make_shared<const calibrate::ExpectedStep>(calibrate::expected_step(plan, rank));
    out.push_back(calibrate::compared_trace(std::move(trace), step, rank));
  }
  return out;
}

void draw(const std::string& path, const std::vector<ComparedTrace>& traces) {
  output::SliceTrace out;
  std::string problem = out.open(path, fmt::format("rank {}", traces.front().rank));
  if (!problem.empty()) throw Stop{exit_io, problem};
  for (const ComparedTrace& one : traces) calibrate::draw(one, out);
  problem = out.close();
  if (!problem.empty()) throw Stop{exit_io, problem};
}

std::string command_line(const Options& options, const std::string& base) {
  std::string line = fmt::format("rehearse calibrate {} --plan {}", fmt::join(options.words(), " "),
                                 options.text("plan"));
  for (const std::string& setting : options.list("set")) line += " --set " + setting;
  for (const char* name : {"cluster", "rank", "date"})
    if (options.has(name)) line += fmt::format(" --{} {}", name, options.text(name));
  return line + " --profile " + base;
}

}  // namespace

int run_calibrate_trace(const Options& options, const Globals& globals) {
  std::vector<std::string> settings = options.list("set");
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  const input::PlanFile file =
      need(input::load_plan(workload_path(options.text("plan")), settings));
  answer::Sites sites;
  const answer::CheckedPlan plan = checked(file, sites);
  const std::vector<ComparedTrace> traces = compare_all(options, plan);
  if (options.has("trace")) draw(options.text("trace"), traces);

  output::Document document;
  std::vector<calibrate::RankTrace> ranks;
  for (const ComparedTrace& one : traces) {
    for (output::Block& block : calibrate::comparison_blocks(one))
      document.blocks.push_back(std::move(block));
    ranks.push_back({one.rank, one.expected.get(), &one.trace, &one.match});
  }
  if (ranks.size() > 1)
    document.blocks.emplace_back(calibrate::clock_rows(calibrate::compare_clocks(ranks)));

  const std::string base = options.text("profile", file.machine.gpu.profile);
  const std::string output = options.text("output");
  calibrate::Wanted wanted;
  wanted.base = need(input::locate(input::Kind::profile, base));
  wanted.name = output.empty() ? base : std::filesystem::path(output).stem().string();
  wanted.date = options.text("date");
  wanted.command = command_line(options, base);
  const Result<calibrate::Calibration> done =
      calibrate::calibrate_traces(traces, plan.plan(), plan.site(), wanted);
  if (done) {
    for (output::Block& block : calibrate::calibration_document(*done).blocks)
      document.blocks.push_back(std::move(block));
    if (!output.empty() && calibrate::fitted(*done) > 0) {
      const std::string problem = output::write_file(output, done->profile);
      if (!problem.empty()) throw Stop{exit_io, problem};
    }
  } else {
    document.blocks.emplace_back(output::Note{"", "no profile: nothing of it could be fitted"});
  }
  const bool refused = !output.empty() && (!done || calibrate::fitted(*done) == 0);
  // Prints one document: the result, or the reason why there is none.
  if (!refused || !globals.json) say(globals, "calibrate", document);
  if (refused)
    throw Stop{exit_data, fmt::format("{} is not written: no parameter was felt by five "
                                      "measurements",
                                      output)};
  return exit_yes;
}

}  // namespace sim::command
