// queues.cpp — the table of queues, and that engines arbitrate the resources that it names.
#include "sim/replay/queues.h"

#include <catch2/catch.hpp>

#include "sample.h"

using namespace sim;
using replay::Resource;
using workload::Stream;

namespace {

// One rank whose step is kernels of a microsecond on these queues, issued at once.
Duration step_of(std::initializer_list<Stream> queues, replay::Method method) {
  workload::Job job = sample::job(sample::plan(1, 1, 1, 1, 1));
  workload::Program& program = job.classes.front();
  job.single_queue = false;
  workload::Block block{"work", {}};
  for (const Stream queue : queues) {
    workload::Instruction& i = block.code.emplace_back();
    i.op = workload::Op::kernel;
    i.stream = queue;
  }
  block.code.emplace_back().op = workload::Op::sync_device;
  program.blocks.push_back(block);
  const auto last = static_cast<std::uint32_t>(program.blocks.size() - 1);
  program.templates.push_back({workload::PassKind::step, 0, {{last, -1, 0}}});
  workload::Pass pass{};
  pass.pattern = static_cast<std::uint32_t>(program.templates.size() - 1);
  pass.microbatch = -1;
  program.first_step = program.step = {pass};
  program.cuts.clear();
  const replay::Times sampled = sample::times(job);
  replay::Times times;
  times.single_queue = false;
  times.classes = sampled.classes;
  times.classes.front().kernel.front() = {1'000'000};
  return replay::run(job, times, sample::memory(job), {.method = method}).step_time;
}

}  // namespace

TEST_CASE("replay: every queue has a row, and only those of the SMs own memory") {
  REQUIRE(replay::queues().size() == static_cast<std::size_t>(workload::stream_count));
  int number = 0;
  for (const replay::QueueRow& row : replay::queues()) {
    CHECK(static_cast<int>(row.queue) == number++);
    CHECK(row.communicator.has_value() == (row.resource == Resource::network));
    CHECK(row.owns_memory == (row.resource == Resource::sms));
  }
}

TEST_CASE("replay: work on different resources runs side by side, on one resource in turn") {
  for (const replay::Method method : {replay::Method::fast, replay::Method::reference}) {
    const auto step = [&](std::initializer_list<Stream> queues) {
      return step_of(queues, method).ps / 1'000'000;
    };
    CHECK(step({Stream::compute}) == 1);
    CHECK(step({Stream::compute, Stream::cp_compute}) == 2);
    CHECK(step({Stream::compute, Stream::pcie_up, Stream::pcie_down, Stream::cpu}) == 1);
    CHECK(step({Stream::pcie_up, Stream::pcie_up, Stream::pcie_down}) == 2);
    CHECK(step({Stream::cpu, Stream::compute, Stream::cpu, Stream::cpu}) == 3);
  }
}
