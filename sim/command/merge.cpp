// merge.cpp — `rehearse merge`: shards of many machines become what one machine would have left.
#include "sim/search/merge.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/command/shard.h"
#include "sim/report/record.h"
#include "sim/report/sweep_document.h"
#include "sim/search/sweep.h"

namespace sim::command {

namespace {

void print_sweep(const search::Merged& merged, const std::string& into, const Globals& globals) {
  std::vector<report::Json> records;
  for (const std::string& line : merged.lines) {
    records.push_back(report::Json::parse(line, nullptr, false));
    const std::string wrong = report::record_problem(records.back());
    if (wrong.empty()) continue;
    throw Stop{exit_data, fmt::format("record {} of the whole {}", records.size(), wrong)};
  }
  const std::string problem = search::write_results(into, merged.lines, records);
  if (!problem.empty()) throw Stop{exit_io, problem};
  if (!globals.quiet) {
    note(fmt::format("results: {}/results.csv and {}/results.jsonl", into, into));
  }
  say(globals, "sweep", report::sweep_answer(records));
}

}  // namespace

void print_merged(const search::Merged& merged, const std::string& into, const Globals& globals) {
  if (merged.kind == "sweep") return print_sweep(merged, into, globals);
  if (merged.kind == "validate") return print_validation(merged.lines, into, globals);
  if (merged.kind == "plan") return print_plan(merged, into, globals);
  throw Stop{exit_data, fmt::format("shards of '{}' cannot be put together", merged.kind)};
}

int run_merge(const Arguments& arguments, Globals globals) {
  Options options("merge");
  options.value("output,o", "FOLDER", "where the whole goes; the folder of the shards by default")
      .words(1, 100'000)
      .parse(arguments, globals);
  if (!options.has("output") && options.words().size() > 1) {
    throw Stop{exit_usage, "several folders: say with -o where the whole goes"};
  }
  print_merged(need(search::merge(options.words())),
               options.text("output", options.words().front()), globals);
  return exit_yes;
}

}  // namespace sim::command
