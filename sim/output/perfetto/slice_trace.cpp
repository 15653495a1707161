#include "sim/output/perfetto/slice_trace.h"

#include "sim/output/perfetto/packet_writer.h"
#include "sim/output/perfetto/perfetto.pb.h"

namespace sim::output {
namespace {

using ::rehearse::perfetto::TracePacket;
using ::rehearse::perfetto::TrackEvent;

// The process is track 1000, its tracks follow. All packets are in one sequence.
constexpr std::uint64_t process_track = 1000;
constexpr std::uint64_t sequence = 1;

std::uint64_t id(int track) {
  return process_track + 1 + static_cast<std::uint64_t>(track);
}

}  // namespace

std::string SliceTrace::open(const std::string& path, const std::string& process) {
  std::string problem = file_.open(path);
  if (!problem.empty()) return problem;
  TracePacket packet;
  auto* track = packet.mutable_track_descriptor();
  track->set_uuid(process_track);
  track->mutable_process()->set_pid(1);
  track->mutable_process()->set_process_name(process);
  append(file_, packet, sequence, true);
  return "";
}

std::string SliceTrace::close() {
  return file_.close();
}

int SliceTrace::track(const std::string& name) {
  TracePacket packet;
  auto* track = packet.mutable_track_descriptor();
  track->set_uuid(id(tracks_));
  track->set_parent_uuid(process_track);
  track->set_name(name);
  append(file_, packet, sequence);
  return tracks_++;
}

void SliceTrace::slice(int track, const std::string& name, std::int64_t from_ns,
                       std::int64_t to_ns) {
  for (const bool begins : {true, false}) {
    TracePacket packet;
    packet.set_timestamp(static_cast<std::uint64_t>(begins ? from_ns : to_ns));
    TrackEvent& event = *packet.mutable_track_event();
    event.set_type(begins ? TrackEvent::TYPE_SLICE_BEGIN : TrackEvent::TYPE_SLICE_END);
    event.set_track_uuid(id(track));
    if (begins)
      event.set_name_iid(number_of(
          names_, name, [&] { return packet.mutable_interned_data()->add_event_names(); }));
    append(file_, packet, sequence);
  }
}

}  // namespace sim::output
