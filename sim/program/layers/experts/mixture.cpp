#include "sim/program/layers/experts/mixture.h"

#include <algorithm>

#include "sim/program/layers/experts/expert_adapter.h"
#include "sim/program/layers/linear/linear.h"
#include "sim/program/layers/linear/norm.h"

namespace sim::program {

using model::OperationKind;

Routed::Routed(const Writer& w) {
  const model::Experts& e = w.a.experts;
  const ExpertsPlan& how = w.plan.experts;
  tokens = w.dim.shard;
  experts = e.count;
  top_k = e.top_k;
  ep = w.plan.mesh.ep;
  etp = w.plan.expert_tp();
  local = experts / ep;
  row = w.dim.element * w.dim.hidden;
  score = how.fp32_router ? 4 : w.dim.element;
  dispatcher = how.dispatcher;
  if (dispatcher == Dispatcher::flex)
    choices = {static_cast<int>(e.top_k), static_cast<int>(e.groups),
               static_cast<int>(e.top_groups)};
  const Load load = w.rank.load(w.variant.kind);
  sent = load.sent;
  arriving = load.arriving;
  rows = load.rows;
  busiest = load.busiest;
}

void norm_again(Writer& w, Value output) {
  const bool recomputes =
      w.plan.policy.recompute == Recompute::selective && w.plan.policy.recompute_modules.norms;
  if (!recomputes || !w.keep || !w.forward) return;
  w.graph.rematerialized.push_back({{output},
                                    [output](Writer& b) {
                                      b.refill({output});
                                      b.memory_bound(OperationKind::norm, "norm",
                                                     2 * b.dim.residual());
                                    },
                                    {},
                                    {}});
}

namespace {

Gradients norm_back(Writer& w, Gradients gradients, const Normed& norm) {
  const Value made = w.temporary(w.dim.residual(), "norm input gradient");
  const NormGradients of_norm = norm_backward(w, gradients[0]);
  w.drop({norm.rsigma, norm.mu});
  norm_gradients(w, of_norm.weight, of_norm.bias, "pre_mlp_layernorm.weight",
                 "pre_mlp_layernorm.bias");
  return {made};
}

Value in_line(Writer& w, Value normed) {
  const bool recomputes = w.plan.policy.recompute == Recompute::selective &&
                          w.plan.policy.recompute_modules.shared_experts;
  if (!recomputes) return shared_expert(w, normed);
  return checkpoint(w, {normed}, [normed](Writer& b) { return shared_expert(b, normed); });
}

// The Python of a layer of experts outside of graphs. Router, preprocessing and the rest are taken
// as a third each (chosen: the profile has their sum).
void python_of_experts(Writer& w, HostWork whole, HostWork third) {
  const CudaGraphs& graphs = w.plan.stack.cuda_graphs;
  const int captured = graphs.router + graphs.preprocess;
  if (captured == 0)
    w.e.host(whole);
  else
    w.e.host(third, 3 - captured);
}

Value layer_of_experts(Writer& w) {
  Routed r(w);
  const bool shares = w.a.experts.shared_ffn > 0;
  const bool router_graph = w.plan.stack.cuda_graphs.router;
  python_of_experts(w, HostWork::experts_forward, HostWork::experts_forward_third);
  open_graph(w, router_graph, w.dim.residual());
  w.use({"pre_mlp_layernorm.weight"});
  const Normed norm = norm_forward(w, w.dim.residual(), "expert norm output", true);
  norm_again(w, norm.output);
  w.node([norm](Writer& b, Gradients g) { return norm_back(b, g, norm); });
  if (shares && w.plan.experts.shared_overlap)
    r.aside = std::make_shared<SharedAside>(w.rank, norm.output);
  route(w, r, norm.output);
  close_graph(w, router_graph, w.dim.residual());
  const Dispatched in = dispatch(w, r);
  Value shared = shares && !r.aside ? in_line(w, norm.output) : Value{0};
  w.drop(norm.output);
  const Value sum = combine(w, r, expert_products(w, r, in));
  if (r.aside) shared = r.aside->output(w);
  if (shared != 0) {
    w.memory_bound(OperationKind::elementwise, "add shared expert", 3 * w.dim.residual());
    w.drop(shared);
  }
  w.node([](Writer& b, Gradients g) {
    python_of_experts(b, HostWork::experts_backward, HostWork::experts_backward_third);
    return g;
  });
  return sum;
}

}  // namespace

ParameterList mixture_parameters(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  if (a.norm_has_weights()) list.push_back({"pre_mlp_layernorm.weight", a.hidden, sp});
  if (a.norm_has_bias()) list.push_back({"pre_mlp_layernorm.bias", a.hidden, sp});
  list.push_back({"router.weight", a.experts.count * a.hidden, sp, true});
  list.back().at_once = true;
  if (a.experts.router_bias) list.push_back({"router.bias", a.experts.count, sp});
  for (const bool up : {true, false}) {
    const Matrix m = expert_matrix(rank, up);
    // Shards are cut from one tensor of all experts [torchtitan models/moe: GroupedExperts].
    const std::int64_t together = rank.plan.shards_parameters() ? m.count : 1;
    for (std::int64_t i = 0; i < m.count; i += together) {
      list.push_back({m.parameter, together * m.in * m.out, false, true});
      list.back().expert = true;
      if (m.bias.empty()) continue;
      list.push_back({m.bias, together * m.out, false, true});
      list.back().expert = true;
    }
  }
  for (const Parameter& p : expert_adapter_parameters(rank)) list.push_back(p);
  if (a.experts.shared_ffn == 0) return list;
  for (const bool up : {true, false}) {
    const Matrix m = shared_matrix(rank, up);
    list.push_back({m.parameter, m.in * m.out, false, true});
    list.back().at_once = true;
  }
  return list;
}

Value mixture(Writer& w) {
  const bool recomputes =
      w.plan.policy.recompute == Recompute::selective && w.plan.policy.recompute_modules.moe;
  return recomputes ? checkpoint(w, {}, layer_of_experts) : layer_of_experts(w);
}

}  // namespace sim::program
