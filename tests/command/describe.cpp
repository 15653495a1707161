// describe.cpp — the shell completion and the man page list exactly the commands and options that
// the parser accepts.
#include "sim/command/common/describe.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using namespace sim;
using namespace sim::command;

TEST_CASE("command: every command describes its options without running") {
  for (const Command& command : commands()) {
    INFO(command.name);
    const Description description = describe(command);
    REQUIRE(description.options.size() >= 3);  // --json, --quiet, --help
    std::set<std::string> names;
    for (const OptionRow& option : description.options) {
      INFO(option.name);
      CHECK(names.insert(option.name).second);
      CHECK_FALSE(option.help.empty());
      CHECK(option.letter.size() <= 1);
    }
    CHECK(names.count("help") == 1);
    CHECK(description.most >= description.least);
  }
}

TEST_CASE("command: completion and manual pages hold every command and every option") {
  for (const Shell& shell : shells()) {
    INFO(shell.name);
    const std::string text = shell.completion();
    for (const Command& command : commands()) {
      INFO(command.name);
      CHECK(text.find(command.name) != std::string::npos);
      const std::string manual = man_page(command);
      for (const OptionRow& option : describe(command).options) {
        INFO(option.name);
        CHECK(text.find(option.name) != std::string::npos);
        std::string roff;
        for (const char c : option.name) roff += c == '-' ? "\\-" : std::string(1, c);
        CHECK(manual.find("\\-\\-" + roff) != std::string::npos);
      }
    }
  }
}
