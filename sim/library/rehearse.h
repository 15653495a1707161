// rehearse.h — the public C++ API: the program's commands inside your process.
//
//   find_package(rehearse REQUIRED)
//   target_link_libraries(mine PRIVATE rehearse::rehearse)
//
//   #include <rehearse/rehearse.h>
//   const rehearse::Reply reply = rehearse::ask("run", {"llama-2-7b-64", "tp=4"});
//
// Answers are the JSON documents of `rehearse COMMAND --json`; sim/formats.md describes their
// schemas, which keep their names and units. This header is the whole API: it has no types of
// the simulator.
//
// Invariants
//  (1) No function throws on bad input, prints, or ends the process.
//  (2) Calls run one at a time; a call from another thread waits for its turn. A process that was
//      forked during a call of another thread gets code 71.
#pragma once

#include <string>
#include <vector>

namespace rehearse {

struct Reply {
  // 0 yes, 2 no (out of memory), 64 usage, 65 bad input, 66 input missing, 70 our bug, 71 no memory
  // or processes, 74 I/O, 75 interrupted.
  int exit_code = 0;
  // {"schema": "rehearse/COMMAND/N", "version": ..., "result": ...}; in case of an error
  // "rehearse/error/1" with `problems`.
  std::string json;
  std::string messages;  // the notes and problems that the program would print to stderr
};

// Runs `rehearse COMMAND ARGUMENTS --json --quiet`. Clusters stay loaded between calls.
__attribute__((visibility("default"))) Reply ask(const std::string& command,
                                                 const std::vector<std::string>& arguments);

// Long calls ask this function often, from the thread of the call, and end with exit code 75 once
// it returns true. nullptr: never.
__attribute__((visibility("default"))) void interrupt_when(bool (*asked)());

}  // namespace rehearse
