// support.h — shared by the tests of this folder: files in a scratch folder, diagnostics as text.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/base/result.h"

namespace support {

// A scratch folder that is removed at the end of the test. Names resolve in this repository.
class Scratch {
 public:
  Scratch() {
    ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
    folder_ = "/tmp/rehearse-config-" + std::string(6, 'X');  // what mkdtemp replaces
    if (!::mkdtemp(folder_.data())) std::abort();
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::string folder_;
};

inline std::string in_repository(const std::string& path) {
  return std::string(REHEARSE_SOURCE_DIR) + "/" + path;
}

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "file:line:column: message", one per line, without the folder.
inline std::string text(const sim::Diagnostics& problems) {
  std::string all;
  for (const auto& problem : problems)
    all +=
        problem.where.substr(problem.where.find_last_of('/') + 1) + ": " + problem.message + '\n';
  return all;
}
template <class T>
std::string problems(const sim::Result<T>& result) {
  return result ? std::string() : text(result.errors());
}

inline bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

// The text with one occurrence of `from` replaced.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) std::abort();
  return text.replace(at, from.size(), to);
}

}  // namespace support
