#include "sim/report/perfetto.h"

#include <cassert>

#include "sim/report/perfetto.pb.h"

namespace sim::report {

namespace {
using ::rehearse::perfetto::CounterDescriptor;
using ::rehearse::perfetto::TracePacket;
using ::rehearse::perfetto::TrackDescriptor;
using ::rehearse::perfetto::TrackEvent;

constexpr std::uint32_t sequence = 1;
constexpr std::uint32_t state_cleared = 1;
constexpr int allocated_counter = workload::category_count;
constexpr int reserved_counter = workload::category_count + 1;

// Track ids: class c owns the ids from 1000 (c + 1): itself, then its streams, then its counters.
std::uint64_t class_track(int rank_class) {
  return 1000 * (static_cast<std::uint64_t>(rank_class) + 1);
}
std::uint64_t stream_track(int rank_class, workload::Stream stream) {
  return class_track(rank_class) + 1 + static_cast<std::uint64_t>(stream);
}
std::uint64_t counter_track(int rank_class, int counter) {
  return class_track(rank_class) + 100 + static_cast<std::uint64_t>(counter);
}

std::uint64_t nanoseconds(Time time) {
  return static_cast<std::uint64_t>(time.ps / 1000);
}

void annotate(TrackEvent& event, const char* name, std::int64_t value) {
  if (value < 0) return;
  auto* annotation = event.add_debug_annotations();
  annotation->set_name(name);
  annotation->set_int_value(value);
}

// A packet as a trace file holds it: field 1 of the message Trace, length and bytes.
void append(Stream& file, TracePacket& packet, bool& first) {
  packet.set_trusted_packet_sequence_id(sequence);
  if (first) packet.set_sequence_flags(state_cleared);
  first = false;
  std::string bytes;
  packet.SerializeToString(&bytes);
  std::string head = "\x0a";
  for (std::size_t n = bytes.size(); true; n >>= 7) {
    head += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    if (n <= 0x7f) break;
  }
  file.write(head);
  file.write(bytes);
}
}  // namespace

std::string PerfettoTrace::open(const std::string& path) {
  const std::string problem = file_.open(path);
  if (!problem.empty()) return problem;
  tracks_.resize(classes_.size());
  for (std::size_t c = 0; c < classes_.size(); ++c) describe_class(static_cast<int>(c));
  return "";
}

std::string PerfettoTrace::close() {
  return file_.close();
}

void PerfettoTrace::describe_class(int rank_class) {
  TracePacket packet;
  TrackDescriptor* track = packet.mutable_track_descriptor();
  track->set_uuid(class_track(rank_class));
  track->mutable_process()->set_pid(rank_class + 1);
  track->mutable_process()->set_process_name(classes_[static_cast<std::size_t>(rank_class)]);
  append(file_, packet, first_);
}

void PerfettoTrace::operation(int rank_class, workload::Stream stream, std::string_view name,
                              const replay::Place& place, Time start, Time waited_until, Time end) {
  assert(start <= waited_until && waited_until <= end);
  Tracks& tracks = tracks_.at(static_cast<std::size_t>(rank_class));
  bool& described = tracks.stream.at(static_cast<std::size_t>(stream));
  if (!described) {
    TracePacket packet;
    TrackDescriptor* track = packet.mutable_track_descriptor();
    track->set_uuid(stream_track(rank_class, stream));
    track->set_parent_uuid(class_track(rank_class));
    track->set_name("stream " + std::string(workload::name(stream)));
    append(file_, packet, first_);
    described = true;
  }
  TracePacket begin;
  begin.set_timestamp(nanoseconds(start));
  TrackEvent* event = begin.mutable_track_event();
  event->set_type(TrackEvent::TYPE_SLICE_BEGIN);
  event->set_track_uuid(stream_track(rank_class, stream));
  event->set_name(std::string(name));
  event->add_categories(std::string(workload::name(place.pass)));
  annotate(*event, "step", place.step);
  annotate(*event, "microbatch", place.microbatch);
  annotate(*event, "layer", place.layer);
  if (waited_until > start) annotate(*event, "waited_ns", (waited_until - start).ps / 1000);
  append(file_, begin, first_);
  TracePacket finish;
  finish.set_timestamp(nanoseconds(end));
  finish.mutable_track_event()->set_type(TrackEvent::TYPE_SLICE_END);
  finish.mutable_track_event()->set_track_uuid(stream_track(rank_class, stream));
  append(file_, finish, first_);
}

void PerfettoTrace::count(int rank_class, int counter, const std::string& name, Time when,
                          std::int64_t value) {
  bool& described = tracks_.at(static_cast<std::size_t>(rank_class))
                        .counter.at(static_cast<std::size_t>(counter));
  if (!described) {
    TracePacket packet;
    TrackDescriptor* track = packet.mutable_track_descriptor();
    track->set_uuid(counter_track(rank_class, counter));
    track->set_parent_uuid(class_track(rank_class));
    track->set_name(name);
    track->mutable_counter()->set_unit(CounterDescriptor::UNIT_SIZE_BYTES);
    append(file_, packet, first_);
    described = true;
  }
  TracePacket packet;
  packet.set_timestamp(nanoseconds(when));
  packet.mutable_track_event()->set_type(TrackEvent::TYPE_COUNTER);
  packet.mutable_track_event()->set_track_uuid(counter_track(rank_class, counter));
  packet.mutable_track_event()->set_counter_value(value);
  append(file_, packet, first_);
}

void PerfettoTrace::memory(const replay::MemoryChange& change) {
  Tracks& tracks = tracks_.at(static_cast<std::size_t>(change.rank_class));
  const int category = static_cast<int>(change.category);
  std::int64_t& held = tracks.held.at(static_cast<std::size_t>(category));
  held += change.delta;
  const auto show = [&](int counter, std::string_view what, std::int64_t value) {
    count(change.rank_class, counter, "memory: " + std::string(what), change.when, value);
  };
  show(category, workload::name(change.category), held);
  show(allocated_counter, "allocated", change.allocated.n);
  if (tracks.reserved == change.reserved.n) return;
  tracks.reserved = change.reserved.n;
  show(reserved_counter, "reserved", change.reserved.n);
}

}  // namespace sim::report
