#include "sim/output/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sim::output {

namespace {
constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

std::string reason(const std::string& path) {
  return path + ": " + std::strerror(errno);
}

bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}
}  // namespace

std::string write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return "";
}

std::string write_file(const std::string& path, std::string_view text) {
  const bool direct = is_special(path);
  const std::string target = direct ? path : path + ".new";
  const int descriptor =
      ::open(target.c_str(), O_WRONLY | O_CREAT | (direct ? 0 : O_TRUNC) | O_CLOEXEC, 0644);
  if (descriptor < 0) return reason(path);
  std::string problem = write_all(descriptor, text);
  if (!problem.empty()) problem = path + ": " + problem;
  if (problem.empty() && !direct && ::fsync(descriptor) != 0) problem = reason(path);
  if (::close(descriptor) != 0 && problem.empty()) problem = reason(path);
  if (direct) return problem;
  if (problem.empty() && std::rename(target.c_str(), path.c_str()) != 0) problem = reason(path);
  if (!problem.empty()) ::unlink(target.c_str());
  return problem;
}

Stream::~Stream() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string Stream::open(const std::string& path) {
  assert(descriptor_ < 0);
  path_ = path;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return descriptor_ < 0 ? reason(path) : "";
}

void Stream::write(std::string_view bytes) {
  assert(descriptor_ >= 0);
  buffer_ += bytes;
  if (buffer_.size() >= buffer_bytes) flush();
}

void Stream::flush() {
  if (problem_.empty()) {
    problem_ = write_all(descriptor_, buffer_);
    if (!problem_.empty()) problem_ = path_ + ": " + problem_;
  }
  buffer_.clear();
}

std::string Stream::close() {
  assert(descriptor_ >= 0);
  flush();
  if (::close(descriptor_) != 0 && problem_.empty()) problem_ = reason(path_);
  descriptor_ = -1;
  return problem_;
}

}  // namespace sim::output
