// compare_plans.h — `rehearse compare PLAN PLAN`: the settings in which two plans differ, and their
// time and memory, account by account.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/command/common/command.h"

namespace sim::command {

// Two plans: names or files of plans, launch files, or settings in quotes. `settings` change both.
struct TwoPlans {
  std::vector<std::string> plans, settings;
};

// The two plans that the arguments of `compare` name; nothing if they name a log.
std::optional<TwoPlans> two_plans(const Arguments& arguments);

// Replays both and prints the differences. Returns the exit code: no, if a plan does not fit.
int compare_plans(const TwoPlans& asked, const Globals& globals);

}  // namespace sim::command
