#include "sim/calibrate/readers/packed_bytes.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "sim/calibrate/readers/reader.h"

namespace sim::calibrate {

struct PackedBytes::State {
  z_stream stream{};
  bool started = false, ended = false;
  std::int64_t limit = 0, given = 0;
  std::string problem;
  std::string begin;  // returned by look(), not yet by next()
  std::vector<char> buffer = std::vector<char>(std::size_t{1} << 18);
};

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

PackedBytes::PackedBytes(std::string_view packed, std::int64_t limit)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.limit = limit;
  s.stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  s.stream.avail_in = static_cast<uInt>(packed.size());
  s.started = inflateInit2(&s.stream, 16 + MAX_WBITS) == Z_OK;
  if (!s.started) s.problem = "gzip: zlib could not start";
}

PackedBytes::~PackedBytes() {
  if (state_->started) inflateEnd(&state_->stream);
}

const std::string& PackedBytes::problem() const {
  return state_->problem;
}

std::string_view PackedBytes::look(std::size_t most) {
  State& s = *state_;
  while (s.begin.size() < most) {
    const std::string_view more = next();
    if (more.empty()) break;
    s.begin += more;
  }
  s.given = 0;
  return s.begin;
}

std::string_view PackedBytes::next() {
  State& s = *state_;
  if (s.given == 0 && !s.begin.empty()) {
    s.given = static_cast<std::int64_t>(s.begin.size());
    return s.begin;
  }
  while (!s.ended && s.problem.empty()) {
    s.stream.next_out = reinterpret_cast<Bytef*>(s.buffer.data());
    s.stream.avail_out = static_cast<uInt>(s.buffer.size());
    const int state = inflate(&s.stream, Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END)
      s.problem = s.stream.avail_in == 0 ? "gzip: the file ends too early" : "gzip: damaged data";
    // A gzip file may have several members.
    if (state == Z_STREAM_END) s.ended = s.stream.avail_in <= 2 || inflateReset(&s.stream) != Z_OK;
    const std::size_t made = s.buffer.size() - s.stream.avail_out;
    s.given += static_cast<std::int64_t>(made);
    if (s.given > s.limit) s.problem = fmt::format("gzip: more than {} unpacked", s.limit);
    if (made > 0) return {s.buffer.data(), made};
  }
  return {};
}

Result<std::string> unpacked(std::string bytes, const std::string& path) {
  if (!is_gzip(bytes)) return bytes;
  PackedBytes packed(bytes, max_unpacked_bytes);
  std::string out;
  // The last four bytes give the unpacked size of a member modulo 2^32; reserving it avoids growth
  // by doubling.
  std::uint32_t said = 0;
  for (std::size_t i = 1; i <= std::min<std::size_t>(4, bytes.size()); ++i)
    said = (said << 8) | static_cast<unsigned char>(bytes[bytes.size() - i]);
  // Deflate compresses at most 1032 : 1.
  const auto most = std::min<std::uint64_t>(max_unpacked_bytes, 1032 * std::uint64_t{bytes.size()});
  out.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(said, most)));
  for (std::string_view more = packed.next(); !more.empty(); more = packed.next()) out += more;
  if (!packed.problem().empty()) return Diagnostics{{path, packed.problem()}};
  return out;
}

}  // namespace sim::calibrate
