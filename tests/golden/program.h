// program.h — runs the real program like a user: a shell command in a scratch folder with links to
// the repository's data folders.
#pragma once

#include <string>

namespace golden {

struct Finished {
  int code = 0;  // exit code; 128 + signal when a signal ended it
  std::string out, err;
};

// Runs `command` with sh in a scratch folder; "./rehearse" and "rehearse" are the program under
// test.
Finished run(const std::string& command, const std::string& folder);

// An empty scratch folder with links to models, topologies, workloads and calibration.
std::string scratch(const std::string& name);

// A small grid of this folder, and a scratch folder with it.
inline const std::string grid = "grid.textproto";
std::string grid_scratch(const std::string& name);

std::string text_of(const std::string& path);
void write(const std::string& path, const std::string& text);

// Whether the Python module was built. Without it the test says so.
bool has_python(const std::string& folder);

}  // namespace golden
