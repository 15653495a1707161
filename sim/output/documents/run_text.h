// run_text.h — an answer as `rehearse run` says it: the answer, what limits it, where the step
// goes, the stages, the memory, the throughput in every convention.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"

namespace sim::output {

// `intervals`: what interval.h says about it, behind what limits it.
Document answer_document(const answer::Answer& answer, const std::string& intervals = "");
// Its first blocks, to the plan and what ran out of memory; and its last, from the estimate on.
std::vector<Block> head_blocks(const answer::Answer& answer, const std::string& intervals = "");
std::vector<Block> tail_blocks(const answer::Answer& answer);

// The first line: what a person wants to know, in the user's units.
std::string headline(const answer::Answer& answer);
// One line where the outcome is tight, else nothing.
std::string verdict_text(const answer::Answer& answer);

// The plan and its cluster in one line.
std::string plan_line(const answer::Answer& answer);
// The same to whom has to_json(answer.plan) already.
std::string plan_line(const answer::Answer& answer, const Json& plan);
// Every out-of-memory event, the first in time first; "" when there is none.
std::string oom_text(const answer::Answer& answer);

// "82.7 %"
std::string percent(double fraction);

}  // namespace sim::output
