#include "sim/program/parallel/offload/module_offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace sim::program {
namespace {

constexpr std::size_t at(OffloadModule module) {
  return static_cast<std::size_t>(module);
}

constexpr std::uint16_t back_event(OffloadModule module) {
  return static_cast<std::uint16_t>(group_event + at(module));
}

bool of_experts(OffloadModule module) {
  return module == OffloadModule::expert_fc1 || module == OffloadModule::moe_act ||
         module == OffloadModule::mlp_norm;
}

// Whether a layer has groups of this module. A recomputed core has none [core transformer/
// attention.py: checkpoint_core_attention]. A norm that is part of a product has none
// [transformer_layer.py:_set_offload_modules].
bool offloads(const Rank& rank, OffloadModule module, const LayerKind& kind) {
  const LayerPolicy& policy = rank.plan.policy;
  if (!policy.offloads(module)) return false;
  if (of_experts(module)) return kind.mixture;
  if (module == OffloadModule::attn_norm) return rank.plan.architecture.is_latent();
  return module != OffloadModule::core_attn || policy.recompute != Recompute::selective ||
         !policy.recompute_modules.core_attention;
}

// A module that predicts a token further is the last layer of its pass. Its groups are the last of
// their names, so they stay on the GPU [core transformer/multi_token_prediction.py:
// MultiTokenPredictionLayer runs a whole transformer layer].
bool stays_for_prediction(const Rank& rank, int chunk, OffloadModule module) {
  const model::Architecture& a = rank.plan.architecture;
  if (a.predicted_tokens == 0 || !rank.is_last_part(chunk)) return false;
  const std::vector<std::uint8_t> mixture = model::mixture_layers(a);
  LayerKind kind;
  kind.mixture = !mixture.empty() && mixture.back() != 0;
  return offloads(rank, module, kind);
}

std::int64_t elements(const Writer& w, const Tensor& t) {
  return t.bytes / (t.fp32 ? 4 : w.dim.element);
}

// The values of a module's group that come up with it. Only values that nothing else holds come up;
// a value of several groups comes up with the first one that does. A value that also belongs to a
// group that stays (`kept`) never left.
std::vector<Value> brought(const AutogradGraph& graph, OffloadModule module, std::uint8_t kept) {
  std::vector<Value> values;
  for (const Value v : graph.groups[at(module)]) {
    std::ptrdiff_t all = 0, later = 0;
    bool stays = false;
    for (std::size_t m = 0; m < graph.groups.size(); ++m) {
      const std::ptrdiff_t count = std::ranges::count(graph.groups[m], v);
      all += count;
      if (m > at(module)) later += count;
      stays |= count > 0 && (kept & bit_of(static_cast<OffloadModule>(m))) != 0;
    }
    if (!stays && later == 0 && all == graph.tensors[v].holders &&
        std::ranges::count(values, v) == 0)
      values.push_back(v);
  }
  return values;
}

// Allocates a group's tensors and copies them up, after all work that the GPU has received so far.
void bring(Emitter& e, const AutogradGraph& graph, OffloadModule module, int layers_down,
           std::uint8_t kept, bool behind_forward) {
  e.record(computed_event);
  e.wait(computed_event, Stream::pcie_up);
  if (behind_forward) e.wait(offload_event, Stream::pcie_up);
  for (const Value v : brought(graph, module, kept)) {
    const Tensor& t = graph.tensors[v];
    e.alloc(seen_from_above(t.slot, layers_down), t.bytes, t.category, t.label, Stream::pcie_up);
  }
  for (const Value v : graph.groups[at(module)])
    e.memory_bound(model::OperationKind::host_copy, "activations up", graph.tensors[v].bytes, 0,
                   Stream::pcie_up);
  e.record(back_event(module), Stream::pcie_up);
}

// The events of a layer's backward pass: each module's wait and its start.
struct Past {
  OffloadModule module;
  bool wait;
};
std::vector<Past> way_back_of(const Rank& rank, const LayerKind& kind) {
  using enum OffloadModule;
  std::vector<Past> all;
  for (const Past& past : {Past{mlp_norm, true},
                           {moe_act, true},
                           {moe_act, false},
                           {expert_fc1, true},
                           {expert_fc1, false},
                           {mlp_norm, false},
                           {attn_norm, true},
                           {attn_proj, true},
                           {attn_proj, false},
                           {core_attn, true},
                           {core_attn, false},
                           {qkv_linear, true},
                           {qkv_linear, false},
                           {attn_norm, false}})
    if (offloads(rank, past.module, kind)) all.push_back(past);
  return all;
}

// Groups in the order in which modules start. It differs from the order of commits, because norms
// enclose other modules.
std::vector<std::size_t> in_order_of_starts(const std::vector<ModuleOffload::Group>& groups) {
  using enum OffloadModule;
  static constexpr std::array<OffloadModule, offload_module_count> starts = {
      attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act};
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t g) {
    return std::pair{groups[g].layer, std::ranges::find(starts, groups[g].module) - starts.begin()};
  });
  return order;
}

}  // namespace

