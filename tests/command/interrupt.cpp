// interrupt.cpp — the first signal lets a long command finish its current work, the second ends it
// at once.
#include "sim/command/common/interrupt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "sim/command/common/command.h"

namespace command = sim::command;

namespace {

// The exit status of a child process that runs `as_told`; 128 + signal when a signal ended it.
template <typename Told>
int end_of(const Told& as_told) {
  const pid_t child = ::fork();
  if (child == 0) {
    as_told();
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Resets the signals to their default actions, as at the start of a program.
void as_begun() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
}

}  // namespace

TEST_CASE("command: the first signal is a question, the second ends a command at once") {
  for (const int first : {SIGINT, SIGTERM, SIGHUP}) {
    for (const int second : {SIGINT, SIGTERM, SIGHUP}) {
      INFO(first << " then " << second);
      CHECK(end_of([&] {
              as_begun();
              command::catch_interrupts();
              if (command::interrupted()) ::_exit(2);
              std::raise(first);
              ::_exit(command::interrupted() ? 0 : 3);
            }) == 0);
      CHECK(end_of([&] {
              as_begun();
              command::catch_interrupts();
              std::raise(first);
              std::raise(second);
              ::_exit(4);
            }) == command::exit_interrupted);
    }
  }
}

TEST_CASE("command: signals that were ignored before are ignored") {
  CHECK(end_of([] {
          as_begun();
          std::signal(SIGHUP, SIG_IGN);
          command::end_on_interrupts();
          command::catch_interrupts();
          std::raise(SIGHUP);
          std::raise(SIGHUP);
          ::_exit(command::interrupted() ? 2 : 0);
        }) == 0);
}

TEST_CASE("command: a command with nothing to save is ended by one signal") {
  // The golden tests check the line on stderr.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CHECK(end_of([&] {
            as_begun();
            ::close(STDERR_FILENO);
            command::end_on_interrupts();
            std::raise(signal);
            ::_exit(4);
          }) == command::exit_interrupted);
  }
}
