// chrome_trace.h — writes a replay as a trace in Chrome's JSON format, for tools that read no
// protobuf: chrome://tracing, HTA, scripts. ui.perfetto.dev opens it, too. Each rank class is a
// process, each stream a thread; memory by category is a counter.
//
// `run --trace FILE.json` calls it; other names get perfetto.h, whose files are smaller.
//
// Invariant: times are microseconds with three decimals (nanoseconds, rounded down).
//
// Format: "Trace Event Format", github.com/catapult-project/catapult, docs of tracing.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/output/perfetto/trace_file.h"

namespace sim::output {

class ChromeTrace : public TraceFile {
 public:
  using TraceFile::TraceFile;

  std::string open(const std::string& path) override;
  std::string close() override;

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation& place, Time start, Time waited_until,
                 Time end) override;
  void memory(const engine::MemoryChange& change) override;

 private:
  struct Process {
    std::array<bool, program::stream_count> named{};  // threads
    std::array<std::int64_t, program::category_count> held{};
  };
  void event(const std::string& text);  // members of a JSON object

  std::vector<Process> processes_;
  bool first_ = true;
};

}  // namespace sim::output
