// outputs.h — the files that this process will write, so that it never overwrites its own input.
//
// Commands declare their output files first. The reader of input files (input/text/file.cpp) then
// asks for every file it opens. Files are compared by device and inode, not by path.
#pragma once

#include <string>

struct stat;

namespace sim {

// Declares a file that will be written, and the command-line option that names it. A file that does
// not exist yet, a device and a pipe are ignored: writing loses nothing there.
void declare_output(const std::string& path, const std::string& option);

// The option that would overwrite the file that is open for reading; "" if there is none.
std::string output_option(const struct stat& file);

}  // namespace sim
