// confinement.h — limits the files that a worker of the server can open: installed data, the
// program itself, the cache of network times and one scratch folder.
//
// Two mechanisms, since a kernel may lack the second one. input::confine_reads checks every path
// that our own code opens. Landlock (Linux 5.13) makes the kernel refuse all other files, also to
// libraries and helper programs [kernel documentation, userspace-api/landlock].
#pragma once

#include <string>

namespace sim::command::web {

// Restricts this process and its children for the rest of their lives. `scratch`: the folder in
// which they may write. Returns whether Landlock is active too.
bool confine(const std::string& scratch);

}  // namespace sim::command::web
