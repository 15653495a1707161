// options.cpp — options of commands: unknown ones and values out of range are refused.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>
#include <string>

#include "sim/cluster/network/network.h"
#include "sim/command/common/command.h"
#include "sim/command/common/session.h"
#include "sim/output/table.h"

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

// The width of lines that options set where this is stdout.
std::size_t width_on(int descriptor, Arguments arguments = {"grid"}) {
  std::fflush(stdout);
  const std::size_t width = output::line_width();
  const int before = ::dup(STDOUT_FILENO);
  ::dup2(descriptor, STDOUT_FILENO);
  const Stop stop = stopped(arguments);
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  const std::size_t found = output::line_width();
  output::set_line_width(width);
  CHECK(stop.code == exit_yes);
  return found;
}

}  // namespace

TEST_CASE("command: lines are as wide as the terminal, and never narrower than 60") {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const int end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(end >= 0);
  const auto width = [&](unsigned short columns, const Arguments& arguments = {"grid"}) {
    winsize size{};
    size.ws_col = columns;
    REQUIRE(::ioctl(end, TIOCSWINSZ, &size) == 0);
    return width_on(end, arguments);
  };
  CHECK(width(0) == 100);  // it does not say
  CHECK(width(1) == 60);
  CHECK(width(61) == 61);
  CHECK(width(99) == 99);
  CHECK(width(200) == 200);
  CHECK(width(200, {"grid", "--wide"}) == 0);
  ::close(end);
  ::close(terminal);
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  CHECK(width_on(pipe[1]) == 100);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

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

TEST_CASE("command: memory or a helper that the system does not give is no bug of ours") {
  const Reply none = listen([]() -> int { throw std::bad_alloc(); });
  CHECK(none.code == exit_system);
  CHECK(none.said.err.find("out of memory") != std::string::npos);
  CHECK(none.said.err.find("fewer --jobs") != std::string::npos);
  const Reply gone = listen([]() -> int { throw network::SolverFailed("cannot start x"); });
  CHECK(gone.code == exit_system);
  CHECK(gone.said.err.find("a bug") == std::string::npos);
  const Reply bug = listen([]() -> int { throw std::logic_error("x"); });
  CHECK(bug.code == exit_bug);
  CHECK(bug.said.err.find("a bug of ours: x") != std::string::npos);
}
