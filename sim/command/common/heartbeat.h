// heartbeat.h — a line on stderr every quarter of a minute of a command that shows no progress of
// its own, so that nobody waits without a word.
#pragma once

namespace sim::command {

void start_heartbeat();
void end_heartbeat();

}  // namespace sim::command
