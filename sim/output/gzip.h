// gzip.h — compresses what is written to a file whose name ends in .gz. output.h calls it;
// browsers, ui.perfetto.dev and pandas read such files as they are.
//
// Invariant: the same bytes give the same compressed bytes (no time and no name in the header).
//
// Format: RFC 1952, written by zlib.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

namespace sim::output {

bool is_gzip_name(std::string_view path);

class Gzip {
 public:
  Gzip();
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  // Returns what is ready of the compressed bytes, which may be nothing yet.
  std::string add(std::string_view bytes) { return pack(bytes, Z_NO_FLUSH); }
  // Returns the rest. Nothing may be added afterwards.
  std::string finish() { return pack({}, Z_FINISH); }

 private:
  std::string pack(std::string_view bytes, int flush);

  z_stream stream_{};
};

}  // namespace sim::output
