// schedule.h — the type of a pipeline schedule: the parts of the model on each stage, and the order
// of a stage's passes. Schedules do not decide times. The replay runs each pass as soon as its
// inputs have arrived.
//
// A schedule is a pure function of the pipeline's shape, so it can be printed, tested and compared
// without a simulation. Its row in the catalog holds all its properties. Code reads these
// properties and does not compare names, except where a framework supports only certain schedules.
//
// Invariants of an order, tested for every row
// (1) Each stage runs each of its tasks once: a weight pass after its input pass, and that after
//     the forward pass.
// (2) The stages together never wait in a circle.
// (3) Two neighbours agree on the order of the messages between them.
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

// How interleaved schedules count their warm-up and group microbatches.
enum class Interleaving : std::uint8_t {
  all_forwards_first,  // Megatron-LM core 0.4 to 0.9: all forwards first if microbatches == stages
  alternating,         // Megatron-LM since core 0.10
  whole_rounds,        // PyTorch: groups of m / max(1, m / p) microbatches
};

// Times of passes and messages, used to search an order and to draw any order. The caller chooses
// the unit.
struct Times {
  double forward = 1;
  double backward = 1;  // gradients of inputs; a combined backward pass takes backward + weight
  double weight = 1;    // gradients of weights
  double transfer = 0;  // from one stage to another
  double output = 0;    // a vocabulary pass, if all stages share the output layer
  // Not a time: the share of a microbatch's memory that remains for its weight pass after its
  // backward pass (M_W / M_B of arXiv:2401.10241), from 0 to 1.
  double kept = 1;
};

// The input of a schedule.
struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;  // parts of the model per stage (virtual stages)
  int slices = 1;  // slices of a sequence, along its tokens
  int group = 0;   // microbatches that pass together; 0: the schedule's own number
  Interleaving interleaving = Interleaving::alternating;
  Times times = {};
};

enum class Pass : std::uint8_t {
  forward,
  backward,         // gradients of inputs and of weights in one pass
  input,            // gradients of inputs alone; a weight pass follows
  weight,           // gradients of weights
  output,           // vocabulary pass: logits of a stage's share and their sums
  output_gradient,  // ... and their gradients
};

struct ScheduledPass {
  Pass pass;
  int microbatch;
  int chunk = 0;
  int slice = 0;
  bool paired = false;  // runs beside the next step

  friend bool operator==(const ScheduledPass&, const ScheduledPass&) = default;
};

// The steps of one stage, in execution order.
using Order = std::vector<ScheduledPass>;

// The part of the model in chunk c of stage s, with p stages.
enum class Placement : std::uint8_t {
  round_robin,  // part c p + s (Megatron-LM's virtual pipeline stages)
  v,            // down and up again: part s, then part 2p - 1 - s
  // Two copies: part s for the first half of the microbatches, part p - 1 - s for the second half,
  // which travels in the opposite direction.
  two_way,
};

// The backward passes that a schedule splits into gradients of inputs and of weights.
enum class Splits : std::uint8_t { none, some, all };

// How messages travel: in one batch after each pass, for which the CPU waits, or separately beside
// the passes.
struct Wire {
  bool batched = false;
  // Passes of the same direction between posting a receive and the pass that needs it: 0 or 1.
  int ahead = 0;
  bool waits_for_sends = false;  // a pass waits until the previous pass's message has arrived
};
constexpr Wire batched{.batched = true};
constexpr Wire posted{};
constexpr Wire posted_ahead{.ahead = 1};

// The stages that run the output layer, and the passes that wait for it.
enum class Output : std::uint8_t {
  last_part,  // with the last part of the model
  // All stages: output passes of all, then their gradients, then the last part's backward pass.
  two_barriers,
  one_barrier,  // ... no pass waits for the gradients
  together,     // ... all stages at the same time, gradients included
};

// The plans without a schedule of their own that run this one: those with one chunk per stage, or
// those with several.
enum class DefaultFor : std::uint8_t { no_plan, one_chunk, several_chunks };

struct Schedule {
  std::string_view name;
  // PyTorch's class without "Schedule" [torch/distributed/pipelining/schedules.py:
  // get_schedule_class]; "": it has none.
  std::string_view torch = {};
  std::string_view summary;
  std::string_view source;  // the paper that defines it
  Placement placement = Placement::round_robin;
  Splits splits = Splits::none;
  Wire wire = batched;
  Output output = Output::last_part;
  int chunks = 1;                // per stage, by default
  int slices = 1;                // of a sequence, by default
  int fills = 1;                 // microbatches per stage that fill the pipeline to its maximum
  bool by_times = false;         // the order depends on the times of passes and messages
  bool gradients_travel = true;  // false: each part is trained alone
  // A chunk's parameters are gathered once for a group of microbatches (FSDP).
  bool shared_parameters = false;
  // The schedule's loop gathers a chunk's parameters before its turn (Megatron-LM's
  // param_sync_func). Otherwise the modules' hooks gather one bucket ahead, of any chunk.
  bool gathers_chunks = false;
  DefaultFor default_for = DefaultFor::no_plan;  // Megatron-LM's choice
  // "" if the shape is valid; else the rule that it breaks, with valid values.
  std::string (*problem)(const PipelineShape& shape) = nullptr;
  // A row has either `order` or `search`. REQUIRES: problem(shape) is empty, 0 <= stage <
  // shape.stages.
  Order (*order)(const PipelineShape& shape, int stage) = nullptr;
  std::vector<Order> (*search)(const PipelineShape& shape) = nullptr;  // all stages at once
  // Closed forms for tests, with passes of one unit and messages of zero: the makespan, and the
  // maximum number of tasks between their forward and last backward pass. No value: no formula is
  // known for the shape.
  std::optional<std::int64_t> (*makespan)(const PipelineShape& shape) = nullptr;
  std::optional<int> (*live)(const PipelineShape& shape, int stage) = nullptr;

  // The orders of all stages.
  std::vector<Order> orders(const PipelineShape& shape) const;
};

// Every schedule, in the order `rehearse list` prints them.
std::span<const Schedule> catalog();
const Schedule* find(std::string_view name);  // null if unknown
// The schedule of PyTorch's class, in any case of letters; null if none.
const Schedule* find_torch(std::string_view name);
// The schedule of plans that name none, by their number of chunks per stage.
const Schedule& default_schedule(int chunks = 1);
// The message for an unknown name: the nearest name, and all names.
std::string unknown(std::string_view name);

}  // namespace sim::schedule
