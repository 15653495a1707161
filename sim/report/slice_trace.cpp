#include "sim/report/slice_trace.h"

#include "sim/report/perfetto.pb.h"

namespace sim::report {
namespace {

using ::rehearse::perfetto::Trace;
using ::rehearse::perfetto::TracePacket;
using ::rehearse::perfetto::TrackEvent;

// The process owns track 1000, its tracks follow.
constexpr std::uint64_t process_track = 1000;

std::uint64_t id(int track) {
  return process_track + 1 + static_cast<std::uint64_t>(track);
}

// A trace of one packet is the packet as a longer trace holds it.
void append(Stream& file, Trace& one, bool& first) {
  TracePacket& packet = *one.mutable_packet(0);
  packet.set_trusted_packet_sequence_id(1);
  if (first) packet.set_sequence_flags(1);  // state cleared
  first = false;
  std::string bytes;
  one.SerializeToString(&bytes);
  file.write(bytes);
}

}  // namespace

std::string SliceTrace::open(const std::string& path, const std::string& process) {
  std::string problem = file_.open(path);
  if (!problem.empty()) return problem;
  Trace one;
  auto* track = one.add_packet()->mutable_track_descriptor();
  track->set_uuid(process_track);
  track->mutable_process()->set_pid(1);
  track->mutable_process()->set_process_name(process);
  append(file_, one, first_);
  return "";
}

std::string SliceTrace::close() {
  return file_.close();
}

int SliceTrace::track(const std::string& name) {
  Trace one;
  auto* track = one.add_packet()->mutable_track_descriptor();
  track->set_uuid(id(tracks_));
  track->set_parent_uuid(process_track);
  track->set_name(name);
  append(file_, one, first_);
  return tracks_++;
}

void SliceTrace::slice(int track, const std::string& name, std::int64_t from_ns,
                       std::int64_t to_ns) {
  for (const bool begins : {true, false}) {
    Trace one;
    TracePacket& packet = *one.add_packet();
    packet.set_timestamp(static_cast<std::uint64_t>(begins ? from_ns : to_ns));
    TrackEvent& event = *packet.mutable_track_event();
    event.set_type(begins ? TrackEvent::TYPE_SLICE_BEGIN : TrackEvent::TYPE_SLICE_END);
    event.set_track_uuid(id(track));
    if (begins) event.set_name(name);
    append(file_, one, first_);
  }
}

}  // namespace sim::report
