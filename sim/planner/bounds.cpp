#include "sim/planner/bounds.h"

#include <algorithm>
#include <cassert>

#include "sim/replay/dataflow.h"
#include "sim/replay/job_view.h"
#include "sim/schedule/placement.h"
#include "sim/search/pass_times.h"
#include "sim/workload/build.h"
#include "sim/workload/builder.h"
#include "sim/workload/parts.h"

namespace sim::planner {

namespace {

using workload::Instruction;
using workload::LayerPolicy;
using workload::Op;
using workload::Plan;
using workload::Recompute;
using workload::RecomputeMethod;

// Of a part's layers, those that run whole again.
int run_again(const LayerPolicy& policy, int recompute_layers, int layers) {
  if (policy.recompute != Recompute::full) return 0;
  return policy.recompute_method == RecomputeMethod::uniform ? layers
                                                             : std::min(recompute_layers, layers);
}

PassTimes operator*(std::int64_t n, const PassTimes& one) {
  return {n * one.forward, n * one.backward, n * one.weight};
}
PassTimes& operator+=(PassTimes& a, const PassTimes& b) {
  a.forward += b.forward;
  a.backward += b.backward;
  a.weight += b.weight;
  return a;
}

}  // namespace

const std::vector<int>& FirstBounds::layers(const Core& core) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const auto [at, added] = layers_.try_emplace(
      {core.base, core.pp, core.chunks, static_cast<int>(row.placement), core.counts_ends});
  if (added) {
    const Plan plan = space_.plan(core, 0);
    const int parts = workload::count_parts(plan);
    for (int part = 0; part < parts; ++part)
      at->second.push_back(workload::part_layers(plan, part));
  }
  return at->second;
}

// By chunk of the first stage: microbatches between their forward and their backward pass when they
// hold most layers together.
const std::vector<int>& FirstBounds::under_way(const Core& core) {
  const Plan& base = space_.bases()[core.base].file.plan;
  const int m = base.batch.global_batch / (core.dp * core.micro_batch);
  const auto [at, added] =
      under_way_.try_emplace({core.base, core.schedule, core.pp, core.chunks, m, core.counts_ends});
  if (!added) return at->second;
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  std::vector<int> now(core.chunks);
  at->second = now;
  at->second.front() = 1;
  // Orders that go by the times of passes are not known here.
  if (row.by_times) return at->second;
  const std::vector<int>& layers = this->layers(core);
  const schedule::Shape shape = workload::pipeline_shape(space_.plan(core, 0), m);
  std::int64_t held = 0, most = 0;
  for (const schedule::Step& step :
       row.search != nullptr ? row.search(shape).front() : row.order(shape, 0)) {
    if (step.pass != schedule::Pass::forward && step.pass != schedule::Pass::backward &&
        step.pass != schedule::Pass::input)
      continue;
    const int sign = step.pass == schedule::Pass::forward ? 1 : -1;
    now[static_cast<std::size_t>(step.chunk)] += sign;
    held +=
        sign *
        layers[static_cast<std::size_t>(schedule::part_of(row.placement, shape, {0, step.chunk}))];
    if (held <= most) continue;
    most = held;
    at->second = now;
  }
  return at->second;
}

// What a rank holds of its parameters between steps.
std::int64_t FirstBounds::state_bytes(const Core& core, std::int64_t parameters) const {
  const Plan& plan = space_.bases()[core.base].file.plan;
  const bool whole = plan.numerics.precision == model::Precision::fp32;
  const double weight = plan.numerics.fp8_parameters ? 1 : whole ? 4 : 2;
  const auto count = static_cast<double>(parameters);
  if (plan.trains_adapters()) {
    const double shards = plan.shards_parameters() ? core.dp * core.cp : 1;
    return static_cast<std::int64_t>(weight * count / shards);
  }
  const workload::OptimizerOptions& o = plan.optimizer;
  const double main = whole ? 0 : o.main_parameter_bytes;
  const double state = (main + o.exp_avg_bytes + o.exp_avg_sq_bytes) * (1 - o.offload_fraction);
  const double ranks = static_cast<double>(core.dp) * core.cp / plan.replicas();
  if (plan.shards_parameters()) return static_cast<std::int64_t>(count * (weight + 8) / ranks);
  const double gradient = plan.numerics.fp32_gradients ? 4 : 2;
  return static_cast<std::int64_t>(
      count * (weight + gradient + state / (plan.sharding.distributed_optimizer ? ranks : 1)));
}

