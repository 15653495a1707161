// trace_events.h — the events of a Chrome trace (JSON), as PyTorch's profiler writes them.
//
// Streams: a trace of a gigabyte needs memory for its events only. Tolerates what profilers really
// write: NaN and Infinity, control characters in names, bytes that are no UTF-8, a bare array
// instead of an object. Bounded: events, nesting and the length of a value.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/measurement.h"
#include "sim/core/result.h"

namespace sim::calibrate {

struct TraceEvent {
  std::string phase, category, name;
  double start_us = 0, duration_us = 0;
  std::string thread;
  std::map<std::string, std::string, std::less<>> arguments;  // lists as JSON text

  std::string_view argument(std::string_view key) const;  // "" when absent
};

struct TraceFile {
  std::vector<TraceEvent> events;  // complete ones (phase X), in file order
  std::map<std::string, std::string, std::less<>>
      top;  // other members, as JSON text: "distributedInfo"
};

// What the events of a profiler say: kineto.cpp.
Measurements measurements_of(const TraceFile& file, const std::string& path);

Result<TraceFile> read_trace_events(std::string_view bytes, const std::string& path);

}  // namespace sim::calibrate
