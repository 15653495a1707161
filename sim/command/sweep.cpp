// sweep.cpp — `rehearse sweep`: every point of a grid, into a folder, safe against kills.
#include "sim/search/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/command/command.h"
#include "sim/command/interrupt.h"
#include "sim/command/progress.h"
#include "sim/config/grid.h"
#include "sim/report/sweep_text.h"
#include "sim/search/evaluate.h"

namespace sim::command {

namespace {

// In quotes where the shell would take it apart.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./=:,+@%") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string resume_line(const std::vector<std::string>& words, const std::string& folder) {
  std::string text = "rehearse sweep";
  for (const std::string& word : words) text += " " + quoted(word);
  return text + " -o " + quoted(folder) + " --resume";
}

search::Points points_of(const config::Grid& grid, search::Sites& sites) {
  return {grid.size(), [&grid, &sites](std::size_t i) {
            const config::GridPoint from = grid.point(i);
            search::Site& site = *need(sites.of(*from.machine));
            search::Point point;
            point.name = from.name;
            point.family = from.family;
            point.cluster = from.machine->cluster.name;
            point.machine = from.machine;
            point.machine_digest = site.digest;
            point.plan = from.plan;
            point.problems = from.problems;
            if (point.problems.empty()) point.problems = search::problems(point.plan, site);
            return point;
          }};
}

[[noreturn]] void stop(const search::SweepResult& result, const std::string& resume) {
  using search::RecordProblem;
  switch (result.problem) {
    case RecordProblem::none:
      throw Stop{exit_interrupted, "interrupted; go on with: " + resume};
    case RecordProblem::io:
      throw Stop{exit_io, result.message + "; once there is space, go on with: " + resume};
    case RecordProblem::locked:
      throw Stop{exit_interrupted, result.message};
    case RecordProblem::unfinished:
      throw Stop{exit_interrupted,
                 result.message + "; go on with: " + resume + "\nor start over with --overwrite"};
    case RecordProblem::mixed:
      break;
  }
  throw Stop{exit_data, result.message + "; start over with --overwrite"};
}

std::string default_folder(const config::Grid& grid) {
  return "results-" + grid.name();
}

}  // namespace

int run_sweep(const Arguments& arguments, Globals globals) {
  Options options("sweep");
  options.value("output,o", "FOLDER", "where results.jsonl and results.csv go (results-<grid>)")
      .value("jobs,j", "N", "worker processes (default: the cores)")
      .flag("resume", "go on with what the folder holds")
      .flag("overwrite", "start over, whatever the folder holds")
      .words(1, 1000)
      .parse(arguments, globals);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int workers = static_cast<int>(options.number("jobs", cores, 1, 1024));
  if (options.has("resume") && options.has("overwrite")) {
    throw Stop{exit_usage, "either --resume or --overwrite"};
  }
  const std::vector<std::string>& words = options.words();
  const config::Grid grid =
      need(config::load_grid(workload_path(words[0]), {words.begin() + 1, words.end()}));
  const std::string folder = options.text("output", default_folder(grid));
  search::Sites sites;
  for (const auto& machine : grid.machines()) need(sites.of(*machine));
  catch_interrupts();

  search::SweepCalls calls;
  calls.evaluate = [&](const search::Point& point) {
    return search::evaluate(point.plan, *need(sites.of(*point.machine)));
  };
  Progress progress("sweep", grid.size(), globals.quiet);
  calls.go_on = [&](const search::SweepCounts& counts) {
    progress.show(counts.done, fmt::format("fits {}, out of memory {}", counts.fits, counts.oom));
    return !interrupted();
  };
  using Mode = search::RecordFile::Mode;
  const Mode mode = options.has("resume")      ? Mode::go_on
                    : options.has("overwrite") ? Mode::overwrite
                                               : Mode::fresh;
  const search::SweepResult result =
      search::sweep(points_of(grid, sites), {folder, workers, mode}, calls);
  progress.clear();
  if (!result.complete) stop(result, resume_line(words, folder));
  if (!globals.quiet) {
    if (result.dropped_bytes > 0) {
      note(fmt::format("note: dropped {} bytes of a record that was cut short",
                       result.dropped_bytes));
    }
    if (result.foreign > 0) {
      note(fmt::format("note: left out {} records of other points, machines or versions",
                       result.foreign));
    }
    note(fmt::format("results: {}/results.csv and {}/results.jsonl", folder, folder));
  }
  print(globals.json ? report::document("sweep", report::sweep_json(result.records)).dump(2) + "\n"
                     : report::sweep_text(result.records));
  const bool failed =
      std::any_of(result.records.begin(), result.records.end(),
                  [](const report::Json& record) { return record["outcome"] == "failed"; });
  return failed ? exit_bug : exit_yes;
}

}  // namespace sim::command
