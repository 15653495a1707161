// heartbeat.h — prints a line to stderr every 15 seconds during commands without a progress bar, so
// users see that the command works.
#pragma once

namespace sim::command {

void start_heartbeat();
void end_heartbeat();

}  // namespace sim::command