std::int64_t FirstBounds::bytes(const Core& core, const Pieces& pieces,
                                const std::vector<int>& layers) {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const auto parts = static_cast<int>(layers.size());
  const schedule::Shape shape{.stages = core.pp, .chunks = core.chunks};
  const LayerPolicy& policy = space_.policies()[core.policy].policy;
  const std::vector<int>& under_way = this->under_way(core);
  const bool ends = row.output == schedule::Output::last_part;  // whole, on the outer stages
  std::int64_t parameters = ends ? pieces.first_parameters : 0, held = 0;
  for (int chunk = 0; chunk < core.chunks; ++chunk) {
    const int part = schedule::part_of(row.placement, shape, {0, chunk});
    const int own = layers[static_cast<std::size_t>(part)];
    parameters += own * pieces.layer_parameters;
    if (part + 1 == parts && ends) parameters += pieces.last_parameters;
    const int again = run_again(policy, core.recompute_layers, own);
    std::int64_t task = std::max(0, own - again - core.offload_layers) * pieces.kept_bytes;
    // Groups of several layers keep one input.
    if (policy.recompute_method == RecomputeMethod::block || core.recompute_layers == 1)
      task += std::max(0, again - core.offload_layers) * pieces.again_bytes;
    held += under_way[static_cast<std::size_t>(chunk)] * task;
    // ZeRO-2: parameters are whole from a forward pass to the backward pass.
    const Plan& base = space_.bases()[core.base].file.plan;
    const bool whole = base.shards_parameters() && !base.sharding.fsdp.reshard_after_forward;
    if (whole && under_way[static_cast<std::size_t>(chunk)] > 0 && !base.numerics.fp8_parameters)
      held += 2 * own * pieces.layer_parameters;
  }
  return state_bytes(core, parameters) + held;
}

std::vector<PassTimes> FirstBounds::passes_of_parts(const Core& core) {
  const Pieces& pieces = pieces_.at(pieces_key(space_, core));
  const LayerPolicy& policy = space_.policies()[core.policy].policy;
  std::vector<PassTimes> passes;
  for (const int count : layers(core)) {
    const int again = run_again(policy, core.recompute_layers, count);
    passes.push_back((count - again) * pieces.kept);
    passes.back() += again * pieces.again;
  }
  // Shares of the ends, which all stages have, are left out.
  if (schedule::catalog()[core.schedule].output != schedule::Output::last_part) return passes;
  passes.front() += pieces.first;
  passes.back() += pieces.last;
  return passes;
}

Bound FirstBounds::of(const Core& core) {
  const std::vector<PassTimes> passes = passes_of_parts(core);
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  const Plan& base = space_.bases()[core.base].file.plan;
  const std::int64_t m = base.batch.global_batch / (core.dp * core.micro_batch);
  const schedule::Shape shape{.stages = core.pp, .chunks = core.chunks};
  Bound bound;
  PassTimes in_front;  // of the parts in front of the stage's lowest one
  for (int stage = 0; stage < core.pp; ++stage) {
    PassTimes own;
    for (int chunk = 0; chunk < core.chunks; ++chunk)
      own +=
          passes[static_cast<std::size_t>(schedule::part_of(row.placement, shape, {stage, chunk}))];
    // Steps that do not end together overlap: what a stage does itself is left.
    if (base.optimizer.post_validation) in_front = {};
    const std::int64_t to_the_end =
        in_front.forward + m * (own.forward + own.backward) + in_front.backward;
    const std::int64_t with_weights =
        in_front.forward + m * (own.forward + own.backward + own.weight);
    bound.step_ps = std::max({bound.step_ps, to_the_end, with_weights});
    // Part s is the lowest of stage s in every placement.
    in_front += passes[static_cast<std::size_t>(stage)];
  }
  bound.bytes = bytes(core, pieces_.at(pieces_key(space_, core)), layers(core));
  return bound;
}

namespace {

// What a block does to memory.
struct MemoryStep {
  Op op;
  workload::Space space, to_space;
  std::uint32_t index, to_index;
  std::int64_t bytes;
};

constexpr std::int64_t rounded_up(std::int64_t bytes) {
  constexpr std::int64_t unit = 512;  // of PyTorch's caching allocator
  return (bytes + unit - 1) / unit * unit;
}

class Tensors {
 public:
  explicit Tensors(const workload::Program& program)
      : program_(program),
        frames_(program.fixed_slots + program.local_slots),
        slots_(frames_ + std::size_t{program.frames} * program.frame_slots) {
    for (const workload::Block& block : program.blocks) {
      std::vector<MemoryStep>& steps = steps_.emplace_back();
      for (const Instruction& i : block.code) {
        if (i.op == Op::alloc)
          steps.push_back({i.op, i.space, {}, i.index, 0, rounded_up(i.value)});
        if (i.op == Op::free) steps.push_back({i.op, i.space, {}, i.index, 0, 0});
        if (i.op == Op::move)
          steps.push_back({i.op, i.space, static_cast<workload::Space>(i.value >> 32), i.index,
                           static_cast<std::uint32_t>(i.value & 0xffffffff), 0});
      }
    }
  }

