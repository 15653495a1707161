// recording.cpp — recovers the start of a recorded history from its end.
#include "sim/allocator/recorded/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/allocator/free_blocks/free_entry.h"

namespace sim::allocator {
namespace {

class Recoverer {
 public:
  Recoverer(const DeviceSnapshot& device, const Options& options, std::string_view name)
      : device_(device), name_(name) {
    recording_.options = options;
  }

  Result<Recording> run() {
    recording_.events = device_.entries;
    recording_.end = device_.segments;
    load_end();
    for (std::size_t i = device_.entries.size(); i > 0 && errors_.empty(); --i) {
      undo(device_.entries[i - 1], i - 1);
    }
    if (!errors_.empty()) return errors_;
    narrow_sizes();
    finish();
    if (!errors_.empty()) return errors_;
    return std::move(recording_);
  }

 private:
  struct Live {
    std::int64_t size = 0;  // 0: unknown, since the block was freed during the recording
    std::int64_t requested = 0;
    bool pending = false;
  };

  struct Mapped {
    std::int64_t size = 0;
    std::int64_t stream = 0;
    int pool = 0;
    bool small = false;
    bool expandable = false;
  };

  void fail(std::size_t entry, const std::string& message) {
    errors_.push_back({fmt::format("{}:entry {}", name_, entry), message});
  }

  // A snapshot has no order of private pools: they are numbered in the order of appearance.
  int pool_number(const SnapshotSegment& segment) {
    const std::pair id(segment.pool_first, segment.pool_second);
    if (id == std::pair<std::int64_t, std::int64_t>(0, 0)) return 0;
    auto& pools = recording_.pools;
    return pools.try_emplace(id, static_cast<int>(pools.size()) + 1).first->second;
  }

  void load_end() {
    for (const SnapshotSegment& segment : device_.segments) {
      mapped_[segment.address] = {segment.total, segment.stream, pool_number(segment),
                                  segment.small, segment.expandable};
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state == BlockState::inactive) continue;
        live_[block.address] = {block.size, block.requested,
                                block.state == BlockState::active_pending_free};
      }
    }
  }

  void undo(const SnapshotEntry& entry, std::size_t index) {
    switch (entry.action) {
      case Action::alloc:
        return undo_alloc(entry, index);
      case Action::free_requested:
        return undo_free_requested(entry, index);
      case Action::free_completed:
        if (!live_.try_emplace(entry.address, Live{0, entry.size, true}).second) {
          fail(index, fmt::format("frees address {}, which is in use right after", entry.address));
        }
        return;
      case Action::segment_alloc:
        return take_memory(entry, index, /*whole=*/true);
      case Action::segment_map:
        return take_memory(entry, index, /*whole=*/false);
      case Action::segment_free:
        return give_memory(entry, index, /*expandable=*/false);
      case Action::segment_unmap:
        return give_memory(entry, index, /*expandable=*/true);
      case Action::oom:
        return;
    }
  }

  void undo_alloc(const SnapshotEntry& entry, std::size_t index) {
    const auto it = live_.find(entry.address);
    if (it == live_.end() || it->second.pending) {
      return fail(index, fmt::format("allocates address {}, but no block is in use there after it",
                                     entry.address));
    }
    live_.erase(it);
  }

  void undo_free_requested(const SnapshotEntry& entry, std::size_t index) {
    const auto it = live_.find(entry.address);
    if (it == live_.end() || !it->second.pending) {
      return fail(index,
                  fmt::format("frees address {}, which never returns to the cache", entry.address));
    }
    it->second.pending = false;
  }

  // Undoes segment_alloc and segment_map: removes the memory.
  void take_memory(const SnapshotEntry& entry, std::size_t index, bool whole) {
    auto it = mapped_.upper_bound(entry.address);
    const bool found = it != mapped_.begin() && entry.size > 0 &&
                       (--it, entry.address + entry.size <= it->first + it->second.size) &&
                       (!whole || (it->first == entry.address && it->second.size == entry.size));
    if (!found) {
      return fail(index, fmt::format("the {} bytes at {} are not one segment after it", entry.size,
                                     entry.address));
    }
    const auto used = live_.lower_bound(entry.address);
    if (used != live_.end() && used->first < entry.address + entry.size) {
      return fail(index,
                  fmt::format("memory at {} is in use before the driver gave it", used->first));
    }
    const auto [base, run] = *it;
    mapped_.erase(it);
    if (entry.address > base) keep(base, entry.address, run);
    if (base + run.size > entry.address + entry.size) {
      keep(entry.address + entry.size, base + run.size, run);
    }
  }

  void keep(std::int64_t begin, std::int64_t end, Mapped run) {
    run.size = end - begin;
    mapped_[begin] = run;
  }

