// frame.h — the protocol between the program and rehearse-network: framed messages over a stream
// socket.
//
//     "RN1\n"  id (8 bytes)  length (8 bytes)  text       numbers in the machine's own byte order
//
// A frame with another start, or longer than a query may be, ends the connection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "sim/cluster/network/query.h"

namespace sim::network {

struct Frame {
  std::uint64_t id = 0;
  std::string text;
};

inline constexpr std::string_view frame_magic = "RN1\n";
inline constexpr std::size_t frame_header = 20;

inline std::string encode(const Frame& frame) {
  std::string out(frame_header, '\0');
  const std::uint64_t length = frame.text.size();
  std::memcpy(out.data(), frame_magic.data(), 4);
  std::memcpy(out.data() + 4, &frame.id, 8);
  std::memcpy(out.data() + 12, &length, 8);
  return out + frame.text;
}

// Collects arriving bytes and returns whole frames.
class FrameBuffer {
 public:
  void append(const char* data, std::size_t size) { bytes_.append(data, size); }

  // False once invalid data has arrived; the stream is then unusable.
  bool good() const {
    const std::size_t seen = std::min(bytes_.size(), frame_magic.size());
    if (bytes_.compare(0, seen, frame_magic.substr(0, seen)) != 0) return false;
    return bytes_.size() < frame_header || length() <= query_text_limit;
  }

  std::optional<Frame> next() {
    if (!good() || bytes_.size() < frame_header) return std::nullopt;
    const std::size_t size = frame_header + static_cast<std::size_t>(length());
    if (bytes_.size() < size) return std::nullopt;
    Frame frame;
    std::memcpy(&frame.id, bytes_.data() + 4, 8);
    frame.text = bytes_.substr(frame_header, size - frame_header);
    bytes_.erase(0, size);
    return frame;
  }

 private:
  std::uint64_t length() const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + 12, 8);
    return value;
  }

  std::string bytes_;
};

}  // namespace sim::network
