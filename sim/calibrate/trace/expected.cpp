#include "sim/calibrate/trace/expected.h"

#include <algorithm>
#include <limits>

#include "sim/answer/pass_times.h"
#include "sim/answer/priced.h"
#include "sim/engine/rank/queues.h"

namespace sim::calibrate {

namespace {

using program::Op;

KernelFamily family_in(const program::Program& program, const answer::StepOperation& o) {
  if (o.op == Op::kernel) return family_of(program.operations[o.index]);
  if (o.op == Op::collective) return family_of(program.transfers[o.index].kind);
  return KernelFamily::send_receive;
}

bool on_the_gpu(const answer::StepOperation& o) {
  const engine::Resource resource = engine::resource_of(o.queue);
  return resource != engine::Resource::cpu_cores && o.end > o.start;
}

}  // namespace

KernelFamily family_of(const model::Operation& operation) {
  using model::OperationKind;
  switch (operation.kind) {
    case OperationKind::gemm:
      return KernelFamily::gemm;
    case OperationKind::attention_forward:
      return KernelFamily::attention_forward;
    case OperationKind::attention_backward:
      return KernelFamily::attention_backward;
    case OperationKind::norm:
      return KernelFamily::norm;
    case OperationKind::elementwise:
      return KernelFamily::elementwise;
    case OperationKind::softmax:
      return KernelFamily::softmax;
    case OperationKind::copy:
    case OperationKind::host_copy:
    case OperationKind::pageable_copy:
      return KernelFamily::copy;
    case OperationKind::reduction:
      return KernelFamily::reduction;
    case OperationKind::optimizer:
      return KernelFamily::optimizer;
    case OperationKind::embedding:
      return KernelFamily::embedding;
    case OperationKind::cpu_update:
      break;
  }
  return KernelFamily::other;
}

KernelFamily family_of(collective::Kind kind) {
  using collective::Kind;
  switch (kind) {
    case Kind::all_reduce:
      return KernelFamily::all_reduce;
    case Kind::all_gather:
      return KernelFamily::all_gather;
    case Kind::reduce_scatter:
      return KernelFamily::reduce_scatter;
    case Kind::broadcast:
      return KernelFamily::broadcast;
    case Kind::all_to_all:
      return KernelFamily::all_to_all;
    case Kind::send_receive:
    case Kind::ring_exchange:
      return KernelFamily::send_receive;
  }
  return KernelFamily::communication;
}

ExpectedStep expected_step(const answer::CheckedPlan& checked, int rank) {
  const program::Plan& plan = checked.plan();
  const answer::Site& site = checked.site();
  ExpectedStep out;
  out.job = *answer::timed_job(checked);
  out.times = answer::price_of(out.job, site);
  out.memory = answer::memory_of(out.job, plan, site);
  out.memory.total += Bytes{std::int64_t{1} << 50};
  out.rank_class = out.job.mesh.class_of_rank(rank);
  answer::StepRecorder recorder({out.rank_class});
  engine::Options options;
  options.observer = &recorder;
  const engine::RunReport report = engine::run(out.job, out.times, out.memory, options);
  out.step_time = report.step_time;
  const engine::ClassReport& own = report.classes[static_cast<std::size_t>(out.rank_class)];
  for (int a = 0; a < engine::account_count; ++a)
    out.accounts[std::string(engine::name(static_cast<engine::Account>(a)))] =
        seconds(own.accounts[static_cast<std::size_t>(a)]);
  Time begin{std::numeric_limits<std::int64_t>::max()};
  for (answer::StepOperation& o : recorder.operations(out.rank_class, out.program())) {
    if (!on_the_gpu(o)) continue;
    begin = std::min(begin, o.start);
    const KernelFamily family = family_in(out.program(), o);
    out.operations.push_back({std::move(o), family});
  }
  for (ExpectedOperation& o : out.operations)
    for (Time* time : {&o.start, &o.met, &o.end}) *time = Time{time->ps - begin.ps};
  return out;
}

Duration step_time_with(const ExpectedStep& step, const engine::Times& times) {
  return engine::run(step.job, times, step.memory).step_time;
}

}  // namespace sim::calibrate
