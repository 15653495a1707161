// reasons.h — why a plan cannot run on a site, as messages.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/checked_plan.h"

namespace support {

// `plan`: a program::Plan or a program::ValidPlan. Empty: it can run.
template <class AnyPlan>
std::vector<std::string> reasons(const AnyPlan& plan, sim::answer::Site& site) {
  const sim::Result<sim::answer::CheckedPlan> checked = sim::answer::check(plan, site);
  return checked ? std::vector<std::string>{} : sim::messages(checked.errors());
}

}  // namespace support
