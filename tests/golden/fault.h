// fault.h — runs a command while one of its system calls goes wrong (tests/faults/interpose.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/golden/program.h"

namespace golden {

struct Fault {
  std::uint64_t call = 0;  // from 1, over all processes of the command; 0: no fault
  const char* way = "";    // a kind of interpose.cpp
};

// Runs `command` in `folder`. A command that hangs ends with 124 or 137.
Finished with_fault(const Fault& fault, const std::string& command, const std::string& folder);

// Every fault that a command can suffer, found by a run without one, which must end with 0 or 2.
std::vector<Fault> faults_of(const std::string& command, const std::string& folder);

bool kills(const Fault& fault);

// Why no command may end so after this fault: a hang, a signal, an exit code that is not documented
// or says that our program is wrong, no message. "" if it may. A kill may do anything.
std::string bad_ending(const Fault& fault, const Finished& finished);

// The first lines of a problem: the fault, what is wrong, the exit code, stderr.
std::string told(const Fault& fault, const std::string& problem, const Finished& finished);

}  // namespace golden
