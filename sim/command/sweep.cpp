// sweep.cpp — `rehearse sweep`: evaluates every point of a grid into a folder, safe against kills.
// A grid in words ("tp=1,2,4") needs no folder.
#include "sim/study/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/base/outputs.h"
#include "sim/command/common/command.h"
#include "sim/command/common/cost_options.h"
#include "sim/command/common/csv_option.h"
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

// What the command does when all points have records: pages, tables, text. Returns its exit code.
struct Ending {
  const Globals& globals;
  std::string page;  // of --report; "": none
  std::optional<CsvTable> csv;
  bool chosen_columns = false;  // --columns
  Prices prices;                // of --price, and of cluster files
  bool front = false;           // --pareto

  int operator()(const std::string& name, std::vector<output::Json> records) const {
    for (output::Json& record : records)
      if (record["cluster"].is_string())
        output::add_cost(record, prices.of(record["cluster"].get<std::string>()));
    if (!page.empty()) write_page(page, output::sweep_document(name, records));
    if (csv) {
      CsvTable table = *csv;
      if (!chosen_columns && output::have_cost(records))
        table.columns.push_back(output::cost_column());
      table.write(records);
    }
    if (!csv || !csv->on_stdout()) say(globals, "sweep", output::sweep_answer(records, front));
    return code_of(records);
  }
};

// The prices of --price; where it names none, those of the cluster files.
Prices prices_of(const Options& options, const input::Grid& grid) {
  Prices prices = command::prices_of(options);
  if (prices.each > 0) return prices;
  for (const auto& machine : grid.machines())
    if (machine->price_per_gpu_hour > 0)
      prices.named.try_emplace(machine->cluster.name, machine->price_per_gpu_hour);
  return prices;
}

// Whether the words are a grid themselves: "model=llama-3.1-8b tp=1,2,4".
bool is_grid(const std::vector<std::string>& words) {
  return words[0].find('=') != std::string::npos;
}

input::Grid grid_of(const std::vector<std::string>& words) {
  if (is_grid(words)) return need(input::grid_of_words(words));
  return need(input::load_grid(workload_path(words[0]), {words.begin() + 1, words.end()}));
}

// Whether the records go into a folder. Those of a grid in words do if the command line says so.
bool is_kept(const Options& options, const Share& share) {
  return !is_grid(options.words()) || share.shard || share.ranks != nullptr ||
         std::ranges::any_of(std::array{"output", "resume", "overwrite"},
                             [&](const char* name) { return options.has(name); });
}

// The records of all points, which no folder keeps.
std::vector<output::Json> records_of(const study::Points& points, SweepMemory memory, int workers,
                                     bool quiet) {
  study::SweepCalls calls;
  calls.evaluate = evaluation(memory);
  Progress progress("sweep", points.count, quiet);
  calls.go_on = [&](const study::SweepCounts& counts) {
    progress.show(counts.done, "");
    return !interrupted();
  };
  std::vector<output::Json> records;
  for (const std::string& line : study::records_of(points, 0, points.count, workers, calls))
    records.push_back(output::Json::parse(line));
  progress.clear();
  if (records.empty())
    throw Stop{exit_interrupted, "interrupted; -o FOLDER keeps what is done for --resume"};
  return records;
}

SweepMemory memory_of(const Options& options) {
  const SweepMemory memory{detail_of(options), options.has("peaks")};
  if (memory.peaks && memory.detail != engine::MemoryDetail::exact)
    throw Stop{exit_usage, fmt::format("--peaks needs exact memory: leave out --memory {}",
                                       engine::name(memory.detail))};
  return memory;
}

// The words of the command that resumes.
std::vector<std::string> said_again(const Options& options) {
  std::vector<std::string> said = options.words();
  for (const char* name : {"memory", "csv", "columns", "price"})
    if (options.has(name)) said.push_back(fmt::format("--{}={}", name, options.text(name)));
  for (const char* flag : {"peaks", "pareto"})
    if (options.has(flag)) said.push_back(fmt::format("--{}", flag));
  return said;
}

