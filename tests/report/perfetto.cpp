// The trace is read back with the generated parser: what is on the wire, not what was meant.
#include "sim/report/perfetto.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/report/perfetto.pb.h"

using namespace sim;
namespace pf = rehearse::perfetto;

namespace {
pf::Trace read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  pf::Trace trace;
  REQUIRE(trace.ParseFromIstream(&in));
  return trace;
}
}  // namespace

TEST_CASE("report: a trace has one track per stream and nested slices with nanoseconds") {
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/perfetto_slices.pftrace";
  report::PerfettoTrace writer({"stage 0", "stage 1"});
  REQUIRE(writer.open(path).empty());
  const replay::Place place{2, 5, workload::PassKind::forward, 0, 7, "layer forward", ""};
  writer.operation(0, workload::Stream::compute, "qkv", place, {1'000'999}, {1'000'999},
                   {2'000'999});
  writer.operation(0, workload::Stream::tp, "all-gather", place, {2'000'999}, {2'500'000},
                   {3'000'000});
  writer.operation(0, workload::Stream::compute, "fc1", place, {2'000'999}, {2'000'999},
                   {2'400'000});
  REQUIRE(writer.close().empty());

  const pf::Trace trace = read(path);
  std::map<std::uint64_t, std::string> tracks;
  std::vector<std::string> story;
  for (const pf::TracePacket& packet : trace.packet()) {
    CHECK(packet.trusted_packet_sequence_id() == 1);
    if (packet.has_track_descriptor()) {
      const auto& track = packet.track_descriptor();
      tracks[track.uuid()] = track.has_process() ? track.process().process_name() : track.name();
      continue;
    }
    const auto& event = packet.track_event();
    story.push_back(tracks.at(event.track_uuid()) + " " + std::to_string(packet.timestamp()) +
                    (event.type() == pf::TrackEvent::TYPE_SLICE_BEGIN ? " " + event.name() : ""));
  }
  CHECK(trace.packet(0).sequence_flags() == 1);
  CHECK(story == std::vector<std::string>{"stream compute 1000 qkv", "stream compute 2000",
                                          "stream tp 2000 all-gather", "stream tp 3000",
                                          "stream compute 2000 fc1", "stream compute 2400"});
  // 2,500,000 ps - 2,000,999 ps = 499,001 ps: 499 ns of waiting for partners.
  const auto& notes = trace.packet(6).track_event().debug_annotations();
  REQUIRE(notes.size() == 4);
  CHECK(notes[1].name() == "microbatch");
  CHECK(notes[1].int_value() == 5);
  CHECK(notes[3].name() == "waited_ns");
  CHECK(notes[3].int_value() == 499);
}

TEST_CASE("report: memory counters follow the category and the totals") {
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/perfetto_memory.pftrace";
  report::PerfettoTrace writer({"stage 0"});
  REQUIRE(writer.open(path).empty());
  const auto category = workload::Category::activations;
  const replay::Place place;
  writer.memory({0, {1000}, category, 512, 0, "x", place, {512}, {2048}, {}});
  writer.memory({0, {2000}, category, 512, 512, "y", place, {1024}, {2048}, {}});
  writer.memory({0, {3000}, category, -512, 0, "x", place, {512}, {2048}, {}});
  REQUIRE(writer.close().empty());
  std::map<std::string, std::vector<std::int64_t>> values;
  std::map<std::uint64_t, std::string> tracks;
  const pf::Trace trace = read(path);
  for (const pf::TracePacket& packet : trace.packet()) {
    if (packet.has_track_descriptor()) {
      tracks[packet.track_descriptor().uuid()] = packet.track_descriptor().name();
    } else {
      values[tracks.at(packet.track_event().track_uuid())].push_back(
          packet.track_event().counter_value());
    }
  }
  CHECK(values["memory: activations"] == std::vector<std::int64_t>{512, 1024, 512});
  CHECK(values["memory: allocated"] == std::vector<std::int64_t>{512, 1024, 512});
  CHECK(values["memory: reserved"] == std::vector<std::int64_t>{2048});  // only when it changes
}

TEST_CASE("report: a trace that does not fit on the disk says so") {
  report::PerfettoTrace writer({"stage 0"});
  REQUIRE(writer.open("/dev/full").empty());
  CHECK(writer.close() == "/dev/full: No space left on device");
}
