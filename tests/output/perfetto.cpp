// perfetto.cpp — Perfetto traces, read back with the parser that protoc generates.
#include "sim/output/perfetto/perfetto.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/output/perfetto/perfetto.pb.h"
#include "sim/program/build/build.h"
#include "tests/engine/sample.h"

using namespace sim;
namespace pf = rehearse::perfetto;

namespace {
pf::Trace read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  pf::Trace trace;
  REQUIRE(trace.ParseFromIstream(&in));
  return trace;
}

// The state that a reader keeps for each packet sequence.
struct Sequence {
  std::string track;
  std::map<std::uint64_t, std::string> names, annotations;

  void read(const pf::TracePacket& packet) {
    if (packet.has_track_descriptor()) {
      track = packet.track_descriptor().name();
      if (!packet.track_descriptor().has_process()) {
        CHECK(packet.trace_packet_defaults().track_event_defaults().track_uuid() ==
              packet.track_descriptor().uuid());
      }
    }
    for (const auto& name : packet.interned_data().event_names()) names[name.iid()] = name.name();
    for (const auto& name : packet.interned_data().debug_annotation_names())
      annotations[name.iid()] = name.name();
  }
};
}  // namespace

TEST_CASE("output: a trace has one track per stream and nested slices with nanoseconds") {
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/perfetto_slices.pftrace";
  output::PerfettoTrace writer({"stage 0", "stage 1"});
  REQUIRE(writer.open(path).empty());
  const engine::ProgramLocation place{2, 5, program::PassKind::forward, 0, 7, "layer forward", ""};
  writer.operation(0, program::Stream::compute, "qkv", place, {1'000'999}, {1'000'999},
                   {2'000'999});
  writer.operation(0, program::Stream::tp, "all-gather", place, {2'000'999}, {2'500'000},
                   {3'000'000});
  writer.operation(0, program::Stream::compute, "fc1", place, {2'000'999}, {2'000'999},
                   {2'400'000});
  REQUIRE(writer.close().empty());

  const pf::Trace trace = read(path);
  std::map<std::uint32_t, Sequence> sequences;
  std::vector<std::string> story;
  const pf::TracePacket* slice = nullptr;
  for (const pf::TracePacket& packet : trace.packet()) {
    Sequence& own = sequences[packet.trusted_packet_sequence_id()];
    own.read(packet);
    if (!packet.has_track_event()) continue;
    CHECK(packet.sequence_flags() == 2);
    const auto& event = packet.track_event();
    const bool begins = event.type() == pf::TrackEvent::TYPE_SLICE_BEGIN;
    story.push_back(own.track + " " + std::to_string(packet.timestamp()) +
                    (begins ? " " + own.names.at(event.name_iid()) : ""));
    if (begins && story.size() == 3) slice = &packet;
  }
  CHECK(trace.packet(0).sequence_flags() == 1);
  CHECK(story == std::vector<std::string>{"stream compute 1000 qkv", "stream compute 2000",
                                          "stream tp 2000 all-gather", "stream tp 3000",
                                          "stream compute 2000 fc1", "stream compute 2400"});
  // 2,500,000 ps - 2,000,999 ps = 499,001 ps: 499 ns of waiting for partners.
  REQUIRE(slice != nullptr);
  const auto& notes = slice->track_event().debug_annotations();
  Sequence& tp = sequences.at(slice->trusted_packet_sequence_id());
  REQUIRE(notes.size() == 4);
  CHECK(tp.annotations.at(notes[1].name_iid()) == "microbatch");
  CHECK(notes[1].int_value() == 5);
  CHECK(tp.annotations.at(notes[3].name_iid()) == "waited_ns");
  CHECK(notes[3].int_value() == 499);
}

