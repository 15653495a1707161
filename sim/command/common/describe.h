// describe.h — what a command accepts, as data: the one source of its parser, its --help, its man
// page and the completion of shells.
#pragma once

#include <string>
#include <vector>

#include "sim/command/common/command.h"

namespace sim::command {

// Asks the command for its options without running it.
Description describe(const Command& command);

// Manual pages (man(7)): of the program, and of one command.
std::string man_page();
std::string man_page(const Command& command);

struct Shell {
  const char* name;     // "bash"
  const char* install;  // one line: where the text goes
  std::string (*completion)();
};
const std::vector<Shell>& shells();

}  // namespace sim::command
