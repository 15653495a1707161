#include "tests/golden/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace golden {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string scratch(const std::string& name) {
  const fs::path folder = fs::path(REHEARSE_BINARY_DIR) / "golden" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const char* data : {"models", "topologies", "workloads", "calibration", "results", "sim"}) {
    fs::create_directory_symlink(fs::path(REHEARSE_SOURCE_DIR) / data, folder / data);
  }
  fs::create_symlink(fs::path(REHEARSE_BINARY_DIR) / "rehearse", folder / "rehearse");
  // The build folder as `./rehearse` leaves it.
  fs::create_directories(folder / "build");
  fs::create_directory_symlink(REHEARSE_BINARY_DIR, folder / "build/release");
  return folder.string();
}

std::string grid_scratch(const std::string& name) {
  const std::string folder = scratch(name);
  fs::copy(fs::path(REHEARSE_SOURCE_DIR) / "tests/golden" / grid, folder);
  return folder;
}

Finished run(const std::string& command, const std::string& folder) {
  const std::string out = folder + "/.stdout";
  const std::string err = folder + "/.stderr";
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const std::string line =
      "cd '" + folder + "' && { " + command + "\n} >'" + out + "' 2>'" + err + "' </dev/null";
  const int status = std::system(line.c_str());
  Finished finished;
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = text_of(out);
  finished.err = text_of(err);
  fs::remove(out);
  fs::remove(err);
  return finished;
}

bool skipped_when_sanitized(std::string_view what) {
  if (sanitized) WARN("not tested: " << what << " is not possible with " << REHEARSE_SANITIZE);
  return sanitized;
}

bool has_python(const std::string& folder) {
  const std::string import = python + "-c 'import rehearse, numpy'";
  if (run(import, folder).code == 0) return true;
  // Debian's own Python, where another one precedes it in PATH.
  const char* path = std::getenv("PATH");
  ::setenv("PATH", (std::string("/usr/bin:") + (path != nullptr ? path : "")).c_str(), 1);
  if (run(import, folder).code == 0) return true;
  WARN("not tested here: the Python module needs pybind11-dev, python3-dev and python3-numpy");
  return false;
}

}  // namespace golden
