// main.cpp — the command table. Each command is a file beside this one.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>

#include "sim/command.h"
#include "sim/core/text.h"
#include "sim/report/version.h"

namespace sim {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"run", "PLAN [KEY=VALUE ...]", "one training step: the answer, then what limits it",
       run_run},
      {"explain", "PLAN [KEY=VALUE ...]", "where the memory goes, why it runs out, what would fit",
       run_explain},
      {"sweep", "GRID [-o FOLDER]", "every point of a grid: what fits, how fast, why not",
       run_sweep},
      {"whatif", "PLAN --vary KEY=V1,V2", "the same plan under changed conditions, side by side",
       run_whatif},
      {"topo", "check|time|place|import|export", "a cluster: what is wrong, how fast, its drawing",
       run_topo},
      {"memory", "estimate PLAN | replay FILE",
       "the closed-form estimate; replay of an allocator trace", run_memory},
      {"calibrate", "SOURCE ...", "fit a profile to measurements: traces, logs, tables",
       run_calibrate},
      {"validate", "RUNS.csv ...", "predicted against measured, for tables of measured runs",
       run_validate},
      {"list", "[KIND]", "what there is, by name", run_list},
      {"check", "FILE ...", "every problem of input files", run_check},
  };
  return table;
}

namespace {

std::string usage() {
  std::string text = "usage: rehearse COMMAND [ARGUMENTS]\n\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<10}{:<32}{}\n", command.name, command.synopsis, command.summary);
  }
  text +=
      "  test      [ARGUMENTS]                     build and run the tests\n"
      "  bench     [ARGUMENTS]                     build and run the benchmarks\n\n"
      "Every command takes --json, --quiet and --help. Exit codes: 0 yes, 2 no (out of memory),\n"
      "64 usage, 65 bad input, 66 input missing, 70 our bug, 74 I/O, 75 interrupted or locked.\n";
  return text;
}

int dispatch(const Arguments& all) {
  Globals globals;
  std::size_t at = 0;
  for (; at < all.size() && all[at].rfind('-', 0) == 0; ++at) {
    if (all[at] == "--help" || all[at] == "-h") {
      print(usage());
      return exit_yes;
    }
    if (all[at] == "--version") {
      print(fmt::format("rehearse {}\n", report::version_text));
      return exit_yes;
    }
    if (all[at] == "--json") {
      globals.json = true;
    } else if (all[at] == "--quiet" || all[at] == "-q") {
      globals.quiet = true;
    } else {
      throw Stop{exit_usage, fmt::format("unknown option '{}'\n{}", all[at], usage())};
    }
  }
  if (at == all.size()) throw Stop{exit_usage, usage()};
  std::vector<std::string> names;
  const Arguments rest(std::next(all.begin(), static_cast<std::ptrdiff_t>(at) + 1), all.end());
  for (const Command& command : commands()) {
    if (all[at] == command.name) return command.run(rest, globals);
    names.emplace_back(command.name);
  }
  throw Stop{exit_usage, fmt::format("there is no command '{}'{}\n{}", all[at],
                                     did_you_mean(all[at], names), usage())};
}

}  // namespace
}  // namespace sim

int main(int count, char** values) {
  try {
    return sim::dispatch(sim::Arguments(values + 1, values + std::max(count, 1)));
  } catch (const sim::Stop& stop) {
    if (!stop.message.empty()) sim::note("rehearse: " + stop.message);
    return stop.code;
  } catch (const std::exception& error) {
    sim::note(std::string("rehearse: a bug of ours: ") + error.what());
    return sim::exit_bug;
  }
}
