#include "sim/base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace sim {
namespace fs = std::filesystem;

namespace {

constexpr mode_t new_file = 0644;

// The name of a temporary file next to `target`. Long names are cut: a name has at most 255 bytes.
std::string temporary_name(const fs::path& target, int attempt) {
  constexpr std::size_t most = 200;
  const std::string own =
      "." + std::to_string(::getpid()) + (attempt == 0 ? "" : "-" + std::to_string(attempt));
  const std::string name = target.filename().string().substr(0, most) + own + ".new";
  return (target.parent_path() / name).string();
}

// Calls `make` with names for a temporary file next to `target` until one is not taken: a killed
// process may have left one. Returns the result of `make`; below 0 it failed.
template <class Make>
int with_free_name(const std::string& target, std::string& name, const Make& make) {
  constexpr int attempts = 100;
  int made = -1;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    name = temporary_name(target, attempt);
    made = make(name.c_str());
    if (made >= 0 || errno != EEXIST) break;
  }
  return made;
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string link_of(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

int sync(int descriptor) {
  while (::fsync(descriptor) != 0)
    if (errno != EINTR) return errno == EINVAL ? 0 : errno;
  return 0;
}

// The new name must survive a crash, too. A folder that cannot be opened or synced is no error:
// some file systems have no such thing.
void sync_folder(const std::string& path) {
  const int descriptor = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  sync(descriptor);
  ::close(descriptor);
}

// The descriptor of this process that a path names by way of /dev/stdout, /dev/fd or /proc; -1 for
// other paths.
int own_descriptor(fs::path path) {
  constexpr int most_links = 40;  // as the system allows
  std::error_code error;
  const fs::path own = fs::canonical("/proc/self/fd", error);
  for (int i = 0; i < most_links && !error && fs::is_symlink(path, error); ++i) {
    const fs::path folder = fs::weakly_canonical(fs::absolute(path, error).parent_path(), error);
    if (folder == own) return std::atoi(path.filename().c_str());
    path = folder / fs::read_symlink(path, error);  // an absolute link replaces the folder
  }
  return -1;
}

}  // namespace

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string WholeFile::problem(int error) const {
  return path_ + ": " + std::strerror(error);
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

std::string WholeFile::open(const std::string& path) {
  assert(descriptor_ < 0);
  path_ = target_ = path;
  temporary_.clear();
  nameless_ = false;
  problem_.clear();
  // A file that a shell redirected is written on where it stands, and not replaced.
  if (const int own = own_descriptor(path); own >= 0) {
    descriptor_ = ::fcntl(own, F_DUPFD_CLOEXEC, 0);
    return descriptor_ < 0 ? problem_ = problem(errno) : "";
  }
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) return problem_ = problem(errno);
  if (exists && !S_ISREG(old.st_mode)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return descriptor_ < 0 ? problem_ = problem(errno) : "";
  }
  std::error_code none, unresolved;
  if (fs::is_symlink(path, none)) target_ = fs::weakly_canonical(path, unresolved).string();
  if (unresolved) return problem_ = problem(unresolved.value());
  if (exists && ::access(path.c_str(), W_OK) != 0) return problem_ = problem(errno);
  open_temporary();
  if (descriptor_ < 0 && exists && (errno == EACCES || errno == EROFS))
    return problem_ = problem(errno) + " for its folder, where the new file is written first";
  if (descriptor_ < 0) return problem_ = problem(errno);
  if (exists && ::fchmod(descriptor_, old.st_mode & 07777) != 0) return problem_ = problem(errno);
  return "";
}

void WholeFile::open_temporary() {
  descriptor_ = ::open(folder_of(target_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, new_file);
  nameless_ = descriptor_ >= 0 && ::access(link_of(descriptor_).c_str(), F_OK) == 0;
  if (nameless_) return;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = with_free_name(target_, temporary_, [](const char* name) {
    return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new_file);
  });
  if (descriptor_ < 0) temporary_.clear();
}

// Gives a nameless file its temporary name, then renames. Returns 0 or errno.
int WholeFile::name_and_rename() {
  if (nameless_ && with_free_name(target_, temporary_, [&](const char* name) {
                     return ::linkat(AT_FDCWD, link_of(descriptor_).c_str(), AT_FDCWD, name,
                                     AT_SYMLINK_FOLLOW);
                   }) < 0) {
    temporary_.clear();
    return errno;
  }
  return std::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0 : errno;
}

std::string WholeFile::write(std::string_view bytes) {
  assert(descriptor_ >= 0);
  if (!problem_.empty()) return problem_;
  const int error = write_all(descriptor_, bytes);
  if (error != 0) problem_ = problem(error);
  return problem_;
}

std::string WholeFile::commit(bool durable) {
  assert(descriptor_ >= 0);
  const bool direct = temporary_.empty() && !nameless_;
  const auto note = [&](int error) {
    if (error != 0 && problem_.empty()) problem_ = problem(error);
  };
  if (durable && !direct && problem_.empty()) note(sync(descriptor_));
  if (!direct && problem_.empty()) note(name_and_rename());
  note(::close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno);
  if (!problem_.empty() && !temporary_.empty()) ::unlink(temporary_.c_str());
  if (problem_.empty() && !direct && durable) sync_folder(target_);
  return problem_;
}

std::string write_whole(const std::string& path, std::string_view text, bool durable) {
  WholeFile file;
  if (std::string problem = file.open(path); !problem.empty()) return problem;
  file.write(text);
  return file.commit(durable);
}

}  // namespace sim
