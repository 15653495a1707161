// memory_files.cpp — files about a replay's memory: the snapshot reads back and replays exactly,
// the timeline keeps its peaks, the plot draws them.
#include <catch2/catch.hpp>

#include "sim/allocator/recorded/pickle.h"
#include "sim/allocator/recorded/recording.h"
#include "sim/allocator/recorded/snapshot.h"
#include "sim/output/memory/memory_plot.h"
#include "sim/output/memory/memory_snapshot.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/memory/pickle_writer.h"
#include "sim/program/build/build.h"
#include "tests/engine/sample.h"
#include "tests/picture.h"

using namespace sim;

namespace {

struct Observed {
  program::Job job;
  engine::RunReport run;
  output::MemorySnapshot snapshot;
  output::MemoryTimeline timeline;

  Observed(const program::Plan& plan, Bytes memory, std::size_t entries)
      : job(sample::job(plan)), snapshot(job.classes.size(), entries) {
    engine::Observers both;
    both.all = {&snapshot, &timeline};
    engine::Options options;
    options.observer = &both;
    run = engine::run(job, sample::times(job), sample::memory(job, memory), options);
  }
};

// The memory snapshot read back and replayed by this project's own reader.
allocator::RecordingReplay replayed(const std::string& pickle) {
  const auto read = allocator::read_snapshot(pickle, "snapshot");
  REQUIRE(read);
  const auto result = allocator::replay_snapshot(*read, allocator::Rules::newer, "snapshot");
  REQUIRE(result);
  return *result;
}

constexpr Bytes plenty{std::int64_t{64} << 30};

}  // namespace

TEST_CASE("output: a memory snapshot of a replay leads to the same addresses again") {
  // Context parallelism has blocks on a second stream; expandable segments map and unmap.
  for (const char* conf : {"", "expandable_segments:True", "max_split_size_mb:64"}) {
    program::Plan plan = sample::plan(2, 2, 2, 1, 4);
    plan.environment.allocator_options = conf;
    CAPTURE(conf);
    Observed seen(plan, plenty, 1'000'000);
    const allocator::RecordingReplay result = replayed(seen.snapshot.pickle());
    CHECK(result.allocations > 1000);
    CHECK(result.exact());
    CHECK(result.first_difference == "");
  }
}

TEST_CASE("output: a snapshot keeps the newest events and still replays") {
  Observed all(sample::plan(1, 1, 2, 1, 4), plenty, 1'000'000);
  Observed some(sample::plan(1, 1, 2, 1, 4), plenty, 2 * 500);
  const auto read = allocator::read_snapshot(some.snapshot.pickle(), "snapshot");
  REQUIRE(read);
  REQUIRE(read->devices.size() == 2);
  for (const auto& device : read->devices) CHECK(device.entries.size() == 500);
  CHECK(replayed(some.snapshot.pickle()).exact());
  CHECK(replayed(all.snapshot.pickle()).allocations > 500);
}

TEST_CASE("output: the snapshot of a rank that runs out of memory ends there") {
  const program::Plan plan = sample::plan(1, 1, 1, 1, 4);
  Observed fits(plan, plenty, 1'000'000);
  // Three quarters of the memory that the plan needs.
  const Bytes tight{fits.run.classes[0].peak_reserved.n * 3 / 4};
  Observed seen(plan, tight, 1'000'000);
  REQUIRE(!seen.run.fits());
  const std::string pickle = seen.snapshot.pickle();
  const auto read = allocator::read_snapshot(pickle, "snapshot");
  REQUIRE(read);
  const auto& device = read->devices.at(0);
  CHECK(device.entries.back().action == allocator::Action::oom);
  CHECK(device.entries.back().address == seen.run.classes[0].out_of_memory->device_free.n);
  std::int64_t total = 0;
  for (const auto& segment : device.segments) total += segment.total;
  CHECK(total == seen.run.classes[0].out_of_memory->reserved.n);
  CHECK(replayed(pickle).exact());
}

