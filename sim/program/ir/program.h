// program.h — the device program: the instructions that one rank's CPU thread issues, in order.
//
// A program holds work and its shapes, never times. It is a list of passes. A pass is a list of
// calls. A call runs a block, a fixed sequence of instructions, on a frame of tensor slots:
//
//     pass F3 ── call embedding ── call layer 0 ── call layer 1 ── ... ── call head
//                                     │
//                                     └ alloc ln; kernel norm; alloc ln_total; collective tp; ...
//
// build.h makes programs from a plan. The engine (sim/engine) runs them against the clock and the
// allocator; the planner and the reports read them. Nobody changes a program after it is built.
//
// Invariants
//  (1) Instructions are in issue order: memory is reused in the order in which the CPU asks for it.
//  (2) Every tensor slot is empty before an alloc and full before a free. A step ends with the same
//      fixed slots full as it began with, plus those that the first step creates.
//  (3) A collective or a transfer names the stream of its communicator. Its partners issue the
//      matching instruction in the same order.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/collective/codec.h"
#include "sim/cluster/collective/collective.h"
#include "sim/job/mesh/mesh.h"
#include "sim/job/schedule/schedule.h"
#include "sim/model/operation.h"

namespace sim::program {

struct Plan;

// In-order queues of work. engine/rank/queues.h says which hardware each queue occupies, and which
// queues have their own pool of memory.
enum class Stream : std::uint8_t {
  compute,     // the default stream
  cp_compute,  // TransformerEngine's second stream for odd steps of ring attention
  unshard,     // FSDP: where parameters are gathered
  reduce,      // FSDP: where gradients are reduced
  tp,          // NCCL streams, one per communicator
  cp,
  dp,     // data parallel (loss reporting)
  dp_cp,  // data x context parallel (gradients and parameters)
  pp,     // pipeline neighbours, batched exchanges
  pp_send_forward,
  pp_receive_forward,  // overlapped exchanges: one stream per direction
  pp_send_backward,
  pp_receive_backward,
  pp_send_forward_up,  // ... of chunks whose activations travel from the last stage to the first
  pp_receive_forward_up,
  pp_send_backward_up,
  pp_receive_backward_up,
  embedding,  // first and last pipeline rank: gradients of tied embeddings
  shard,      // ranks that split one copy of the parameters, a part of data x context parallel
  replicate,  // ranks that hold the same shard (HSDP)
  world,
  pcie_up,         // copies from the CPU to the GPU
  pcie_down,       // copies from the GPU to the CPU
  cpu,             // work on the CPU, in order: an optimizer with its state in CPU memory
  ep,              // expert parallel: ranks that split the experts of a layer
  etp,             // expert tensor parallel: ranks that split each expert
  etp_ep,          // both: expert parallel x expert tensor parallel
  edp,             // expert data parallel: ranks that hold the same experts
  cp_exchange,     // two-level context parallelism: neighbours that trade sequence for heads
  cp_ring,         // ... ranks with the same index in each such group of neighbours
  shard_near,      // neighbours that hold a second copy of the parameters (ZeRO++ hpZ)
  shard_far,       // ranks with the same index in each such group of neighbours
  vocabulary,      // all stages, each with a share of the vocabulary
  side,            // Megatron-LM's second stream: shared experts during the token exchange, or the
                   // token exchange during another microbatch's work
  tensor_columns,  // tensor-parallel ranks in a grid (AxoNN): the ranks of one grid row
  tensor_rows,     // ... the ranks of one grid column
  count_,
};
constexpr int stream_count = static_cast<int>(Stream::count_);
std::string_view name(Stream stream);
// A set of streams, one bit each.
using Streams = std::uint64_t;
static_assert(stream_count < 64);
constexpr Streams bit_of(Stream stream) {
  return Streams{1} << static_cast<unsigned>(stream);
}

enum class Category : std::uint8_t {
  weights,
  gradients,
  master_weights,
  optimizer,
  activations,
  temporaries,
  communication,
  logits,
  other,
  count_,
};
constexpr int category_count = static_cast<int>(Category::count_);
std::string_view name(Category category);

// Address space of a tensor slot. Frames are reused from microbatch to microbatch.
//
//     fixed        lives for the whole run
//     local        lives inside one block
//     microbatch   in the frame of a microbatch
//     layer        in the part of a frame that belongs to one layer
enum class Space : std::uint8_t { fixed, local, microbatch, layer };

struct Slot {
  Space space = Space::local;
  std::uint32_t index = 0;
};

enum class Op : std::uint8_t {
  alloc,          // slot <- `value` bytes on stream's pool, category, label
  free,           // slot
  move,           // the tensor moves to slot `value` (space << 32 | index); no memory changes
  record_stream,  // slot is also used by `stream` (PyTorch's Tensor.record_stream)
  kernel,         // operation `index` on `stream`
  collective,     // transfer `index` of its communicator's stream, ordered after `stream`
  exchange,       // point-to-point batch `index`, ordered after `stream`
  wait,           // `stream` waits for event `event`
  record,         // event `event` marks all work issued to `stream` so far
  sync_event,     // the CPU waits for event `event`
  sync_stream,    // the CPU waits until `stream` is idle
  sync_device,    // the CPU waits until every stream is idle
  host,           // the CPU is busy for `value` units of HostWork `index`
};

// Flags of an instruction, one bit each.
inline constexpr std::uint8_t joins = 1;       // collective/exchange: `stream` waits for its end
inline constexpr std::uint8_t overlapped = 2;  // kernel and collective run at the same time
inline constexpr std::uint8_t optimizer_work = 4;  // kernel belongs to the optimizer step
inline constexpr std::uint8_t recomputed = 8;  // kernel repeats forward work in the backward pass
inline constexpr std::uint8_t maybe = 16;      // free: the slot may be empty
inline constexpr std::uint8_t beside = 32;     // kernel: small enough to run with any other kernel
inline constexpr std::uint8_t graphed = 64;    // part of a CUDA graph: it takes no CPU time

// Kinds of CPU work. The profile gives each a time per unit.
enum class HostWork : std::uint8_t {
  layer_forward,     // Python of one layer's forward beyond its launches
  layer_backward,    // autograd of one layer's backward beyond its launches
  microbatch,        // schedule, data loading
  step,              // logging, learning rate, timers
  blocking_read,     // one .item() beyond the synchronisation itself
  data,              // wait for the data loaders (Job::loading)
  launches,          // launches of a group's kernels beyond the first
  experts_forward,   // router and dispatcher of a layer's forward beyond their launches
  experts_backward,  // ... of its backward
  expert,            // one weight of a grouped product: its tensors, handles and hooks
  graph,             // one launch of a CUDA graph, and the Python around it
  layer_forward_half,      // half of layer_forward: the other half is in a CUDA graph
  layer_backward_half,     // ... of layer_backward
  experts_forward_third,   // a third of experts_forward: other parts are in CUDA graphs
  experts_backward_third,  // ... of experts_backward
  count_,
};

struct Instruction {
  Op op;
  Stream stream = Stream::compute;
  std::uint8_t flags = 0;
  Category category = Category::other;
  Space space = Space::local;
  std::uint16_t event = 0;  // 0: none; collective/exchange/record set it, the waits read it
  std::uint16_t label = 0;  // name of the tensor or of the work
  std::uint32_t index = 0;  // slot, operation, transfer, batch, event or HostWork
  std::int64_t value = 0;   // bytes or amount
};

// The target slot of a move, packed into `value`, and unpacked from it.
constexpr std::int64_t packed(Slot slot) {
  return static_cast<std::int64_t>(slot.space) << 32 | slot.index;
}
constexpr Slot destination(const Instruction& move) {
  return {static_cast<Space>(move.value >> 32), static_cast<std::uint32_t>(move.value)};
}

struct Block {
  std::string name;  // "layer forward"
  std::vector<Instruction> code;
  bool of_sharding = false;  // written by data parallelism (sharding.h), before or after a unit
};

// One layer of the model in one microbatch of one step. Each such key has its own expert routes.
struct RouteKey {
  int layer = 0, microbatch = 0;
  bool first_step = false;
  friend auto operator<=>(const RouteKey&, const RouteKey&) = default;
};

// Top-K routing of a token to experts that lie evenly spread over places (ranks or nodes).
struct Choices {
  int of_token = 0;                // K; 0: no routing
  int groups = 0, top_groups = 0;  // choose among the experts of top_groups of groups; 0: of all
  // Expected number of the `all` places that hold an expert of a token; at most K.
  double places(int all) const;
  friend bool operator==(const Choices&, const Choices&) = default;
};

// One collective as this rank sees it.
struct Transfer {
  collective::Kind kind;
  Stream communicator;
  Bytes bytes;  // message size as nccl-tests counts it, see network.h
  // Number of pieces that overlap with a matrix product (TransformerEngine's user buffers). The
  // first piece of a gather and the last piece of a scatter are exposed; the others are hidden.
  int pieces = 1;
  // DeepEP all-to-all. A token crosses the network once for each node that holds one of its
  // experts; NVLink copies it to the ranks of those experts. Inside a node each such rank gets one
  // copy. `bytes` counts all K copies.
  Choices choices{};
  // All-to-all with drawn routes: index of its RouteKey in Program::routes, counted from 1 and
  // negative for the return. `bytes` is the traffic of the busiest rank of the group. 0: no routes.
  int route = 0;
  // The group issues another collective at once. Rank skew is then counted at that collective only.
  bool followed = false;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// One point-to-point message: to or from the pipeline rank `peer_offset` stages away (cyclic).
struct Message {
  bool send;
  int peer_offset;       // -1 or +1
  std::uint8_t channel;  // 0: activations forward, 1: gradients backward, above: other messages
  Bytes bytes;
};
// A batch of messages that are issued together (batch_isend_irecv).
struct Exchange {
  Stream communicator;
  std::vector<Message> messages;
};

// A run of one block.
struct Call {
  std::uint32_t block;
  std::int32_t layer;        // global layer number, -1: none
  std::uint32_t layer_base;  // offset of Space::layer in the frame
};

enum class PassKind : std::uint8_t {
  setup,
  forward,
  backward,
  weight,
  exchange,
  step,
  output,  // a stage's share of the vocabulary: output passes, and embedding lookups
  output_gradient,
};
std::string_view name(PassKind kind);

// A sequence of calls that all passes of one kind repeat, microbatch after microbatch.
struct Template {
  PassKind kind;
  int chunk = 0;
  std::vector<Call> calls;
};

struct Pass {
  std::uint32_t pattern;    // index into templates
  std::int32_t microbatch;  // -1: none
  std::uint32_t frame;      // index of the frame it runs on
  bool acquires = false;    // first pass on this frame for its (microbatch, chunk)
  bool releases = false;    // last pass on it: the frame is empty afterwards
  bool steady = true;       // false while the pipeline fills or drains
};

// One rank class: ranks that run the same program with the same timing.
struct Program {
  int stage = 0;  // pipeline rank
  int cp_rank = 0;
  std::vector<int> expert_ranks;  // indices of its ranks in their expert-parallel group
  int ranks = 1;                  // number of ranks of the job in this class
  int layers = 0;
  std::int64_t parameters = 0;  // number of parameter elements on one rank

