#include "sim/command/common/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "sim/base/interruption.h"
#include "sim/command/common/command.h"

namespace sim::command {

namespace {

constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t signal_seen = 0;
pid_t process = 0;
bool (*asked_elsewhere)() = nullptr;

void ask(int) {
  if (signal_seen != 0) ::_exit(exit_interrupted);
  signal_seen = 1;
}

// Calls only async-signal-safe functions (signal-safety(7)).
void end(int) {
  constexpr std::string_view said = "rehearse: interrupted\n";
  if (::getpid() == process) [[maybe_unused]]
    const ssize_t ignored = ::write(STDERR_FILENO, said.data(), said.size());
  ::_exit(exit_interrupted);
}

void handle_with(void (*handler)(int)) {
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // set by nohup and for background jobs
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void end_on_interrupts() {
  process = ::getpid();
  handle_with(end);
}

void catch_interrupts() {
  if (asked_elsewhere == nullptr) handle_with(ask);
}

bool interrupted() {
  return asked_elsewhere != nullptr ? asked_elsewhere() : signal_seen != 0;
}

void leave_interrupts_to(bool (*asked)()) {
  asked_elsewhere = asked;
  ask_in_computations(asked);
}

}  // namespace sim::command
