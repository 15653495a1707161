// run_text.h — the document of `rehearse run`: the answer, its limits, the accounts of the step,
// the stages, memory, and throughput in every convention.
#pragma once

#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/output/document.h"

namespace sim::output {

// The whole document. `intervals` is the text of interval.h; it follows the limits.
Document answer_document(const answer::Answer& answer, const std::string& intervals = "");
// The first blocks, up to the plan and out-of-memory events; and the last ones, from the estimate
// on.
std::vector<Block> head_blocks(const answer::Answer& answer, const std::string& intervals = "");
std::vector<Block> tail_blocks(const answer::Answer& answer);

// The first line: the main result in the user's units.
std::string headline(const answer::Answer& answer);
// One line: how many retries the allocator needs in the step, and their cost if it is known; "" if
// there are none.
std::string retries_text(const answer::Answer& answer);
// One line if the outcome is tight, otherwise "".
std::string verdict_text(const answer::Answer& answer);

// The plan and its cluster in one line.
std::string plan_line(const answer::Answer& answer);
// The same for callers that have to_json(answer.plan) already.
std::string plan_line(const answer::Answer& answer, const Json& plan);
// Every out-of-memory event in order of time; "" if there is none.
std::string oom_text(const answer::Answer& answer);

// A percentage such as "82.7 %".
std::string percent(double fraction);

}  // namespace sim::output