OffloadGroup::OffloadGroup(Writer& w, OffloadModule module)
    : w_(w),
      module_(module),
      on_(w.keep && w.forward && w.set.depth == 0 && offloads(w.rank, module, w.variant.kind)) {
  if (!on_) return;
  w.set.group = &saved_;
  if (module == OffloadModule::expert_fc1 || module == OffloadModule::moe_act) return;
  w.node([module](Writer& b, Gradients g) {
    bring_next_group(b, module);
    return g;
  });
}

void OffloadGroup::add(Value saved) {
  if (on_) saved_.push_back(saved);
}

void OffloadGroup::close() {
  if (on_) w_.set.group = nullptr;
}

void OffloadGroup::commit() {
  if (!on_) return;
  std::vector<Value>& group = w_.graph.groups[at(module_)];
  for (const Value v : saved_)
    if (elements(w_, w_.graph.tensors[v]) >= w_.plan.policy.offload_min_elements)
      group.push_back(v);
  if (module_ != OffloadModule::expert_fc1 && module_ != OffloadModule::moe_act)
    w_.node([module = module_](Writer& b, Gradients g) {
      wait_for_group(b, module);
      return g;
    });
  if ((w_.variant.offload.kept & bit_of(module_)) != 0) return;
  w_.e.record(computed_event);
  w_.e.wait(computed_event, Stream::pcie_down);
  for (const Value v : group) {
    w_.memory_bound(model::OperationKind::host_copy, "activations down", w_.graph.tensors[v].bytes,
                    Stream::pcie_down);
    w_.record_stream(v, Stream::pcie_down);
    ++w_.graph.tensors[v].on_cpu;
  }
  w_.e.record(offload_event, Stream::pcie_down);
  std::vector<Value> gone = group;
  std::ranges::sort(gone);
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  for (const Value v : gone)
    if (const Tensor& t = w_.graph.tensors[v]; t.holders == t.on_cpu) w_.e.free(w_.slot(v));
}

void wait_for_group(Writer& w, OffloadModule module) {
  const LayerOffload& offload = w.variant.offload;
  if (w.set.depth > 0 || !offloads(w.rank, module, w.variant.kind) ||
      (offload.kept & bit_of(module)) != 0)
    return;
  if ((offload.late & bit_of(module)) != 0)
    bring(w.e, *w.rank.graphs.layer.at(w.variant.kind.number()), module, 0, offload.kept,
          offload.behind_forward);
  w.e.wait(back_event(module));
}

void bring_next_group(Writer& w, OffloadModule module) {
  if (w.set.depth > 0) return;
  const LayerOffload& offload = w.variant.offload;
  if (const auto& next = offload.next[at(module)])
    bring(w.e, *w.rank.graphs.layer.at(next->kind.number()), next->module, next->layers_down,
          next->kept, offload.behind_forward);
}

// A backward pass, while the groups of the step are traced.
struct ModuleOffload::Microbatch {
  schedule::ScheduledPass step;
  std::vector<Group> groups;                // in the order of offloading
  std::vector<std::uint8_t> kept, brought;  // by group
  // Groups not brought up yet, counted from the first layer.
  std::size_t below = 0;
  bool behind_forward = false;

  // A group, together with the groups of its layer that stay.
  Group with_kept(std::size_t g) const {
    Group group = groups[g];
    for (std::size_t other = 0; other < groups.size(); ++other)
      if (kept[other] != 0 && groups[other].layer == group.layer)
        group.kept |= bit_of(groups[other].module);
    return group;
  }
  // The next group to come up; none if all have.
  std::optional<std::size_t> pop() {
    while (below > 0)
      if (--below; !kept[below] && !brought[below]) {
        brought[below] = 1;
        return below;
      }
    return {};
  }
};

std::vector<ModuleOffload::Group> ModuleOffload::groups(const schedule::ScheduledPass& step,
                                                        bool first_step) const {
  const int microbatch = rank_.plan.draws_routes() ? step.microbatch : 0;
  std::vector<Group> all;
  for (int layer = 0; layer < rank_.layers(step.chunk); ++layer) {
    const LayerKind kind = rank_.kind(step.chunk, {layer, microbatch, first_step});
    for (int m = 0; m < offload_module_count; ++m)
      if (const auto module = static_cast<OffloadModule>(m); offloads(rank_, module, kind))
        all.push_back({layer, module, kind});
  }
  return all;
}

