// calibrate.cpp — `rehearse calibrate`: fits a profile to measurements.
#include "sim/calibrate/fit/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/command/calibrate_runs.h"
#include "sim/command/calibrate_trace.h"
#include "sim/command/common/command.h"
#include "sim/input/text/locate.h"
#include "sim/output/output.h"

namespace sim::command {

namespace {

// The calibrated machine: from --cluster, from --profile, or from the GPU that a source names.
input::Machine machine_for(const Options& options,
                           const std::vector<calibrate::SourceFile>& sources) {
  if (options.has("cluster")) return need(input::find_cluster(options.text("cluster")));
  if (options.has("profile")) {
    const std::string wanted = std::filesystem::path(options.text("profile")).stem().string();
    for (const std::string& name : calibrate::known_clusters()) {
      input::Machine machine = need(input::find_cluster(name));
      if (machine.gpu.profile == wanted) return machine;
    }
    throw Stop{exit_usage,
               fmt::format("no cluster is known to have the GPU of profile '{}': name one with "
                           "--cluster",
                           wanted)};
  }
  for (const calibrate::SourceFile& source : sources) {
    const std::string name = calibrate::cluster_for(source.measurements.device);
    if (!name.empty()) return need(input::find_cluster(name));
  }
  throw Stop{exit_usage,
             fmt::format("the sources do not say which GPU they are of: name a profile to start "
                         "from with --profile; there are {}",
                         fmt::join(input::names(input::Kind::profile), ", "))};
}

// Whether the text is a valid date such as "2024-02-29".
bool is_date(const std::string& text) {
  if (text.size() != 10) return false;
  const auto number = [&](std::size_t from, std::size_t length) {
    unsigned value = 0;
    const char* end = text.data() + from + length;
    return std::from_chars(text.data() + from, end, value).ptr == end ? value : 0;
  };
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number(0, 4))),
                                        std::chrono::month(number(5, 2)),
                                        std::chrono::day(number(8, 2))};
  return text[4] == '-' && text[7] == '-' && day.ok();
}

}  // namespace

int run_calibrate(const Arguments& arguments, Globals globals) {
  Options options("calibrate");
  options.value("profile", "NAME", "profile to start from (default: that of the sources' GPU)")
      .value("cluster", "NAME", "cluster whose GPU was measured (default: one with that profile)")
      .output("output,o", "FILE", "write the new profile to FILE")
      .value("plan", "PLAN", "the plan that ran: the sources are traces of its steps")
      .values("set", "KEY=VALUE", "with --plan: a setting of it; may be given again")
      .value("rank", "N", "with --plan: the rank of the trace (default: as the trace says)")
      .output("trace", "FILE", "with --plan: also draw predicted beside measured (Perfetto)")
      .value("date", "YYYY-MM-DD", "date of the measurements (default: the sources', the base's)")
      .flag("force", "write a profile of runs in spite of the doubts that are printed")
      .words(1, 1000)
      .parse(arguments, globals);
  const std::string date = options.text("date");
  if (!date.empty() && !is_date(date))
    throw Stop{exit_usage, fmt::format("--date takes a day as YYYY-MM-DD, not '{}'", date)};
  if (options.has("plan")) return run_calibrate_trace(options, globals);
  for (const char* name : {"set", "rank", "trace"})
    if (options.has(name)) throw Stop{exit_usage, fmt::format("--{} needs --plan", name)};
  if (are_run_tables(options.words())) return run_calibrate_runs(options, globals);
  std::vector<calibrate::SourceFile> sources;
  Diagnostics problems;
  for (const std::string& path : options.words()) {
    const Result<calibrate::Source> read = calibrate::read_source(path);
    if (!read) {
      problems.insert(problems.end(), read.errors().begin(), read.errors().end());
      continue;
    }
    sources.push_back({path, std::string(read->reader->name), read->measurements});
  }
  if (!problems.empty()) throw Stop{complain(problems), ""};
  const input::Machine machine = machine_for(options, sources);
  const std::string base = options.text("profile", machine.gpu.profile);
  calibrate::Wanted wanted;
  wanted.base = need(input::locate(input::Kind::profile, base));
  const std::string output = options.text("output");
  wanted.name = output.empty() ? base : std::filesystem::path(output).stem().string();
  wanted.date = date;
  wanted.command = fmt::format("rehearse calibrate {}", fmt::join(options.words(), " "));
  if (options.has("cluster")) wanted.command += " --cluster " + options.text("cluster");
  wanted.command += " --profile " + base;
  if (!date.empty()) wanted.command += " --date " + date;
  const calibrate::Calibration done =
      need(calibrate::calibrate(std::move(sources), machine, wanted));
  const bool written = !output.empty() && calibrate::fitted(done) > 0;
  if (written) {
    const std::string problem = output::write_file(output, done.profile);
    if (!problem.empty()) throw Stop{exit_io, problem};
  }
  const bool refused = !output.empty() && !written;
  // Prints one document: the result, or the reason why there is none.
  if (!refused || !globals.json) say(globals, "calibrate", calibrate::calibration_document(done));
  if (refused)
    throw Stop{exit_data, fmt::format("{} is not written: no parameter was felt by five "
                                      "measurements",
                                      output)};
  return exit_yes;
}

}  // namespace sim::command
