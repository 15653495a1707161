// program.h — what one rank's CPU thread issues, in order: the device program.
//
// A program says what, never how long. It is a list of passes; a pass is a list of calls; a call
// runs a block (a fixed sequence of instructions) on a frame of tensor slots:
//
//     pass F3 ── call embedding ── call layer 0 ── call layer 1 ── ... ── call head
//                                     │
//                                     └ alloc ln; kernel norm; alloc ln_total; collective tp; ...
//
// Invariants
//  (1) Instructions are in issue order: memory is reused in the order the CPU asks for it.
//  (2) Every tensor slot is empty before an alloc and full before a free; a step leaves exactly the
//      static slots full that it found full (plus those that the first step creates).
//  (3) A collective or a transfer names its stream's communicator; its partners issue the matching
//      instruction in the same order.
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

// In-order queues of work. What each occupies, and which own memory: engine/rank/queues.h.
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
  pp_receive_forward,  // ... exchanges that overlap, one stream per direction
  pp_send_backward,
  pp_receive_backward,
  pp_send_forward_up,  // ... of chunks that activations pass from the last stage to the first
  pp_receive_forward_up,
  pp_send_backward_up,
  pp_receive_backward_up,
  embedding,  // first and last pipeline rank: gradients of tied embeddings
  shard,      // ranks that share one copy of the parameters: a part of data x context parallel
  replicate,  // ranks that hold the same shard
  world,
  pcie_up,         // copies to the GPU
  pcie_down,       // ... and to the CPU
  cpu,             // work of the CPU's own, in order: an optimizer whose state lies there
  ep,              // ranks that share the experts of a layer
  etp,             // ranks that share each of them
  etp_ep,          // both
  edp,             // ranks that hold the same experts
  cp_exchange,     // of a context of two levels, neighbours that exchange sequence for heads
  cp_ring,         // ... and those that stand alike among theirs
  shard_near,      // neighbours that hold a second copy of the parameters
  shard_far,       // those that stand alike among such neighbours
  vocabulary,      // all stages: shares of the vocabulary
  side,            // Megatron-LM's second stream: shared experts beside the exchange of tokens, or
                   // what exchanges tokens beside another microbatch
  tensor_columns,  // of tensor-parallel ranks in rows and columns (AxoNN), those of one row
  tensor_rows,     // ... and those of one column
  count_,
};
constexpr int stream_count = static_cast<int>(Stream::count_);
std::string_view name(Stream stream);
// Some streams, a bit each.
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

// Where a tensor handle lives. Frames are reused from microbatch to microbatch.
enum class Space : std::uint8_t { fixed, local, microbatch, layer };

struct Slot {
  Space space = Space::local;
  std::uint32_t index = 0;
};

enum class Op : std::uint8_t {
  alloc,          // slot <- `value` bytes on stream's pool, category, label
  free,           // slot
  move,           // the tensor goes to slot `value` (space << 32 | index)
  record_stream,  // slot is also used by `stream`
  kernel,         // operation `index` on `stream`
  collective,     // transfer `index` of its communicator's stream, ordered after `stream`
  exchange,       // point-to-point batch `index`, ordered after `stream`
  wait,           // `stream` waits for event `event`
  record,         // event `event` is what `stream` was given so far
  sync_event,     // the CPU waits for event `event`
  sync_stream,    // the CPU waits until `stream` is idle
  sync_device,    // the CPU waits until every stream is idle
  host,           // the CPU is busy for `value` units of HostWork `index`
};

// Flags of an instruction.
inline constexpr std::uint8_t joins = 1;       // collective/exchange: `stream` waits for its end
inline constexpr std::uint8_t overlapped = 2;  // kernel runs beside a collective, or the reverse
inline constexpr std::uint8_t optimizer_work = 4;  // kernel belongs to the optimizer step
inline constexpr std::uint8_t recomputed = 8;  // kernel repeats forward work in the backward pass
inline constexpr std::uint8_t maybe = 16;      // free: the slot may be empty
inline constexpr std::uint8_t beside = 32;     // kernel: small, finds free SMs beside any other

