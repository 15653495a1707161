// output.h — files that are really on the disk when we say so: every write is checked.
//
// A function that can fail returns what went wrong, "" when nothing did; the text names the file
// and the system's reason ("results.csv: No space left on device").
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sim::output {

// Replaces `path` by `text` at once: a reader sees the old file or the new one, never half of one.
// Special files (/dev/stdout, /dev/full, pipes) are written directly.
std::string write_file(const std::string& path, std::string_view text);

// A file that grows; the first failure is kept and everything after it is dropped.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  std::string open(const std::string& path);
  void write(std::string_view bytes);
  // Flushes and closes; what went wrong since `open`.
  std::string close();

 private:
  void flush();

  int descriptor_ = -1;
  std::string path_;
  std::string buffer_;
  std::string problem_;
};

// Writes all of `bytes` to a descriptor, going on after interruptions and short writes. "" or the
// system's reason.
std::string write_all(int descriptor, std::string_view bytes);

}  // namespace sim::output
