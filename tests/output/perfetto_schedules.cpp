// perfetto_schedules.cpp — a Perfetto trace of every schedule: the compute track of each stage
// shows the passes of the last step in the schedule's order.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "sim/job/schedule/schedule.h"
#include "sim/output/perfetto/perfetto.h"
#include "sim/output/perfetto/perfetto.pb.h"
#include "sim/program/plan/layer_partition.h"
#include "tests/engine/sample.h"
#include "tests/picture.h"

using namespace sim;
namespace pf = rehearse::perfetto;

namespace {

constexpr int stages = 4, microbatches = 8;

// The microbatch of each pass, where it differs from the one before.
using Row = std::vector<int>;

void put(Row& row, int microbatch) {
  if (row.empty() || row.back() != microbatch) row.push_back(microbatch);
}

// A small model with two layers for each part of the schedule.
program::Plan plan_of(const schedule::Schedule& row) {
  program::Plan plan = sample::plan(1, 1, stages, row.shared_parameters ? 2 : 1, microbatches);
  plan.pipeline.schedule = row.name;
  plan.pipeline.virtual_stages = row.chunks;
  plan.architecture.layers = 2 * program::count_parts(plan);
  return plan;
}

// By stage: the passes on the compute track of a trace in its last step.
std::vector<Row> traced(const program::Plan& plan, const std::string& name) {
  const std::string path =
      std::string(REHEARSE_BINARY_DIR) + "/perfetto_schedule_" + name + ".pftrace";
  const program::Job job = sample::job(plan);
  std::vector<std::string> names;
  for (const program::Program& program : job.classes)
    names.push_back(std::to_string(program.stage));
  output::PerfettoTrace writer(names);
  REQUIRE(writer.open(path).empty());
  engine::Options options;
  options.observer = &writer;
  engine::run(job, sample::times(job), sample::memory(job), options);
  REQUIRE(writer.close().empty());

  std::ifstream in(path, std::ios::binary);
  pf::Trace trace;
  REQUIRE(trace.ParseFromIstream(&in));
  struct Track {
    std::string name;
    std::uint64_t process = 0;
    std::map<std::uint64_t, std::string> annotations;
  };
  std::map<std::uint32_t, Track> tracks;
  std::map<std::uint64_t, std::map<int, Row>> steps;  // by process and step
  for (const pf::TracePacket& packet : trace.packet()) {
    Track& own = tracks[packet.trusted_packet_sequence_id()];
    if (packet.has_track_descriptor()) {
      own.name = packet.track_descriptor().name();
      own.process = packet.track_descriptor().parent_uuid();
    }
    for (const auto& known : packet.interned_data().debug_annotation_names())
      own.annotations[known.iid()] = known.name();
    if (packet.track_event().type() != pf::TrackEvent::TYPE_SLICE_BEGIN) continue;
    if (own.name != "stream compute") continue;
    int step = -1, microbatch = -1;
    for (const auto& note : packet.track_event().debug_annotations()) {
      const std::string& what = own.annotations.at(note.name_iid());
      if (what == "step") step = static_cast<int>(note.int_value());
      if (what == "microbatch") microbatch = static_cast<int>(note.int_value());
    }
    if (microbatch >= 0) put(steps[own.process][step], microbatch);
  }
  std::vector<Row> rows;
  for (const auto& [process, of] : steps) rows.push_back(of.rbegin()->second);
  return rows;
}

// The same passes from the schedule's order of events.
std::vector<Row> ordered(const schedule::Schedule& row, const program::Plan& plan) {
  std::vector<Row> rows;
  for (const schedule::Order& order : row.orders(program::pipeline_shape(plan, microbatches))) {
    Row& own = rows.emplace_back();
    for (const schedule::ScheduledPass& step : order) put(own, step.microbatch);
  }
  return rows;
}

// Whether the schedule's order determines all passes of a stage. It does not where times decide,
// where passes run concurrently, and where the output layer is split over the stages.
bool says_all(const schedule::Schedule& row, const program::Plan& plan) {
  if (row.by_times || row.output == schedule::Output::together) return false;
  for (const schedule::Order& order : row.orders(program::pipeline_shape(plan, microbatches)))
    if (std::ranges::any_of(order, &schedule::ScheduledPass::paired)) return false;
  return true;
}

}  // namespace

TEST_CASE("output: the compute tracks of a trace run each schedule's passes in its order") {
  std::string picture;
  for (const schedule::Schedule& row : schedule::catalog()) {
    const program::Plan plan = plan_of(row);
    const std::string name(row.name);
    INFO(name);
    const std::vector<Row> rows = traced(plan, name);
    CHECK(rows.size() == stages);
    if (says_all(row, plan)) CHECK(rows == ordered(row, plan));
    picture += name + "\n";
    for (const Row& one : rows) {
      for (const int microbatch : one) picture += " " + std::to_string(microbatch);
      picture += "\n";
    }
  }
  picture::same("output/pictures/perfetto-schedules.txt", picture);
}
