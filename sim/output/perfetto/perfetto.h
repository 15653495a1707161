// perfetto.h — writes a replay as a Perfetto trace (TrackEvent protobuf), which ui.perfetto.dev
// opens. Each rank class is a process, each stream a track; memory by category has counter tracks.
//
// Invariants
// (1) Slices of one track never overlap: a stream runs one operation at a time, and the replay
//     reports them in order.
// (2) Times are nanoseconds, rounded down, so neighbours stay adjacent.
// (3) Each track is a packet sequence of its own with packets in order of time, so readers need not
//     sort. A name is written once per sequence and later referred to by its number.
// (4) A message is an arrow from the sending to the receiving slice. The sender has the message's
//     number at its begin, the receiver at its end, which is never earlier.
//
// Format: perfetto.proto in this folder.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/output/perfetto/trace_file.h"

namespace sim::output {

class PerfettoTrace : public TraceFile {
 public:
  using TraceFile::TraceFile;

  std::string open(const std::string& path) override;
  std::string close() override;

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation& place, Time start, Time waited_until,
                 Time end) override;
  void memory(const engine::MemoryChange& change) override;

 private:
  // State of a track. Tracks are described when they are first used.
  struct Sequence {
    bool described = false;
    std::map<std::string, std::uint64_t, std::less<>> names, categories;
    bool annotations = false;  // their names are written
  };
  struct Tracks {
    std::array<Sequence, program::stream_count> stream;
    std::array<Sequence, program::category_count + 2> counter;
    std::array<std::int64_t, program::category_count> held{};
    std::int64_t reserved = -1;
  };

  void describe_class(int rank_class);
  void count(int rank_class, int counter, const std::string& name, Time when, std::int64_t value);

  std::vector<Tracks> tracks_;
};

}  // namespace sim::output
