// session.h — commands inside another program's process (the Python module), one after the other:
// what they say comes back as text, and clusters stay loaded with what was learnt of their
// networks.
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

// Has the allocator keep up to 256 MiB that one plan has freed for the next one, instead of giving
// it back to the system and asking for it again: a twentieth of the CPU time of many small plans.
void keep_freed_memory();

// What ends a command that threw, and was not meant to: memory or processes that the system does
// not give, or a bug.
Stop stop_of(const std::exception& error);

struct Reply {
  int code = 0;  // Exit
  Captured said;
};

// What a function says that may stop. One at a time in a process.
Reply listen(const std::function<int()>& function);

// What `rehearse COMMAND ARGUMENTS --json --quiet` would say.
Reply ask(const std::string& command, const Arguments& arguments);

// The clusters of this process, and what its intervals rest on; stops where it cannot be read.
answer::Sites& kept_sites();
const input::RunResiduals& kept_residuals();

// The points of a grid one after the other, as `rehearse sweep` answers them.
class SweepWalk {
 public:
  // `jobs`: processes at once; 1: this one, and none besides. Throws Stop.
  SweepWalk(const std::string& grid, const std::vector<std::string>& settings,
            const std::string& memory, int jobs);
  ~SweepWalk();

  std::size_t size() const;
  // The next record, a line of results.jsonl without its checksum; none behind the last, and where
  // `go_on`, asked often, said no.
  std::optional<std::string> next(const std::function<bool()>& go_on);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sim::command