ModuleOffload::OfPass ModuleOffload::way_back(Microbatch& own, Microbatch* next) const {
  OfPass made;
  made.layers.resize(static_cast<std::size_t>(rank_.layers(own.step.chunk)));
  const std::size_t count = own.groups.size();
  std::size_t end = count;  // end of the current layer's groups
  for (int layer = rank_.layers(own.step.chunk) - 1; layer >= 0; --layer) {
    LayerOffload& of_layer = made.layers[static_cast<std::size_t>(layer)];
    of_layer.behind_forward = own.behind_forward;
    std::size_t begin = end;
    while (begin > 0 && own.groups[begin - 1].layer == layer) --begin;
    if (begin == end) continue;
    const auto group = [&](OffloadModule module) {
      return static_cast<std::size_t>(
          std::ranges::find(own.groups.begin() + static_cast<std::ptrdiff_t>(begin),
                            own.groups.begin() + static_cast<std::ptrdiff_t>(end), module,
                            &Group::module) -
          own.groups.begin());
    };
    for (const Past& past : way_back_of(rank_, own.groups[begin].kind)) {
      const std::size_t here = group(past.module);
      if (past.wait) {
        if (own.kept[here] != 0) of_layer.kept |= bit_of(past.module);
        if (own.kept[here] == 0 && own.brought[here] == 0) of_layer.late |= bit_of(past.module);
        own.brought[here] = 1;
      } else if (const auto up = own.pop()) {
        const Group g = own.with_kept(*up);
        if (layer - g.layer < static_cast<int>(most_layers_back))
          of_layer.next[at(past.module)] = {layer - g.layer, g.module, g.kind, g.kept};
        else
          own.brought[*up] = 0;  // too many layers away: comes up late
      } else if (next != nullptr) {
        if (const auto ahead = next->pop()) made.ahead.push_back(next->with_kept(*ahead));
      }
    }
    end = begin;
  }
  return made;
}

void ModuleOffload::add(const schedule::ScheduledPass& step, OfPass made) {
  std::vector<std::int64_t> all;
  const auto put_kind = [&](const LayerKind& kind) { all.push_back(kind.number()); };
  for (const LayerOffload& layer : made.layers) {
    all.insert(all.end(), {layer.kept, layer.late, layer.behind_forward});
    for (const auto& next : layer.next) {
      all.push_back(next ? 1 + next->layers_down : 0);
      if (!next) continue;
      all.insert(all.end(), {static_cast<std::int64_t>(next->module), next->kept});
      put_kind(next->kind);
    }
  }
  all.push_back(-1);
  for (const Group& group : made.ahead) {
    all.insert(all.end(), {group.layer, static_cast<std::int64_t>(group.module), group.kept});
    put_kind(group.kind);
  }
  made.number =
      numbers_.try_emplace(std::move(all), static_cast<int>(numbers_.size()) + 1).first->second;
  passes_[{step.pass != schedule::Pass::forward, step.chunk, step.microbatch}] = std::move(made);
}

std::int64_t ModuleOffload::bytes(const Group& group) {
  const int kind = group.kind.number();
  if (!rank_.graphs.layer.contains(kind)) {
    Variant variant;
    variant.kind = group.kind;
    layer_forward(rank_, variant);
  }
  const AutogradGraph& graph = *rank_.graphs.layer.at(kind);
  std::int64_t sum = 0;
  for (const Value v : graph.groups[at(group.module)]) sum += graph.tensors[v].bytes;
  return sum;
}

// Decides which groups stay, by bytes and by fraction. The last groups of the first backward pass
// stay in any case [fine_grained_activation_offload.py:post_warmup_callback].
void ModuleOffload::keep(std::vector<Microbatch>& back, std::vector<OfPass>& forward) {
  const LayerPolicy& policy = rank_.plan.policy;
  if (policy.offload_delta_bytes == 0 && policy.activation_offload_fraction == 1) return;
  std::int64_t left = rank_.program.stage * policy.offload_delta_bytes;
  for (std::size_t i = 0; i < back.size(); ++i) {
    Microbatch& m = back[i];
    // The last group of a name that stays only because its backward pass follows directly counts as
    // one that goes.
    const std::vector<std::uint8_t> never =
        i == 0 ? m.kept : std::vector<std::uint8_t>(m.kept.size(), 0);
    std::vector<std::size_t> going;
    const auto stay = [&](std::size_t g) {
      m.kept[g] = 1;
      const Group& group = m.groups[g];
      forward[i].layers[static_cast<std::size_t>(group.layer)].kept |= bit_of(group.module);
    };
    for (const std::size_t g : in_order_of_starts(m.groups)) {
      if (never[g] != 0) continue;
      const std::int64_t size = bytes(m.groups[g]);
      if (left > 0) {
        left -= size;
        stay(g);
      } else if (size > 0) {
        going.push_back(g);
      }
    }
    auto count = static_cast<std::size_t>(static_cast<double>(going.size()) *
                                          (1 - policy.activation_offload_fraction));
    for (; count > 0; --count) {
      stay(going.back());
      going.pop_back();
    }
  }
}

