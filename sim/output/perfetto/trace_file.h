// trace_file.h — a trace that is written while a replay runs. perfetto.h and chrome_trace.h are its
// formats; `run --trace` calls them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/observer.h"
#include "sim/output/output.h"

namespace sim::output {

class TraceFile : public engine::Observer {
 public:
  // One name per rank class: "stage 0 (32 ranks)".
  explicit TraceFile(std::vector<std::string> classes) : classes_(std::move(classes)) {}

  virtual std::string open(const std::string& path) = 0;  // returns "" or the error
  virtual std::string close() = 0;

  void messages(int, std::span<const engine::MessageEnd> ends) override {
    ends_.assign(ends.begin(), ends.end());
  }

 protected:
  std::vector<std::string> classes_;
  std::vector<engine::MessageEnd> ends_;  // of the next operation
  Stream file_;
};

}  // namespace sim::output
