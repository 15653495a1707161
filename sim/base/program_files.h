// program_files.h — finds files that are installed with the program, such as its helper programs.
//
// The search starts at the folder of the running executable, never at the working folder.
#pragma once

#include <string>
#include <string_view>

namespace sim {

// The folder of the running executable; "" if the operating system cannot tell.
std::string program_folder();
// Sets that folder. The Python module calls it, since the executable is then the interpreter.
void set_program_folder(const std::string& folder);

// Path of a helper with this file name. It is searched in three folders, in this order:
//   the program's folder
//   its parent folder (test programs are built one level deeper)
//   ../libexec/rehearse (an installed program)
// Not found: the path in the first folder, for error messages.
std::string program_part(std::string_view name);

}  // namespace sim
