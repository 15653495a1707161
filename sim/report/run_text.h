// run_text.h — an answer as `rehearse run` prints it: the answer, what limits it, where the step
// goes, the stages, the memory, the throughput in every convention.
#pragma once

#include <string>

#include "sim/report/answer.h"

namespace sim::report {

// `intervals`: what interval.h says about it, printed after what limits it.
std::string run_text(const Answer& answer, const std::string& intervals = "");

// The first line: what a person wants to know, in the user's units.
std::string headline(const Answer& answer);
// One line where the outcome is tight, else nothing.
std::string verdict_text(const Answer& answer);

// The plan and its cluster in one line.
std::string plan_line(const Answer& answer);
// Every out-of-memory event, the first in time first; "" when there is none.
std::string oom_text(const Answer& answer);
std::string stage_memory_text(const Answer& answer);
std::string estimate_text(const Answer& answer);

// "82.7 %"
std::string percent(double fraction);

}  // namespace sim::report
