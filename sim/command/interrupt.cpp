#include "sim/command/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "sim/command/command.h"

namespace sim::command {

namespace {
volatile std::sig_atomic_t seen = 0;

void handler(int) {
  if (seen != 0) ::_exit(exit_interrupted);
  seen = 1;
}
}  // namespace

void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup and background jobs want it so
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, nullptr);
  }
}

bool interrupted() {
  return seen != 0;
}

}  // namespace sim::command