TEST_CASE("output: pickled values read back as they were") {
  output::PickleWriter out;
  const std::vector<std::int64_t> values = {
      0,         1,          255,        256,         65535,       65536,     -1,
      -129,      2147483647, 2147483648, -2147483648, -2147483649, 1LL << 39, (1LL << 39) - 1,
      INT64_MAX, INT64_MIN};
  out.begin_list();
  for (const std::int64_t value : values) out.integer(value);
  out.text("twice");
  out.text("twice");
  out.real(0.1);
  out.boolean(true);
  out.end_list();
  const std::string bytes = out.finish();
  const auto pickle = allocator::read_pickle(bytes, "pickle");
  REQUIRE(pickle);
  const auto& items = pickle->items(pickle->root());
  REQUIRE(items.size() == values.size() + 4);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(pickle->integer(items[i]) == values[i]);
  CHECK(pickle->text(items[values.size()]) == "twice");
  CHECK(items[values.size()] == items[values.size() + 1]);  // one value
  CHECK(pickle->real(items[values.size() + 2]) == 0.1);
  CHECK(pickle->integer(items[values.size() + 3]) == 1);
}

TEST_CASE("output: pickled integers have the shortest opcode that CPython has for them") {
  const auto opcode = [](std::int64_t value) {
    output::PickleWriter out;
    out.integer(value);
    return out.finish()[2];  // behind PROTO 4
  };
  for (const std::int64_t value : {0, 1, 255}) CHECK(opcode(value) == 'K');          // BININT1
  for (const std::int64_t value : {256, 65535}) CHECK(opcode(value) == 'M');         // BININT2
  for (const std::int64_t value : {65536, 2147483647}) CHECK(opcode(value) == 'J');  // BININT
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{INT32_MIN}})
    CHECK(opcode(value) == 'J');
  for (const std::int64_t value : {std::int64_t{INT32_MAX} + 1, std::int64_t{INT32_MIN} - 1})
    CHECK(opcode(value) == '\x8a');  // LONG1
}

TEST_CASE("output: a timeline loses no peak however long it runs") {
  output::MemoryTimeline timeline;
  const engine::ProgramLocation place{1, 0, program::PassKind::forward, 0, 0, "block", ""};
  std::int64_t held = 0;
  // 10^4 changes, one per millisecond; number 7777 has the maximum.
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t delta = i == 7777 ? 1000 : i == 7778 ? -1000 : i % 2 == 0 ? 10 : -10;
    held += delta;
    timeline.memory({0,
                     {i * 1'000'000'000LL},
                     program::Category::activations,
                     delta,
                     0,
                     "",
                     place,
                     {held},
                     {held + 5},
                     {}});
  }
  const auto own = timeline.of(0);
  CHECK(own.intervals.size() <= output::MemoryTimeline::most_intervals);
  CHECK(own.intervals.size() > output::MemoryTimeline::most_intervals / 2);
  std::int64_t most = 0;
  for (const auto& interval : own.intervals) most = std::max(most, interval.most.allocated);
  CHECK(most >= 1000);
  CHECK(own.intervals.back().last.allocated == held);
}

TEST_CASE("output: a memory plot has a panel a stage with limit and names of what is held") {
  const program::Plan plan = sample::plan(1, 1, 2, 1, 4);
  Observed seen(plan, plenty, 100);
  answer::Answer answer;
  answer.plan = plan;
  answer.machine.gpu = "R&D <GPU>";
  answer.run = seen.run;
  const std::string svg = output::memory_plot(answer, seen.timeline);
  CHECK(svg.find("<svg ") == 0);
  CHECK(svg.find("</svg>\n") == svg.size() - 7);
  for (const char* part : {"stage 0: 4 layers", "stage 1: 4 layers", "device limit", "reserved",
                           "activations", "step 2", "R&amp;D &lt;GPU>"}) {
    INFO(part);
    CHECK(svg.find(part) != std::string::npos);
  }
  CHECK(svg.find("out of memory") == std::string::npos);
}

