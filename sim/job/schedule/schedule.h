// schedule.h — what a pipeline schedule is: which parts of the model a stage holds, and in which
// order it runs its passes. Timing is not decided here; the replay runs each pass as soon as its
// inputs have arrived.
//
// A schedule is a pure function of the pipeline's shape, so it can be printed, tested and compared
// without running a simulation. Everything that anyone needs to know about one stands in its row:
// nobody asks for a schedule by name.
//
// Invariants of an order, which tests hold every row to
//  (1) Each stage runs each of its tasks once, a weight pass behind its input pass, that behind the
//      forward pass.
//  (2) The stages together never wait in a circle.
//  (3) Two neighbours agree on the order of the messages between them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim::schedule {

// The largest shapes that any schedule accepts: stages, tasks of a stage, tasks of all stages.
constexpr int max_stages = 1 << 16;
constexpr int max_passes = 1 << 20;
constexpr std::int64_t max_tasks = 1 << 22;

// How interleaved schedules count their warm-up and cut microbatches into groups.
enum class Interleaving : std::uint8_t {
  all_forwards_first,  // Megatron-LM core 0.4 to 0.9: all of them where microbatches == stages
  alternating,         // Megatron-LM since core 0.10
  whole_rounds,        // PyTorch: groups of m / max(1, m / p) microbatches
};

// Times of passes and messages, for schedules that are searched for and for drawing any of them.
// The unit is the caller's.
struct Times {
  double forward = 1;
  double backward = 1;  // gradients of inputs; where both are one pass, it takes both times
  double weight = 1;    // gradients of weights
  double transfer = 0;  // from one stage to another
  double output = 0;    // a vocabulary pass, where all stages share the output layer
  // No time: the share of what a microbatch keeps behind its forward pass that its weight pass
  // still wants behind its backward pass (M_W / M_B of arXiv:2401.10241), from 0 to 1.
  double kept = 1;
};

// What an order is asked for.
struct Shape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;  // parts of the model per stage (virtual stages)
  int slices = 1;  // of a sequence, along its tokens
  int group = 0;   // microbatches that go round together, 0: the schedule's own number
  Interleaving interleaving = Interleaving::alternating;
  Times times = {};
};

enum class Pass : std::uint8_t {
  forward,
  backward,         // gradients of inputs and of weights in one
  input,            // gradients of inputs alone; a weight pass follows
  weight,           // gradients of weights
  output,           // a stage's share of the vocabulary: logits and their sums
  output_gradient,  // ... and its gradients
};

struct Step {
  Pass pass;
  int microbatch;
  int chunk = 0;
  int slice = 0;
  bool paired = false;  // runs beside the step that follows it

  friend bool operator==(const Step&, const Step&) = default;
};

// The steps of one stage, in the order the stage must run them.
using Order = std::vector<Step>;

// Which part of the model chunk c of stage s holds, of p stages.
enum class Placement : std::uint8_t {
  round_robin,  // part c p + s (Megatron-LM's virtual pipeline stages)
  v,            // down and up again: part s, then part 2p - 1 - s
  two_way,      // two copies: part s for the first half of the microbatches, part p - 1 - s for the
                // second, which travel the other way
};

// Which passes a schedule splits into gradients of inputs and of weights.
enum class Splits : std::uint8_t { none, some, all };

// How messages travel: in one batch behind each pass, which the CPU waits for, or each by itself
// beside the passes.
struct Wire {
  bool batched = false;
  // Passes of the same direction between posting a receive and the pass that needs it: 0 or 1.
  int ahead = 0;
  bool waits_for_sends = false;  // a pass waits until what its forerunner sent is there
};
constexpr Wire batched{.batched = true};
constexpr Wire posted{};
constexpr Wire posted_ahead{.ahead = 1};

// Where the output layer runs, and who waits for whom.
enum class Output : std::uint8_t {
  last_part,     // with the last part of the model
  two_barriers,  // on all stages: output passes of all stages, then their gradients, then the
                 // backward pass of the last part
  one_barrier,   // ... gradients are no one's input
  together,      // ... all stages at the same time, gradients within
};

struct Schedule {
  std::string_view name;
  std::string_view summary;
  std::string_view source;  // the paper that defines it
  Placement placement = Placement::round_robin;
  Splits splits = Splits::none;
  Wire wire = batched;
  Output output = Output::last_part;
  int chunks = 1;  // per stage, where nobody says
  int slices = 1;  // of a sequence, where nobody says
  int fills = 1;   // microbatches per stage that fill the pipeline as far as it is ever filled
  bool by_times = false;           // the order depends on the times of passes and messages
  bool gradients_travel = true;    // false: parts are trained alone
  bool shared_parameters = false;  // parts are gathered for a group of microbatches (FSDP)
  // Its loop has a chunk's parameters gathered before the chunk's turn (Megatron-LM's
  // param_sync_func); else the modules' hooks do, one bucket ahead, whichever chunk it is of.
  bool gathers_chunks = false;
  // "" when the shape is possible, else the rule it breaks and the values that would do.
  std::string (*problem)(const Shape& shape) = nullptr;
  // One of the two. REQUIRES: problem(shape) is empty, 0 <= stage < shape.stages.
  Order (*order)(const Shape& shape, int stage) = nullptr;
  std::vector<Order> (*search)(const Shape& shape) = nullptr;  // all stages at once
  // What tests hold the order to, with passes of one unit and messages of none: the makespan, and
  // the most tasks between their forward and their last backward pass. No value where no formula
  // is known for the shape.
  std::optional<std::int64_t> (*makespan)(const Shape& shape) = nullptr;
  std::optional<int> (*live)(const Shape& shape, int stage) = nullptr;

  // The orders of all stages.
  std::vector<Order> orders(const Shape& shape) const;
};

// Every schedule, in the order `rehearse list` prints them.
std::span<const Schedule> catalog();
const Schedule* find(std::string_view name);  // null when there is none
// What to say when there is none: the nearest name, and all of them.
std::string unknown(std::string_view name);

}  // namespace sim::schedule
