// stage_rows.h — the tables of `rehearse run`: accounts of the step, time and memory by stage.
#pragma once

#include "sim/answer/answer.h"
#include "sim/output/document.h"

namespace sim::output {

// The accounts of the step, in seconds: means over all ranks.
Rows step_rows(const answer::Answer& answer);
// Time by stage, in seconds: means over the ranks of the stage.
Rows stage_time_rows(const answer::Answer& answer);
// Memory by stage: of each stage the rank that needs most. `classes`: class_rows().
Rows stage_memory_rows(const answer::Answer& answer, const Rows& classes);

}  // namespace sim::output
