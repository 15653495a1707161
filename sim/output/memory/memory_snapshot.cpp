#include "sim/output/memory/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "sim/answer/answer.h"
#include "sim/output/memory/pickle_writer.h"

namespace sim::output {

using allocator::Action;

MemorySnapshot::MemorySnapshot(std::size_t classes, std::size_t most_entries)
    : entries_per_class_(
          std::max<std::size_t>(1, most_entries / std::max<std::size_t>(1, classes))),
      classes_(classes) {
  intern("");
}

std::uint32_t MemorySnapshot::intern(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  texts_.emplace_back(text);
  return numbers_[texts_.back()] = static_cast<std::uint32_t>(texts_.size() - 1);
}

void MemorySnapshot::add(Class& own, std::span<const allocator::TraceEntry> trace, Time when,
                         const Origin& origin) {
  for (const allocator::TraceEntry& event : trace) {
    own.entries.push_back({event, when.ps / 1'000'000, origin});
    if (own.entries.size() > entries_per_class_) own.entries.pop_front();
    if (event.action == Action::alloc) own.allocated_at[event.address] = origin;
    if (event.action == Action::segment_alloc || event.action == Action::segment_map)
      own.segment_at[event.address] = origin;
  }
}

void MemorySnapshot::memory(const engine::MemoryChange& change) {
  Class& own = classes_.at(static_cast<std::size_t>(change.rank_class));
  if (own.closed || change.trace.empty()) return;
  const engine::ProgramLocation& place = change.place;
  add(own, change.trace, change.when,
      {intern(change.label), intern(place.block), place.layer, place.microbatch, place.step,
       place.pass, true});
}

void MemorySnapshot::memory_state(const engine::MemoryState& state) {
  Class& own = classes_.at(static_cast<std::size_t>(state.rank_class));
  if (own.closed) return;
  add(own, state.trace, state.when, {});
  own.segments = state.allocator.segments();
  options_ = state.allocator.options();
  own.closed = state.out_of_memory;
}

namespace {

const char* text_of(allocator::BlockState state) {
  switch (state) {
    case allocator::BlockState::active_allocated:
      return "active_allocated";
    case allocator::BlockState::active_pending_free:
      return "active_pending_free";
    case allocator::BlockState::inactive:
      break;
  }
  return "inactive";
}

}  // namespace

// The keys and lists of one snapshot, in the order of PyTorch's pickle.
class MemorySnapshot::Dump {
 public:
  explicit Dump(const MemorySnapshot& snapshot) : snapshot_(snapshot) {}

  std::string pickle() {
    out_.begin_dict();
    write_segments();
    write_traces();
    out_.text("allocator_settings");
    write_settings();
    out_.text("external_annotations");
    out_.begin_list();
    out_.end_list();
    out_.end_dict();
    return out_.finish();
  }

 private:
  using Origins = std::map<std::int64_t, Origin>;  // by address

  static Origin origin_at(const Origins& known, std::int64_t address) {
    const auto found = known.find(address);
    return found == known.end() ? Origin{} : found->second;
  }

  void whole(const char* key, std::int64_t value) {
    out_.text(key);
    out_.integer(value);
  }
  void flag(const char* key, bool value) {
    out_.text(key);
    out_.boolean(value);
  }
  void text(const char* key, std::string_view value) {
    out_.text(key);
    out_.text(value);
  }

  void write_segments() {
    out_.text("segments");
    out_.begin_list();
    for (std::size_t c = 0; c < snapshot_.classes_.size(); ++c)
      for (const allocator::SegmentView& segment : snapshot_.classes_[c].segments)
        write_segment(static_cast<std::int64_t>(c), snapshot_.classes_[c], segment);
    out_.end_list();
  }