void ModuleOffload::plan(const schedule::Order& order, bool first_step) {
  passes_.clear();
  if (rank_.plan.policy.offload_modules == 0) return;
  std::vector<Microbatch> back;  // in the order of backward passes
  for (const schedule::ScheduledPass& step : order)
    if (step.pass != schedule::Pass::forward) back.emplace_back().step = step;
  // By forward pass: the number of backward passes before it.
  std::map<std::pair<int, int>, std::size_t> before;
  std::size_t passed = 0;
  for (const schedule::ScheduledPass& step : order)
    if (step.pass == schedule::Pass::forward)
      before[{step.chunk, step.microbatch}] = passed;
    else
      ++passed;
  std::vector<OfPass> forward(back.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    Microbatch& m = back[i];
    m.groups = groups(m.step, first_step);
    m.below = m.groups.size();
    m.kept.assign(m.groups.size(), 0);
    m.brought = m.kept;
    // Whether its backward pass is the next one after its forward pass. The step's first backward
    // pass is treated alike below.
    m.behind_forward = before.at({m.step.chunk, m.step.microbatch}) == i;
    forward[i].layers.resize(static_cast<std::size_t>(rank_.layers(m.step.chunk)));
    if (m.behind_forward || i == 0)
      for (int number = 0; number < offload_module_count; ++number) {
        const auto module = static_cast<OffloadModule>(number);
        const auto last =
            std::ranges::find(m.groups.rbegin(), m.groups.rend(), module, &Group::module);
        if (last == m.groups.rend() || stays_for_prediction(rank_, m.step.chunk, module)) continue;
        m.kept[static_cast<std::size_t>(m.groups.rend() - last) - 1] = 1;
        forward[i].layers[static_cast<std::size_t>(last->layer)].kept |= bit_of(last->module);
      }
  }
  keep(back, forward);
  for (std::size_t i = 0; i < back.size(); ++i) {
    const schedule::ScheduledPass& step = back[i].step;
    add({.pass = schedule::Pass::forward, .microbatch = step.microbatch, .chunk = step.chunk},
        std::move(forward[i]));
  }
  for (std::size_t i = 0; i < back.size(); ++i) {
    const bool ready = i + 1 < back.size() && !back[i + 1].behind_forward;
    OfPass made = way_back(back[i], ready ? &back[i + 1] : nullptr);
    if (ready) made.next = back[i + 1].step;
    add(back[i].step, std::move(made));
  }
}

const ModuleOffload::OfPass& ModuleOffload::of(const schedule::ScheduledPass& step) const {
  static const OfPass nothing;
  const auto found =
      passes_.find({step.pass != schedule::Pass::forward, step.chunk, step.microbatch});
  return found == passes_.end() ? nothing : found->second;
}

Template ModuleOffload::ahead(const OfPass& pass) {
  Template t{PassKind::exchange, pass.next.chunk, {}};
  for (const Group& group : pass.ahead)
    t.calls.push_back(
        {up(group), rank_.first_layer(pass.next.chunk) + group.layer, layer_base(group.layer)});
  return t;
}

std::uint32_t ModuleOffload::up(const Group& group) {
  const auto [it, added] = blocks_.try_emplace({group.kind.number(), group.module, group.kept}, 0);
  if (!added) return it->second;
  Emitter e(rank_.tables, "reload of a group");
  bring(e, *rank_.graphs.layer.at(group.kind.number()), group.module, 0, group.kept, false);
  return it->second = e.finish();
}

std::string offload_modules_text(const LayerPolicy& policy, std::string_view separator) {
  std::string text;
  for (int m = 0; m < offload_module_count; ++m)
    if (policy.offloads(static_cast<OffloadModule>(m)))
      text += fmt::format("{}{}", text.empty() ? "" : separator,
                          offload_module_names[static_cast<std::size_t>(m)]);
  return text;
}

}  // namespace sim::program
