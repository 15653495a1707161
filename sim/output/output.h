// output.h — writes files that are complete or not there (base/whole_file.h). A file whose name
// ends in .gz is compressed.
//
// Functions return "" or the error: the file and the system's reason ("results.csv: No space left
// on device").
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "sim/base/whole_file.h"
#include "sim/output/gzip.h"

namespace sim::output {

// Replaces a file at once: readers see the old or the new content.
std::string write_file(const std::string& path, std::string_view text);

// A file written piece by piece. It appears under its name with close(); without it, the old file
// stays. After the first failure all writes are dropped.
class Stream {
 public:
  std::string open(const std::string& path);
  void write(std::string_view bytes);
  // Flushes, syncs and renames. Returns the first error since `open`.
  std::string close();

 private:
  void flush();

  WholeFile file_;
  std::unique_ptr<Gzip> gzip_;  // of a name that ends in .gz
  std::string buffer_;
};

// Writes all bytes to a descriptor, through interruptions and short writes. Returns "" or the
// system's reason.
std::string write_all(int descriptor, std::string_view bytes);

}  // namespace sim::output
