#include "sim/allocator/recorded/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "sim/allocator/recorded/pickle.h"

namespace sim::allocator {
namespace {

constexpr std::size_t most_errors = 20;
constexpr std::size_t most_keys = 128;  // of any dict that is read
constexpr std::size_t most_devices = 256;
constexpr std::size_t bytes_per_entry = 16;  // least pickle bytes of a block or entry
constexpr std::size_t most_entries = 30'000'000;
constexpr std::int64_t largest_address = std::int64_t{1} << 60;

class Reader {
 public:
  Reader(const Pickle& pickle, std::string_view name, std::size_t input_bytes)
      : pickle_(pickle),
        name_(name),
        budget_(std::min(input_bytes / bytes_per_entry, most_entries)) {}

  Result<Snapshot> read() {
    const PickleId root = pickle_.root();
    if (!is_dict(root, "the snapshot")) return errors_;
    settings(root);
    traces(root);
    segments(root);
    if (!errors_.empty()) return errors_;
    return std::move(snapshot_);
  }

 private:
  bool fail(const std::string& path, const std::string& message) {
    if (errors_.size() < most_errors) {
      errors_.push_back({std::string(name_) + ":" + path, message});
    }
    return false;
  }

  // The length of the input limits the number of entries and blocks. An input that refers to one
  // value a million times exceeds that limit.
  bool spend(const std::string& path) {
    if (budget_ > 0) return --budget_, true;
    return fail(path, "more entries than its bytes can describe");
  }

  bool is_dict(PickleId id, const std::string& path) {
    if (id == no_value) return fail(path, "is missing");
    if (pickle_.kind(id) != PickleKind::dict) {
      return fail(path, std::string("must be a dict, not ") + name(pickle_.kind(id)));
    }
    if (pickle_.pairs(id).size() > 2 * most_keys) return fail(path, "has more than 128 keys");
    return true;
  }

  const std::vector<PickleId>* list(PickleId dict, const char* key, const std::string& path) {
    const PickleId id = pickle_.find(dict, key);
    const std::string here = path.empty() ? key : path + "." + key;
    if (id == no_value) return fail(here, "is missing"), nullptr;
    return list_at(id, here);
  }

  const std::vector<PickleId>* list_at(PickleId id, const std::string& path) {
    if (pickle_.kind(id) == PickleKind::list) return &pickle_.items(id);
    fail(path, std::string("must be a list, not ") + name(pickle_.kind(id)));
    return nullptr;
  }

  bool integer(PickleId dict, const char* key, const std::string& path, std::int64_t low,
               std::int64_t high, std::int64_t& out) {
    const PickleId id = pickle_.find(dict, key);
    if (id == no_value) return fail(path + "." + key, "is missing");
    if (pickle_.kind(id) != PickleKind::integer) {
      return fail(path + "." + key, std::string("must be an int, not ") + name(pickle_.kind(id)));
    }
    out = pickle_.integer(id);
    if (out >= low && out <= high) return true;
    return fail(path + "." + key, fmt::format("{} is not from {} to {}", out, low, high));
  }

  bool size(PickleId dict, const char* key, const std::string& path, std::int64_t& out) {
    return integer(dict, key, path, 0, largest_request, out);
  }

  bool address(PickleId dict, const char* key, const std::string& path, std::int64_t& out) {
    return integer(dict, key, path, 0, largest_address, out);
  }

  bool stream(PickleId dict, const std::string& path, std::int64_t& out) {
    return integer(dict, "stream", path, INT64_MIN, INT64_MAX, out);
  }

  std::string_view text(PickleId dict, const char* key) const {
    const PickleId id = pickle_.find(dict, key);
    return id != no_value && pickle_.kind(id) == PickleKind::text ? pickle_.text(id)
                                                                  : std::string_view();
  }

  // The value of a bool or int key; false if the key is absent.
  bool truth(PickleId dict, const char* key) const {
    const PickleId id = pickle_.find(dict, key);
    if (id == no_value) return false;
    const PickleKind kind = pickle_.kind(id);
    return (kind == PickleKind::boolean || kind == PickleKind::integer) && pickle_.integer(id) != 0;
  }

