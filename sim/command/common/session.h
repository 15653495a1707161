// session.h — runs commands inside another program's process (the Python module), one at a time.
// Output comes back as text. Clusters stay loaded, with cached results of their networks.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/command/common/command.h"

namespace sim::answer {
class Sites;
}
namespace sim::input {
struct RunResiduals;
}

namespace sim::command {

// Lets the allocator keep up to 256 MiB of freed memory for the next plan. Many small plans then
// need 5 % less CPU time.
void keep_freed_memory();

// The end of a command by an unexpected exception: missing memory or processes, or a bug.
Stop stop_of(const std::exception& error);

struct Reply {
  int code = 0;  // Exit
  Captured said;
};

// Runs a function that may stop and captures its output. Only one may run in a process.
Reply listen(const std::function<int()>& function);

// Runs `rehearse COMMAND ARGUMENTS --json --quiet`.
Reply ask(const std::string& command, const Arguments& arguments);

// The clusters and residuals of this process. Stops if the residuals cannot be read.
answer::Sites& kept_sites();
const input::RunResiduals& kept_residuals();

// Evaluates the points of a grid one after another, as `rehearse sweep` does.
class SweepWalk {
 public:
  // `peaks`: as `sweep --peaks`. `jobs`: the number of processes, by default the cores; 1: this one
  // alone. Throws Stop.
  SweepWalk(const std::string& grid, const std::vector<std::string>& settings,
            const std::string& memory, bool peaks, std::optional<std::int64_t> jobs);
  ~SweepWalk();

  std::size_t size() const;
  // The next record, a line of results.jsonl without its checksum. std::nullopt after the last one
  // or if `go_on`, called often, returns false.
  std::optional<std::string> next(const std::function<bool()>& go_on);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sim::command
