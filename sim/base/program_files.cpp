#include "sim/base/program_files.h"

#include <sys/auxv.h>

#include <filesystem>
#include <system_error>

#include "sim/base/machine_error.h"

namespace sim {
namespace fs = std::filesystem;

namespace {
std::string said_folder;
}

void set_program_folder(const std::string& folder) {
  said_folder = folder;
}

std::string program_folder() {
  if (!said_folder.empty()) return said_folder;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program.parent_path().string();
  // /proc is not mounted: use the path by which the program was started.
  const auto* started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return started == nullptr ? "" : fs::canonical(started, error).parent_path().string();
}

std::string program_part(std::string_view name) {
  const fs::path own = program_folder();
  for (const fs::path& folder :
       {own, own.parent_path(), own.parent_path() / "libexec" / "rehearse"}) {
    if (file_exists((folder / name).string())) return (folder / name).string();
  }
  return (own / name).string();
}

}  // namespace sim
