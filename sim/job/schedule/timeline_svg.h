// timeline_svg.h — a schedule's timeline as an SVG picture, drawn as papers draw it: one row per
// stage, a box per pass with its microbatch, a legend. `rehearse schedule --svg` calls it.
#pragma once

#include <string>

#include "sim/job/schedule/timeline.h"

namespace sim::schedule {

// Boxes of later chunks are lighter. Gradients of inputs and of weights have colours of their own.
// Boxes that are too narrow for their number have none. `title`: the first line of the picture.
std::string timeline_svg(const Timeline& timeline, const std::string& title);

}  // namespace sim::schedule
