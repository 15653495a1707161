// placement.h — where the parts of the model are: maps stage and chunk to a part, and back.
//
//     round robin, p = 3, v = 2     v                two-way
//     stage 0: 0 3                  0 5              0 and 2
//     stage 1: 1 4                  1 4              1 and 1
//     stage 2: 2 5                  2 3              2 and 0
#pragma once

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

struct StageChunk {
  int stage = 0, chunk = 0;
  friend bool operator==(const StageChunk&, const StageChunk&) = default;
};

// The number of parts of the model.
int parts(Placement placement, const PipelineShape& shape);
int part_of(Placement placement, const PipelineShape& shape, StageChunk place);
// The place of a part, for a microbatch that passes through `chunk` of some stage. Only two-way
// placement uses `chunk`, because there every part exists twice.
StageChunk place_of(Placement placement, const PipelineShape& shape, int part, int chunk);

// Whether the microbatch passes through the chunk: with two-way placement only one half of them
// does.
bool visits(Placement placement, const PipelineShape& shape, int microbatch, int chunk);

// The places before and after a place on a microbatch's path. REQUIRES: it is not the first or the
// last, respectively.
StageChunk before(Placement placement, const PipelineShape& shape, StageChunk place);
StageChunk behind(Placement placement, const PipelineShape& shape, StageChunk place);
bool is_first(Placement placement, const PipelineShape& shape, StageChunk place);
bool is_last(Placement placement, const PipelineShape& shape, StageChunk place);

}  // namespace sim::schedule
