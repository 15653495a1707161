// merge.cpp — `rehearse merge`: merges shards of several machines into the results of one machine.
#include "sim/study/sweep/merge.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/base/machine_error.h"
#include "sim/command/common/shard.h"
#include "sim/output/documents/sweep_document.h"
#include "sim/output/record.h"
#include "sim/study/sweep/records.h"
#include "sim/study/sweep/sweep.h"

namespace sim::command {

namespace {

// Stops if the folder has other records than those to be written, or a results.csv without records.
void keep_other_records(const study::Merged& merged, const std::string& into) {
  std::string path = into + "/results.jsonl";
  bool same = false;
  if (file_exists(path)) {
    std::string lines;
    for (const std::string& line : merged.lines) lines += line + "\n";
    std::ifstream in(path, std::ios::binary);
    const std::string there{std::istreambuf_iterator<char>(in), {}};
    same = there == lines;
  } else {
    path = into + "/results.csv";
    same = study::contents_of(into) == study::FolderContents::none;
  }
  if (!same)
    throw Stop{exit_data, path +
                              " holds other records, which would be lost; -o FOLDER keeps "
                              "them, --overwrite replaces them"};
}

void print_sweep(const study::Merged& merged, const std::string& into, const Globals& globals) {
  std::vector<output::Json> records;
  for (const std::string& line : merged.lines) {
    records.push_back(output::Json::parse(line, nullptr, false));
    const std::string wrong = output::record_problem(records.back());
    if (wrong.empty()) continue;
    throw Stop{exit_data, fmt::format("record {} of the whole {}", records.size(), wrong)};
  }
  const std::string problem = study::write_results(into, merged.lines, records);
  if (!problem.empty()) throw Stop{exit_io, problem};
  if (!globals.quiet) {
    note(fmt::format("results: {}/results.csv and {}/results.jsonl", into, into));
  }
  say(globals, "sweep", output::sweep_answer(records));
}

}  // namespace

void print_merged(const study::Merged& merged, const std::string& into, const Globals& globals) {
  if (merged.kind == "sweep") return print_sweep(merged, into, globals);
  if (merged.kind == "validate") return print_validation(merged.lines, into, globals);
  if (merged.kind == "plan") return print_plan(merged, into, globals);
  throw Stop{exit_data, fmt::format("shards of '{}' cannot be put together", merged.kind)};
}

int run_merge(const Arguments& arguments, Globals globals) {
  Options options("merge");
  options.value("output,o", "FOLDER", "where the whole goes; the folder of the shards by default")
      .flag("overwrite", "replace the records of another sweep that the folder holds")
      .words(1, 100'000)
      .parse(arguments, globals);
  if (!options.has("output") && options.words().size() > 1) {
    throw Stop{exit_usage, "several folders: say with -o where the whole goes"};
  }
  const std::string into = options.text("output", options.words().front());
  const study::Merged merged = need(study::merge(options.words()));
  if (merged.kind == "sweep" && !options.has("overwrite")) keep_other_records(merged, into);
  if (merged.kind == "plan" && !options.has("overwrite")) keep_sweep(into);
  print_merged(merged, into, globals);
  return exit_yes;
}

}  // namespace sim::command
