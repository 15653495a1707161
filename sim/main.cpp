// main.cpp — finds the command in the table (command/common/commands.cpp) and runs it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>

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

int print_usage(const Globals& globals) {
  output::Json all = output::Json::array();
  for (const Command& command : commands())
    all.push_back(
        {{"name", command.name}, {"synopsis", command.synopsis}, {"summary", command.summary}});
  print(globals.json ? output::document("help", {{"commands", std::move(all)}}).dump(2) + "\n"
                     : usage());
  return exit_yes;
}

int print_version(const Globals& globals) {
  const std::string commit(rehearse_commit);
  print(globals.json ? output::document("version", {{"commit", commit}}).dump(2) + "\n"
                     : fmt::format("rehearse {}{}\n", output::version_text,
                                   commit.empty() ? "" : " (commit " + commit + ")"));
  return exit_yes;
}

int dispatch(const Arguments& all) {
  Globals globals;
  std::size_t at = 0;
  int (*asked)(const Globals&) = nullptr;  // of --help or --version
  for (; at < all.size() && all[at].rfind('-', 0) == 0; ++at) {
    if (all[at] == "--help" || all[at] == "-h") {
      asked = print_usage;
    } else if (all[at] == "--version") {
      asked = print_version;
    } else if (all[at] == "--json") {
      globals.json = true;
    } else if (all[at] == "--quiet" || all[at] == "-q") {
      globals.quiet = true;
    } else {
      throw Stop{exit_usage, fmt::format("unknown option '{}'\n{}", all[at], usage())};
    }
  }
  if (asked != nullptr) return asked(globals);
  if (at == all.size()) throw Stop{exit_usage, usage()};
  std::vector<std::string> names;
  const Arguments rest(std::next(all.begin(), static_cast<std::ptrdiff_t>(at) + 1), all.end());
  for (const Command& command : commands()) {
    if (all[at] == command.name) return start(command, rest, globals);
    names.emplace_back(command.name);
  }
  if (all[at] == "help")
    return dispatch(rest.empty() ? Arguments{"--help"} : Arguments{rest.front(), "--help"});
  const std::string nearest = did_you_mean(all[at], names);
  throw Stop{exit_usage, fmt::format("there is no command '{}'{}", all[at],
                                     nearest.empty() ? "; `rehearse --help` lists all" : nearest)};
}

// Threads get stacks of this limit, too. Less than 1 MiB ends in a crash in the middle of a replay.
void need_stack() {
  constexpr rlim_t least = rlim_t{1} << 20;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least) return;
  throw Stop{exit_system, fmt::format("the limit of the stack is {} KiB; `ulimit -s 8192` sets "
                                      "enough (at least {} KiB)",
                                      limit.rlim_cur >> 10, least >> 10)};
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
    need_stack();
    return dispatch(arguments);
  } catch (const Stop& stop) {
    return report_stop(stop, json);
  } catch (const std::exception& error) {
    return report_stop(stop_of(error), json);
  }
}
