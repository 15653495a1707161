#include "sim/output/gzip.h"

#include <array>
#include <new>

namespace sim::output {

bool is_gzip_name(std::string_view path) {
  return path.ends_with(".gz");
}

Gzip::Gzip() {
  constexpr int gzip_header = 16;  // added to the window, zlib writes gzip and not its own format
  constexpr int memory_level = 8;  // zlib's default
  if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + gzip_header,
                   memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();  // its only error with constants that are legal
}

Gzip::~Gzip() {
  deflateEnd(&stream_);
}

std::string Gzip::pack(std::string_view bytes, int flush) {
  std::string packed;
  std::array<Bytef, std::size_t{1} << 16> out;
  constexpr std::size_t most = std::size_t{1} << 30;  // zlib counts in 32 bits
  do {
    const std::string_view piece = bytes.substr(0, most);
    bytes.remove_prefix(piece.size());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      stream_.next_out = out.data();
      stream_.avail_out = static_cast<uInt>(out.size());
      deflate(&stream_, bytes.empty() ? flush : Z_NO_FLUSH);
      packed.append(reinterpret_cast<const char*>(out.data()), out.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  } while (!bytes.empty());
  return packed;
}

}  // namespace sim::output
