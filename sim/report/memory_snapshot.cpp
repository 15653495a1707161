#include "sim/report/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "sim/report/answer.h"
#include "sim/report/pickle_writer.h"

namespace sim::report {

using memory::Action;

MemorySnapshot::MemorySnapshot(std::size_t classes, std::size_t most_entries)
    : entries_per_class_(
          std::max<std::size_t>(1, most_entries / std::max<std::size_t>(1, classes))),
      classes_(classes) {
  intern({});
}

std::size_t MemorySnapshot::intern(Frames frames) {
  const auto [it, added] = numbers_.try_emplace(std::move(frames), frames_.size());
  if (added) frames_.push_back(it->first);
  return it->second;
}

void MemorySnapshot::add(Class& own, std::span<const memory::TraceEntry> trace, Time when,
                         std::size_t frames) {
  for (const memory::TraceEntry& event : trace) {
    own.entries.push_back({event, when.ps / 1'000'000, frames});
    if (own.entries.size() > entries_per_class_) own.entries.pop_front();
    if (event.action == Action::alloc) own.allocated_at[event.address] = frames;
    if (event.action == Action::segment_alloc || event.action == Action::segment_map)
      own.segment_at[event.address] = frames;
  }
}

void MemorySnapshot::memory(const replay::MemoryChange& change) {
  Class& own = classes_.at(static_cast<std::size_t>(change.rank_class));
  if (own.closed || change.trace.empty()) return;
  // Innermost first, as Python's: the tensor, the block, the layer, the pass, the step.
  const replay::Place& place = change.place;
  Frames frames;
  const int layer = std::max(0, place.layer);
  if (!change.label.empty()) frames.push_back({std::string(change.label), place.block, layer});
  if (change.label.empty() && !place.block.empty()) frames.push_back({place.block, "free", layer});
  if (place.layer >= 0) frames.push_back({fmt::format("layer {}", place.layer), "model", layer});
  if (place.step > 0) {
    const std::string pass{workload::name(place.pass)};
    frames.push_back(
        {place.microbatch >= 0 ? fmt::format("{} of microbatch {}", pass, place.microbatch) : pass,
         "schedule", std::max(0, place.microbatch)});
  }
  frames.push_back(
      {place.step == 0 ? "set-up" : fmt::format("step {}", place.step), "training", place.step});
  add(own, change.trace, change.when, intern(std::move(frames)));
}

void MemorySnapshot::memory_state(const replay::MemoryState& state) {
  Class& own = classes_.at(static_cast<std::size_t>(state.rank_class));
  if (own.closed) return;
  add(own, state.trace, state.when, 0);
  own.segments = state.allocator.segments();
  options_ = state.allocator.options();
  own.closed = state.out_of_memory;
}

namespace {

const char* words(memory::BlockState state) {
  switch (state) {
    case memory::BlockState::active_allocated:
      return "active_allocated";
    case memory::BlockState::active_pending_free:
      return "active_pending_free";
    case memory::BlockState::inactive:
      break;
  }
  return "inactive";
}

void write_settings(PickleWriter& out, const memory::Options& options) {
  const auto whole = [&](const char* key, std::int64_t value) {
    out.text(key);
    out.integer(value);
  };
  const auto flag = [&](const char* key, bool value) {
    out.text(key);
    out.boolean(value);
  };
  out.begin_dict();
  out.text("PYTORCH_CUDA_ALLOC_CONF");
  out.text(options.text);
  whole("max_split_size",
        options.max_split_size == memory::unlimited ? -1 : options.max_split_size);
  out.text("garbage_collection_threshold");
  out.real(options.garbage_collection_threshold);
  flag("expandable_segments", options.expandable_segments);
  whole("pinned_num_register_threads", options.pinned_num_register_threads);
  flag("release_lock_on_cudamalloc", options.release_lock_on_cudamalloc);
  flag("pinned_use_cuda_host_register", options.pinned_use_cuda_host_register);
  flag("graph_capture_record_stream_reuse", options.graph_capture_record_stream_reuse);
  out.text("roundup_power2_divisions");
  out.begin_dict();
  std::int64_t size = 1;
  for (const int divisions : options.roundup_divisions) {
    whole(std::to_string(size).c_str(), divisions);
    size *= 2;
  }
  out.end_dict();
  out.end_dict();
}

}  // namespace

std::string MemorySnapshot::pickle() const {
  PickleWriter out;
  std::vector<std::int64_t> remembered(frames_.size(), -1);
  const auto write_frames = [&](std::size_t number) {
    out.text("frames");
    if (remembered[number] >= 0) {
      out.recall(remembered[number]);
      return;
    }
    out.begin_list();
    for (const Frame& frame : frames_[number]) {
      out.begin_dict();
      out.text("name");
      out.text(frame.name);
      out.text("filename");
      out.text(frame.filename);
      out.text("line");
      out.integer(frame.line);
      out.end_dict();
    }
    out.end_list();
    remembered[number] = out.remember();
  };
  const auto whole = [&](const char* key, std::int64_t value) {
    out.text(key);
    out.integer(value);
  };
  const auto frames_at = [](const std::map<std::int64_t, std::size_t>& known,
                            std::int64_t address) {
    const auto found = known.find(address);
    return found == known.end() ? std::size_t{0} : found->second;
  };

  out.begin_dict();
  out.text("segments");
  out.begin_list();
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const Class& own = classes_[c];
    for (const memory::SegmentView& segment : own.segments) {
      out.begin_dict();
      whole("device", static_cast<std::int64_t>(c));
      whole("address", segment.address);
      whole("total_size", segment.total);
      whole("allocated_size", segment.allocated);
      whole("active_size", segment.active);
      whole("requested_size", segment.requested);
      whole("stream", segment.stream);
      out.text("segment_type");
      out.text(segment.small ? "small" : "large");
      out.text("segment_pool_id");
      out.pair(0, segment.pool);
      out.text("is_expandable");
      out.boolean(segment.expandable);
      write_frames(frames_at(own.segment_at, segment.address));
      out.text("blocks");
      out.begin_list();
      for (const memory::BlockView& block : segment.blocks) {
        const bool active = block.state != memory::BlockState::inactive;
        out.begin_dict();
        whole("address", block.address);
        whole("size", block.size);
        whole("requested_size", block.requested);
        out.text("state");
        out.text(words(block.state));
        write_frames(active ? frames_at(own.allocated_at, block.address) : 0);
        out.end_dict();
      }
      out.end_list();
      out.end_dict();
    }
  }
  out.end_list();

  out.text("device_traces");
  out.begin_list();
  for (const Class& own : classes_) {
    out.begin_list();
    for (const Entry& entry : own.entries) {
      out.begin_dict();
      out.text("action");
      out.text(name(entry.event.action));
      whole(entry.event.action == Action::oom ? "device_free" : "addr", entry.event.address);
      whole("size", entry.event.size);
      whole("stream", entry.event.stream);
      whole("time_us", entry.time_us);
      out.text("compile_context");
      out.text("N/A");
      out.text("user_metadata");
      out.text("");
      write_frames(entry.frames);
      out.end_dict();
    }
    out.end_list();
  }
  out.end_list();

  out.text("allocator_settings");
  write_settings(out, options_);
  out.text("external_annotations");
  out.begin_list();
  out.end_list();
  out.end_dict();
  return out.finish();
}

}  // namespace sim::report
