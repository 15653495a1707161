// queues.cpp — tests the table of queues, and the engines' use of its resources.
#include "sim/engine/rank/queues.h"

#include <catch2/catch.hpp>

#include "sample.h"

using namespace sim;
using engine::Resource;
using program::Stream;

namespace {

// One rank whose step consists of kernels of one microsecond on these queues, issued at once.
Duration step_of(const std::vector<Stream>& queues, engine::Method method, bool single = false,
                 std::int64_t places = 0) {
  program::Job job = sample::job(sample::plan(1, 1, 1, 1, 1));
  program::Program& program = job.classes.front();
  job.single_queue = single;
  program::Block block{"work", {}};
  for (const Stream queue : queues) {
    program::Instruction& i = block.code.emplace_back();
    i.op = program::Op::kernel;
    i.stream = queue;
  }
  block.code.emplace_back().op = program::Op::sync_device;
  program.blocks.push_back(block);
  const auto last = static_cast<std::uint32_t>(program.blocks.size() - 1);
  program.templates.push_back({program::PassKind::step, 0, {{last, -1, 0}}});
  program::Pass pass{};
  pass.pattern = static_cast<std::uint32_t>(program.templates.size() - 1);
  pass.microbatch = -1;
  program.first_step = program.step = {pass};
  program.cuts.clear();
  const engine::Times sampled = sample::times(job);
  engine::Times times;
  times.single_queue = single;
  times.launch_queue = places;
  times.classes = sampled.classes;
  times.classes.front().kernel.front() = {1'000'000};
  return engine::run(job, times, sample::memory(job), {.method = method}).step_time;
}

}  // namespace

TEST_CASE("engine: every queue has a row, and those of the SMs and of copies up own memory") {
  REQUIRE(engine::queues.size() == static_cast<std::size_t>(program::stream_count));
  int number = 0;
  for (const engine::QueueRow& row : engine::queues) {
    CHECK(static_cast<int>(row.queue) == number++);
    CHECK(row.communicator.has_value() == (row.resource == Resource::network));
    CHECK(row.owns_memory == (row.resource == Resource::sms || row.resource == Resource::pcie_up));
  }
}

TEST_CASE("engine: work on different resources runs side by side, on one resource in turn") {
  for (const engine::Method method : {engine::Method::fast, engine::Method::reference}) {
    const auto step = [&](const std::vector<Stream>& queues) {
      return step_of(queues, method).ps / 1'000'000;
    };
    CHECK(step({Stream::compute}) == 1);
    CHECK(step({Stream::compute, Stream::cp_compute}) == 2);
    CHECK(step({Stream::compute, Stream::pcie_up, Stream::pcie_down, Stream::cpu}) == 1);
    CHECK(step({Stream::pcie_up, Stream::pcie_up, Stream::pcie_down}) == 2);
    CHECK(step({Stream::cpu, Stream::compute, Stream::cpu, Stream::cpu}) == 3);
  }
}

TEST_CASE("engine: a CPU is ahead of a hardware queue by so many launches as it has places") {
  for (const engine::Method method : {engine::Method::fast, engine::Method::reference}) {
    // A copy after ten kernels: it is issued when the last kernel is.
    std::vector<Stream> work(10, Stream::compute);
    work.push_back(Stream::pcie_up);
    const auto step = [&](std::int64_t places, bool single = false) {
      return step_of(work, method, single, places).ps / 1'000'000;
    };
    CHECK(step(0) == 10);
    CHECK(step(10) == 10);
    CHECK(step(1) == 10);        // when the ninth starts, at 8, the tenth takes its entry
    CHECK(step(1, true) == 10);  // ... and when the tenth starts, at 9, the copy
    work.push_back(Stream::pcie_up);
    CHECK(step(1, true) == 11);
    work.insert(work.end(), 10, Stream::pcie_up);
    CHECK(step(0) == 12);
    CHECK(step(3) == 18);  // the tenth kernel is issued when the seventh starts, at 6
    CHECK(step(9) == 12);
    CHECK(step(9, true) == 21);  // one queue: one after the other
  }
}

TEST_CASE("engine: a copy of a token goes once to each place with experts of it") {
  topology::Cluster cluster;
  cluster.nodes = 4;
  cluster.node.gpus = 8;
  network::Groups groups{{{}}};
  for (int rank = 0; rank < 32; ++rank) groups.ranks[0].push_back(rank);
  program::Transfer transfer{};
  transfer.bytes = Bytes{8'000'000};
  const auto bytes = [&] { return engine::sent(transfer, groups, cluster).n; };
  CHECK(bytes() == 8'000'000);  // an all-to-all that copies to every expert
  transfer.choices.of_token = 8;
  // Over 4 nodes: 4 (1 - (3/4)^8) of 8 copies.
  const double nodes = 4 * (1 - std::pow(0.75, 8)) / 8;
  CHECK(bytes() == std::llround(8e6 * nodes));
  // A group inside each node: 8 (1 - (7/8)^8) of 8 copies, by rank.
  groups.ranks = {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}};
  CHECK(bytes() == std::llround(8e6 * (1 - std::pow(7.0 / 8, 8))));
  // Two of four groups of experts: two nodes of four, 2 (1 - (1/2)^8) of 8.
  groups.ranks = {{0, 8, 16, 24}};
  transfer.choices.groups = 4;
  transfer.choices.top_groups = 2;
  CHECK(bytes() == std::llround(8e6 * 2 * (1 - std::pow(0.5, 8)) / 8));
  transfer.choices = {1};
  CHECK(bytes() == 8'000'000);  // never more than all copies
  transfer.bytes = Bytes{1};
  transfer.choices = {8};
  CHECK(bytes() == 1);
  groups.ranks.clear();
  CHECK(bytes() == 1);
}
