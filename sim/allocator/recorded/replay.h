// replay.h — replays an allocator trace, a text file of commands, and prints each action.
//
// `rehearse memory` calls it; tests compare its output with that of PyTorch's allocator.
//
// Line 1 is "# capacity=BYTES conf=PYTORCH_CUDA_ALLOC_CONF|-". Other lines that start with # are
// notes. Each line has one command. Streams are numbers; 0 is the default stream.
//
//     a ID SIZE [STREAM]   allocate (0 bytes: a null pointer)    e          empty_cache
//     f ID                 free                                  m F        memory fraction
//     r ID STREAM          record_stream                         x BYTES    bytes used outside
//     s STREAM|*           the stream(s) finish their work       c CONF     change options
//     pb P, pe P, pr P     begin, end, release private pool P    k, d       reset peaks, dump
//
// parse_trace finds every error of a trace before anything runs. The output has one line for each
// trace action (T), command (E) and dumped segment (S), then the peaks (P) and the final segments.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/allocator/recorded/peak_state.h"
#include "sim/base/result.h"

namespace sim::allocator {

// One command of a trace. `kind` decides which of the other fields have a meaning.
struct TraceCommand {
  enum class Kind : std::uint8_t {
    allocate,
    free,
    record_stream,
    complete_stream,
    complete_all,
    empty_cache,
    memory_fraction,
    outside_use,
    change_options,
    begin_pool,
    end_pool,
    release_pool,
    reset_peaks,
    dump,
  };
  Kind kind = Kind::dump;
  int name = 0;            // allocate, free, record_stream: number of the ID, from 0
  int number = 0;          // stream or pool
  std::int64_t bytes = 0;  // allocate, outside_use
  double fraction = 0.0;
  int options = 0;  // change_options: index into Trace::changes
  std::string text;
};

// A parsed trace.
struct Trace {
  std::string header;
  std::int64_t capacity = 0;
  Options options;
  std::vector<Options> changes;
  std::vector<TraceCommand> commands;
  int names = 0;
};

// Parses a trace. Diagnostics start with "name:line:column".
Result<Trace> parse_trace(std::string_view text, std::string_view name, Rules rules);

// Counts of a replay.
struct ReplaySummary {
  std::int64_t commands = 0;
  std::int64_t allocations = 0;
  std::int64_t out_of_memory = 0;
  Statistics statistics;
  PeakState at_peak;
};

using LineSink = std::function<void(std::string_view line)>;

// Replays a trace. `sink` gets each output line without its newline; it may be empty.
ReplaySummary replay_trace(const Trace& trace, Rules rules, const LineSink& sink);

}  // namespace sim::allocator
