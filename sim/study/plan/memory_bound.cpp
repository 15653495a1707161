// memory_bound.cpp — lower bound on the memory of the first stage, from layer costs and the order
// of its passes.
//
// FirstBounds computes it for every plan of a space, so the walk of an order is shared by all plans
// with the same pipeline. The walk yields moments: for each chunk the microbatches in flight, and
// whether whole gradients exist. A plan's bound is the largest sum over these moments:
//
//     state + sum over chunks of (microbatches x activations + gathered parameters + gradients)
//
// Whole gradients of sharded parameters exist where a framework reduces them once per step
// (program/parallel/fsdp/fsdp.h): from a chunk's first backward pass to its last one.
#include <algorithm>
#include <optional>

#include "sim/job/schedule/placement.h"
#include "sim/program/plan/layer_partition.h"
#include "sim/study/plan/bounds.h"

namespace sim::planner {

namespace {

using program::LayerPolicy;
using program::Plan;
using program::RecomputeMethod;
using schedule::Pass;
using Gradients = InFlight::Gradients;

// With more than `most_ordered` microbatches a smaller number is simulated, with the same remainder
// for stages and groups. The number in flight can only grow with more microbatches (a test compares
// all schedules), except where a schedule's closed form says otherwise.
constexpr int most_ordered = 64;
int ordered(const schedule::Schedule& row, const schedule::PipelineShape& whole) {
  const int period = 2 * whole.stages * std::max(1, whole.group);
  if (whole.microbatches <= most_ordered + 2 * period) return whole.microbatches;
  schedule::PipelineShape shape = whole;
  shape.microbatches = whole.microbatches % period + period * (most_ordered / period + 1);
  if (!row.problem(shape).empty()) return whole.microbatches;
  if (row.live == nullptr) return shape.microbatches;
  const std::optional<int> fewer = row.live(shape, 0), all = row.live(whole, 0);
  return fewer && all && *fewer > *all ? whole.microbatches : shape.microbatches;
}

// Moments of an order that are kept. Fewer moments are still a lower bound.
constexpr std::size_t most_moments = 24;

bool covers(const Moment& a, const Moment& b) {
  for (std::size_t c = 0; c < a.size(); ++c)
    if (a[c].microbatches < b[c].microbatches || a[c].gradients < b[c].gradients) return false;
  return true;
}

void keep(std::vector<Moment>& moments, const Moment& now) {
  if (std::ranges::any_of(moments, [&](const Moment& one) { return covers(one, now); })) return;
  std::erase_if(moments, [&](const Moment& one) { return covers(now, one); });
  if (moments.size() < most_moments) moments.push_back(now);
}

// Follows the first stage's order. Slices of a sequence count as a microbatch when all are in
// flight.
std::vector<Moment> moments_of(const schedule::Order& order, const schedule::PipelineShape& shape) {
  const auto chunks = static_cast<std::size_t>(shape.chunks);
  std::vector<int> slices(chunks), left(chunks);
  const auto is_backward = [](Pass pass) { return pass == Pass::backward || pass == Pass::input; };
  for (const schedule::ScheduledPass& step : order)
    if (is_backward(step.pass) || step.pass == Pass::weight)
      ++left[static_cast<std::size_t>(step.chunk)];
  std::vector<Moment> moments;
  Moment now(chunks);
  bool filled = false;  // `now` has forward passes that no kept moment has
  for (const schedule::ScheduledPass& step : order) {
    const auto c = static_cast<std::size_t>(step.chunk);
    if (step.pass == Pass::forward) {
      now[c].microbatches = ++slices[c] / shape.slices;
      filled = true;
      continue;
    }
    if (!is_backward(step.pass) && step.pass != Pass::weight) continue;
    if (filled) keep(moments, now);
    filled = false;
    if (is_backward(step.pass)) now[c].microbatches = --slices[c] / shape.slices;
    --left[c];
    now[c].gradients = left[c] > 0 ? Gradients::accumulated : Gradients::complete;
    if (is_backward(step.pass)) keep(moments, now);
    if (left[c] == 0) now[c].gradients = Gradients::none;
  }
  return moments;
}

// A searched order that keeps the memory of 1F1B full: at least `stages` forward passes precede the
// first backward pass of the first stage (zero_bubble_search.h). Proof: let F, B > 0 and t >= 0 be
// the times of a forward pass, a backward pass and a message. The first forward pass of stage s
// ends at least k = p - 1 - s times (F + t) before that of the last stage, and its first input
// gradient is due at least k (B + t) after that. So k further forward passes end before it is due,
// and the search puts them there: cap >= p and m >= p allow it. On the first stage that makes p.
std::vector<Moment> moments_of_search(const schedule::PipelineShape& shape) {
  Moment full(1);
  full.front().microbatches = std::min(shape.microbatches, shape.stages);
  Moment after = full;  // the first backward pass
  --after.front().microbatches;
  after.front().gradients = shape.microbatches > 1 ? Gradients::accumulated : Gradients::complete;
  return {full, after};
}

// Number of ranks that hold the same experts.
double expert_replicas(const Plan& base, const PlanShape& core) {
  const int etp = base.mesh.etp > 0 ? base.mesh.etp : core.tp;
  return static_cast<double>(core.tp) * core.cp * core.dp / (etp * base.mesh.ep);
}

}  // namespace

std::vector<Moment> moments_of(const schedule::Schedule& row,
                               const schedule::PipelineShape& whole) {
  if (row.by_times && row.output == schedule::Output::last_part) return moments_of_search(whole);
  Moment one(static_cast<std::size_t>(whole.chunks));
  one.front().microbatches = 1;
  // Orders of schedules that cut the vocabulary depend on the times of passes.
  if (row.by_times) return {one};
  schedule::PipelineShape shape = whole;
  shape.microbatches = ordered(row, whole);
  std::vector<Moment> moments =
      moments_of(row.search != nullptr ? row.search(shape).front() : row.order(shape, 0), shape);
  // Where all forward passes come first, all microbatches are in flight.
  const int more = whole.microbatches - shape.microbatches;
  const int all = whole.microbatches * whole.chunks * whole.slices;
  if (more > 0 && row.live != nullptr && row.live(whole, 0) == all)
    for (Moment& moment : moments)
      for (InFlight& chunk : moment)
        if (chunk.microbatches + 1 >= shape.microbatches) chunk.microbatches += more;
  return moments;
}

const std::vector<Moment>& FirstBounds::moments(const PlanShape& core) {
  const Plan& base = space_.bases()[core.base].file.plan;
  const int m = base.batch.global_batch / (core.dp * core.micro_batch);
  const auto [at, added] =
      moments_.try_emplace({pipeline_class_[core.base], core.schedule, core.pp, core.chunks, m});
  if (added)
    at->second = moments_of(schedule::catalog()[core.schedule],
                            program::pipeline_shape(space_.plan(core, 0), m));
  return at->second;
}

// Bytes of a rank's parameters and their state between steps.
std::int64_t FirstBounds::state_bytes(const PlanShape& core, std::int64_t parameters) const {
  const Plan& plan = space_.bases()[core.base].file.plan;
  const bool whole = plan.numerics.precision == model::Precision::fp32;
  const double weight = plan.numerics.fp8_parameters ? 1 : whole ? 4 : 2;
  const auto count = static_cast<double>(parameters);
  if (plan.trains_adapters()) {
    const double shards = plan.shards_parameters() ? core.dp * core.cp : 1;
    return static_cast<std::int64_t>(weight * count / shards);
  }
  const program::OptimizerOptions& o = plan.optimizer;
  const double main = whole ? 0 : o.main_parameter_bytes;
  const double state = (main + o.exp_avg_bytes + o.exp_avg_sq_bytes) * (1 - o.offload_fraction);
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const double copies = row.placement == schedule::Placement::two_way ? 2 : 1;
  // Number of ranks that share a parameter's state; for mixtures the larger of both groups.
  const double experts = plan.architecture.is_mixture() ? expert_replicas(plan, core) : 0;
  const double ranks =
      copies * std::max(static_cast<double>(core.dp) * core.cp / plan.replicas(), experts);
  if (plan.shards_parameters())
    return static_cast<std::int64_t>(count * (weight + (o.offload_fraction > 0 ? 0 : 8)) / ranks);
  const double gradient = plan.numerics.fp32_gradients ? 4 : 2;
  return static_cast<std::int64_t>(
      count * (weight + gradient + state / (plan.sharding.distributed_optimizer ? ranks : 1)));
}

// A chunk's number of parameters, and its bytes: activations of a microbatch, gathered parameters,
// whole gradients.
struct FirstBounds::ChunkBytes {
  std::int64_t parameters = 0;
  std::int64_t activations = 0, gathered = 0, gradients = 0;
};

FirstBounds::ChunkBytes FirstBounds::chunk_bytes(const PlanShape& core,
                                                 const LayerCosts& layer_costs, int chunk) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const schedule::PipelineShape shape{.stages = core.pp, .chunks = core.chunks};
  const std::vector<int>& layers = this->layers(core);
  const auto part = static_cast<std::size_t>(schedule::part_of(row.placement, shape, {0, chunk}));
  const int own = layers[part];
  const LayerPolicy& policy = space_.policies()[core.policy].policy;
  const Plan& base = space_.bases()[core.base].file.plan;
  ChunkBytes bytes;
  bytes.parameters = own * layer_costs.layer_parameters;
  // The embedding and the head are whole on the outer stages, unless all stages share them.
  const bool ends = row.output == schedule::Output::last_part;
  if (ends && part == 0) bytes.parameters += layer_costs.first_parameters;
  if (ends && part + 1 == layers.size()) bytes.parameters += layer_costs.last_parameters;
  const int again = run_again(policy, core.recompute_layers, own);
  // With offloaded modules the activations left on the GPU are unknown and count 0.
  const std::int64_t kept = base.policy.offload_modules != 0 ? 0 : layer_costs.kept_bytes;
  bytes.activations = std::max(0, own - again - core.offload_layers) * kept;
  // A group of several recomputed layers keeps a single input.
  if (policy.recompute_method == RecomputeMethod::block || core.recompute_layers == 1)
    bytes.activations += std::max(0, again - core.offload_layers) * layer_costs.again_bytes;
  if (ends && part == 0) bytes.activations += layer_costs.first_bytes;
  if (ends && part + 1 == layers.size()) bytes.activations += layer_costs.last_bytes;
  if (!base.numerics.fp8_parameters) bytes.gathered = 2 * own * layer_costs.layer_parameters;
  if (!base.trains_adapters())
    bytes.gradients = bytes.parameters * (base.numerics.fp32_gradients ? 4 : 2);
  return bytes;
}

