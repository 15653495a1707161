// packed_bytes.h — the bytes of a source piece by piece. Large compressed traces are never unpacked
// as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sim/base/result.h"

namespace sim::calibrate {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next bytes, "" at the end. They stay valid until the next call.
  virtual std::string_view next() = 0;
};

// Bytes in memory.
class PlainBytes final : public ByteSource {
 public:
  explicit PlainBytes(std::string_view bytes) : bytes_(bytes) {}
  std::string_view next() override {
    const std::string_view piece = bytes_.substr(0, std::size_t{1} << 18);
    bytes_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view bytes_;
};

constexpr std::int64_t max_streamed_bytes = std::int64_t{1} << 36;

bool is_gzip(std::string_view bytes);

// A gzip file with one or several members, unpacked while it is read. REQUIRES: the packed bytes
// outlive it.
class PackedBytes final : public ByteSource {
 public:
  explicit PackedBytes(std::string_view packed, std::int64_t limit = max_streamed_bytes);
  ~PackedBytes() override;
  std::string_view next() override;
  // Returns the beginning without consuming it. REQUIRES: next() was not called.
  std::string_view look(std::size_t most);
  const std::string& problem() const;  // why reading ended early; "" if it did not

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Unpacks gzip within the limits of reader.h; returns other bytes unchanged.
Result<std::string> unpacked(std::string bytes, const std::string& path);

}  // namespace sim::calibrate
