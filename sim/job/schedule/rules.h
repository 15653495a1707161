// rules.h — which shapes schedules accept. Each rule answers "" or says what it asks for, what it
// was given, and the nearest values that would do.
#pragma once

#include <string>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// What every schedule asks of a shape: numbers within bounds, so that an order stays within a few
// tens of megabytes, no slices and no groups.
std::string within_bounds(const Shape& shape);
// ... and one part of the model per stage, or two.
std::string one_chunk(const Shape& shape);
std::string two_chunks(const Shape& shape);
// The number of microbatches must be a multiple of `divisor`, which is called `what`.
std::string whole_multiple(const Shape& shape, int divisor, const std::string& what);
// At least `least` microbatches, because of `why`.
std::string microbatches_from(const Shape& shape, int least, const std::string& why);

// Bounds of everything but groups and slices, for schedules that have rules of their own for them.
std::string sizes(const Shape& shape);

}  // namespace sim::schedule
