// input_file.h — an input as a file, for readers that open theirs. It lives in memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace fuzz {

class InputFile {
 public:
  InputFile(const std::uint8_t* data, std::size_t size) : descriptor_(::memfd_create("input", 0)) {
    if (descriptor_ < 0) std::abort();
    if (::write(descriptor_, data, size) != static_cast<ssize_t>(size)) std::abort();
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace fuzz