  std::vector<std::string> labels;
  std::vector<model::Operation> operations;
  std::vector<Transfer> transfers;
  std::vector<RouteKey> routes;
  std::vector<Exchange> exchanges;
  std::vector<Block> blocks;
  std::vector<Template> templates;

  std::uint32_t fixed_slots = 0, local_slots = 0, frame_slots = 0, frames = 0;
  std::uint32_t events = 0;  // event numbers are below this

  std::vector<Pass> setup;       // model, buffers, optimizer objects
  std::vector<Pass> first_step;  // a warm-up: creates optimizer state; no parameter gather
  std::vector<Pass> step;        // every later step
  // Positions in `step` at which microbatch k is complete, inside the repeating part of the step.
  // The engine compares states there. Every class has the same number of cuts.
  std::vector<std::uint32_t> cuts;

  // The communicators that this rank creates. The engine adds their memory, which lies outside the
  // caching allocator.
  std::vector<Stream> communicators;
};

// Work of the data loaders that takes time: attention masks.
struct Loading {
  std::int64_t mask_elements = 0;  // mask elements per sequence; 0: loading takes no time
  int sequences = 1;               // per microbatch
  int microbatches = 1;            // per step
  int workers = 1;                 // loader processes per rank
};

// All rank classes of a job, in the order of the mesh.
struct Job {
  std::vector<Program> classes;
  mesh::Mesh mesh;
  bool single_queue = true;      // CUDA_DEVICE_MAX_CONNECTIONS=1, as Megatron-LM requires
  bool launch_blocking = false;  // the CPU waits for every kernel before it issues the next
  bool ends_together = true;     // all ranks meet at the end of a step
  Loading loading;
  // The plan from which expert routes are drawn; null if routes are balanced. `routed_tokens`:
  // tokens of one rank at the router.
  std::shared_ptr<const Plan> router;
  std::int64_t routed_tokens = 0;
  collective::Codecs codecs;  // message compression, by communicator
};

}  // namespace sim::program
