// schedule.h — what a pipeline schedule is: for each stage, the order in which it runs its passes.
// Timing is not decided here; the replay runs each pass as soon as its inputs have arrived.
//
// A schedule is a pure function of the pipeline's shape, so it can be printed, tested and compared
// without running a simulation. Layers are split round robin over chunks: chunk c of stage s holds
// model part c x stages + s (Megatron-LM's virtual pipeline stages).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim::schedule {

// The largest shape that any schedule accepts: stages, and microbatches x chunks.
constexpr int max_stages = 1 << 16;
constexpr int max_passes = 1 << 20;

struct Shape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;  // model chunks per stage (virtual stages)
};

// backward: gradients of inputs and of weights; where a schedule splits them, `backward` is the
// input half and `weight` the rest.
enum class Pass : std::uint8_t { forward, backward, weight };

struct Step {
  Pass pass;
  int microbatch;
  int chunk = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

// The steps of one stage, in the order the stage must run them.
using Order = std::vector<Step>;

struct Schedule {
  std::string_view name;
  std::string_view summary;
  std::string_view source;  // the paper that defines it
  bool splits_backward;     // orders `weight` passes of its own
  bool interleaves;         // defined for chunks > 1
  // "" when the shape is possible, else the rule it breaks and the values that would do.
  std::string (*problem)(const Shape& shape);
  // REQUIRES: problem(shape) is empty, 0 <= stage < shape.stages.
  Order (*order)(const Shape& shape, int stage);
};

// Every schedule, in the order `rehearse list` prints them.
std::span<const Schedule> catalog();
const Schedule* find(std::string_view name);  // null when there is none
// What to say when there is none: the nearest name, and all of them.
std::string unknown(std::string_view name);

}  // namespace sim::schedule
