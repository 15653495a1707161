// memory_snapshot.cpp — recognises CUDA memory snapshots. No fit uses them; `rehearse memory
// replay` tests the allocator with them.
#include <fmt/format.h>

#include "sim/allocator/recorded/snapshot.h"
#include "sim/base/text.h"
#include "sim/calibrate/readers/reader.h"

namespace sim::calibrate {

bool is_memory_snapshot(std::string_view bytes, const std::string&) {
  // Recognises a pickle of protocol 2 to 5 with the word "segments" near its beginning.
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 &&
         bytes.substr(0, 4096).find("segments") != std::string_view::npos;
}

Result<Measurements> read_memory_snapshot(std::string_view bytes, const std::string& path) {
  const Result<allocator::Snapshot> snapshot = allocator::read_snapshot(bytes, path);
  if (!snapshot) return snapshot.errors();
  Measurements out;
  for (std::size_t d = 0; d < snapshot->devices.size(); ++d) {
    const allocator::DeviceSnapshot& device = snapshot->devices[d];
    if (device.segments.empty() && device.entries.empty()) continue;
    Bytes reserved{}, allocated{};
    for (const allocator::SnapshotSegment& segment : device.segments) {
      reserved += Bytes{segment.total};
      for (const allocator::SnapshotBlock& block : segment.blocks)
        if (block.state != allocator::BlockState::inactive) allocated += Bytes{block.size};
    }
    out.facts.push_back(fmt::format(
        "device {}: {} reserved in {} segments, {} of it held, at the end of {} events", d,
        human(reserved), device.segments.size(), human(allocated), device.entries.size()));
  }
  out.facts.emplace_back("nothing to fit: `rehearse memory replay` compares the allocator with it");
  return out;
}

}  // namespace sim::calibrate
