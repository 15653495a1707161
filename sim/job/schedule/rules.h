// rules.h — rules about shapes that several schedules share. A rule returns "", or a message with
// the condition, the given value and the nearest valid values.
#pragma once

#include <string>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// The rule of every schedule: numbers within bounds, so that an order takes at most a few tens of
// megabytes; no slices and no groups.
std::string within_bounds(const PipelineShape& shape);
// ... and one part of the model per stage, or two.
std::string one_chunk(const PipelineShape& shape);
std::string two_chunks(const PipelineShape& shape);
// The number of microbatches must be a multiple of `divisor`. `what` is the name of the divisor.
std::string whole_multiple(const PipelineShape& shape, int divisor, const std::string& what);
// At least `least` microbatches, because of `why`.
std::string microbatches_from(const PipelineShape& shape, int least, const std::string& why);

// Bounds of all numbers except groups and slices, for schedules with their own rules about those.
std::string sizes(const PipelineShape& shape);

}  // namespace sim::schedule
