// script_cases.cpp — scripts, and everything that is found in them.
#include "sim/input/launch/shell/environment.h"
#include "sim/input/launch/shell/script.h"
#include "tests/cases.h"

using sim::shell::Script;
using sim::shell::Word;

namespace {

std::string written(const Word& word) {
  std::string text = word.text;
  for (const std::string& unknown : word.unknowns) text += " <" + unknown + ">";
  return text;
}

std::string written(const std::vector<Word>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i > 0 ? "|" : "") + written(words[i]);
  return text;
}

std::string told(const std::string& text) {
  const Script script = sim::shell::follow(text, {}, [](const Word& path) {
    return path.text == "known.sh"
               ? std::optional<std::string>("#SBATCH --time=1\nK=k; K2=$1; in $TP $PP $Q $#\n")
               : std::nullopt;
  });
  std::string all;
  for (const sim::shell::Command& command : script.commands) {
    for (const Word& word : command.assignments) all += written(word) + " ";
    all += written(command.words) + "\n";
  }
  for (const auto& [name, words] : script.variables) all += name + "=" + written(words) + "\n";
  for (const auto& [name, bytes] : script.files) all += name + ":\n" + bytes + "\n";
  for (const Word& path : script.sourced) all += "sourced " + written(path) + "\n";
  for (const sim::shell::Undecided& one : script.undecided) {
    const auto at = sim::shell::place(text, one.at);
    all += "undecided at " + std::to_string(at.line) + ":" + std::to_string(at.column) +
           (one.taken ? " taken\n" : "\n");
  }
  for (const std::size_t loop : script.loops) {
    const auto at = sim::shell::place(text, loop);
    all += "loop at " + std::to_string(at.line) + ":" + std::to_string(at.column) + "\n";
  }
  for (const std::string& directive : script.directives) all += directive + "\n";
  return all + (script.limit ? "limit: " + script.limit->what + "\n" : "");
}

}  // namespace

TEST_CASE("shell: scripts come to what a shell would run") {
  cases::hold("tests/input/shell/script_cases.txt", told);
}

TEST_CASE("shell: text, rounds and depth have limits, and what lies beyond is said") {
  using sim::shell::follow;
  CHECK_FALSE(follow(std::string(sim::shell::max_text, ' ')).limit);
  CHECK(follow(std::string(sim::shell::max_text + 1, ' ')).limit);
  std::string words, commands;
  for (int i = 0; i < 1000; ++i) words += " w";
  CHECK(follow("for i in" + words + "; do a; done").commands.size() == 1000);
  CHECK_FALSE(follow("for i in" + words + "; do a; done").limit);
  const std::pair<std::string, std::string> loops[] = {
      {"b\nfor i in" + words + " w; do a; done", "a loop of more than 1000 rounds"},
      {"N=\nwhile [ $N != y ]; do a; done", "a loop of more than 64 rounds"}};
  for (const auto& [loop, what] : loops) {
    const Script script = follow(loop);
    CHECK(script.commands.size() >= 64);
    REQUIRE(script.limit);
    CHECK(script.limit->what == what);
    CHECK(sim::shell::place(loop, script.limit->at).line == 2);
  }
  // Recursion of a function ends at a limit.
  const Script deep = follow("f() { a; f; }; f");
  CHECK(deep.commands.size() > 5);
  CHECK(deep.commands.size() < 24);
  CHECK(deep.limit);
  std::string denied = "a";
  for (int i = 0; i < 70; ++i) denied = "! " + denied;
  CHECK(follow(denied).limit);
  for (int i = 0; i < 19'999; ++i) commands += "a\n";
  CHECK_FALSE(follow(commands).limit);
  CHECK(follow(commands).commands.size() == 19'999);
  CHECK(follow(commands + "a\na\n").limit);
  CHECK(follow(commands + "a\na\n").commands.size() == 19'999);
}

TEST_CASE("shell: an expansion may make some bytes for each of the script") {
  // The limit is 256 KiB plus 256 for each byte. Doubling a word stops there with a message.
  std::string text = "X=aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 20; ++i) text += "X=$X$X\n";
  const Script script = sim::shell::follow(text);
  CHECK(script.limit);
  const std::size_t size = script.variables.at("X").at(0).text.size();
  CHECK(size <= 262144 + 256 * text.size());
  CHECK(sim::shell::follow("X=aaaa; Y=$X$X").variables.at("Y").at(0).text == "aaaaaaaa");
}

TEST_CASE("shell: patterns match as a shell's do") {
  using sim::shell::matches;
  struct Case {
    const char *text, *pattern;
    bool yes;
  };
  for (const Case& one : std::vector<Case>{{"", "", true},           {"", "*", true},
                                           {"", "?", false},         {"a", "", false},
                                           {"abc", "a*c", true},     {"abc", "a*b", false},
                                           {"abcabc", "*abc", true}, {"aab", "*ab", true},
                                           {"abc", "???", true},     {"abc", "??", false},
                                           {"a", "[a-c]", true},     {"d", "[a-c]", false},
                                           {"-", "[a-]", true},      {"b", "[a-]", false},
                                           {"b", "[!a]", true},      {"a", "[^a]", false},
                                           {"]", "[]]", true},       {"a", "[]a]", true},
                                           {"b", "[!]a]", true},     {"]", "[!]a]", false},
                                           {"a", "[a", true},        {"ab", "[a-c][a-c]", true},
                                           {"a*", "a*", true},       {"ab", "*b*", true},
                                           {"abab", "*a*b", true},   {"x", "**", true},
                                           {"c", "[a-bd]", false},   {"d", "[a-bd]", true},
                                           {"a", "[b-a]", false}}) {
    INFO(one.text << " " << one.pattern);
    CHECK(matches(one.text, one.pattern) == one.yes);
  }
}
