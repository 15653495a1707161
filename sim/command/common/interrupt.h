// interrupt.h — SIGINT, SIGTERM and SIGHUP: they end a command with exit code 75, at once, or as a
// question that a long command asks between two records.
#pragma once

namespace sim::command {

// For commands that have nothing to save.
void end_on_interrupts();

// From here on the first signal asks the command to end well, the second ends it at once.
void catch_interrupts();
bool interrupted();

// In another program's process its signals are its own: `asked` says whether one came. Replays ask
// too, and end with Interrupted.
void leave_interrupts_to(bool (*asked)());

}  // namespace sim::command