// Sweeps into the folder `whole`.
int keep(const Options& options, const Share& share, const input::Grid& grid, study::Points points,
         const std::string& whole, const Ending& ending) {
  const Globals& globals = ending.globals;
  const std::vector<std::string> said = said_again(options);
  std::string folder = whole;
  std::string shard_option;
  if (share.shard) {
    const study::Shard& shard = *share.shard;
    std::vector<std::string> again = said;
    again.emplace_back("--resume");
    folder = prepare(whole, study::manifest("sweep", study::point_ids(points), shard, again),
                     options.has("overwrite"));
    points = study::share_of(points, shard);
    if (!share.of_step) shard_option = fmt::format(" --shard {}/{}", shard.number, shard.of);
  }
  study::SweepCalls calls;
  calls.evaluate = evaluation(memory_of(options));
  Progress progress("sweep", points.count, globals.quiet);
  calls.go_on = [&](const study::SweepCounts& counts) {
    progress.show(counts.done, fmt::format("fits {}, out of memory {}", counts.fits, counts.oom));
    return !interrupted();
  };
  const study::SweepSettings settings{folder, share.workers, mode_of(options), share.ranks.get()};
  if (share.ranks != nullptr && share.ranks->rank() > 0) {
    calls.go_on = [](const study::SweepCounts&) { return !interrupted(); };
    study::help_sweep(points, settings, calls);
    return interrupted() ? exit_interrupted : exit_yes;
  }
  const std::string resume = resume_line(said, whole, shard_option);
  const study::SweepResult result = made(points, settings, calls, resume);
  progress.clear();
  if (!result.complete) stop(result, resume);
  if (!globals.quiet) say_what_was_left_out(result);
  if (share.of_step) {
    merge_when_last(whole, *share.shard, globals);
    return code_of(result.records);
  }
  if (!globals.quiet) {
    note(fmt::format("results: {}/results.csv and {}/results.jsonl", folder, folder));
  }
  return ending(grid.name(), result.records);
}

}  // namespace

int run_sweep(const Arguments& arguments, Globals globals) {
  if (std::ranges::any_of(arguments,
                          [](const auto& one) { return one.starts_with("--megatron-args"); }))
    throw Stop{exit_usage,
               "a grid has no launch script; `rehearse whatif --megatron-args FILE --cluster NAME "
               "--vary tp=1,2 --vary micro_batch=1,2` replays every combination"};
  Options options("sweep");
  options
      .value("output,o", "FOLDER",
             "where results.jsonl and results.csv go (results-<grid>; for a grid in words: "
             "nowhere)")
      .flag("resume", "go on with what the folder holds")
      .flag("overwrite",
            "start over, whatever the folder holds; with --resume: drop only records of other "
            "points, machines or versions")
      .words(1, 1000);
  declare_csv(options);
  declare_detail(options);
  options.flag("peaks",
               "exact peaks also of points whose tensors alone exceed the memory; by default their "
               "replay ends early, and their peaks are lower bounds");
  options.flag("pareto", "also the points that no other beats in both step time and memory");
  declare_prices(options);
  declare_shard(options);
  declare_report(options);
  options.parse(arguments, globals);
  const SweepMemory memory = memory_of(options);
  const Share share = share_of(options);
  for (const char* file : {"/results.jsonl", "/results.csv"})
    if (options.has("output")) declare_output(options.text("output") + file, "output");
  std::optional<CsvTable> csv = csv_of(options, globals);
  const input::Grid grid = grid_of(options.words());
  if (share.shard && options.has("price"))
    throw Stop{exit_usage, "--price is of a whole sweep; a shard prints no costs: leave it out"};
  const Ending ending{globals,
                      options.text("report"),
                      std::move(csv),
                      options.has("columns"),
                      prices_of(options, grid),
                      options.has("pareto")};
  const bool kept = is_kept(options, share);
  const std::string whole = options.text("output", default_folder(grid));
  if (kept && options.has("report")) keep_results(whole, ending.page, "report");
  if (kept && ending.csv && !ending.csv->on_stdout()) keep_results(whole, ending.csv->path, "csv");
  answer::Sites& sites = kept_sites();
  for (const auto& machine : grid.machines()) need(sites.of(*machine));
  catch_interrupts();
  study::Points points = grid_points(grid, sites, memory);
  if (kept) return keep(options, share, grid, std::move(points), whole, ending);
  return ending(grid.name(), records_of(points, memory, share.workers, globals.quiet));
}

}  // namespace sim::command
