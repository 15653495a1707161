// second_bound.cpp — bounds from programs. The second bound uses both ends of a pipeline and an
// outline of it, the third one the programs of every stage.
#include <algorithm>
#include <array>

#include "sim/answer/pass_times.h"
#include "sim/answer/priced.h"
#include "sim/engine/rank/job_view.h"
#include "sim/engine/run/fast_engine.h"
#include "sim/job/schedule/placement.h"
#include "sim/program/build/outline.h"
#include "sim/program/build/stages.h"
#include "sim/program/plan/schedule_plan.h"
#include "sim/study/plan/bounds.h"
#include "sim/study/plan/rank_bound.h"

namespace sim::planner {

namespace {

using program::PassKind;
using program::Plan;

bool is_task(const program::Program& program, const program::Pass& pass) {
  const PassKind kind = program.templates[pass.pattern].kind;
  return kind == PassKind::forward || kind == PassKind::backward || kind == PassKind::weight;
}

// Takes the rank with the least free memory.
void take_fullest(const program::Job& job, const engine::Memory& memory, SecondBound& bound) {
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const std::int64_t bytes = bytes_of_tensors(job.classes[c]);
    const std::int64_t capacity = engine::capacity(memory, c).n;
    if (bound.capacity > 0 && capacity - bytes >= bound.room()) continue;
    bound.bytes = bytes;
    bound.capacity = capacity;
  }
}

program::Program program_of_stage(const Plan& plan, const program::Environment& environment,
                                  const program::Orders& orders, int stage) {
  program::Program program;
  program.stage = stage;
  program::write_program(plan, environment, orders, program);
  return program;
}

// The capacity without communicators, which take memory outside of the allocator.
std::int64_t largest_capacity(const answer::Site& site) {
  const auto& outside = site.profile.device.memory;
  return (site.machine.gpu.memory - outside.context - outside.libraries - outside.unexplained).n;
}

// Adds the program of a stage to a job of both ends of the pipeline. False: its tensors need more
// than any capacity.
bool add_end(const Plan& plan, const program::Environment& environment,
             const program::Orders& orders, int stage, program::Job& ends, SecondBound& bound,
             const answer::Site& site) {
  ends.classes.push_back(program_of_stage(plan, environment, orders, stage));
  const std::int64_t bytes = bytes_of_tensors(ends.classes.back());
  if (bytes <= largest_capacity(site)) return true;
  bound.bytes = bytes;
  bound.capacity = largest_capacity(site);
  return false;
}

// Memory of a schedule whose order is searched, without the search. On the first stage min(m, p)
// forward passes come before the first backward pass (moments_of_search in memory_bound.cpp), as in
// ZB-H1. So its tensors up to there are a bound.
SecondBound bound_of_search(const Plan& plan, answer::Site& site) {
  Plan first = plan;
  first.pipeline.schedule = "zb-h1";
  if (!program::problems(first).empty()) return {};
  const program::Program program =
      program_of_stage(first, engine::environment(site.machine.gpu, site.profile.device),
                       program::orders_of(first), 0);
  SecondBound bound;
  bound.bytes = bytes_until_backward(program);
  bound.capacity = largest_capacity(site);
  if (bound.room() >= 0) return {};
  return bound;
}

// Times of a stage alone: from the begin of the step, of its first pass and of its last pass, each
// to the end of the step.
struct Alone {
  std::int64_t step = 0, from_first = 0, from_last = 0;
  program::PassKind last = PassKind::forward;
  int last_chunk = 0;
};

Alone alone(const program::Program& program, const engine::ClassTimes& times) {
  const std::vector<program::Pass>& step = program.step;
  const auto task = [&](const program::Pass& pass) { return is_task(program, pass); };
  const auto first = std::ranges::find_if(step, task);
  const auto last = std::find_if(step.rbegin(), step.rend(), task);
  const auto from = [&](std::ptrdiff_t place, std::int64_t others) {
    RankBound rank_bound(program, times, RankBound::Counts::everything, others);
    rank_bound.run(step, static_cast<std::size_t>(place));
    return rank_bound.end();
  };
  Alone out;
  out.step = from(0, 0);
  out.from_first = from(first - step.begin(), RankBound::never);
  out.from_last = from(step.rend() - last - 1, RankBound::never);
  out.last = program.templates[last->pattern].kind;
  out.last_chunk = program.templates[last->pattern].chunk;
  return out;
}

// The outline of a pipeline, with the pass times of all parts.
class Outline {
 public:
  Outline(FirstBounds& first, const PlanShape& core, const Plan& plan)
      : plan_(plan),
        row_(schedule::catalog()[core.schedule]),
        shape_(program::pipeline_shape(plan, plan.microbatches())),
        parts_(first.passes_of_parts(core)),
        whole_(first.whole_passes_of_parts(core)) {}

  std::int64_t length(schedule::Pass pass, int stage, int chunk) const {
    const auto part =
        static_cast<std::size_t>(schedule::part_of(row_.placement, shape_, {stage, chunk}));
    if (pass == schedule::Pass::forward) return parts_[part].forward;
    if (pass == schedule::Pass::weight) return parts_[part].weight;
    return (pass == schedule::Pass::input ? parts_ : whole_)[part].backward;
  }

  // Time of all passes before the first pass of the last stage.
  std::int64_t fill() const {
    std::int64_t sum = 0;
    for (int stage = 0; stage + 1 < plan_.mesh.pp; ++stage)
      sum += length(schedule::Pass::forward, stage, 0);
    return sum;
  }

