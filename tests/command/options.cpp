// Options of commands: nothing is guessed, what is out of range is refused.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "sim/command/command.h"

using namespace sim;
using namespace sim::command;

namespace {

// The exit code and message of parsing `arguments` with a few options.
Stop stopped(const Arguments& arguments) {
  try {
    Options options("sweep");
    Globals globals;
    options.value("jobs,j", "N", "workers")
        .flag("resume", "go on")
        .words(1, 2)
        .parse(arguments, globals);
    options.number("jobs", 1, 1, 8);
  } catch (const Stop& stop) {
    return stop;
  }
  return {exit_yes, ""};
}

}  // namespace

TEST_CASE("command: every command has a name of its own, a synopsis and a summary") {
  std::set<std::string> names;
  for (const Command& command : commands()) {
    INFO(command.name);
    CHECK(names.insert(command.name).second);
    CHECK_FALSE(std::string(command.synopsis).empty());
    CHECK_FALSE(std::string(command.summary).empty());
    CHECK(command.run != nullptr);
  }
}

TEST_CASE("command: options are never guessed from abbreviations and the nearest is named") {
  CHECK(stopped({"grid", "--job", "3"}).code == exit_usage);
  CHECK(stopped({"grid", "--resum"}).message.find("did you mean '--resume'?") != std::string::npos);
  CHECK(stopped({"grid", "-j", "3"}).code == exit_yes);
}

TEST_CASE("command: numbers outside their range and words too many are usage errors") {
  for (const char* number : {"0", "9", "-1", "1.5", "", "99999999999999999999"}) {
    INFO(number);
    CHECK(stopped({"grid", "-j", number}).code == exit_usage);
  }
  CHECK(stopped({}).code == exit_usage);
  CHECK(stopped({"a", "b", "c"}).message.find("'c' is one word too many") != std::string::npos);
}
