// sweep.cpp — `rehearse sweep`: evaluates every point of a grid into a folder, safe against kills.
#include "sim/study/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/outputs.h"
#include "sim/command/common/command.h"
#include "sim/command/common/detail.h"
#include "sim/command/common/grid_points.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/progress.h"
#include "sim/command/common/session.h"
#include "sim/command/common/shard.h"
#include "sim/command/report.h"
#include "sim/output/document.h"
#include "sim/output/documents/sweep_document.h"
#include "sim/output/record.h"
#include "sim/study/sweep/merge.h"
#include "sim/study/sweep/pool.h"

namespace sim::command {

namespace {

std::string resume_line(const std::vector<std::string>& words, const std::string& folder,
                        const std::string& shard) {
  std::string text = "rehearse sweep";
  for (const std::string& word : words) text += " " + study::quoted(word);
  return text + " -o " + study::quoted(folder) + shard + " --resume";
}

[[noreturn]] void stop(const study::SweepResult& result, const std::string& resume) {
  using study::RecordProblem;
  switch (result.problem) {
    case RecordProblem::none:
      throw Stop{exit_interrupted, "interrupted; go on with: " + resume};
    case RecordProblem::io:
      throw Stop{exit_io, result.message + "; once that is mended, go on with: " + resume};
    case RecordProblem::locked:
      throw Stop{exit_interrupted, result.message};
    case RecordProblem::unfinished:
      throw Stop{exit_interrupted,
                 result.message + "; go on with: " + resume + "\nor start over with --overwrite"};
    case RecordProblem::finished:
      throw Stop{exit_data, result.message +
                                "; --resume goes on with it where it is of the same "
                                "grid, -o FOLDER keeps it, --overwrite replaces it"};
    case RecordProblem::foreign:
      throw Stop{exit_data, result.message +
                                "; -o FOLDER keeps them, --resume --overwrite drops them, "
                                "--overwrite starts over"};
    case RecordProblem::mixed:
      break;
  }
  throw Stop{exit_data, result.message + "; start over with --overwrite"};
}

std::string default_folder(const input::Grid& grid) {
  return "results-" + grid.name();
}

study::RecordFile::Mode mode_of(const Options& options) {
  using Mode = study::RecordFile::Mode;
  if (options.has("resume")) return options.has("overwrite") ? Mode::take_over : Mode::go_on;
  return options.has("overwrite") ? Mode::overwrite : Mode::fresh;
}

void say_what_was_left_out(const study::SweepResult& result) {
  if (result.dropped_bytes > 0) {
    note(
        fmt::format("note: dropped {} bytes of a record that was cut short", result.dropped_bytes));
  }
  if (result.damaged > 0) {
    note(fmt::format("note: {} records were not as they were written; their points were made anew",
                     result.damaged));
  }
  if (result.foreign > 0) {
    note(fmt::format("note: left out {} records of other points, machines or versions",
                     result.foreign));
  }
}

// Exit code of a sweep: a crashed point is a bug; a point with a killed worker is repeated by
// --resume.
int code_of(const std::vector<output::Json>& records) {
  int code = exit_yes;
  for (const output::Json& record : records) {
    if (record["outcome"] != "failed") continue;
    if (!output::was_killed(record)) return exit_bug;
    code = exit_interrupted;
  }
  return code;
}

study::SweepResult made(const study::Points& points, const study::SweepSettings& settings,
                        const study::SweepCalls& calls, const std::string& resume) {
  try {
    return study::sweep(points, settings, calls);
  } catch (const study::NoWorker& problem) {
    throw Stop{exit_system,
               problem.what() + std::string("; once that is mended, go on with: ") + resume};
  }
}

void declare_sweep(Options& options) {
  options.value("output,o", "FOLDER", "where results.jsonl and results.csv go (results-<grid>)")
      .flag("resume", "go on with what the folder holds")
      .flag("overwrite",
            "start over, whatever the folder holds; with --resume: drop only records of other "
            "points, machines or versions")
      .words(1, 1000);
  declare_detail(options);
  declare_shard(options);
  declare_report(options);
}

// The points of this process and their folder.
struct OwnPoints {
  study::Points points;
  std::string folder;
  std::string shard_words;  // of the command that resumes
};

// All points in the folder of the sweep or, with --shard, a share of them in a folder below it.
OwnPoints own_points(study::Points all, const std::string& whole, const Share& share,
                     std::vector<std::string> said, bool overwrite) {
  if (!share.shard) return {std::move(all), whole, ""};
  const study::Shard& shard = *share.shard;
  said.emplace_back("--resume");
  OwnPoints own;
  own.folder =
      prepare(whole, study::manifest("sweep", study::point_ids(all), shard, said), overwrite);
  own.points = study::share_of(all, shard);
  if (!share.of_step) own.shard_words = fmt::format(" --shard {}/{}", shard.number, shard.of);
  return own;
}

}  // namespace

int run_sweep(const Arguments& arguments, Globals globals) {
  Options options("sweep");
  declare_sweep(options);
  options.parse(arguments, globals);
  const engine::MemoryDetail memory = detail_of(options);
  const Share share = share_of(options);
  const study::RecordFile::Mode mode = mode_of(options);
  const std::vector<std::string>& words = options.words();
  std::vector<std::string> said = words;  // words of the command that resumes
  if (options.has("memory")) said.push_back("--memory=" + options.text("memory"));
  for (const char* file : {"/results.jsonl", "/results.csv"})
    if (options.has("output")) declare_output(options.text("output") + file, "output");
  const input::Grid grid =
      need(input::load_grid(workload_path(words[0]), {words.begin() + 1, words.end()}));
  const std::string whole = options.text("output", default_folder(grid));
  if (options.has("report")) keep_results(whole, options.text("report"), "report");
  answer::Sites& sites = kept_sites();
  for (const auto& machine : grid.machines()) need(sites.of(*machine));
  catch_interrupts();

  const auto [points, folder, shard_words] =
      own_points(grid_points(grid, sites, memory), whole, share, said, options.has("overwrite"));
  study::SweepCalls calls;
  calls.evaluate = evaluation(memory);
  Progress progress("sweep", points.count, globals.quiet);
  calls.go_on = [&](const study::SweepCounts& counts) {
    progress.show(counts.done, fmt::format("fits {}, out of memory {}", counts.fits, counts.oom));
    return !interrupted();
  };
  const study::SweepSettings settings{folder, share.workers, mode, share.ranks.get()};
  if (share.ranks != nullptr && share.ranks->rank() > 0) {
    calls.go_on = [](const study::SweepCounts&) { return !interrupted(); };
    study::help_sweep(points, settings, calls);
    return interrupted() ? exit_interrupted : exit_yes;
  }
  const std::string resume = resume_line(said, whole, shard_words);
  const study::SweepResult result = made(points, settings, calls, resume);
  progress.clear();
  if (!result.complete) stop(result, resume);
  const int code = code_of(result.records);
  if (!globals.quiet) say_what_was_left_out(result);
  if (share.of_step) {
    merge_when_last(whole, *share.shard, globals);
    return code;
  }
  if (!globals.quiet) {
    note(fmt::format("results: {}/results.csv and {}/results.jsonl", folder, folder));
  }
  if (options.has("report"))
    write_page(options.text("report"), output::sweep_document(grid.name(), result.records));
  say(globals, "sweep", output::sweep_answer(result.records));
  return code;
}

}  // namespace sim::command