  // Undoes segment_free and segment_unmap: adds the memory again.
  void give_memory(const SnapshotEntry& entry, std::size_t index, bool expandable) {
    const auto next = mapped_.lower_bound(entry.address);
    const bool overlaps = entry.size == 0 ||
                          (next != mapped_.end() && next->first < entry.address + entry.size) ||
                          (next != mapped_.begin() &&
                           std::prev(next)->first + std::prev(next)->second.size > entry.address);
    if (overlaps) {
      return fail(index, fmt::format("the {} bytes at {} are given back but still there after it",
                                     entry.size, entry.address));
    }
    Mapped run{entry.size, entry.stream, 0, entry.size == small_segment, expandable};
    if (expandable) {
      // Pages of 2 MiB belong to a small pool. The neighbouring ranges tell which pool.
      run.small = entry.size % recording_.options.large_segment != 0;
      for (const auto& [base, other] : mapped_) {
        if (!other.expandable || other.stream != entry.stream) continue;
        if (base + other.size == entry.address || base == entry.address + entry.size) {
          run.small = other.small;
          run.pool = other.pool;
        }
      }
    }
    mapped_[entry.address] = run;
    if (expandable) join(entry.address);
  }

  // Merges ranges of one expandable segment that touch.
  void join(std::int64_t address) {
    auto it = mapped_.find(address);
    const auto same = [](const Mapped& a, const Mapped& b) {
      return a.expandable && b.expandable && a.stream == b.stream && a.pool == b.pool &&
             a.small == b.small;
    };
    if (it != mapped_.begin()) {
      const auto left = std::prev(it);
      if (left->first + left->second.size == it->first && same(left->second, it->second)) {
        left->second.size += it->second.size;
        mapped_.erase(it);
        it = left;
      }
    }
    const auto right = std::next(it);
    if (right != mapped_.end() && it->first + it->second.size == right->first &&
        same(it->second, right->second)) {
      it->second.size += right->second.size;
      mapped_.erase(right);
    }
  }

  // For each block of unknown size: the lowest address allocated to its right during its lifetime.
  // The allocator uses a free block from its front, so the unknown block ended at that address.
  void narrow_sizes() {
    std::map<std::int64_t, std::int64_t> unknown;  // address -> lowest allocation to its right
    for (const auto& [address, live] : live_) {
      if (live.size == 0) unknown[address] = std::numeric_limits<std::int64_t>::max();
    }
    for (const SnapshotEntry& entry : device_.entries) {
      if (unknown.empty()) break;
      if (entry.action == Action::alloc) {
        auto it = unknown.upper_bound(entry.address);
        if (it == unknown.begin()) continue;
        --it;
        it->second = std::min(it->second, entry.address);
      } else if (entry.action == Action::free_completed) {
        const auto it = unknown.find(entry.address);
        if (it == unknown.end()) continue;
        behind_[it->first] = it->second;
        unknown.erase(it);
      }
    }
  }

  void finish() {
    for (const auto& [base, run] : mapped_) {
      if (base % size_unit != 0 || run.size % size_unit != 0) {
        return fail(0, fmt::format("the {} bytes at {} are not a multiple of {}", run.size, base,
                                   size_unit));
      }
      recording_.segments.push_back(
          {base, run.size, run.stream, run.pool, run.small, run.expandable});
    }
    for (auto it = live_.begin(); it != live_.end(); ++it) {
      const auto& [address, live] = *it;
      auto run = mapped_.upper_bound(address);
      if (run == mapped_.begin() || (--run, address >= run->first + run->second.size)) {
        return fail(0, fmt::format("the block at {} lies in no segment at the start", address));
      }
      std::int64_t end = run->first + run->second.size;
      const auto next = std::next(it);
      if (next != live_.end()) end = std::min(end, next->first);
      const std::int64_t size =
          live.size > 0 ? live.size : unsplit_size(address, live, run->second, end);
      if (live.requested <= 0 || live.requested > size || size > end - address) {
        return fail(0, fmt::format("the block at {} does not fit where it lies", address));
      }
      if (address % size_unit != 0 || size % size_unit != 0) {
        return fail(0, fmt::format("the block of {} bytes at {} is not a multiple of {}", size,
                                   address, size_unit));
      }
      recording_.blocks.push_back({address, size, live.requested, live.pending});
    }
  }

  // The size of a block whose request alone is known. `end` is the address of the next block in
  // use, or the end of the segment.
  std::int64_t unsplit_size(std::int64_t address, const Live& live, const Mapped& run,
                            std::int64_t end) const {
    const Options& options = recording_.options;
    if (live.requested <= 0) return 0;
    const std::int64_t rounded = round_size(live.requested, options);
    if (run.small || run.expandable) return rounded;
    const std::int64_t slack = rounded < options.max_split_size ? small_size
                               : options.max_non_split_rounding > 0
                                   ? options.max_non_split_rounding - 1
                                   : options.large_segment - 1;
    if (end - (address + rounded) <= slack) return end - address;
    const auto hint = behind_.find(address);
    if (hint == behind_.end() || hint->second > end) return rounded;
    return hint->second - (address + rounded) <= slack ? std::max(rounded, hint->second - address)
                                                       : rounded;
  }

  const DeviceSnapshot& device_;
  std::string name_;
  Recording recording_;
  std::map<std::int64_t, Live> live_;
  std::map<std::int64_t, Mapped> mapped_;
  std::map<std::int64_t, std::int64_t> behind_;
  Diagnostics errors_;
};

}  // namespace

Result<Recording> recover(const DeviceSnapshot& device, const Options& options,
                          std::string_view name) {
  return Recoverer(device, options, name).run();
}

}  // namespace sim::allocator
