// confinement.h — limits the files that a worker of the server can open. Allowed are installed
// data, the program itself, the cache of network times, one scratch folder, and the folders that
// the server was started with.
//
// Two mechanisms, since a kernel may lack the second one. input::confine_reads checks every path
// that our own code opens. Landlock (Linux 5.13) makes the kernel refuse all other files, also to
// libraries and helper programs [kernel documentation, userspace-api/landlock].
#pragma once

#include <string>
#include <vector>

namespace sim::command::web {

// Restricts this process and its children for the rest of their lives. `scratch`: the folder in
// which they may write. `folders`: further folders that they may read. Returns whether Landlock is
// active too.
bool confine(const std::string& scratch, const std::vector<std::string>& folders);

}  // namespace sim::command::web
