#include "sim/base/machine_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace sim {

bool is_machine_error(int error) {
  constexpr std::array all = {EIO,    ENOMEM, EMFILE,    ENFILE, EAGAIN,
                              ESTALE, ENOSPC, ETIMEDOUT, EDQUOT, EROFS};
  return std::ranges::find(all, error) != all.end();
}

void throw_machine_error(int error, const std::string& file) {
  if (is_machine_error(error)) throw std::system_error(error, std::generic_category(), file);
}

bool file_exists(const std::string& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  throw_machine_error(error.value(), path);
  return there;
}

}  // namespace sim
