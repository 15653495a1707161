// trace_events.h — the events of a Chrome trace (JSON), as PyTorch's profiler writes them.
//
// The reader streams: memory holds only events of known kinds, and each text once. It accepts what
// profilers write: NaN and Infinity, control characters in names, invalid UTF-8, and an array
// instead of an object. The number of events, the nesting and the length of a value are bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/calibrate/readers/measurement.h"
#include "sim/calibrate/readers/packed_bytes.h"

namespace sim::calibrate {

enum class EventKind : std::uint8_t {
  operation,  // of the framework, on the CPU
  call,       // of the CUDA runtime or driver
  kernel,
  copy,        // memcpy or memset on the GPU
  annotation,  // by the training program, on the CPU: "ProfilerStep#5"
};

// The arguments of events that are stored.
enum class Argument : std::uint8_t {
  input_dims,
  input_types,
  concrete_inputs,
  collective,  // "Collective name"
  in_elements,
  out_elements,
  group_size,
  group_name,  // of the process group
  group_ranks,
  dtype,
  count_,
};

struct TraceEvent {
  EventKind kind = EventKind::operation;
  std::string_view name, thread;
  double start_us = 0, duration_us = 0;
  std::int64_t external = -1;     // "External id": the same for an operation and its kernels
  std::int64_t correlation = -1;  // the same for a call and its kernel
  int stream = -1;
  std::uint32_t first_argument = 0;  // index in TraceFile::arguments
  std::uint8_t arguments = 0;
};

// A pool of texts, each stored once at a fixed address.
class Texts {
 public:
  std::string_view keep(std::string_view text);
  std::size_t bytes() const { return bytes_; }

 private:
  std::set<std::string, std::less<>> texts_;
  std::size_t bytes_ = 0;
};

struct TraceFile {
  std::vector<TraceEvent> events;  // complete events (phase X), in file order
  std::vector<std::pair<Argument, std::string_view>> arguments;  // lists are JSON text
  std::map<std::string, std::string, std::less<>>
      top;  // other top-level members, as JSON text: "distributedInfo"
  std::shared_ptr<Texts> texts = std::make_shared<Texts>();
  bool end_to_end = false;  // the source has durations only; events follow each other

  std::string_view argument(const TraceEvent& event, Argument which) const;  // "" if absent
  // Adds an argument to the last event of the file.
  void add_argument(Argument which, std::string_view text);
};

// Bytes of an element of PyTorch's types "BFloat16", "c10::Half", "long int"; 4 for unknown names.
std::int64_t bytes_of_type(std::string_view type);

// Measurements from the events of a profiler (kineto.cpp).
Measurements measurements_of(const TraceFile& file, const std::string& path);

Result<TraceFile> read_trace_events(ByteSource& bytes, const std::string& path);
Result<TraceFile> read_trace_events(std::string_view bytes, const std::string& path);
// The same for an SQLite export of Nsight Systems.
Result<TraceFile> read_nsight_events(std::string_view bytes, const std::string& path);
// The same for the GPU events of a Chakra trace, in protobuf or JSON.
Result<TraceFile> read_chakra_events(std::string_view bytes, const std::string& path);
// Reads a file in any of these formats, compressed or not. Other formats are errors.
Result<TraceFile> read_trace_file(const std::string& path);

}  // namespace sim::calibrate