std::int64_t FirstBounds::bytes(const PlanShape& core, const LayerCosts& layer_costs) {
  const Plan& plan = space_.bases()[core.base].file.plan;
  const program::FsdpOptions& fsdp = plan.sharding.fsdp;
  const bool flat = plan.sharding.data_parallel == program::DataParallelism::fsdp1;
  const bool splits = schedule::catalog()[core.schedule].splits != schedule::Splits::none;
  // As in program/parallel/fsdp: gradients of stages are reduced once per step.
  const bool staged = core.pp * core.chunks > 1 || splits;
  const bool accumulates = plan.shards_parameters() && (fsdp.no_sync || staged);
  const bool at_end = staged && !flat;
  const bool keeps_gathered = plan.shards_parameters() && !space_.reshards(core);
  std::vector<ChunkBytes> chunks;
  std::int64_t parameters = 0;
  for (int chunk = 0; chunk < core.chunks; ++chunk) {
    chunks.push_back(chunk_bytes(core, layer_costs, chunk));
    parameters += chunks.back().parameters;
  }
  std::int64_t most = 0;
  for (const Moment& moment : moments(core)) {
    std::int64_t held = 0;
    for (std::size_t c = 0; c < moment.size(); ++c) {
      const InFlight& now = moment[c];
      // PyTorch's FSDP 1 reduces in the last pass, unit by unit.
      const bool whole_gradients =
          accumulates &&
          (at_end ? now.gradients != Gradients::none : now.gradients == Gradients::accumulated);
      held += now.microbatches * chunks[c].activations;
      if (whole_gradients) held += chunks[c].gradients;
      const bool before_backward = now.microbatches > 0 && now.gradients == Gradients::none;
      if (keeps_gathered && (before_backward || (staged && whole_gradients)))
        held += chunks[c].gathered;
    }
    most = std::max(most, held);
  }
  return state_bytes(core, parameters) + most;
}

}  // namespace sim::planner
