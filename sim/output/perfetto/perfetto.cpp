#include "sim/output/perfetto/perfetto.h"

#include <cassert>
#include <iterator>

#include "sim/output/perfetto/packet_writer.h"
#include "sim/output/perfetto/perfetto.pb.h"

namespace sim::output {

namespace {
using ::rehearse::perfetto::CounterDescriptor;
using ::rehearse::perfetto::TracePacket;
using ::rehearse::perfetto::TrackDescriptor;
using ::rehearse::perfetto::TrackEvent;

// Annotations of a slice; the number is the position plus one.
constexpr const char* annotation_names[] = {"step", "microbatch", "layer", "waited_ns"};
enum AnnotationName : std::uint64_t { step_note = 1, microbatch_note, layer_note, waited_note };
constexpr int allocated_counter = program::category_count;
constexpr int reserved_counter = program::category_count + 1;

// Track ids of class c start at 1000 (c + 1): the class, then its streams, then its counters.
std::uint64_t class_track(int rank_class) {
  return 1000 * (static_cast<std::uint64_t>(rank_class) + 1);
}
std::uint64_t stream_track(int rank_class, program::Stream stream) {
  return class_track(rank_class) + 1 + static_cast<std::uint64_t>(stream);
}
std::uint64_t counter_track(int rank_class, int counter) {
  return class_track(rank_class) + 100 + static_cast<std::uint64_t>(counter);
}

std::uint64_t nanoseconds(Time time) {
  return static_cast<std::uint64_t>(time.ps / 1000);
}

void annotate(TrackEvent& event, AnnotationName name, std::int64_t value) {
  if (value < 0) return;
  auto* annotation = event.add_debug_annotations();
  annotation->set_name_iid(name);
  annotation->set_int_value(value);
}

// Describes a track and makes it the default track of its sequence.
void describe_track(Stream& file, std::uint64_t track, std::uint64_t parent,
                    const std::string& name, bool bytes) {
  TracePacket packet;
  TrackDescriptor* described = packet.mutable_track_descriptor();
  described->set_uuid(track);
  described->set_parent_uuid(parent);
  described->set_name(name);
  if (bytes) described->mutable_counter()->set_unit(CounterDescriptor::UNIT_SIZE_BYTES);
  packet.mutable_trace_packet_defaults()->mutable_track_event_defaults()->set_track_uuid(track);
  append(file, packet, track, true);
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
  append(file_, packet, class_track(rank_class), true);
}

void PerfettoTrace::operation(int rank_class, program::Stream stream, std::string_view name,
                              const engine::ProgramLocation& place, Time start, Time waited_until,
                              Time end) {
  assert(start <= waited_until && waited_until <= end);
  Tracks& tracks = tracks_.at(static_cast<std::size_t>(rank_class));
  Sequence& own = tracks.stream.at(static_cast<std::size_t>(stream));
  const std::uint64_t track = stream_track(rank_class, stream);
  if (!own.described) {
    describe_track(file_, track, class_track(rank_class),
                   "stream " + std::string(program::name(stream)), false);
    own.described = true;
  }
  TracePacket begin;
  begin.set_timestamp(nanoseconds(start));
  const auto interned = [&] { return begin.mutable_interned_data(); };
  TrackEvent* event = begin.mutable_track_event();
  event->set_type(TrackEvent::TYPE_SLICE_BEGIN);
  event->set_name_iid(number_of(own.names, name, [&] { return interned()->add_event_names(); }));
  event->add_category_iids(number_of(own.categories, program::name(place.pass),
                                     [&] { return interned()->add_event_categories(); }));
  for (std::uint64_t i = 0; !own.annotations && i < std::size(annotation_names); ++i) {
    auto* known = interned()->add_debug_annotation_names();
    known->set_iid(i + 1);
    known->set_name(annotation_names[i]);
  }
  own.annotations = true;
  annotate(*event, step_note, place.step);
  annotate(*event, microbatch_note, place.microbatch);
  annotate(*event, layer_note, place.layer);
  if (waited_until > start) annotate(*event, waited_note, (waited_until - start).ps / 1000);
  for (const engine::MessageEnd& end_of : ends_)
    if (end_of.sends) event->add_flow_ids(end_of.number);
  append(file_, begin, track);
  TracePacket finish;
  finish.set_timestamp(nanoseconds(end));
  finish.mutable_track_event()->set_type(TrackEvent::TYPE_SLICE_END);
  for (const engine::MessageEnd& end_of : ends_)
    if (!end_of.sends) finish.mutable_track_event()->add_terminating_flow_ids(end_of.number);
  ends_.clear();
  append(file_, finish, track);
}

void PerfettoTrace::count(int rank_class, int counter, const std::string& name, Time when,
                          std::int64_t value) {
  Sequence& own = tracks_.at(static_cast<std::size_t>(rank_class))
                      .counter.at(static_cast<std::size_t>(counter));
  const std::uint64_t track = counter_track(rank_class, counter);
  if (!own.described) {
    describe_track(file_, track, class_track(rank_class), name, true);
    own.described = true;
  }
  TracePacket packet;
  packet.set_timestamp(nanoseconds(when));
  packet.mutable_track_event()->set_type(TrackEvent::TYPE_COUNTER);
  packet.mutable_track_event()->set_counter_value(value);
  append(file_, packet, track);
}

void PerfettoTrace::memory(const engine::MemoryChange& change) {
  Tracks& tracks = tracks_.at(static_cast<std::size_t>(change.rank_class));
  const int category = static_cast<int>(change.category);
  std::int64_t& held = tracks.held.at(static_cast<std::size_t>(category));
  held += change.delta;
  const auto show = [&](int counter, std::string_view what, std::int64_t value) {
    count(change.rank_class, counter, "memory: " + std::string(what), change.when, value);
  };
  show(category, program::name(change.category), held);
  show(allocated_counter, "allocated", change.allocated.n);
  if (tracks.reserved == change.reserved.n) return;
  tracks.reserved = change.reserved.n;
  show(reserved_counter, "reserved", change.reserved.n);
}

}  // namespace sim::output