  void run(const std::vector<workload::Pass>& passes, std::size_t most) {
    for (std::size_t p = 0; p < std::min(most, passes.size()); ++p) {
      const std::size_t frame = frames_ + std::size_t{passes[p].frame} * program_.frame_slots;
      for (const workload::Call& call : program_.templates[passes[p].pattern].calls)
        for (const MemoryStep& step : steps_[call.block]) run(step, frame, frame + call.layer_base);
    }
  }

  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t& slot(workload::Space space, std::uint32_t index, std::size_t frame,
                     std::size_t layer) {
    switch (space) {
      case workload::Space::fixed:
        return slots_[index];
      case workload::Space::local:
        return slots_[program_.fixed_slots + index];
      case workload::Space::microbatch:
        return slots_[frame + index];
      case workload::Space::layer:
        break;
    }
    return slots_[layer + index];
  }

  void run(const MemoryStep& step, std::size_t frame, std::size_t layer) {
    std::int64_t& own = slot(step.space, step.index, frame, layer);
    if (step.op == Op::alloc) {
      held_ += step.bytes - own;
      own = step.bytes;
      peak_ = std::max(peak_, held_);
    } else if (step.op == Op::free) {
      held_ -= own;
      own = 0;
    } else {
      const std::int64_t bytes = own;
      own = 0;
      slot(step.to_space, step.to_index, frame, layer) = bytes;
    }
  }

  const workload::Program& program_;
  std::size_t frames_;
  std::vector<std::int64_t> slots_;
  std::vector<std::vector<MemoryStep>> steps_;  // by block
  std::int64_t held_ = 0, peak_ = 0;
};

}  // namespace

std::int64_t bytes_of_tensors(const workload::Program& program) {
  Tensors tensors(program);
  tensors.run(program.setup, program.setup.size());
  tensors.run(program.first_step, program.first_step.size());
  tensors.run(program.step, program.first_step.size());
  return tensors.peak();
}

namespace {

// The rank that is nearest to its capacity, or furthest above it.
void take_fullest(const workload::Job& job, const Plan& plan, search::Site& site,
                  SecondBound& bound) {
  const replay::Memory memory = replay::outside_memory(
      job, plan, site.machine.gpu, site.profile.device, *site.network, site.others);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const std::int64_t bytes = bytes_of_tensors(job.classes[c]);
    const std::int64_t capacity = replay::capacity(memory, c).n;
    if (bound.capacity > 0 && capacity - bytes >= bound.room()) continue;
    bound.bytes = bytes;
    bound.capacity = capacity;
  }
}

// The programs of the first and the last stage alone: they need most, in nearly every plan.
workload::Job ends_of_pipeline(const Plan& plan, const search::Site& site) {
  workload::Job job;
  job.mesh = workload::mesh_of(plan);
  const workload::Environment environment =
      replay::environment(site.machine.gpu, site.profile.device);
  const workload::Orders orders = workload::orders_of(plan);
  for (const int stage : {0, plan.mesh.pp - 1}) {
    if (!job.classes.empty() && stage == 0) break;
    workload::Program& program = job.classes.emplace_back();
    program.stage = stage;
    workload::write_program(plan, environment, orders, program);
  }
  return job;
}

}  // namespace

SecondBound second_bound(const Plan& plan, search::Site& site) {
  SecondBound bound;
  const topology::Cluster& cluster = site.machine.cluster;
  const bool alike = cluster.conditions.empty() && cluster.gpu_kinds.empty();
  const bool by_times = schedule::find(plan.pipeline.schedule)->by_times;
  if (alike && !by_times) {
    take_fullest(ends_of_pipeline(plan, site), plan, site, bound);
    if (bound.room() < 0) return bound;
  }
  const workload::Job job = search::timed_job(plan, site);
  if (!alike || by_times) take_fullest(job, plan, site, bound);
  if (bound.room() < 0) return bound;
  const replay::Times times =
      replay::price(job, site.machine.gpu, site.profile.device, *site.network, site.others);
  const replay::Memory memory = replay::outside_memory(
      job, plan, site.machine.gpu, site.profile.device, *site.network, site.others);
  bound.step_ps = replay::least_step(job, times, memory).ps;
  return bound;
}

}  // namespace sim::planner
