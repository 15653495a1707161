// outputs.h — the files that this process is going to write, so that none of its inputs is among
// them: what reads inputs asks first.
#pragma once

#include <string>

struct stat;

namespace sim {

// A file that will be written, and the option that names it. A file that is not there yet, a
// device and a pipe have nothing to lose.
void declare_output(const std::string& path, const std::string& option);

// The option that would write over the open file; "" when none would.
std::string output_option(const struct stat& file);

}  // namespace sim
