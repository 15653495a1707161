// trace_events.h — the events of a Chrome trace (JSON), as PyTorch's profiler writes them.
//
// Streams: memory holds the events that say something, each name and each argument once. Tolerates
// what profilers really write: NaN and Infinity, control characters in names, bytes that are no
// UTF-8, a bare array instead of an object. Bounded: events, nesting and the length of a value.
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
  annotation,  // of the program, on the CPU: "ProfilerStep#5"
};

// What of an event's arguments is kept.
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
  std::int64_t external = -1;     // "External id": of the operation, and of its kernels
  std::int64_t correlation = -1;  // of a call and the kernel that it launched
  int stream = -1;
  std::uint32_t first_argument = 0;  // in TraceFile::arguments
  std::uint8_t arguments = 0;
};

// Texts, each once; they stay where they are.
class Texts {
 public:
  std::string_view keep(std::string_view text);
  std::size_t bytes() const { return bytes_; }

 private:
  std::set<std::string, std::less<>> texts_;
  std::size_t bytes_ = 0;
};

struct TraceFile {
  std::vector<TraceEvent> events;  // complete ones (phase X), in file order
  std::vector<std::pair<Argument, std::string_view>> arguments;  // lists as JSON text
  std::map<std::string, std::string, std::less<>>
      top;  // other members, as JSON text: "distributedInfo"
  std::shared_ptr<Texts> texts = std::make_shared<Texts>();
  bool end_to_end = false;  // its source has no times but durations: one event behind the other

  std::string_view argument(const TraceEvent& event, Argument which) const;  // "" when absent
  // Adds an argument to the last event of the file.
  void add_argument(Argument which, std::string_view text);
};

// Of an element, by PyTorch's name of its type: "BFloat16", "c10::Half", "long int". 4 where the
// name says nothing.
std::int64_t bytes_of_type(std::string_view type);

// What the events of a profiler say: kineto.cpp.
Measurements measurements_of(const TraceFile& file, const std::string& path);

Result<TraceFile> read_trace_events(ByteSource& bytes, const std::string& path);
Result<TraceFile> read_trace_events(std::string_view bytes, const std::string& path);
// The same of an export of Nsight Systems.
Result<TraceFile> read_nsight_events(std::string_view bytes, const std::string& path);
// The same of a Chakra trace, in protobuf or JSON: what ran on the GPU.
Result<TraceFile> read_chakra_events(std::string_view bytes, const std::string& path);
// The file of any of these forms, packed or not; another is an error.
Result<TraceFile> read_trace_file(const std::string& path);

}  // namespace sim::calibrate
