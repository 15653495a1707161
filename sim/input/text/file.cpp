// file.cpp — reads a file as bytes, for all loaders.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/base/machine_error.h"
#include "sim/base/outputs.h"
#include "sim/input/text/confine.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

Diagnostics unreadable(const std::string& path, std::string_view why) {
  return {{path, fmt::format("cannot read the file: {}", why), Fault::missing}};
}

// After a system call that failed. Throws if the machine is the reason.
Diagnostics unreadable(const std::string& path) {
  const int error = errno;
  throw_machine_error(error, path);
  return unreadable(path, std::strerror(error));
}

int open_through_interrupts(const std::string& path) {
  int file = -1;
  do {
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (file < 0 && errno == EINTR);
  return file;
}

// Removes a UTF-8 byte-order mark, which some editors write. No format here starts with it.
std::string unmarked(std::string text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::int64_t limit) {
  if (!may_read(path)) return unreadable(path, "it is outside of the folders that may be read");
  const int file = open_through_interrupts(path);
  if (file < 0) return unreadable(path);
  struct Closer {
    int file;
    ~Closer() { ::close(file); }
  } closer{file};

  struct stat state {};
  if (::fstat(file, &state) != 0) return unreadable(path);
  if (S_ISDIR(state.st_mode)) return unreadable(path, "it is a directory; name a file in it");
  if (const std::string option = output_option(state); !option.empty())
    return Diagnostics{
        {path, fmt::format("is an input, and --{} would write over it; name another", option)}};
  const auto too_large = [&]() -> Diagnostics {
    return {
        {path, fmt::format("the file is larger than {} MiB, the most that is read", limit >> 20)}};
  };
  if (S_ISREG(state.st_mode) && state.st_size > limit) return too_large();

  std::string text;
  char block[1 << 16];
  // Growing the buffer copies at most half the limit.
  const auto most = static_cast<std::size_t>(limit) + sizeof block;
  if (S_ISREG(state.st_mode)) text.reserve(static_cast<std::size_t>(state.st_size) + 1);
  while (true) {
    const ssize_t got = ::read(file, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(path);
    if (got == 0) return unmarked(std::move(text));
    const std::size_t needed = text.size() + static_cast<std::size_t>(got);
    if (needed > text.capacity()) {
      const std::size_t twice = std::max(2 * text.capacity(), needed);
      text.reserve(twice >= most / 2 ? most : twice);
    }
    text.append(block, static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(text.size()) > limit) return too_large();
  }
}

}  // namespace sim::input
