#include "sim/calibrate/trace/expected.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <optional>

#include "sim/answer/pass_times.h"
#include "sim/answer/priced.h"
#include "sim/engine/rank/queues.h"

namespace sim::calibrate {

namespace {

using program::Op;
using program::Stream;

struct Seen {
  Time start, met, end;
  engine::ProgramLocation place;
};

// Records the last step of one rank class, by queue.
class Recorder final : public engine::Observer {
 public:
  explicit Recorder(int rank_class) : rank_class_(rank_class) {}

  void operation(int rank_class, Stream stream, std::string_view,
                 const engine::ProgramLocation& place, Time start, Time waited_until,
                 Time end) override {
    if (rank_class != rank_class_ || place.step < step_) return;
    if (place.step > step_) {
      step_ = place.step;
      for (auto& queue : queues) queue.clear();
    }
    queues[static_cast<std::size_t>(stream)].push_back({start, waited_until, end, place});
  }
  void memory(const engine::MemoryChange&) override {}

  std::array<std::vector<Seen>, program::stream_count> queues;

 private:
  int rank_class_, step_ = 0;
};

// An operation that an instruction puts on a queue of the GPU or the network.
struct Issued {
  Stream queue;
  ExpectedOperation operation;
};

std::optional<Issued> issued(const program::Program& program, const program::Instruction& i) {
  ExpectedOperation o;
  o.op = i.op;
  o.index = i.index;
  o.overlapped = i.flags & program::overlapped;
  o.label = program.labels[i.label];
  if (i.op == Op::kernel) {
    o.queue = i.stream;
    o.family = family_of(program.operations[i.index]);
  } else if (i.op == Op::collective) {
    o.queue = program.transfers[i.index].communicator;
    o.family = family_of(program.transfers[i.index].kind);
  } else if (i.op == Op::exchange) {
    o.queue = program.exchanges[i.index].communicator;
    o.family = KernelFamily::send_receive;
  } else {
    return std::nullopt;
  }
  return Issued{o.queue, o};
}

// Calls `each` for every operation of a step, in order of issue.
template <class Each>
void walk(const program::Program& program, Each each) {
  for (const program::Pass& pass : program.step)
    for (const program::Call& call : program.templates[pass.pattern].calls)
      for (const program::Instruction& i : program.blocks[call.block].code)
        if (const auto one = issued(program, i)) each(*one);
}

bool on_the_gpu(const ExpectedOperation& o) {
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
  Recorder recorder(out.rank_class);
  engine::Options options;
  options.observer = &recorder;
  const engine::RunReport report = engine::run(out.job, out.times, out.memory, options);
  out.step_time = report.step_time;
  const engine::ClassReport& own = report.classes[static_cast<std::size_t>(out.rank_class)];
  for (int a = 0; a < engine::account_count; ++a)
    out.accounts[std::string(engine::name(static_cast<engine::Account>(a)))] =
        seconds(own.accounts[static_cast<std::size_t>(a)]);
  std::array<std::size_t, program::stream_count> next{};
  Time begin{std::numeric_limits<std::int64_t>::max()};
  walk(out.program(), [&](const Issued& one) {
    const auto queue = static_cast<std::size_t>(one.queue);
    assert(next[queue] < recorder.queues[queue].size());
    const Seen& seen = recorder.queues[queue][next[queue]++];
    ExpectedOperation o = one.operation;
    o.pass = seen.place.pass;
    o.microbatch = seen.place.microbatch;
    o.layer = seen.place.layer;
    o.start = seen.start;
    o.met = seen.met;
    o.end = seen.end;
    if (!on_the_gpu(o)) return;
    begin = std::min(begin, o.start);
    out.operations.push_back(std::move(o));
  });
  for (ExpectedOperation& o : out.operations)
    for (Time* time : {&o.start, &o.met, &o.end}) *time = Time{time->ps - begin.ps};
  return out;
}

Duration step_time_with(const ExpectedStep& step, const engine::Times& times) {
  return engine::run(step.job, times, step.memory).step_time;
}

}  // namespace sim::calibrate
