#include "sim/input/text/confine.h"

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <optional>
#include <system_error>

#include "sim/base/machine_error.h"

namespace sim::input {
namespace fs = std::filesystem;
namespace {

std::optional<std::vector<fs::path>>& allowed() {
  static std::optional<std::vector<fs::path>> folders;
  return folders;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::ranges::mismatch(folder, path);
  return end == folder.end();
}

}  // namespace

void confine_reads(const std::vector<std::string>& folders) {
  std::vector<fs::path> all;
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path whole = fs::canonical(folder, error);
    throw_machine_error(error.value(), folder);
    if (!error) all.push_back(whole);  // a folder that is missing allows nothing
  }
  assert(!allowed() || *allowed() == all);
  allowed() = std::move(all);
}

bool may_read(const std::string& path) {
  if (!allowed()) return true;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  throw_machine_error(error.value(), path);
  if (error) return false;
  return std::ranges::any_of(*allowed(),
                             [&](const fs::path& folder) { return is_below(whole, folder); });
}

}  // namespace sim::input
