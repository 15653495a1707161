// simulated.h — which schedules have programs: the others are pictures (rehearse schedule).
#pragma once

#include <string>

#include "sim/schedule/schedule.h"

namespace sim::workload {

// Why no program is written for a schedule; empty where one is.
std::string not_simulated(const schedule::Schedule& schedule);

}  // namespace sim::workload
