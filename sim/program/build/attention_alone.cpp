#include "sim/program/build/attention_alone.h"

#include <cassert>

#include "sim/program/layers/attention/usp.h"
#include "sim/program/parallel/sharding.h"

namespace sim::program {
namespace {

// all_to_all over a group of one rank: a copy before it, its own, and one after it.
void exchange_with_itself(Writer& w, std::initializer_list<std::int64_t> tensors) {
  constexpr int copies = 3;
  for (const std::int64_t bytes : tensors)
    for (int i = 0; i < copies; ++i)
      w.memory_bound(model::OperationKind::copy, "exchange with itself", 2 * bytes);
}

void write_calls(const Plan& plan, const Environment& environment, const AttentionCalls& how,
                 Program& program) {
  Rank rank(plan, environment, program);
  Variant variant;
  variant.keep = false;
  Writer w(rank, variant, "attention");
  w.e.host(HostWork::layer_forward);
  context::AttentionShape shape = context_shape(plan);
  shape.order = how.order;
  const bool alone = how.self_exchange && shape.ring() == shape.ranks;
  const std::int64_t query = w.dim.rows(w.dim.attended), key = w.dim.rows(w.dim.key_value);
  if (alone) exchange_with_itself(w, {query, key, key});
  w.drop(usp_core(w, {0, 0, 0}, shape, how.layout));
  if (alone) exchange_with_itself(w, {query});
  if (how.synchronised) {
    w.e.sync_stream(Stream::compute, "end of a call");
    w.e.host(HostWork::blocking_read);
  }
  const std::uint32_t call = w.finish();
  Emitter end(rank.tables, "end of the calls");
  wait_for_all(rank, end, "end of the calls", "barrier");
  program.templates = {{PassKind::forward, 0, {{call, -1, layer_base(0)}}},
                       {PassKind::step, 0, {{end.finish(), -1, layer_base(0)}}}};
  program.step.assign(static_cast<std::size_t>(how.calls), Pass{0, -1, 0});
  program.step.push_back(Pass{1, -1, 0});
  program.first_step = program.step;
  program.layers = 1;
  program.frames = 1;
  rank.settle(1);
  program.communicators = model_communicators(rank);
}

}  // namespace

Job attention_alone(const ValidPlan& valid, const Environment& environment,
                    const AttentionCalls& calls) {
  const Plan& plan = valid;
  assert(calls.calls > 0);
  Job job;
  job.mesh = mesh_of(plan);
  job.single_queue = false;
  job.classes.resize(static_cast<std::size_t>(job.mesh.classes()));
  for (int c = 0; c < job.mesh.classes(); ++c) {
    Program& program = job.classes[static_cast<std::size_t>(c)];
    const mesh::Coordinates at = job.mesh.coordinates(c);
    program.stage = at.stage;
    program.cp_rank = at.cp_rank;
    program.ranks = job.mesh.rank_count(c);
    write_calls(plan, environment, calls, program);
  }
  return job;
}

}  // namespace sim::program
