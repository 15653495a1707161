// program_files.h — the files that belong to the program: its helpers, found from where it stands.
#pragma once

#include <string>
#include <string_view>

namespace sim {

// The folder of the running program; "" where the system does not say.
std::string program_folder();
// For a process that is another program's: where ours stands.
void set_program_folder(const std::string& folder);

// A helper by its file name: beside the program, in the folder above (tests stand below what they
// test), or installed under ../libexec/rehearse. Where none is, the first of these, for messages.
std::string program_part(std::string_view name);

}  // namespace sim