  // The options of the recorded process. The values win over the text, which may be older or may
  // name options of another PyTorch version. A wrong choice shows as a difference in the replay.
  void settings(PickleId root) {
    const PickleId id = pickle_.find(root, "allocator_settings");
    if (id == no_value) return;
    const std::string path = "allocator_settings";
    if (!is_dict(id, path)) return;
    Options& options = snapshot_.options;
    auto parsed = parse_options(text(id, "PYTORCH_CUDA_ALLOC_CONF"));
    if (parsed) options = *parsed;
    if (pickle_.find(id, "expandable_segments") != no_value) {
      options.expandable_segments = truth(id, "expandable_segments");
    }
    std::int64_t split = -1;
    if (pickle_.find(id, "max_split_size") != no_value &&
        integer(id, "max_split_size", path, -1, INT64_MAX, split)) {
      options.max_split_size = split > 0 ? split : unlimited;
    }
    divisions(id);
  }

  void divisions(PickleId settings) {
    const PickleId table = pickle_.find(settings, "roundup_power2_divisions");
    if (table == no_value) return;
    const std::string path = "allocator_settings.roundup_power2_divisions";
    if (!is_dict(table, path)) return;
    for (std::size_t i = 0; i < snapshot_.options.roundup_divisions.size(); ++i) {
      const std::string key = std::to_string(std::int64_t{1} << i);
      if (pickle_.find(table, key) == no_value) continue;
      std::int64_t value = 0;
      if (!integer(table, key.c_str(), path, 0, 1 << 20, value)) continue;
      if ((value & (value - 1)) != 0) {
        fail(path + "." + key, fmt::format("{} is not a power of two", value));
        continue;
      }
      snapshot_.options.roundup_divisions[i] = static_cast<int>(value);
    }
  }

  void traces(PickleId root) {
    const auto* const devices = list(root, "device_traces", "");
    if (devices == nullptr) return;
    if (devices->size() > most_devices) {
      fail("device_traces", "has more than 256 devices");
      return;
    }
    snapshot_.devices.resize(devices->size());
    for (std::size_t d = 0; d < devices->size(); ++d) {
      const std::string path = fmt::format("device_traces[{}]", d);
      const auto* const entries = list_at((*devices)[d], path);
      if (entries == nullptr) continue;
      for (std::size_t i = 0; i < entries->size() && errors_.size() < most_errors; ++i) {
        const std::string here = fmt::format("{}[{}]", path, i);
        if (!spend(here)) return;
        entry((*entries)[i], here, snapshot_.devices[d].entries);
      }
    }
  }

  void entry(PickleId id, const std::string& path, std::vector<SnapshotEntry>& out) {
    if (!is_dict(id, path)) return;
    const std::string_view action = text(id, "action");
    // These entries mark a point in time and change no memory.
    if (action == "snapshot" || action == "user_defined" || action == "workspace_snapshot") return;
    SnapshotEntry made;
    bool known = false;
    for (const Action candidate :
         {Action::alloc, Action::free_requested, Action::free_completed, Action::segment_alloc,
          Action::segment_free, Action::segment_map, Action::segment_unmap, Action::oom}) {
      if (action != name(candidate)) continue;
      made.action = candidate;
      known = true;
    }
    if (!known) {
      fail(path + ".action", "is not an action of a memory history");
      return;
    }
    const bool placed = made.action == Action::oom ? size(id, "device_free", path, made.address)
                                                   : address(id, "addr", path, made.address);
    const bool sized = size(id, "size", path, made.size);
    const bool streamed = stream(id, path, made.stream);
    if (placed && sized && streamed) out.push_back(made);
  }

  void segments(PickleId root) {
    const auto* const all = list(root, "segments", "");
    if (all == nullptr) return;
    for (std::size_t i = 0; i < all->size() && errors_.size() < most_errors; ++i) {
      const std::string path = fmt::format("segments[{}]", i);
      if (!spend(path)) return;
      segment((*all)[i], path);
    }
    for (std::size_t d = 0; d < snapshot_.devices.size(); ++d) {
      auto& own = snapshot_.devices[d].segments;
      std::sort(own.begin(), own.end(),
                [](const auto& a, const auto& b) { return a.address < b.address; });
      for (std::size_t i = 1; i < own.size(); ++i) {
        if (own[i - 1].address + own[i - 1].total <= own[i].address) continue;
        fail("segments", fmt::format("two segments overlap at address {}", own[i].address));
      }
    }
  }

