// schedule_picture.h — the pipeline schedule of a plan as papers draw it: passes of equal length,
// one lane per stage, a number for each microbatch. Pages of runs show it above the replayed
// pipeline.
#pragma once

#include "sim/output/document.h"
#include "sim/program/plan/plan.h"

namespace sim::output {

struct SchedulePicture {
  TimelineChart chart;
  Rows rows;  // the table "schedule"; without rows there is no picture
};

// Twice as many microbatches as stages, if the plan has them. No rows: a plan of one stage, or more
// passes than can be distinguished.
SchedulePicture schedule_picture(const program::Plan& plan);

}  // namespace sim::output
