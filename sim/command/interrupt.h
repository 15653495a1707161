// interrupt.h — SIGINT and SIGTERM as a question that long commands ask between two records. The
// first asks the command to end well, the second ends it at once.
#pragma once

namespace sim::command {

void catch_interrupts();
bool interrupted();

}  // namespace sim::command
