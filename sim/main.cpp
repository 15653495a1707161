// main.cpp — finds the command in the table (command/common/commands.cpp) and runs it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iterator>

#include "commit.h"
#include "sim/base/text.h"
#include "sim/base/version.h"
#include "sim/command/common/command.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/session.h"

namespace sim::command {

namespace {

std::string usage() {
  std::string text = "usage: rehearse COMMAND [ARGUMENTS]\n\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<11}{:<32}{}\n", command.name, command.synopsis, command.summary);
  }
  text +=
      "  test       [ARGUMENTS]                     build and run the tests\n"
      "  bench      [ARGUMENTS]                     build and run the benchmarks\n\n"
      "Every command takes --json, --quiet, --wide and --help. Exit codes: 0 yes, 2 no (out of "
      "memory),\n"
      "64 usage, 65 bad input, 66 input missing, 70 our bug, 71 no memory or processes, 74 "
      "I/O,\n75 interrupted or locked.\n";
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
      const std::string commit(rehearse_commit);
      print(fmt::format("rehearse {}{}\n", output::version_text,
                        commit.empty() ? "" : " (commit " + commit + ")"));
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
    if (all[at] == command.name) return start(command, rest, globals);
    names.emplace_back(command.name);
  }
  if (all[at] == "help")
    return dispatch(rest.empty() ? Arguments{"--help"} : Arguments{rest.front(), "--help"});
  throw Stop{exit_usage, fmt::format("there is no command '{}'{}\n{}", all[at],
                                     did_you_mean(all[at], names), usage())};
}

}  // namespace
}  // namespace sim::command

int main(int count, char** values) {
  using namespace sim::command;
  const Arguments arguments(values + 1, values + std::max(count, 1));
  // Also --json=VALUE, which is refused later.
  const bool json = std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--json" || argument.starts_with("--json=");
  });
  end_on_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // writes beyond the file size limit fail as on a full disk
  keep_freed_memory();
  try {
    return dispatch(arguments);
  } catch (const Stop& stop) {
    return report_stop(stop, json);
  } catch (const std::exception& error) {
    return report_stop(stop_of(error), json);
  }
}
