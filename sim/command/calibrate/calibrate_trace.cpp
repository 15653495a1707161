#include "sim/command/calibrate/calibrate_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/calibrate/trace/step_document.h"
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

void draw(const std::string& path, const std::vector<ComparedTrace>& traces) {
  output::SliceTrace out;
  std::string problem = out.open(path, fmt::format("rank {}", traces.front().rank));
  if (!problem.empty()) throw Stop{exit_io, problem};
  for (const ComparedTrace& one : traces) calibrate::draw(one, out);
  problem = out.close();
  if (!problem.empty()) throw Stop{exit_io, problem};
}

}  // namespace

std::vector<ComparedTrace> compare_traces(const std::vector<std::string>& paths,
                                          const Options& options, const answer::CheckedPlan& plan) {
  std::vector<ComparedTrace> out;
  std::map<int, std::shared_ptr<const calibrate::ExpectedStep>> steps;
  for (const std::string& path : paths) {
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
  if (options.has("trace")) draw(options.text("trace"), out);
  return out;
}

void add_comparison(const std::vector<ComparedTrace>& traces, output::Document& document) {
  std::vector<calibrate::RankTrace> ranks;
  for (const ComparedTrace& one : traces) {
    for (output::Block& block : calibrate::comparison_blocks(one))
      document.blocks.push_back(std::move(block));
    ranks.push_back({one.rank, one.expected.get(), &one.trace, &one.match});
  }
  if (ranks.size() > 1)
    document.blocks.emplace_back(calibrate::clock_rows(calibrate::compare_clocks(ranks)));
}

}  // namespace sim::command
