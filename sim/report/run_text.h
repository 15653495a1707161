// run_text.h — an answer as `rehearse run` says it: the answer, what limits it, where the step
// goes, the stages, the memory, the throughput in every convention.
#pragma once

#include <string>
#include <vector>

#include "sim/report/answer.h"
#include "sim/report/document.h"

namespace sim::report {

// `intervals`: what interval.h says about it, behind what limits it.
Document answer_document(const Answer& answer, const std::string& intervals = "");
// Its first blocks, to the plan and what ran out of memory; and its last, from the estimate on.
std::vector<Block> head_blocks(const Answer& answer, const std::string& intervals = "");
std::vector<Block> tail_blocks(const Answer& answer);

// The first line: what a person wants to know, in the user's units.
std::string headline(const Answer& answer);
// One line where the outcome is tight, else nothing.
std::string verdict_text(const Answer& answer);

// The plan and its cluster in one line.
std::string plan_line(const Answer& answer);
// The same to whom has to_json(answer.plan) already.
std::string plan_line(const Answer& answer, const Json& plan);
// Every out-of-memory event, the first in time first; "" when there is none.
std::string oom_text(const Answer& answer);

// "82.7 %"
std::string percent(double fraction);

}  // namespace sim::report
