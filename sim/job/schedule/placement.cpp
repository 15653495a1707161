#include "sim/job/schedule/placement.h"

#include <cassert>

namespace sim::schedule {

int parts(Placement placement, const PipelineShape& shape) {
  return placement == Placement::two_way ? shape.stages : shape.stages * shape.chunks;
}

int part_of(Placement placement, const PipelineShape& shape, StageChunk place) {
  assert(place.chunk >= 0 && place.chunk < shape.chunks);
  const bool back = place.chunk % 2 == 1;
  switch (placement) {
    case Placement::round_robin:
      return place.chunk * shape.stages + place.stage;
    case Placement::v:
      return back ? 2 * shape.stages - 1 - place.stage : place.stage;
    case Placement::two_way:
      return back ? shape.stages - 1 - place.stage : place.stage;
  }
  return 0;
}

StageChunk place_of(Placement placement, const PipelineShape& shape, int part, int chunk) {
  const int p = shape.stages;
  switch (placement) {
    case Placement::round_robin:
      return {part % p, part / p};
    case Placement::v:
      return part < p ? StageChunk{part, 0} : StageChunk{2 * p - 1 - part, 1};
    case Placement::two_way:
      return {chunk == 0 ? part : p - 1 - part, chunk};
  }
  return {};
}

bool visits(Placement placement, const PipelineShape& shape, int microbatch, int chunk) {
  if (placement != Placement::two_way) return true;
  return (microbatch < shape.microbatches / 2) == (chunk == 0);
}

StageChunk before(Placement placement, const PipelineShape& shape, StageChunk place) {
  assert(!is_first(placement, shape, place));
  return place_of(placement, shape, part_of(placement, shape, place) - 1, place.chunk);
}

StageChunk behind(Placement placement, const PipelineShape& shape, StageChunk place) {
  assert(!is_last(placement, shape, place));
  return place_of(placement, shape, part_of(placement, shape, place) + 1, place.chunk);
}

bool is_first(Placement placement, const PipelineShape& shape, StageChunk place) {
  return part_of(placement, shape, place) == 0;
}

bool is_last(Placement placement, const PipelineShape& shape, StageChunk place) {
  return part_of(placement, shape, place) == parts(placement, shape) - 1;
}

}  // namespace sim::schedule