enum class HostWork : std::uint8_t {
  layer_forward,     // Python of one layer's forward beyond its launches
  layer_backward,    // autograd of one layer's backward beyond its launches
  microbatch,        // schedule, data loading
  step,              // logging, learning rate, timers
  blocking_read,     // one .item() beyond the synchronisation itself
  data,              // what the step before it waits for its data loaders (Job::loading)
  launches,          // kernels of a group beyond the first: each is launched
  experts_forward,   // router and dispatcher of a layer's forward beyond their launches
  experts_backward,  // ... of its backward
  expert,            // one weight of a grouped product: its tensors, handles and hooks
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

// Where the tensor of a move goes, as `value` says it.
constexpr std::int64_t packed(Slot slot) {
  return static_cast<std::int64_t>(slot.space) << 32 | slot.index;
}
constexpr Slot destination(const Instruction& move) {
  return {static_cast<Space>(move.value >> 32), static_cast<std::uint32_t>(move.value)};
}

struct Block {
  std::string name;  // "layer forward"
  std::vector<Instruction> code;
  bool of_sharding = false;  // what a Sharding does around a layer or a pass
};

// Where a layer is in the job's run.
struct RouteKey {
  int layer = 0, microbatch = 0;
  bool first_step = false;
  friend auto operator<=>(const RouteKey&, const RouteKey&) = default;
};

// A token's choices among experts that are spread evenly over places: ranks, or nodes.
struct Choices {
  int of_token = 0;                // K; 0: no choices
  int groups = 0, top_groups = 0;  // experts of so many groups of all; 0: of any
  // How many of so many places hold an expert of a token, in the mean; K of them at most.
  double places(int all) const;
  friend bool operator==(const Choices&, const Choices&) = default;
};

// One collective as this rank sees it.
struct Transfer {
  collective::Kind kind;
  Stream communicator;
  Bytes bytes;  // nccl-tests' size, see network.h
  // Sent in so many pieces beside a product: of a gather the first, of a scatter the last has
  // nothing to hide behind, the others hide (TransformerEngine's user buffers).
  int pieces = 1;
  // An all-to-all that sends one copy of a token to each node with experts of it, where the ranks
  // of its experts get it by NVLink; inside a node one to each such rank (DeepEP). `bytes` counts
  // all K copies.
  Choices choices{};
  // An all-to-all of drawn routes: the number of its RouteKey in Program::routes, from 1, negative
  // on the way back. `bytes` is what the busiest rank of its group sends or gets.
  int route = 0;
  // Another collective of the group follows at once: how far apart the ranks come is counted there.
  bool followed = false;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// One message of an exchange: to or from the pipeline rank `peer_offset` stages away (cyclic).
struct Message {
  bool send;
  int peer_offset;       // -1 or +1
  std::uint8_t channel;  // 0: activations forward, 1: gradients backward, others: what is beside
  Bytes bytes;
};
struct Exchange {
  Stream communicator;
  std::vector<Message> messages;
};

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
  output,  // a share of the vocabulary: output passes, and rows of the input
  output_gradient,
};
std::string_view name(PassKind kind);

// A sequence of calls that every microbatch of a kind repeats.
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
  std::vector<int> expert_ranks;  // places of its ranks among those that share a layer's experts
  int ranks = 1;                  // how many ranks of the job it stands for
  int layers = 0;
  std::int64_t parameters = 0;  // of this rank

  std::vector<std::string> labels;
  std::vector<model::Operation> operations;
  std::vector<Transfer> transfers;
  std::vector<RouteKey> routes;
  std::vector<Exchange> exchanges;
  std::vector<Block> blocks;
  std::vector<Template> templates;

  std::uint32_t fixed_slots = 0, local_slots = 0, frame_slots = 0, frames = 0;
  std::uint32_t events = 0;  // their numbers stay below

  std::vector<Pass> setup;       // model, buffers, optimizer objects
  std::vector<Pass> first_step;  // a warm-up: creates optimizer state; no parameter gather
  std::vector<Pass> step;        // every later step
  // Positions in `step` (the same count on every class) after which the pipeline
  // has completed microbatch k, inside the repeating part: where two states may be compared.
  std::vector<std::uint32_t> cuts;

  // Bytes outside the caching allocator are the replay's to add; these are the communicators this
  // rank creates.
  std::vector<Stream> communicators;
};

// What the data loaders of a job make that takes them time: attention masks.
struct Loading {
  std::int64_t mask_elements = 0;  // of one sequence; 0: nothing that takes time
  int sequences = 1;               // of a microbatch
  int microbatches = 1;            // of a step
  int workers = 1;                 // of one rank
};

// All rank classes of a job, in the mesh's order.
struct Job {
  std::vector<Program> classes;
  mesh::Mesh mesh;
  bool single_queue = true;      // CUDA_DEVICE_MAX_CONNECTIONS=1, as Megatron-LM wants it
  bool launch_blocking = false;  // the CPU waits for every kernel before it issues the next
  bool ends_together = true;     // all ranks meet at the end of a step
  Loading loading;
  // What draws the routes of transfers that have one, and the tokens of a rank at the router; none
  // where nothing is drawn.
  std::shared_ptr<const Plan> router;
  std::int64_t routed_tokens = 0;
  collective::Codecs codecs;  // of the messages of its communicators
};

}  // namespace sim::program
