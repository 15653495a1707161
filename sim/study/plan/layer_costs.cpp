#include "sim/study/plan/layer_costs.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>
#include <utility>

#include "sim/answer/priced.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/autograd/frame_tensors.h"
#include "sim/program/build/build.h"
#include "sim/study/plan/rank_bound.h"

namespace sim::planner {

namespace {

using program::Instruction;
using program::Op;
using program::PassKind;
using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

// Layers of the small program. With block recomputation its first half is recomputed.
constexpr int layers = 6, half = layers / 2;

// Values of each layer of a template, and of the code before and after the layers.
struct Parts {
  std::int64_t before = 0, after = 0;
  std::vector<std::int64_t> of_layer = std::vector<std::int64_t>(layers);
};

Parts parts_of(const program::Template& pattern, const std::vector<std::int64_t>& ends) {
  Parts parts;
  std::int64_t last = 0;
  bool inside = false;
  for (std::size_t c = 0; c < pattern.calls.size(); ++c) {
    const int layer = pattern.calls[c].layer;
    const std::int64_t taken = ends[c] - last;
    last = ends[c];
    if (layer >= 0) {
      inside = true;
      parts.of_layer[static_cast<std::size_t>(layer)] += taken;
    } else {
      (inside ? parts.after : parts.before) += taken;
    }
  }
  return parts;
}

// Bytes that a frame holds after each call: the activations of a microbatch until its backward
// pass.
std::vector<std::int64_t> held_behind_calls(const program::Program& program,
                                            const program::Template& pattern) {
  std::vector<std::int64_t> held;
  program::FrameTensors frame(program);
  for (const program::Call& call : pattern.calls) {
    frame.run(call);
    held.push_back(frame.bytes());
  }
  return held;
}

std::int64_t least_of(const std::vector<std::int64_t>& values, int from, int to) {
  return *std::min_element(values.begin() + from, values.begin() + to);
}

void keep_least(std::int64_t& so_far, std::int64_t value, bool first) {
  so_far = first ? value : std::min(so_far, value);
}

// A schedule with one chunk per stage that splits every backward pass.
const schedule::Schedule& split_schedule() {
  const auto row = std::ranges::find_if(schedule::catalog(), [](const schedule::Schedule& one) {
    return one.splits == schedule::Splits::all && one.chunks == 1;
  });
  assert(row != schedule::catalog().end());
  return *row;
}

// A pattern with both kinds of layers in both halves of the small program; "" if all layers are
// equal.
std::string mixed_pattern(const model::Architecture& whole) {
  if (!whole.is_mixture()) return "";
  const model::LayerPattern pattern = model::read_layer_pattern(whole.experts.layers, whole.layers);
  const std::vector<std::uint8_t>& kinds = pattern.mixture;
  const bool alike = std::ranges::all_of(kinds, [](std::uint8_t one) { return one == 1; });
  return !pattern.problem.empty() || alike ? "" : "[0,1,1,0,1,1]";
}

// Number of replicas that the experts need.
int replicas_of_experts(const Plan& plan, int ranks) {
  const int wanted = plan.expert_tp() * plan.mesh.ep;
  return plan.architecture.is_mixture() ? wanted / std::gcd(wanted, ranks) : 1;
}

// Parameters of a rank with `count` layers.
std::int64_t parameters_of(Plan plan, int count, const program::Environment& environment) {
  plan.architecture.layers = count;
  plan.policy = {};
  if (!program::problems(plan).empty()) return 0;
  return program::build(program::valid(plan), environment).classes.front().parameters;
}

void add_parameters(const Plan& probe, const program::Environment& environment,
                    LayerCosts& layer_costs) {
  Plan plan = probe;
  plan.mesh.cp = 1;
  plan.mesh.dp = replicas_of_experts(plan, plan.mesh.tp);
  plan.batch.micro_batch = 1;
  plan.batch.global_batch = plan.mesh.dp;
  plan.pipeline.schedule = schedule::default_schedule().name;
  const bool mixed = plan.architecture.experts.layers.starts_with('[');
  std::int64_t ends = 0;
  for (const char* kind : {"[0,0]", "[1,1]"}) {
    if (mixed) plan.architecture.experts.layers = std::string(kind).substr(0, 2) + "]";
    const std::int64_t one = parameters_of(plan, 1, environment);
    if (mixed) plan.architecture.experts.layers = kind;
    const std::int64_t two = parameters_of(plan, 2, environment);
    if (one == 0 || two == 0) return;
    const bool first = layer_costs.layer_parameters == 0;
    keep_least(layer_costs.layer_parameters, two - one, first);
    keep_least(ends, std::max<std::int64_t>(0, 2 * one - two), first);
    if (!mixed) break;
  }
  // Embedding and head have the same table; other parameters of the ends are small.
  const model::Architecture& a = plan.architecture;
  layer_costs.first_parameters =
      model::padded_vocab(a.vocab, plan.mesh.tp) / plan.mesh.tp * a.hidden;
  layer_costs.first_parameters = std::min(layer_costs.first_parameters, ends);
  layer_costs.last_parameters = ends - layer_costs.first_parameters;
}

Plan probe_of(const planner::Space& space, const LayerCostsKey& key) {
  const auto& [base, tp, cp, micro_batch, modules, splits] = key;
  Plan plan = space.bases()[static_cast<std::size_t>(base)].file.plan;
  const std::string kinds = mixed_pattern(plan.architecture);
  if (!kinds.empty()) plan.architecture.experts.layers = kinds;
  plan.architecture.layers = layers;
  plan.mesh.tp = tp;
  plan.mesh.cp = cp;
  plan.mesh.pp = 1;
  plan.mesh.dp = replicas_of_experts(plan, tp * cp);
  plan.batch.micro_batch = micro_batch;
  plan.batch.global_batch = 2 * micro_batch * plan.mesh.dp;
  plan.pipeline = {};
  plan.pipeline.schedule = splits ? split_schedule().name : schedule::default_schedule().name;
  plan.sharding.fsdp.replicas = 1;
  plan.policy = {};
  if (modules >= 0) {
    plan.policy = space.policies()[static_cast<std::size_t>(modules)].policy;
  } else {
    plan.policy.recompute = Recompute::full;
    plan.policy.recompute_method = RecomputeMethod::block;
    plan.policy.recompute_layers = half;
  }
  return plan;
}

}  // namespace

LayerCostsKey layer_costs_key(const planner::Space& space, const PlanShape& core, bool splits) {
  const LayerChoice& choice = space.policies()[core.policy];
  const bool some = choice.policy.recompute == Recompute::selective;
  const int policy = some ? static_cast<int>(core.policy) : -1;
  return {core.base, core.tp, core.cp, core.micro_batch, policy, splits};
}

namespace {
schedule::Splits splits_of(const PlanShape& core) {
  return schedule::catalog()[core.schedule].splits;
}
}  // namespace

LayerCostsKey layer_costs_key(const planner::Space& space, const PlanShape& core) {
  return layer_costs_key(space, core, splits_of(core) != schedule::Splits::none);
}

std::vector<LayerCostsKey> layer_costs_keys(const planner::Space& space, const PlanShape& core) {
  std::vector<LayerCostsKey> keys = {layer_costs_key(space, core)};
  if (splits_of(core) == schedule::Splits::some)
    keys.push_back(layer_costs_key(space, core, false));
  return keys;
}

LayerCosts make_layer_costs(const planner::Space& space, const LayerCostsKey& key,
                            answer::Site& site) {
  LayerCosts layer_costs;
  const Plan plan = probe_of(space, key);
  // With random routing all layers differ.
  const Result<answer::CheckedPlan> checked = answer::check(plan, site);
  if (!checked || plan.draws_routes()) return layer_costs;
  const program::Environment environment =
      engine::environment(site.machine.gpu, site.profile.device);
  const program::Job job = program::build(checked->plan(), environment);
  const engine::Times times = answer::price_of(job, site);
  const program::Program& program = job.classes.front();
  // Selective recomputation is equal in all layers, so no layer is recomputed completely.
  const bool whole = std::get<4>(key) < 0;
  std::map<PassKind, bool> seen;
  for (const program::Pass& pass : program.step) {
    const program::Template& pattern = program.templates[pass.pattern];
    const PassKind kind = pattern.kind;
    std::int64_t PassTimes::*member = kind == PassKind::forward    ? &PassTimes::forward
                                      : kind == PassKind::backward ? &PassTimes::backward
                                      : kind == PassKind::weight   ? &PassTimes::weight
                                                                   : nullptr;
    if (member == nullptr) continue;
    const Parts parts = parts_of(
        pattern, ends_of_calls(program, times.classes.front(), pattern, plan.shards_parameters()));
    const bool first = !std::exchange(seen[kind], true);
    const bool forward = kind == PassKind::forward;
    PassTimes& begin = forward ? layer_costs.first : layer_costs.last;
    PassTimes& end = forward ? layer_costs.last : layer_costs.first;
    keep_least(begin.*member, parts.before, first);
    keep_least(end.*member, parts.after, first);
    keep_least(layer_costs.kept.*member, least_of(parts.of_layer, whole ? half : 0, layers), first);
    keep_least(layer_costs.again.*member, least_of(parts.of_layer, 0, half), first);
    if (!forward) continue;
    const Parts held = parts_of(pattern, held_behind_calls(program, pattern));
    keep_least(layer_costs.first_bytes, held.before, first);
    keep_least(layer_costs.last_bytes, held.after, first);
    keep_least(layer_costs.kept_bytes, least_of(held.of_layer, whole ? half : 0, layers), first);
    keep_least(layer_costs.again_bytes, least_of(held.of_layer, 0, half), first);
  }
  add_parameters(plan, environment, layer_costs);
  return layer_costs;
}

}  // namespace sim::planner