TEST_CASE("output: what is reserved is a band where it moves faster than a pixel") {
  output::MemoryTimeline timeline;
  const engine::ProgramLocation place{1, 0, program::PassKind::forward, 0, 0, "layer", "x"};
  // 10^5 changes, one per millisecond; reserved memory alternates between 4 and 8 GiB.
  for (int i = 0; i < 100'000; ++i) {
    const Bytes reserved{i % 2 == 0 ? 8LL << 30 : 4LL << 30};
    timeline.memory({0,
                     {i * 1'000'000'000LL},
                     program::Category::activations,
                     i % 2 == 0 ? 10 : -10,
                     0,
                     "",
                     place,
                     {i % 2 == 0 ? 10 : 0},
                     reserved,
                     {}});
  }
  const auto own = timeline.of(0);
  for (std::size_t i = 1; i + 1 < own.intervals.size(); ++i) {
    REQUIRE(own.intervals[i].most.reserved == 8LL << 30);
    REQUIRE(own.intervals[i].least_reserved == 4LL << 30);
  }
  const program::Plan plan = sample::plan(1, 1, 1, 1, 4);
  answer::Answer answer;
  answer.plan = plan;
  answer.run = Observed(plan, plenty, 100).run;
  answer.run.classes[0].capacity = Bytes{16LL << 30};
  const std::string svg = output::memory_plot(answer, timeline);
  // The band is a rectangle of four corners, not a polygon of 200,000.
  const std::size_t band = svg.find("fill-opacity=\"0.3\"");
  REQUIRE(band != std::string::npos);
  CHECK(svg.find("/>", band) - band < 400);
}

TEST_CASE("output: names of steps in a memory plot do not stand on each other") {
  output::MemoryTimeline timeline;
  engine::ProgramLocation place{1, 0, program::PassKind::forward, 0, 0, "layer", "x"};
  for (int i = 0; i < 200; ++i) {
    place.step = i;
    timeline.memory({0,
                     {i * 1'000'000'000LL},
                     program::Category::activations,
                     10,
                     0,
                     "",
                     place,
                     {10},
                     {20},
                     {}});
  }
  answer::Answer answer;
  answer.plan = sample::plan(1, 1, 1, 1, 4);
  answer.run = Observed(answer.plan, plenty, 100).run;
  const std::string svg = output::memory_plot(answer, timeline);
  double before = -1e9;
  int names = 0;
  for (std::size_t at = 0; (at = svg.find(">step ", at)) != std::string::npos; ++at) {
    const std::size_t x = svg.rfind("x=\"", at) + 3;
    const double here = std::stod(svg.substr(x));
    CHECK(here - before >= 44);
    before = here;
    ++names;
  }
  CHECK(names >= 5);
  CHECK(names <= 20);
}

TEST_CASE("output: a memory plot is as it was") {
  output::MemoryTimeline timeline;
  answer::Answer answer;
  answer.plan = sample::plan(1, 1, 2, 1, 4);
  answer.machine = {"toy", "toy GPU", 8, {40LL << 30}, 1e14};
  for (int c = 0; c < 2; ++c) {
    engine::ClassReport who;
    who.stage = c;
    who.ranks = 1;
    who.layers = 4 - c;
    who.capacity = Bytes{(10LL - c) << 30};
    answer.run.classes.push_back(who);
    engine::ProgramLocation place{1, 0, program::PassKind::forward, 0, 0, "layer", "x"};
    std::int64_t held = 0;
    for (int i = 0; i < 40; ++i) {
      place.step = 1 + i / 20;
      const std::int64_t delta = (i % 5 == 4 ? -3 : 1) * ((1LL + c) << 28);
      held += delta;
      timeline.memory({c,
                       {i * 50'000'000'000LL},
                       i < 6 ? program::Category::weights : program::Category::activations,
                       delta,
                       0,
                       "",
                       place,
                       {held},
                       {held + (1LL << 29)},
                       {}});
    }
  }
  engine::OutOfMemory event;
  event.stage = 1;
  event.when = {1'990'000'000'000};
  event.requested = {2LL << 30};
  answer.run.classes[1].out_of_memory = event;
  answer.run.out_of_memory = {1};
  picture::same("output/pictures/memory.svg", output::memory_plot(answer, timeline));
}
