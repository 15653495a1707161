// describe.h — the options of a command as data. Its parser, --help, man page and shell completion
// all use it.
#pragma once

#include <string>
#include <vector>

#include "sim/command/common/command.h"

namespace sim::command {

// Returns the options of a command without running it.
Description describe(const Command& command);

// Manual pages (man(7)): of the program, and of one command.
std::string man_page();
std::string man_page(const Command& command);

struct Shell {
  const char* name;     // "bash"
  const char* install;  // one line: where to install the text
  std::string (*completion)();
};
const std::vector<Shell>& shells();

}  // namespace sim::command