  // `behind` has the times of the first and the last stage after their passes.
  std::int64_t step(const program::Orders& orders, const program::Environment& environment,
                    const std::array<std::int64_t, 2>& behind, answer::Site& site) const {
    program::Job job = program::outline(plan_, environment, orders);
    const mesh::Mesh stages = job.mesh;
    job.mesh = program::mesh_of(plan_);
    engine::Times times = answer::price_of(job, site);
    job.mesh = stages;
    engine::Memory memory;
    memory.total = site.machine.gpu.memory;
    memory.outside.resize(job.classes.size());
    const int chunks = plan_.pipeline.virtual_stages;
    for (int stage = 0; stage < plan_.mesh.pp; ++stage) {
      engine::ClassTimes& own = times.classes[static_cast<std::size_t>(stage)];
      for (int chunk = 0; chunk < chunks; ++chunk)
        for (const auto pass : {schedule::Pass::forward, schedule::Pass::backward,
                                schedule::Pass::input, schedule::Pass::weight})
          own.kernel[program::outline_pass(pass, chunk)] = Duration{length(pass, stage, chunk)};
      const bool is_first = stage == 0, is_last = stage + 1 == plan_.mesh.pp;
      own.kernel[program::outline_end(chunks)] = Duration{is_first  ? behind[0]
                                                          : is_last ? behind[1]
                                                                    : 0};
    }
    return engine::least_step(job, times, memory).ps;
  }

 private:
  const Plan& plan_;
  const schedule::Schedule& row_;
  schedule::PipelineShape shape_;
  std::vector<PassTimes> parts_, whole_;
};

bool ranks_are_alike(const answer::Site& site) {
  const topology::Cluster& cluster = site.machine.cluster;
  return cluster.conditions.empty() && cluster.gpu_kinds.empty();
}

}  // namespace

SecondBound second_bound(FirstBounds& first, const PlanShape& core, const Plan& plan,
                         answer::Site& site) {
  SecondBound bound;
  // Slower ranks, orders that depend on times, random routing, and layers shared by all stages need
  // all programs: no second bound.
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  if (!ranks_are_alike(site) || plan.draws_routes() || !program::apart(row).empty()) return bound;
  if (row.by_times) return bound_of_search(plan, site);
  const program::Environment environment =
      engine::environment(site.machine.gpu, site.profile.device);
  const program::Orders orders = program::orders_of(plan);
  program::Job ends;
  ends.mesh = program::mesh_of(plan);
  ends.launch_blocking = plan.environment.launch_blocking;
  if (!add_end(plan, environment, orders, 0, ends, bound, site)) return bound;
  if (plan.mesh.pp > 1 && !add_end(plan, environment, orders, plan.mesh.pp - 1, ends, bound, site))
    return bound;
  take_fullest(ends, answer::memory_of(ends, plan, site), bound);
  if (bound.room() < 0 || plan.optimizer.post_validation) return bound;
  const engine::Times times = answer::price_of(ends, site);
  const Outline outline(first, core, plan);
  std::array<std::int64_t, 2> behind{};
  for (std::size_t c = 0; c < ends.classes.size(); ++c) {
    const Alone own = alone(ends.classes[c], times.classes[c]);
    const int stage = ends.classes[c].stage;
    bound.step_ps = std::max(bound.step_ps, own.step);
    if (stage > 0) bound.step_ps = std::max(bound.step_ps, outline.fill() + own.from_first);
    const schedule::Pass last = own.last == PassKind::forward  ? schedule::Pass::forward
                                : own.last == PassKind::weight ? schedule::Pass::weight
                                                               : schedule::Pass::backward;
    behind[c] =
        std::max<std::int64_t>(0, own.from_last - outline.length(last, stage, own.last_chunk));
  }
  if (plan.mesh.pp > 1)
    bound.step_ps = std::max(bound.step_ps, outline.step(orders, environment, behind, site));
  return bound;
}

SecondBound third_bound(const answer::CheckedPlan& checked) {
  const Plan& plan = checked.plan();
  answer::Site& site = checked.site();
  SecondBound bound;
  const program::Environment environment =
      engine::environment(site.machine.gpu, site.profile.device);
  // The programs of an order that goes by times are written a second time, when the times are
  // known. The last stage holds the most pending weight gradients, so it comes first.
  const bool by_times = schedule::find(plan.pipeline.schedule)->by_times && plan.mesh.pp > 1;
  const program::ValidPlan timed =
      by_times ? program::valid(answer::timed_plan(checked)) : checked.plan();
  if (by_times && !plan.draws_routes()) {
    const program::Orders orders = program::orders_of(timed);
    program::Job ends;
    for (const int stage : {plan.mesh.pp - 1, 0})
      if (!add_end(timed, environment, orders, stage, ends, bound, site)) return bound;
  }
  // One context-parallel rank per stage is enough, since other ranks can only delay it. Experts are
  // shared across these ranks and need all.
  const bool thin = ranks_are_alike(site) && plan.mesh.cp > 1 && !plan.architecture.is_mixture();
  program::Job job = thin       ? program::build_stages(timed, environment)
                     : by_times ? answer::job_of(timed, site)
                                : checked.job();
  const engine::Memory memory = answer::memory_of(job, plan, site);
  take_fullest(job, memory, bound);
  if (bound.room() < 0) return bound;
  const engine::Times times = answer::price_of(job, site);
  if (thin) {
    mesh::Degrees degrees = job.mesh.degrees();
    degrees.cp = degrees.ep = degrees.etp = degrees.replicas = degrees.ulysses = 1;
    job.mesh = mesh::Mesh(degrees, job.mesh.order());
  }
  bound.step_ps = engine::least_step(job, times, memory).ps;
  return bound;
}

}  // namespace sim::planner
