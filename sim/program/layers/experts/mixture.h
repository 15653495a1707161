// mixture.h — a layer's experts in place of its MLP: norm, router, dispatch, the products of the
// local experts, combination, and the expert that every token goes to. INVENTORY.md section 19 has
// a line per tensor.
//
//     norm ── router ── permute ── all-to-all ── gather ── sort ─┐     n tokens, n K copies,
//       │                                                        │     R rows arrive
//       └── shared expert ──────────────┐                     experts
//                                       │                        │
//     sum ◄─── un-permute ◄── all-to-all ◄── scatter ◄── un-sort ┘
//
// Gradients on the way back are those of the rows, of the probabilities, and what the shared expert
// adds to the norm's output.
//
// [NVIDIA/Megatron-LM core 0.14 moe/moe_layer.py, router.py, token_dispatcher.py, experts.py,
// shared_experts.py; core 0.8 token_dispatcher.py for alltoall_seq; DeepEP docs/legacy.md]
#pragma once

#include <functional>
#include <memory>

#include "sim/program/autograd/autograd_graph.h"
#include "sim/program/layers/linear/matrix.h"

namespace sim::program {

// From the residual stream to its summand.
Value mixture(Writer& w);

// Where norms are recomputed: the output goes behind the layer's forward pass and is made again in
// front of its backward pass.
void norm_again(Writer& w, Value output);

class SharedAside;

// What one rank of a layer routes.
struct Routed {
  explicit Routed(const Writer& w);

  std::int64_t tokens;                 // n, at the router
  std::int64_t experts, top_k, local;  // of the layer, of a token, of this rank
  std::int64_t ep, etp;
  std::int64_t sent;      // copies that leave: n K, or what the experts' capacity lets through
  std::int64_t arriving;  // rows behind the all-to-all
  std::int64_t rows;      // R, behind the gather over the ranks that share an expert
  std::int64_t busiest;   // copies that the busiest rank of the group sends or gets
  std::int64_t row;       // bytes of a token
  std::int64_t score;     // bytes of a probability in the router
  Dispatcher dispatcher;
  Choices choices;                     // flex: a token is sent once to each place of its experts
  std::shared_ptr<SharedAside> aside;  // the shared expert on a stream of its own; none: in line

  bool sorts() const { return local > 1 && dispatcher != Dispatcher::allgather; }
};

// router.cpp: the scores. The way back joins the gradients of the norm's output.
void route(Writer& w, const Routed& r, Value normed);

// dispatch.cpp: the rows that the local experts read, the caller's; and from their outputs, which
// are dropped, to one summand for each token.
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
// An all-to-all, hidden where the plan says so; bytes of all copies where there are choices.
// `route`: of the rows that are drawn, negative where they go back; 0: all pairs alike.
// `meanwhile` is issued when it is on its way, before anything waits for it.
void send_tokens(Writer& w, Stream stream, std::int64_t bytes, const Choices& choices, int route,
                 std::string_view label, const std::function<void()>& meanwhile = {});
// The stream whose blocks hold what exchanges make. Beside another microbatch they run, with the
// sums behind them and the layer's output, as nodes of a second stream; what they read is freed
// when they are done [core 0.14 pipeline_parallel/utils.py:ScheduleNode,
// models/gpt/fine_grained_callables.py].
Stream exchange_pool(const Writer& w);
void read_by_exchange(Writer& w, Value v);  // 0: nothing
void read_elsewhere(Writer& w, Value v);    // by the compute stream, of what an exchange made

// expert_products.cpp: the local experts, from their rows, which are dropped.
Value expert_products(Writer& w, const Routed& r, Dispatched in);
Matrix expert_matrix(const Rank& rank, bool up);

// shared_expert.cpp: its sum over the tensor-parallel ranks.
Value shared_expert(Writer& w, Value normed);
Matrix shared_matrix(const Rank& rank, bool up);

// shared_aside.cpp: the same in steps on Stream::side, each issued when an exchange of tokens is on
// its way (--moe-shared-expert-overlap):
//
//     compute   router ── permute ── dispatch ─────── experts ── combine ─────────────── sum
//     side             └─ gather ──────────── up, activation ──────────── down, scatter ─┘
//
// On the way back: gather, `down` behind the gradients' dispatch; `up`, scatter behind their
// combination. The products read whole rows, which are saved
// [core 0.14 moe/shared_experts.py:SharedExpertMLP,
// token_dispatcher.py:MoEAlltoAllTokenDispatcher].
class SharedAside {
 public:
  SharedAside(const Rank& rank, Value normed);

  void gather(Writer& w);
  void up(Writer& w);
  void down(Writer& w);
  Value output(Writer& w);  // the compute stream goes on behind it

  void gather_back(Writer& w, Value gradient);  // of the output, which stays
  void down_back(Writer& w);
  void up_back(Writer& w);
  Value input_gradient(Writer& w);

 private:
  Matrix up_, down_;
  Value normed_, whole_ = 0, up_output_ = 0, operand_ = 0, output_ = 0;
  Value gradient_ = 0, gathered_ = 0, inner_ = 0, made_ = 0;  // on the way back
};

}  // namespace sim::program
