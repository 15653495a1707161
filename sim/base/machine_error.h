// machine_error.h — failures of system calls that no input causes: no free descriptor, no memory,
// a disk that cannot be read. A reader must not take them for a missing or a wrong file, because
// the answer would then differ from one run to the next. They leave as std::system_error and end a
// command with 71 or 74.
#pragma once

#include <string>

namespace sim {

// False for errors of a name, such as ENOENT or EACCES.
bool is_machine_error(int error);

// Throws std::system_error ("FILE: Input/output error") if `error` is one of the machine.
void throw_machine_error(int error, const std::string& file);

// Whether a file or folder of this name can be found. Throws as above.
bool file_exists(const std::string& path);

}  // namespace sim