TEST_CASE(
    "output: a name is written once in a track, and packets of a track are in order of time") {
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/perfetto_names.pftrace";
  output::PerfettoTrace writer({"stage 0"});
  REQUIRE(writer.open(path).empty());
  const engine::ProgramLocation place{1, 0, program::PassKind::forward, 0, 1, "layer forward", ""};
  for (std::int64_t i = 0; i < 50; ++i) {
    const Time at{i * 3'000'000};
    writer.operation(0, program::Stream::compute, i % 2 == 0 ? "qkv" : "fc1", place, at, at,
                     at + Duration{1'000'000});
    // Written later than the work that follows it on another stream.
    writer.operation(0, program::Stream::tp, "all-gather", place, at, at, at + Duration{500'000});
  }
  REQUIRE(writer.close().empty());
  std::map<std::uint32_t, std::uint64_t> last;
  std::map<std::string, int> written;
  const pf::Trace trace = read(path);
  for (const pf::TracePacket& packet : trace.packet()) {
    for (const auto& name : packet.interned_data().event_names()) ++written[name.name()];
    std::uint64_t& before = last[packet.trusted_packet_sequence_id()];
    if (packet.has_timestamp()) {
      CHECK(packet.timestamp() >= before);
      before = packet.timestamp();
    }
  }
  CHECK(written == std::map<std::string, int>{{"qkv", 1}, {"fc1", 1}, {"all-gather", 1}});
}

TEST_CASE("output: arrows lead from what sends to what receives, each to one end") {
  // Both engines record the same messages.
  for (const bool reference : {false, true}) {
    const std::string path = std::string(REHEARSE_BINARY_DIR) + "/perfetto_arrows.pftrace";
    const program::Plan plan = sample::plan(1, 1, 4, 1, 8);
    const program::Job job = sample::job(plan);
    output::PerfettoTrace writer({"stage 0", "stage 1", "stage 2", "stage 3"});
    REQUIRE(writer.open(path).empty());
    engine::Options options;
    options.observer = &writer;
    options.method = reference ? engine::Method::reference : engine::Method::fast;
    engine::run(job, sample::times(job), sample::memory(job, Bytes{std::int64_t{64} << 30}),
                options);
    REQUIRE(writer.close().empty());
    struct Arrow {
      std::uint64_t from = 0, to = 0, sent = 0, received = 0;
    };
    std::map<std::uint64_t, Arrow> arrows;
    const pf::Trace trace = read(path);
    for (const pf::TracePacket& packet : trace.packet()) {
      const std::uint64_t track = packet.trusted_packet_sequence_id();
      for (const std::uint64_t number : packet.track_event().flow_ids()) {
        CHECK(packet.track_event().type() == pf::TrackEvent::TYPE_SLICE_BEGIN);
        CHECK(arrows[number].from == 0);
        arrows[number].from = track;
        arrows[number].sent = packet.timestamp();
      }
      for (const std::uint64_t number : packet.track_event().terminating_flow_ids()) {
        CHECK(packet.track_event().type() == pf::TrackEvent::TYPE_SLICE_END);
        CHECK(arrows[number].to == 0);
        arrows[number].to = track;
        arrows[number].received = packet.timestamp();
      }
    }
    // Three stage boundaries, two directions, every microbatch, in every replayed step. The first
    // step may have fewer.
    CHECK(arrows.size() >= static_cast<std::size_t>(3 * 2 * plan.microbatches()));
    CHECK(arrows.size() % (3 * 2) == 0);
    for (const auto& [number, arrow] : arrows) {
      REQUIRE(arrow.from != 0);
      REQUIRE(arrow.to != 0);
      CHECK(arrow.from / 1000 != arrow.to / 1000);  // another process
      CHECK(arrow.sent < arrow.received);
    }
  }
}

TEST_CASE("output: memory counters follow the category and the totals") {
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/perfetto_memory.pftrace";
  output::PerfettoTrace writer({"stage 0"});
  REQUIRE(writer.open(path).empty());
  const auto category = program::Category::activations;
  const engine::ProgramLocation place;
  writer.memory({0, {1000}, category, 512, 0, "x", place, {512}, {2048}, {}});
  writer.memory({0, {2000}, category, 512, 512, "y", place, {1024}, {2048}, {}});
  writer.memory({0, {3000}, category, -512, 0, "x", place, {512}, {2048}, {}});
  REQUIRE(writer.close().empty());
  std::map<std::string, std::vector<std::int64_t>> values;
  std::map<std::uint32_t, Sequence> sequences;
  const pf::Trace trace = read(path);
  for (const pf::TracePacket& packet : trace.packet()) {
    Sequence& own = sequences[packet.trusted_packet_sequence_id()];
    own.read(packet);
    if (packet.has_track_event()) values[own.track].push_back(packet.track_event().counter_value());
  }
  CHECK(values["memory: activations"] == std::vector<std::int64_t>{512, 1024, 512});
  CHECK(values["memory: allocated"] == std::vector<std::int64_t>{512, 1024, 512});
  CHECK(values["memory: reserved"] == std::vector<std::int64_t>{2048});  // only when it changes
}

TEST_CASE("output: a trace that does not fit on the disk says so") {
  output::PerfettoTrace writer({"stage 0"});
  REQUIRE(writer.open("/dev/full").empty());
  CHECK(writer.close() == "/dev/full: No space left on device");
}
