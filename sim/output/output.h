// output.h — writes files and checks every write, so a file is complete when a function reports
// success.
//
// Functions return "" or the error: the file and the system's reason ("results.csv: No space left
// on device").
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sim::output {

// Replaces a file atomically: readers see the old or the new content. Special files (/dev/stdout,
// /dev/full, pipes) are written directly.
std::string write_file(const std::string& path, std::string_view text);

// A file that grows. After the first failure all writes are dropped.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  std::string open(const std::string& path);
  void write(std::string_view bytes);
  // Flushes and closes. Returns the first error since `open`.
  std::string close();

 private:
  void flush();

  int descriptor_ = -1;
  std::string path_;
  std::string buffer_;
  std::string problem_;
};

// Writes all bytes to a descriptor, through interruptions and short writes. Returns "" or the
// system's reason.
std::string write_all(int descriptor, std::string_view bytes);

}  // namespace sim::output
