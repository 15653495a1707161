#include "sim/program/autograd/autograd_graph.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <queue>
#include <utility>

#include "sim/program/parallel/sharding.h"

namespace sim::program {
namespace {

// Until finish(), local slot number `unplaced + v` is a placeholder for the tensor of value v.
constexpr std::uint32_t unplaced = 1u << 24;

bool names_slot(const Instruction& i) {
  return i.op == Op::alloc || i.op == Op::free || i.op == Op::move || i.op == Op::record_stream;
}

}  // namespace

Writer::Writer(Rank& rank_, const Variant& variant_, std::string name, AutogradGraph graph_,
               Owner owner)
    : rank(rank_),
      variant(variant_),
      plan(rank_.plan),
      a(rank_.plan.architecture),
      dim(owner == Owner::layer ? rank_.layer_dim : rank_.dim),
      e(rank_.tables, std::move(name)),
      graph(std::move(graph_)),
      keep(variant_.keep),
      forward(false),
      held(variant_.holds_gradient) {
  block_.owner = owner;
  if (cuts_products()) e.set_pieces(plan.mesh.tp);
  if (plan.stack.cuda_graphs.passes) e.stay_in_graph();
}

Value Writer::make(std::int64_t bytes, std::string_view label, Category category, Stream pool) {
  const Value v = static_cast<Value>(graph.tensors.size());
  graph.tensors.push_back({{}, false, 1, bytes, category, label});
  e.alloc(slot(v), bytes, category, label, pool == Stream::compute ? set.current : pool);
  return v;
}

Value Writer::make_in(Slot slot, std::int64_t bytes, std::string_view label, Category category,
                      Stream pool) {
  graph.tensors.push_back({slot, true, 1, bytes, category, label});
  e.alloc(slot, bytes, category, label, pool);
  return static_cast<Value>(graph.tensors.size() - 1);
}

Value Writer::given(Slot slot, std::int64_t bytes, std::string_view label, Category category) {
  graph.tensors.push_back({slot, true, 0, bytes, category, label});
  return static_cast<Value>(graph.tensors.size() - 1);
}

Slot Writer::slot(Value v) const {
  assert(v != 0);
  const Tensor& t = graph.tensors[v];
  return t.placed ? t.slot : local_slot(unplaced + v);
}

void Writer::drop(Value v) {
  if (v == 0) return;
  Tensor& t = graph.tensors[v];
  assert(t.holders > t.on_cpu);
  if (--t.holders == t.on_cpu) e.free(slot(v));
}

void Writer::record_stream(Value v, Stream stream) {
  e.record_stream(slot(v), stream);
}

void Writer::memory_bound(model::OperationKind kind, std::string_view name, std::int64_t bytes,
                          Stream stream) {
  e.memory_bound(kind, name, bytes, set.flags, stream == Stream::compute ? set.current : stream);
}

void Writer::product(std::string_view name, std::int64_t n, std::int64_t k, int sms_taken) {
  model::Operation product = model::gemm(name, dim.tokens, n, k, model::GemmRole::forward, false,
                                         plan.product_precision());
  product.sms_taken = sms_taken;
  e.kernel(product, set.flags);
}

std::uint16_t Writer::event() {
  const auto made = static_cast<std::uint16_t>(graph_event + block_.events++);
  rank.program.events = std::max(rank.program.events, made + 1u);
  return made;
}

void Writer::order(Stream waits, Stream behind) {
  const std::uint16_t there = event();
  e.record(there, behind);
  e.wait(there, waits);
}

Gradients Writer::backward(Gradients gradients, std::size_t first) {
  while (graph.nodes.size() > first) {
    const auto back = std::move(graph.nodes.back());
    graph.nodes.pop_back();
    gradients = back(*this, gradients);
  }
  if (first == 0) catch_up();
  return gradients;
}

void Writer::catch_up() {
  for (const AutogradGraph::Work& work : std::exchange(block_.put_off, {})) work(*this);
}

void Writer::first_product() {
  const std::int64_t bytes = rank.environment.engine_workspace.n;
  if (!makes_workspaces() || block_.had_product || bytes == 0) return;
  block_.had_product = true;
  e.alloc(fixed_slot(engine_workspace), bytes, Category::other, "TransformerEngine workspace");
}

void Writer::rematerialize(std::vector<Value> tensors, AutogradGraph::Work make,
                           std::function<std::vector<Value>(Writer&)> keep_instead) {
  if (!keep || !forward || !rank.recomputes_operators()) return;
  graph.rematerialized.push_back(
      {std::move(tensors), std::move(make), std::move(keep_instead), {}});
}

void Writer::refill(std::initializer_list<Value> values) {
  for (const Value v : values)
    if (const Tensor& t = graph.tensors[v]; t.placed && t.holders > 0)
      e.alloc(slot(v), t.bytes, t.category, t.label);
}

void Writer::use(std::initializer_list<std::string_view> parameters, std::string_view owner) {
  if (!variant.hooks) return;
  for (const std::string_view p : parameters) rank.sharding->use(e, unit(), p, owner);
}

bool Writer::keep_gradient(Value gradient, std::string_view parameter, std::string_view owner) {
  if (gradient == 0 || !rank.sharding->keep(e, unit(), parameter, slot(gradient), owner))
    return false;
  assert(graph.tensors[gradient].holders == 1);
  graph.tensors[gradient].holders = 0;
  return true;
}

void Writer::ready(std::string_view parameter, std::string_view owner) {
  if (variant.hooks) rank.sharding->ready(e, unit(), parameter, owner);
}

Visit Writer::visit() const {
  return forward ? Visit::forward : variant.recompute ? Visit::recompute : Visit::backward;
}

void Writer::open(std::string_view weight) {
  rank.sharding->open(e, unit(), weight, visit());
}

void Writer::close(std::string_view weight) {
  rank.sharding->close(e, unit(), weight, visit());
}

Value Writer::reorder(Value v, Order order, std::int64_t bytes) {
  const bool gathered = order == Order::gathered;
  const bool copies = distributes_tensors() && !cuts_products();
  if (!rank.batch_first() || (dim.batch == 1 && (gathered || !copies))) return v;
  const char* name = gathered ? "gathered sequences" : "sequences to scatter";
  const Value ordered = copies ? temporary(bytes, name) : v;
  memory_bound(model::OperationKind::copy, name, 2 * bytes);
  if (copies) drop(v);
  return ordered;
}

std::uint32_t Writer::finish() {
  for (Value v = 1; v < graph.tensors.size(); ++v) {
    Tensor& t = graph.tensors[v];
    if (t.placed || t.holders == 0) continue;
    t.slot = rank.slot_of_survivor(static_cast<std::size_t>(block_.owner), graph.placed++);
    t.placed = true;
  }
  // Each tensor of this block gets the lowest free local slot.
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_slots;
  std::vector<std::uint32_t> local(graph.tensors.size(), 0);
  std::uint32_t used = 0;
  for (Instruction& i : e.code()) {
    if (!names_slot(i) || i.space != Space::local || i.index < unplaced) continue;
    const Value v = i.index - unplaced;
    if (graph.tensors[v].placed) {
      i.space = graph.tensors[v].slot.space;
      i.index = graph.tensors[v].slot.index;
      continue;
    }
    if (i.op == Op::alloc) {
      if (free_slots.empty()) free_slots.push(used++);
      local[v] = free_slots.top();
      free_slots.pop();
    }
    i.index = local[v];
    if (i.op == Op::free || i.op == Op::move) free_slots.push(local[v]);
  }
  rank.program.local_slots = std::max(rank.program.local_slots, used);
  return e.finish();
}

Value checkpoint(Writer& w, const std::vector<Value>& arguments,
                 const std::function<Value(Writer&)>& region) {
  if (!w.keep) return region(w);
  w.keep = false;
  const Value output = region(w);
  w.keep = true;
  for (const Value v : arguments) w.save(v);
  w.node([arguments, region](Writer& b, Gradients gradients) {
    const std::size_t first = b.graph.nodes.size();
    const std::uint8_t before = std::exchange(b.set.flags, recomputed);
    const Value made = region(b);
    b.unname_all();
    b.set.flags = before;
    b.hold(gradients[0]);
    // Arguments that the region's own nodes hold too are released with those nodes.
    std::vector<Value> rest;
    for (const Value v : arguments)
      if (v != 0 && b.holders(v) > 1)
        b.drop(v);
      else
        rest.push_back(v);
    const Gradients back = b.backward(gradients, first);
    for (const Value v : rest) b.drop(v);
    b.drop({made, gradients[0]});
    return back;
  });
  return output;
}

namespace {

void launch_graph(Writer& w, std::int64_t bytes) {
  w.memory_bound(model::OperationKind::copy, "graph input", 2 * bytes);
  w.e.begin_graph();
}

}  // namespace

void open_graph(Writer& w, bool on, std::int64_t bytes) {
  if (!on) return;
  launch_graph(w, bytes);
  w.node([](Writer& b, Gradients g) {
    b.e.end_graph();
    return g;
  });
}

void close_graph(Writer& w, bool on, std::int64_t bytes) {
  if (!on) return;
  w.e.end_graph();
  w.node([bytes](Writer& b, Gradients g) {
    launch_graph(b, bytes);
    return g;
  });
}

}  // namespace sim::program
