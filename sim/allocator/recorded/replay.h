// replay.h — replays an allocator trace, a text file of commands, and prints what the allocator
// did.
//
// Line 1 is "# capacity=BYTES conf=PYTORCH_CUDA_ALLOC_CONF|-"; other lines that start with # are
// notes. One command a line; streams are numbers, 0 the default one:
//
//     a ID SIZE [STREAM]   allocate (0 bytes: a null pointer)    e          empty_cache
//     f ID                 free                                  m F        memory fraction
//     r ID STREAM          record_stream                         x BYTES    bytes used outside
//     s STREAM|*           the stream(s) finish their work       c CONF     change options
//     pb P, pe P, pr P     begin, end, release private pool P    k, d       reset peaks, dump
//
// Every problem of a trace is found before anything runs. The output has one line per trace action
// (T), command (E) and dumped segment (S), then the peaks (P) and the final segments.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/allocator/allocator.h"
#include "sim/base/result.h"

namespace sim::allocator {

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
  int name = 0;            // allocate, free, record_stream: which ID, counted from 0
  int number = 0;          // stream or pool
  std::int64_t bytes = 0;  // allocate, outside_use
  double fraction = 0.0;
  int options = 0;  // change_options: index into Trace::changes
  std::string text;
};

struct Trace {
  std::string header;
  std::int64_t capacity = 0;
  Options options;
  std::vector<Options> changes;
  std::vector<TraceCommand> commands;
  int names = 0;
};

// `name` opens the diagnostics, as "name:line:column".
Result<Trace> parse_trace(std::string_view text, std::string_view name, Rules rules);

struct ReplaySummary {
  std::int64_t commands = 0;
  std::int64_t allocations = 0;
  std::int64_t out_of_memory = 0;
  Statistics statistics;
};

using LineSink = std::function<void(std::string_view line)>;

// `sink` gets each output line without its newline; it may be empty.
ReplaySummary replay_trace(const Trace& trace, Rules rules, const LineSink& sink);

}  // namespace sim::allocator
