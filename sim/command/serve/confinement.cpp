#include "sim/command/serve/confinement.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/machine_error.h"
#include "sim/base/program_files.h"
#include "sim/cluster/network/cache.h"
#include "sim/input/text/confine.h"
#include "sim/input/text/locate.h"

namespace sim::command::web {

namespace {

constexpr std::uint64_t reading =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
// All that the first version of Landlock knows.
constexpr std::uint64_t everything = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1U) - 1;

// Allows `access` in a folder or for a file; one that is missing needs no rule. Throws where the
// machine cannot open it: a worker without its data would answer wrongly.
void allow(int rules, const std::string& path, std::uint64_t access) {
  int folder = -1;
  do folder = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  while (folder < 0 && errno == EINTR);
  if (folder < 0) return throw_machine_error(errno, path);
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  throw_machine_error(error.value(), path);
  if (!is_folder)
    rule.allowed_access &=
        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
  rule.parent_fd = folder;
  ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  ::close(folder);
}

bool restrict_kernel(const std::vector<std::string>& read,
                     const std::vector<std::string>& written) {
  landlock_ruleset_attr handled{};
  handled.handled_access_fs = everything;
  const auto rules =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
  if (rules < 0) return false;
  for (const std::string& path : read) allow(rules, path, reading);
  for (const std::string& path : written) allow(rules, path, everything);
  const bool held = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    ::syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  ::close(rules);
  return held;
}

}  // namespace

bool confine(const std::string& scratch, const std::vector<std::string>& folders) {
  const std::string root = input::repository_root();
  std::vector<std::string> data = {scratch};
  for (const char* folder : {"models", "topologies", "workloads", "calibration", "sim/schemas"})
    data.push_back(root + "/" + folder);
  data.insert(data.end(), folders.begin(), folders.end());
  input::confine_reads(data);
  std::error_code ignored;  // without the folder there is no cache
  const std::string cache = network::default_cache_folder();
  if (!cache.empty()) std::filesystem::create_directories(cache, ignored);
  std::vector<std::string> read = data;
  // The helper program with its libraries, and what they look up when they start.
  for (const std::string& path :
       {program_folder(), program_part("rehearse-network"), std::string("/usr"),
        std::string("/lib"), std::string("/lib64"), std::string("/etc/ld.so.cache"),
        std::string("/proc"), std::string("/sys/devices/system/cpu")})
    read.push_back(path);
  std::vector<std::string> written = {scratch, "/dev/null"};
  if (!cache.empty()) written.push_back(cache);
  return restrict_kernel(read, written);
}

}  // namespace sim::command::web
