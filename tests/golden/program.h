// program.h — runs the real program like a user: a shell command in a scratch folder with links to
// the repository's data folders.
#pragma once

#include <string>
#include <string_view>

namespace golden {

// Whether the program is built with a sanitizer (presets asan, tsan). All that tests do differently
// then stands here and in sim/extending.md: limits of memory and CPU time are wider, there is no
// limit of address space, and some tests are skipped.
inline const bool sanitized = !std::string_view(REHEARSE_SANITIZE).empty();
inline const double memory_factor = sanitized ? 4 : 1;
inline const double cpu_time_factor = sanitized ? 10 : 1;

// Whether the test must end at once because of the sanitizer. It then says "not tested: `what` is
// not possible", which ctest counts as skipped. `what` is one word.
bool skipped_when_sanitized(std::string_view what);

// Limits the address space of the shell commands that follow. A sanitizer reserves terabytes.
inline const std::string limit_address_space = sanitized ? "" : "ulimit -v 4000000; ";

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

// For `serve`: its workers limit their address space.
inline const std::string serve_options = sanitized ? "--memory-limit 64TiB " : "";

// Whether the Python module was built. Without it the test says so.
bool has_python(const std::string& folder);
// Runs Python with the module; a sanitizer's library must be loaded first.
inline const std::string python =
    (sanitized ? "ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD='" REHEARSE_PRELOAD "' " : std::string()) +
    "PYTHONPATH=build/release/python python3 ";

}  // namespace golden