  void write_segment(std::int64_t device, const Class& own, const allocator::SegmentView& segment) {
    out_.begin_dict();
    whole("device", device);
    whole("address", segment.address);
    whole("total_size", segment.total);
    whole("allocated_size", segment.allocated);
    whole("active_size", segment.active);
    whole("requested_size", segment.requested);
    whole("stream", segment.stream);
    text("segment_type", segment.small ? "small" : "large");
    out_.text("segment_pool_id");
    out_.pair(0, segment.pool);
    flag("is_expandable", segment.expandable);
    write_frames(origin_at(own.segment_at, segment.address));
    out_.text("blocks");
    out_.begin_list();
    for (const allocator::BlockView& block : segment.blocks) {
      const bool active = block.state != allocator::BlockState::inactive;
      out_.begin_dict();
      whole("address", block.address);
      whole("size", block.size);
      whole("requested_size", block.requested);
      text("state", text_of(block.state));
      write_frames(active ? origin_at(own.allocated_at, block.address) : Origin{});
      out_.end_dict();
    }
    out_.end_list();
    out_.end_dict();
  }

  void write_traces() {
    out_.text("device_traces");
    out_.begin_list();
    for (const Class& own : snapshot_.classes_) {
      out_.begin_list();
      for (const Entry& entry : own.entries) write_entry(entry);
      out_.end_list();
    }
    out_.end_list();
  }

  void write_entry(const Entry& entry) {
    out_.begin_dict();
    text("action", name(entry.event.action));
    whole(entry.event.action == Action::oom ? "device_free" : "addr", entry.event.address);
    whole("size", entry.event.size);
    whole("stream", entry.event.stream);
    whole("time_us", entry.time_us);
    text("compile_context", "N/A");
    text("user_metadata", "");
    write_frames(entry.origin);
    out_.end_dict();
  }

  void write_settings() {
    const allocator::Options& options = snapshot_.options_;
    out_.begin_dict();
    text("PYTORCH_CUDA_ALLOC_CONF", options.text);
    whole("max_split_size",
          options.max_split_size == allocator::unlimited ? -1 : options.max_split_size);
    out_.text("garbage_collection_threshold");
    out_.real(options.garbage_collection_threshold);
    flag("expandable_segments", options.expandable_segments);
    whole("pinned_num_register_threads", options.pinned_num_register_threads);
    flag("release_lock_on_cudamalloc", options.release_lock_on_cudamalloc);
    flag("pinned_use_cuda_host_register", options.pinned_use_cuda_host_register);
    flag("graph_capture_record_stream_reuse", options.graph_capture_record_stream_reuse);
    out_.text("roundup_power2_divisions");
    out_.begin_dict();
    std::int64_t size = 1;
    for (const int divisions : options.roundup_divisions) {
      whole(std::to_string(size).c_str(), divisions);
      size *= 2;
    }
    out_.end_dict();
    out_.end_dict();
  }

  // Equal frames are one object of the pickle, as in Python.
  void write_frames(const Origin& origin) {
    out_.text("frames");
    const auto [known, added] = remembered_.try_emplace(origin);
    if (!added) return out_.recall(known->second);
    write_new_frames(origin);
    known->second = out_.remember();
  }

  // Frames from the innermost, as in Python: tensor, block, layer, pass, step.
  void write_new_frames(const Origin& origin) {
    const std::string& label = snapshot_.texts_[origin.label];
    const std::string& block = snapshot_.texts_[origin.block];
    out_.begin_list();
    if (origin.known) {
      const int layer = std::max(0, origin.layer);
      if (!label.empty()) write_frame(label, block, layer);
      if (label.empty() && !block.empty()) write_frame(block, "free", layer);
      if (origin.layer >= 0) write_frame(fmt::format("layer {}", origin.layer), "model", layer);
      if (origin.step > 0) {
        const std::string pass{program::name(origin.pass)};
        write_frame(origin.microbatch >= 0
                        ? fmt::format("{} of microbatch {}", pass, origin.microbatch)
                        : pass,
                    "schedule", std::max(0, origin.microbatch));
      }
      write_frame(origin.step == 0 ? "set-up" : fmt::format("step {}", origin.step), "training",
                  origin.step);
    }
    out_.end_list();
  }

  void write_frame(std::string_view name, std::string_view filename, int line) {
    out_.begin_dict();
    text("name", name);
    text("filename", filename);
    whole("line", line);
    out_.end_dict();
  }

  const MemorySnapshot& snapshot_;
  PickleWriter out_;
  std::map<Origin, std::int64_t> remembered_;  // numbers in the pickle's memo
};

std::string MemorySnapshot::pickle() const {
  return Dump(*this).pickle();
}

}  // namespace sim::output
