// confinement.h — what a worker of the server may reach: installed data, the program itself, the
// cache of network times and one scratch folder.
//
// Two locks, since one may be missing: input::confine_reads checks every path that our own code
// opens; Landlock, where the kernel has it (Linux 5.13), makes the kernel refuse any other file,
// also to libraries and helper programs [kernel documentation, userspace-api/landlock].
#pragma once

#include <string>
#include <vector>

namespace sim::command::web {

// Restricts this process and its children for the rest of their lives. `scratch`: the folder in
// which they may write; `folders`: others that they may read. Returns whether Landlock holds too.
bool confine(const std::string& scratch, const std::vector<std::string>& folders);

}  // namespace sim::command::web
