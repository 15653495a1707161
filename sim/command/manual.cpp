// manual.cpp — `rehearse completion` and `rehearse man`: shell completion and manual pages, from
// the tables of the parser.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/text.h"
#include "sim/command/common/describe.h"

namespace sim::command {

namespace {

// Refuses --json: text for a shell or man(1) is not a document.
void refuse_json(const Globals& globals, const char* what) {
  if (globals.json)
    throw Stop{exit_usage, fmt::format("--json: {} is no document; leave it out", what)};
}

}  // namespace

int run_completion(const Arguments& arguments, Globals globals) {
  Options options("completion");
  options.words(1, 1).parse(arguments, globals);
  refuse_json(globals, "a completion");
  std::vector<std::string> names;
  std::string text;
  for (const Shell& shell : shells()) {
    names.emplace_back(shell.name);
    if (options.words()[0] != shell.name) continue;
    text = shell.completion();
    if (!globals.quiet) note(fmt::format("to install: {}", shell.install));
  }
  if (text.empty()) {
    throw Stop{exit_usage,
               fmt::format("there is completion for {}, not for '{}'{}", fmt::join(names, ", "),
                           options.words()[0], did_you_mean(options.words()[0], names))};
  }
  print(text);
  return exit_yes;
}

int run_man(const Arguments& arguments, Globals globals) {
  Options options("man");
  options.value("output,o", "FOLDER", "write every page there: rehearse.1, rehearse-run.1, ...")
      .flag("overwrite", "with -o: replace pages that are there")
      .words(0, 1)
      .parse(arguments, globals);
  if (options.has("output")) {
    const std::string folder = options.text("output");
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Stop{exit_io, folder + ": " + error.message()};
    std::vector<std::pair<std::string, std::string>> pages = {{folder + "/rehearse.1", man_page()}};
    for (const Command& command : commands())
      pages.emplace_back(fmt::format("{}/rehearse-{}.1", folder, command.name), man_page(command));
    for (const auto& [path, text] : pages) keep_file(options, path);
    for (const auto& [path, text] : pages) {
      save(path, text);
    }
    say_written(globals, folder, fmt::format("to read: man -l {}/rehearse.1", folder));
    return exit_yes;
  }
  refuse_json(globals, "a manual page");
  if (options.words().empty()) {
    print(man_page());
    return exit_yes;
  }
  const std::string& wanted = options.words()[0];
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
    if (wanted != command.name) continue;
    print(man_page(command));
    return exit_yes;
  }
  throw Stop{exit_usage,
             fmt::format("there is no command '{}'{}", wanted, did_you_mean(wanted, names))};
}

}  // namespace sim::command