  void segment(PickleId id, const std::string& path) {
    if (!is_dict(id, path)) return;
    SnapshotSegment made;
    std::int64_t device = 0;
    bool good = integer(id, "device", path, 0, most_devices - 1, device);
    good &= address(id, "address", path, made.address);
    good &= size(id, "total_size", path, made.total);
    good &= stream(id, path, made.stream);
    const std::string_view type = text(id, "segment_type");
    if (type != "small" && type != "large") {
      good = fail(path + ".segment_type", "must be small or large");
    }
    made.small = type == "small";
    made.expandable = truth(id, "is_expandable");
    good &= pool(id, path, made);
    good &= blocks(id, path, made);
    if (!good) return;
    if (static_cast<std::size_t>(device) >= snapshot_.devices.size()) {
      snapshot_.devices.resize(static_cast<std::size_t>(device) + 1);
    }
    snapshot_.devices[static_cast<std::size_t>(device)].segments.push_back(std::move(made));
  }

  bool pool(PickleId id, const std::string& path, SnapshotSegment& out) {
    const PickleId pool = pickle_.find(id, "segment_pool_id");
    if (pool == no_value) return true;
    const PickleKind kind = pickle_.kind(pool);
    const bool pair =
        (kind == PickleKind::tuple || kind == PickleKind::list) && pickle_.items(pool).size() == 2;
    if (!pair || pickle_.kind(pickle_.items(pool)[0]) != PickleKind::integer ||
        pickle_.kind(pickle_.items(pool)[1]) != PickleKind::integer) {
      return fail(path + ".segment_pool_id", "must be two ints");
    }
    out.pool_first = pickle_.integer(pickle_.items(pool)[0]);
    out.pool_second = pickle_.integer(pickle_.items(pool)[1]);
    return true;
  }

  bool blocks(PickleId id, const std::string& path, SnapshotSegment& out) {
    const auto* const all = list(id, "blocks", path);
    if (all == nullptr) return false;
    std::int64_t next = out.address;
    for (std::size_t i = 0; i < all->size(); ++i) {
      const std::string here = fmt::format("{}.blocks[{}]", path, i);
      SnapshotBlock made;
      if (!spend(here) || !block((*all)[i], here, made)) return false;
      // Older files leave the address out: blocks follow each other.
      const PickleId place = pickle_.find((*all)[i], "address");
      if (place != no_value && !address((*all)[i], "address", here, made.address)) return false;
      if (place == no_value) made.address = next;
      if (made.address != next) {
        return fail(here + ".address", fmt::format("{} leaves a hole or overlaps; {} is expected",
                                                   made.address, next));
      }
      next += made.size;
      if (next - out.address > out.total) break;
      out.blocks.push_back(made);
    }
    if (next - out.address == out.total && out.total > 0) return true;
    return fail(path + ".blocks", fmt::format("add up to {} bytes, not to total_size {}",
                                              next - out.address, out.total));
  }

  bool block(PickleId id, const std::string& path, SnapshotBlock& out) {
    if (!is_dict(id, path)) return false;
    if (!integer(id, "size", path, 1, largest_request, out.size)) return false;
    const std::string_view state = text(id, "state");
    if (state == "active_allocated") {
      out.state = BlockState::active_allocated;
    } else if (state == "active_pending_free" || state == "active_awaiting_free") {
      out.state = BlockState::active_pending_free;
    } else if (state == "inactive") {
      out.state = BlockState::inactive;
    } else {
      return fail(path + ".state", "is not a block state");
    }
    if (pickle_.find(id, "requested_size") == no_value) {
      out.requested = out.size;  // not recorded in the oldest files
      return true;
    }
    return size(id, "requested_size", path, out.requested);
  }

  const Pickle& pickle_;
  std::string_view name_;
  std::size_t budget_;
  Snapshot snapshot_;
  Diagnostics errors_;
};

}  // namespace

Result<Snapshot> read_snapshot(std::string_view bytes, std::string_view name) {
  const auto pickle = read_pickle(bytes, name);
  if (!pickle) return pickle.errors();
  return Reader(*pickle, name, bytes.size()).read();
}

}  // namespace sim::allocator
