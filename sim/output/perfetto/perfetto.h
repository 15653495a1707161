// perfetto.h — writes a replay as a Perfetto trace (TrackEvent protobuf): one process per rank
// class, one track per stream, counter tracks for memory by category. ui.perfetto.dev opens it.
//
// Invariants
//  (1) Slices of one track never overlap: a stream runs one operation at a time, and the replay
//      tells about them in order.
//  (2) Times are nanoseconds, rounded down, so neighbours stay neighbours.
//  (3) Each track is a packet sequence of its own and its packets are in order of time: readers
//      sort nothing. A name is written once in a sequence and meant by its number afterwards.
//  (4) A message is an arrow from the slice that sends it to the one that receives it: the former
//      has its number where it begins, the latter where it ends, which is never earlier.
//
// Format: perfetto.proto beside this file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/engine/observer.h"
#include "sim/output/output.h"

namespace sim::output {

class PerfettoTrace : public engine::Observer {
 public:
  // One name per rank class: "stage 0 (32 ranks)".
  explicit PerfettoTrace(std::vector<std::string> classes) : classes_(std::move(classes)) {}

  std::string open(const std::string& path);  // "" or what went wrong
  std::string close();

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const engine::Place& place, Time start, Time waited_until, Time end) override;
  void messages(int rank_class, std::span<const engine::MessageEnd> ends) override;
  void memory(const engine::MemoryChange& change) override;

 private:
  // What a rank class has shown so far: tracks are described when they are first used.
  struct Sequence {
    bool described = false;
    std::map<std::string, std::uint64_t, std::less<>> names, categories;
    bool annotations = false;  // their names are known
  };
  struct Tracks {
    std::array<Sequence, program::stream_count> stream;
    std::array<Sequence, program::category_count + 2> counter;
    std::array<std::int64_t, program::category_count> held{};
    std::int64_t reserved = -1;
  };

  void describe_class(int rank_class);
  void count(int rank_class, int counter, const std::string& name, Time when, std::int64_t value);

  std::vector<std::string> classes_;
  std::vector<Tracks> tracks_;
  std::vector<engine::MessageEnd> ends_;  // of the operation that comes next
  Stream file_;
};

}  // namespace sim::output
