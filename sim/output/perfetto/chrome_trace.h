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

#include "sim/engine/observer.h"
#include "sim/output/output.h"

namespace sim::output {

class ChromeTrace : public engine::Observer {
 public:
  // One name per rank class: "stage 0 (32 ranks)".
  explicit ChromeTrace(std::vector<std::string> classes) : classes_(std::move(classes)) {}

  std::string open(const std::string& path);  // returns "" or the error
  std::string close();

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation& place, Time start, Time waited_until,
                 Time end) override;
  void messages(int rank_class, std::span<const engine::MessageEnd> ends) override;
  void memory(const engine::MemoryChange& change) override;

 private:
  struct Process {
    std::array<bool, program::stream_count> named{};  // threads
    std::array<std::int64_t, program::category_count> held{};
  };
  void event(const std::string& text);  // members of a JSON object

  std::vector<std::string> classes_;
  std::vector<Process> processes_;
  std::vector<engine::MessageEnd> ends_;  // of the next operation
  bool first_ = true;
  Stream file_;
};

}  // namespace sim::output
