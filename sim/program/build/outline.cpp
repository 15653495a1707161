#include "sim/program/build/outline.h"

#include <map>

#include "sim/program/build/stages.h"
#include "sim/program/parallel/pipeline/pipeline.h"

namespace sim::program {

namespace {

constexpr std::uint32_t passes_of_a_chunk = 4;  // forward, backward, input, weight

PassKind kind_of(schedule::Pass pass) {
  if (pass == schedule::Pass::forward) return PassKind::forward;
  return pass == schedule::Pass::weight ? PassKind::weight : PassKind::backward;
}

void add_kernel(Emitter& e, std::uint32_t operation) {
  Instruction i{};
  i.op = Op::kernel;
  i.index = operation;
  e.code().push_back(i);
}

void write_stage(const Plan& plan, const Environment& environment, const schedule::Order& order,
                 Program& program) {
  Rank rank(plan, environment, program);
  const int chunks = plan.pipeline.virtual_stages;
  model::Operation nothing{};
  nothing.kind = model::OperationKind::elementwise;
  program.operations.resize(outline_end(chunks) + 1, nothing);
  const auto add = [&](PassKind kind, int chunk, Emitter& e) {
    program.templates.push_back({kind, chunk, {{e.finish(), -1, layer_base(0)}}});
    return static_cast<std::uint32_t>(program.templates.size() - 1);
  };
  std::map<std::uint32_t, std::uint32_t> patterns;  // by operation
  Pipeline pipeline(rank);
  program.step = pipeline.passes(
      [&](const StageAction& act) {
        const schedule::ScheduledPass& task = act.step;
        const std::uint32_t operation = outline_pass(task.pass, task.chunk);
        const auto [at, added] = patterns.try_emplace(operation, 0);
        if (!added) return at->second;
        Emitter e(rank.tables, "pass");
        const PassKind kind = kind_of(task.pass);
        if (kind != PassKind::weight)
          wait_for_messages(e, rank, task.chunk, kind == PassKind::forward);
        add_kernel(e, operation);
        return at->second = add(kind, task.chunk, e);
      },
      [](const StageAction&) { return std::nullopt; }, plan.microbatches(), order);
  Emitter end(rank.tables, "step end");
  add_kernel(end, outline_end(chunks));
  Pass last{};
  last.pattern = add(PassKind::step, 0, end);
  last.microbatch = -1;
  program.step.push_back(last);
  rank.settle(0);
}

}  // namespace

std::uint32_t outline_pass(schedule::Pass pass, int chunk) {
  return static_cast<std::uint32_t>(chunk) * passes_of_a_chunk + static_cast<std::uint32_t>(pass);
}

std::uint32_t outline_end(int chunks) {
  return static_cast<std::uint32_t>(chunks) * passes_of_a_chunk;
}

Job outline(const Plan& plan, const Environment& environment, const Orders& orders) {
  Job job;
  mesh::Degrees degrees;
  degrees.pp = plan.mesh.pp;
  job.mesh = mesh::Mesh(degrees);
  job.single_queue = single_queue(plan);
  job.classes.resize(static_cast<std::size_t>(plan.mesh.pp));
  for (int stage = 0; stage < plan.mesh.pp; ++stage) {
    Program& program = job.classes[static_cast<std::size_t>(stage)];
    program.stage = stage;
    write_stage(plan, environment, (*orders.step)[static_cast<std::size_t>(stage)], program);
  }
  return job;
}

}  // namespace sim::program
