// interrupt.h — handles SIGINT, SIGTERM and SIGHUP. They end a command with exit code 75, at once,
// or after the current record in long commands.
#pragma once

namespace sim::command {

// Ends the process on a signal. For commands that have nothing to save.
void end_on_interrupts();

// After this call the first signal sets interrupted(), the second ends the process.
void catch_interrupts();
bool interrupted();

// Inside another program's process: its signal handlers stay, and `asked` tells whether a signal
// came. Replays call `asked` too and end with Interrupted.
void leave_interrupts_to(bool (*asked)());

}  // namespace sim::command
