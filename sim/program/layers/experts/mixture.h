// mixture.h — mixture of experts: the second half of a layer with experts, in place of its MLP.
//
// layer.cpp calls mixture. Steps: norm, router, dispatch, products of the local experts, combine.
// The shared expert, if any, processes every token.
//
//     norm ── router ── permute ── all-to-all ── gather ── sort ─┐     n tokens, n K copies,
//       │                                                        │     R rows arrive
//       └── shared expert ──────────────┐                     experts
//                                       │                        │
//     sum ◄─── un-permute ◄── all-to-all ◄── scatter ◄── un-sort ┘
//
// In the backward pass the three Gradients are: of the rows, of the probabilities, and the shared
// expert's gradient of the norm output.
//
// [NVIDIA/Megatron-LM core 0.14 moe/moe_layer.py, router.py, token_dispatcher.py, experts.py,
// shared_experts.py; core 0.8 token_dispatcher.py for alltoall_seq; DeepEP docs/legacy.md;
// INVENTORY.md section 19]
#pragma once

#include <functional>
#include <memory>

#include "sim/program/autograd/autograd_graph.h"
#include "sim/program/layers/linear/matrix.h"

namespace sim::program {

// Reads the residual stream and returns the tensor that the layer adds to it.
Value mixture(Writer& w);

// If the plan recomputes norms: frees `output` after the layer's forward pass and makes it again
// before the backward pass.
void norm_again(Writer& w, Value output);

class SharedAside;

// Routing numbers of one rank in one layer.
struct Routed {
  explicit Routed(const Writer& w);

  std::int64_t tokens;                 // n, at the router
  std::int64_t experts, top_k, local;  // experts of the layer, per token (K), on this rank
  std::int64_t ep, etp;
  std::int64_t sent;      // token copies that leave: n K, or fewer with a capacity
  std::int64_t arriving;  // rows after the all-to-all
  std::int64_t rows;      // R, rows after the all-gather over etp
  std::int64_t busiest;   // copies that the busiest rank of the group sends or receives
  std::int64_t row;       // bytes of a token
  std::int64_t score;     // bytes of a probability in the router
  Dispatcher dispatcher;
  Choices choices;                     // flex only: one copy per rank or node (Transfer::choices)
  std::shared_ptr<SharedAside> aside;  // shared expert on a second stream; null: on the main stream

  bool sorts() const { return local > 1 && dispatcher != Dispatcher::allgather; }
};

// router.cpp: scores, top-k choice, auxiliary loss. Its node sums the gradients of the norm output.
void route(Writer& w, const Routed& r, Value normed);

// dispatch.cpp: `dispatch` returns the rows for the local experts; the caller drops them. `combine`
// drops the experts' outputs and returns one tensor with a row per token.
struct Dispatched {
  Value rows = 0, probabilities = 0;
};
Dispatched dispatch(Writer& w, const Routed& r);
Value combine(Writer& w, const Routed& r, Value outputs);
// gathered_dispatch.cpp: the same by gathering every token; flex_dispatch.cpp: by DeepEP.
Dispatched gathered_dispatch(Writer& w, const Routed& r);
Value gathered_combine(Writer& w, const Routed& r, Value outputs);
Dispatched flex_dispatch(Writer& w, const Routed& r);
Value flex_combine(Writer& w, const Routed& r, Value outputs);
// One all-to-all, overlapped if the plan asks for it. `bytes` counts all copies if there are
// choices. `route`: see Transfer::route. `meanwhile` writes work that is issued after the
// all-to-all and before the wait for it.
void send_tokens(Writer& w, Stream stream, std::int64_t bytes, const Choices& choices, int route,
                 std::string_view label, const std::function<void()>& meanwhile = {});
// The memory pool (by stream) of tensors that exchanges make. If exchanges overlap with another
// microbatch, they run on a second stream, with the sums after them and the layer's output. Their
// inputs are freed when they have finished [core 0.14 pipeline_parallel/utils.py:ScheduleNode,
// models/gpt/fine_grained_callables.py].
Stream exchange_pool(const Writer& w);
// record_stream for tensors that cross between the two streams; does nothing without overlap.
void read_by_exchange(Writer& w, Value v);  // a compute tensor that an exchange reads
void read_elsewhere(Writer& w, Value v);    // an exchanged tensor that the compute stream reads

// expert_products.cpp: the local experts. Drops the rows in `in` and returns the outputs.
Value expert_products(Writer& w, const Routed& r, Dispatched in);
Matrix expert_matrix(const Rank& rank, bool up);

// shared_expert.cpp: returns its output, summed over the tensor-parallel ranks.
Value shared_expert(Writer& w, Value normed);
Matrix shared_matrix(const Rank& rank, bool up);

// shared_aside.cpp: the shared expert in steps on Stream::side. Each step is issued while an
// exchange of tokens is in flight (--moe-shared-expert-overlap):
//
//     compute   router ── permute ── dispatch ─────── experts ── combine ─────────────── sum
//     side             └─ gather ──────────── up, activation ──────────── down, scatter ─┘
//
// Backward: gather and `down` run during the exchange in combine's node; `up` and scatter run
// during the exchange in dispatch's node. The products read gathered rows, which are saved
// [core 0.14 moe/shared_experts.py:SharedExpertMLP,
// token_dispatcher.py:MoEAlltoAllTokenDispatcher].
class SharedAside {
 public:
  SharedAside(const Rank& rank, Value normed);

  void gather(Writer& w);
  void up(Writer& w);
  void down(Writer& w);
  Value output(Writer& w);  // the compute stream waits for Stream::side

  void gather_back(Writer& w, Value gradient);  // of the output; the caller drops it
  void down_back(Writer& w);
  void up_back(Writer& w);
  Value input_gradient(Writer& w);

 private:
  Matrix up_, down_;
  Value normed_, whole_ = 0, up_output_ = 0, operand_ = 0, output_ = 0;
  Value gradient_ = 0, gathered_ = 0, inner_ = 0, made_ = 0;  // used in the backward pass
};

}  // namespace sim::program
