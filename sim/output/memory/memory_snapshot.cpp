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
  const engine::Place& place = change.place;
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

const char* words(allocator::BlockState state) {
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

void write_settings(PickleWriter& out, const allocator::Options& options) {
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
        options.max_split_size == allocator::unlimited ? -1 : options.max_split_size);
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

// Frames from the innermost, as in Python: tensor, block, layer, pass, step.
void MemorySnapshot::write_frames(PickleWriter& out, const Origin& origin) const {
  const auto frame = [&](std::string_view name, std::string_view filename, int line) {
    out.begin_dict();
    out.text("name");
    out.text(name);
    out.text("filename");
    out.text(filename);
    out.text("line");
    out.integer(line);
    out.end_dict();
  };
  const std::string &label = texts_[origin.label], &block = texts_[origin.block];
  out.begin_list();
  if (origin.known) {
    const int layer = std::max(0, origin.layer);
    if (!label.empty()) frame(label, block, layer);
    if (label.empty() && !block.empty()) frame(block, "free", layer);
    if (origin.layer >= 0) frame(fmt::format("layer {}", origin.layer), "model", layer);
    if (origin.step > 0) {
      const std::string pass{program::name(origin.pass)};
      frame(origin.microbatch >= 0 ? fmt::format("{} of microbatch {}", pass, origin.microbatch)
                                   : pass,
            "schedule", std::max(0, origin.microbatch));
    }
    frame(origin.step == 0 ? "set-up" : fmt::format("step {}", origin.step), "training",
          origin.step);
  }
  out.end_list();
}

std::string MemorySnapshot::pickle() const {
  PickleWriter out;
  std::map<Origin, std::int64_t> remembered;
  const auto frames_of = [&](const Origin& origin) {
    out.text("frames");
    const auto [known, added] = remembered.try_emplace(origin);
    if (!added) return out.recall(known->second);
    write_frames(out, origin);
    known->second = out.remember();
  };
  const auto whole = [&](const char* key, std::int64_t value) {
    out.text(key);
    out.integer(value);
  };
  const auto origin_at = [](const std::map<std::int64_t, Origin>& known, std::int64_t address) {
    const auto found = known.find(address);
    return found == known.end() ? Origin{} : found->second;
  };

  out.begin_dict();
  out.text("segments");
  out.begin_list();
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const Class& own = classes_[c];
    for (const allocator::SegmentView& segment : own.segments) {
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
      frames_of(origin_at(own.segment_at, segment.address));
      out.text("blocks");
      out.begin_list();
      for (const allocator::BlockView& block : segment.blocks) {
        const bool active = block.state != allocator::BlockState::inactive;
        out.begin_dict();
        whole("address", block.address);
        whole("size", block.size);
        whole("requested_size", block.requested);
        out.text("state");
        out.text(words(block.state));
        frames_of(active ? origin_at(own.allocated_at, block.address) : Origin{});
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
      frames_of(entry.origin);
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

}  // namespace sim::output
